"""priory: private releases that start from what is already public.

What is here is imported when it is first used, so that `import priory` costs next to nothing.
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

from priory import hooks
from priory.version import __version__ as __version__

if TYPE_CHECKING:
    from pathlib import Path

    from priory.app.discover import Discovery, discover
    from priory.app.fit import fit
    from priory.app.forecast import forecast
    from priory.app.public_check import public_fitness
    from priory.app.recovery import recover
    from priory.data.schema import Schema
    from priory.data.sources.opening import open_source
    from priory.data.sources.source import Source
    from priory.data.table import Table
    from priory.domain import Domain
    from priory.errors import PrioryError
    from priory.estimate.estimator import estimate
    from priory.factor import Factor
    from priory.measure import measure
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

__all__ = [
    "Budget",
    "Curator",
    "Discovery",
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
    "discover",
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
    "recover",
    "sensitivity",
]

# The module of each public name.
_MODULES = {
    "Budget": "priory.privacy.budget",
    "Curator": "priory.privacy.curator",
    "Discovery": "priory.app.discover",
    "Domain": "priory.domain",
    "Factor": "priory.factor",
    "Identity": "priory.queries.parts",
    "Ledger": "priory.privacy.ledger",
    "Matrix": "priory.queries.parts",
    "Mean": "priory.queries.parts",
    "Measurement": "priory.privacy.measurement",
    "Mixture": "priory.model.bases",
    "Model": "priory.model.model",
    "Moments": "priory.queries.parts",
    "Part": "priory.queries.parts",
    "Point": "priory.queries.parts",
    "Prefix": "priory.queries.parts",
    "PrioryError": "priory.errors",
    "Product": "priory.model.bases",
    "PublicRows": "priory.model.bases",
    "Query": "priory.queries.query",
    "Range": "priory.queries.parts",
    "Recode": "priory.queries.parts",
    "Relation": "priory.queries.sensitivity",
    "Release": "priory.release",
    "Schema": "priory.data.schema",
    "Sensitivity": "priory.queries.sensitivity",
    "Set": "priory.queries.parts",
    "Source": "priory.data.sources.source",
    "Step": "priory.privacy.progress",
    "Table": "priory.data.table",
    "Total": "priory.queries.parts",
    "Uniform": "priory.model.bases",
    "Workload": "priory.queries.workload",
    "combine": "priory.release",
    "declared_release": "priory.release.measured",
    "discover": "priory.app.discover",
    "estimate": "priory.estimate.estimator",
    "explain": "priory.privacy.explain",
    "fit": "priory.app.fit",
    "forecast": "priory.app.forecast",
    "load": "priory.release",
    "measure": "priory.measure",
    "open_source": "priory.data.sources.opening",
    "plan": "priory.model.engine.plan",
    "public_fitness": "priory.app.public_check",
    "read_measurements": "priory.release.measured",
    "recover": "priory.app.recovery",
    "sensitivity": "priory.queries.sensitivity",
}


def _write_report(release: "Release", path: "str | Path") -> None:
    from priory.report.writing import write_report

    write_report(release, path)


hooks.write_report = _write_report


if not TYPE_CHECKING:
    # Hidden from type checkers, which would otherwise believe in any name.
    def __getattr__(name: str) -> object:
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(import_module(_MODULES[name]), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES})


class _Surface(ModuleType):
    """This module, where `estimate` and `measure` are functions and not the modules of the same names."""

    def __setattr__(self, name: str, value: object) -> None:
        # Importing a module puts it into the package that it is in.
        if not (name in _MODULES and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Surface
