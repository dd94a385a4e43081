"""priory: private releases that start from what is already public."""

from priory.data.opening import open_source
from priory.data.schema import Schema
from priory.data.source import Source
from priory.data.table import Table
from priory.domain import Domain
from priory.errors import PrioryError
from priory.factor import Factor
from priory.queries.parts import Identity, Matrix, Mean, Moments, Part, Point, Prefix, Range, Recode, Set, Total
from priory.queries.query import Query
from priory.queries.sensitivity import Relation, Sensitivity, sensitivity
from priory.queries.workload import Workload

__version__ = "0.1.0"

__all__ = [
    "Domain",
    "Factor",
    "Identity",
    "Matrix",
    "Mean",
    "Moments",
    "Part",
    "Point",
    "Prefix",
    "PrioryError",
    "Query",
    "Range",
    "Recode",
    "Relation",
    "Schema",
    "Sensitivity",
    "Set",
    "Source",
    "Table",
    "Total",
    "Workload",
    "open_source",
    "sensitivity",
]
