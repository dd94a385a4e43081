"""priory: private releases that start from what is already public."""

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
    "Sensitivity",
    "Set",
    "Total",
    "Workload",
    "sensitivity",
]
