"""priory: private releases that start from what is already public."""

from priory.data.opening import open_source
from priory.data.schema import Schema
from priory.data.source import Source
from priory.data.table import Table
from priory.domain import Domain
from priory.errors import PrioryError
from priory.estimate.estimator import estimate
from priory.factor import Factor
from priory.measure import measure
from priory.mechanisms.fit import fit
from priory.mechanisms.fitness import public_fitness
from priory.mechanisms.forecast import forecast
from priory.model.bases import Mixture, Product, PublicRows, Uniform
from priory.model.engine.plan import plan
from priory.model.model import Model
from priory.privacy.budget import Budget
from priory.privacy.curator import Curator
from priory.privacy.explain import explain
from priory.privacy.ledger import Ledger
from priory.privacy.measurement import Measurement
from priory.privacy.progress import Step
from priory.queries.parts import Identity, Matrix, Mean, Moments, Part, Point, Prefix, Range, Recode, Set, Total
from priory.queries.query import Query
from priory.queries.sensitivity import Relation, Sensitivity, sensitivity
from priory.queries.workload import Workload
from priory.release import Release, combine, load
from priory.release.measured import declared_release, read_measurements

__version__ = "0.1.0"

__all__ = [
    "Budget",
    "Curator",
    "Domain",
    "Factor",
    "Identity",
    "Ledger",
    "Matrix",
    "Mean",
    "Measurement",
    "Mixture",
    "Model",
    "Moments",
    "Part",
    "Point",
    "Prefix",
    "PrioryError",
    "Product",
    "PublicRows",
    "Query",
    "Range",
    "Recode",
    "Relation",
    "Release",
    "Schema",
    "Sensitivity",
    "Set",
    "Source",
    "Step",
    "Table",
    "Total",
    "Uniform",
    "Workload",
    "combine",
    "declared_release",
    "estimate",
    "explain",
    "fit",
    "forecast",
    "load",
    "measure",
    "open_source",
    "plan",
    "public_fitness",
    "read_measurements",
    "sensitivity",
]
