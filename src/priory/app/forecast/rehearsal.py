"""Rehearsal: what a fit of one budget would take and how far off it would be."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from priory.privacy.budget import Budget

Pair = tuple[str, str]


@dataclass(frozen=True)
class Rehearsal:
    """What fits of one budget took and how far off they were.

    Attributes:
        budget: what they were allowed to spend.
        seconds: the processor time of one with all columns, without reading the table.
        memory_in_bytes: what the model needs.
        columns: for each column, the mean total variation distance of its distribution from the rehearsed table's.
        pairs: the same for pairs of columns.
        rehearsed: with how many columns they were made; the others are reckoned to take and err alike.
        of: how many columns there are.
        rehearsed_rows: with how many rows the largest ones were made; None where with as many as the table has.
        of_rows: how many rows the table has, where rehearsals have parts of them.
        time_off: what smaller rehearsals forecast of the time of these, over what it was; None without.
        error_off: the same of the mean error; where a law says how large errors are, what that forecast.
        is_final: whether no better forecast for this budget comes from the same call.
        is_interpolated: whether it follows from rehearsals with other budgets alone.
    """

    budget: Budget
    seconds: float
    memory_in_bytes: int
    columns: Mapping[str, float]
    pairs: Mapping[Pair, float]
    rehearsed: int
    of: int
    rehearsed_rows: int | None = None
    of_rows: int | None = None
    time_off: float | None = None
    error_off: float | None = None
    is_final: bool = False
    is_interpolated: bool = False

    @property
    def mean(self) -> float:
        """The mean error over pairs, or over columns where there is only one."""
        return float(np.mean(list(self.pairs.values() or self.columns.values())))

    @property
    def worst(self) -> list[tuple[Pair, float]]:
        """The pairs with the largest errors, worst first."""
        return sorted(self.pairs.items(), key=lambda pair: -pair[1])

    def to_dict(self) -> dict[str, Any]:
        """The same for JSON."""
        return {
            "budget": str(self.budget),
            "epsilon": None if self.budget.epsilon is None else str(self.budget.epsilon),
            "cpu_seconds": self.seconds,
            "memory_in_bytes": self.memory_in_bytes,
            "mean_error": self.mean,
            "columns_rehearsed": self.rehearsed,
            "columns_of": self.of,
            "rows_rehearsed": self.rehearsed_rows,
            "rows_of": self.of_rows,
            "time_off": self.time_off,
            "error_off": self.error_off,
            "is_final": self.is_final,
            "is_interpolated": self.is_interpolated,
            "columns": [{"column": name, "error": error} for name, error in self.columns.items()],
            "pairs": [{"columns": list(pair), "error": error} for pair, error in self.worst],
        }


def interpolated(budget: Budget, known: list[Rehearsal]) -> Rehearsal | None:
    """The rehearsal of another budget between, or beyond, two that were made; None where fewer are comparable.

    Logarithms of errors and seconds are taken as linear in that of the amount.
    """
    comparable = sorted((each for each in known if _is_like(each.budget, budget)), key=lambda each: each.budget.amount)
    if len(comparable) < 2:
        return None
    above = next((i for i, each in enumerate(comparable) if each.budget.amount >= budget.amount), len(comparable) - 1)
    low, high = comparable[max(above, 1) - 1], comparable[max(above, 1)]
    width = math.log(high.budget.amount / low.budget.amount)
    part = math.log(budget.amount / low.budget.amount) / width

    def between(a: float, b: float) -> float:
        return math.exp((1 - part) * math.log(max(a, 1e-12)) + part * math.log(max(b, 1e-12)))

    return replace(
        low if part < 1 / 2 else high,
        budget=budget,
        seconds=between(low.seconds, high.seconds),
        memory_in_bytes=int(between(low.memory_in_bytes, high.memory_in_bytes)),
        columns={name: min(1.0, between(low.columns[name], high.columns[name])) for name in _both(low, high)},
        pairs={pair: min(1.0, between(low.pairs[pair], high.pairs[pair])) for pair in low.pairs if pair in high.pairs},
        is_final=False,
        is_interpolated=True,
    )


def _both(low: Rehearsal, high: Rehearsal) -> list[str]:
    return [name for name in low.columns if name in high.columns]


def _is_like(known: Budget, asked: Budget) -> bool:
    """Whether two budgets differ in what they amount to alone."""
    return (
        known.currency is asked.currency
        and known.relation is asked.relation
        and known.max_rows == asked.max_rows
        and known.delta == asked.delta
    )
