"""Numbers: bad ones and extreme ones give a clear error, for which nothing is spent, or a valid release."""

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from priory.app.fit import fit
from priory.app.registry import MECHANISMS, Registered
from priory.audit.findings import Effort, Finding
from priory.audit.tables import SCHEMA, coded, write
from priory.data.sources.memory import MemorySource
from priory.errors import PrioryError
from priory.privacy.budget import Budget
from priory.privacy.curator import Curator
from priory.privacy.ledger import Ledger
from priory.queries.domain import Domain

BAD_OPTIONS: tuple[dict[str, Any], ...] = (
    {"epsilon": 0},
    {"epsilon": -1},
    {"epsilon": float("nan")},
    {"epsilon": float("inf")},
    {"epsilon": 1, "delta": 1},
    {"epsilon": 1, "delta": -1e-9},
    {"epsilon": 1, "delta": float("nan")},
    {"rho": 0},
    {"rho": 1, "epsilon": 1},
    {"epsilon": 1, "relation": "swap"},
    {"epsilon": 1, "max_rows": 0},
    {"epsilon": 1, "max_rows": 2},
    {"epsilon": 1, "unit": "nobody"},
    {"epsilon": 1e-300},
    {"epsilon": 1, "mechanism": "magic"},
    {},
)


def bad_numbers(effort: Effort) -> Iterator[Finding]:
    """Options that cannot be, and tables of every odd shape, for every mechanism."""
    for entry in MECHANISMS.values():
        wrong = [options for options in BAD_OPTIONS if not _is_refused_for_nothing(entry, options)]
        bad = len(BAD_OPTIONS)
        figure = f"{bad - len(wrong)} refused, nothing spent"
        yield Finding(f"bad numbers: {entry.name}, {bad} bad options", figure, str(bad), not wrong)
        tables = _tables(effort.categories)
        good = sum(_is_valid(entry, source, budget) for source in tables.values() for budget in _budgets(entry))
        expected = len(tables) * len(_budgets(entry))
        test = f"bad numbers: {entry.name}, {', '.join(tables)}"
        yield Finding(test, f"{good} valid releases", str(expected), good == expected)


def _tables(categories: int) -> dict[str, MemorySource]:
    return {
        "no rows": coded(Domain.of({"a": 3}), []),
        "one row": coded(Domain.of({"a": 3, "b": 2}), [[1, 0]]),
        "one column of one value": coded(Domain.of({"a": 1}), [[0]] * 5),
        f"{categories:,} categories": coded(Domain.of({"a": categories}), [[i % categories] for i in range(1000)]),
    }


def _budgets(entry: Registered) -> list[Budget]:
    amounts = ("1/1000", "1000000")
    made = [Budget.zcdp, Budget.gaussian, *([Budget.pure] if entry.is_pure else [])]
    return [make(amount) for make in made for amount in amounts]


def _is_valid(entry: Registered, source: MemorySource, budget: Budget) -> bool:
    with Ledger.in_memory(budget).reserve(budget, entry.name) as reservation:
        release = entry.build(source.domain).run(Curator(reservation, source), budget)
    return all(m.values.shape == m.query.shape and np.isfinite(m.values).all() for m in release.measurements)


def _is_refused_for_nothing(entry: Registered, options: dict[str, Any]) -> bool:
    with tempfile.TemporaryDirectory() as folder:
        data = write((("p", "red", "30", "true"),), Path(folder) / "table.csv")
        book = Ledger.in_memory(Budget.pure(1), dataset=SCHEMA.name, schema=SCHEMA.dump())
        try:
            fit(data, SCHEMA, ledger=book, **{"mechanism": entry.name, **options})
        except PrioryError:
            return book.left() == 1
    return False
