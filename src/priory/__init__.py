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
    from collections.abc import Sequence
    from pathlib import Path

    from priory.app.discover import Discovery, discover
    from priory.app.fit import fit
    from priory.app.forecast import Planner, forecast
    from priory.app.public_check import public_fitness
    from priory.app.recovery import recover
    from priory.data.schema import Schema
    from priory.data.sources.adbc import Database
    from priory.data.sources.opening import open_source
    from priory.data.sources.source import Source
    from priory.data.table import Table
    from priory.errors import PrioryError
    from priory.estimate.estimator import estimate
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
    from priory.privacy.session import Session, asking
    from priory.queries.domain import Domain
    from priory.queries.factor import Factor
    from priory.queries.parts import Identity, Matrix, Mean, Moments, Part, Point, Prefix, Range, Recode, Set, Total
    from priory.queries.query import Query
    from priory.queries.sensitivity import Relation, Sensitivity, sensitivity
    from priory.queries.workload import Workload
    from priory.release import Release, combine, load
    from priory.release.measured import declared_release, read_measurements
    from priory.report.evaluation import evaluate

# fmt: off
__all__ = [
    "Budget", "Curator", "Database", "Discovery", "Domain", "Factor", "Identity", "Ledger", "Matrix", "Mean",
    "Measurement", "Mixture", "Model", "Moments", "Part", "Planner", "Point", "Prefix", "PrioryError", "Product",
    "PublicRows", "Query", "Range", "Recode", "Relation", "Release", "Schema", "Sensitivity", "Session", "Set",
    "Source", "Step", "Table", "Total", "Uniform", "Workload", "asking", "combine", "declared_release", "discover",
    "estimate", "evaluate", "explain", "fit", "forecast", "load", "measure", "open_source", "plan", "public_fitness",
    "read_measurements", "recover", "sensitivity",
]
# fmt: on

# The public names of each module.
_NAMES = {
    "app.discover": "Discovery discover",
    "app.fit": "fit",
    "app.forecast": "Planner forecast",
    "app.public_check": "public_fitness",
    "app.recovery": "recover",
    "data.schema": "Schema",
    "data.sources.adbc": "Database",
    "data.sources.opening": "open_source",
    "data.sources.source": "Source",
    "data.table": "Table",
    "errors": "PrioryError",
    "estimate.estimator": "estimate",
    "measure": "measure",
    "model.bases": "Mixture Product PublicRows Uniform",
    "model.engine.plan": "plan",
    "model.model": "Model",
    "privacy.budget": "Budget",
    "privacy.curator": "Curator",
    "privacy.explain": "explain",
    "privacy.ledger": "Ledger",
    "privacy.measurement": "Measurement",
    "privacy.progress": "Step",
    "privacy.session": "Session asking",
    "queries.domain": "Domain",
    "queries.factor": "Factor",
    "queries.parts": "Identity Matrix Mean Moments Part Point Prefix Range Recode Set Total",
    "queries.query": "Query",
    "queries.sensitivity": "Relation Sensitivity sensitivity",
    "queries.workload": "Workload",
    "release": "Release combine load",
    "release.measured": "declared_release read_measurements",
    "report.evaluation": "evaluate",
}
_MODULES = {name: f"priory.{module}" for module, names in _NAMES.items() for name in names.split()}


def _write_report(release: "Release", path: "str | Path") -> None:
    from priory.report.sections import write_report

    write_report(release, path)


def _plot(release: "Release", names: "Sequence[str]") -> object:
    from priory.report.plotting import plotted

    return plotted(release, names)


hooks.write_report, hooks.plot = _write_report, _plot


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
