"""Constraints: combinations of values that cannot be, as structural zeros on codes."""

import itertools
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from priory.data.kinds import ModelledColumn, PublicValue
from priory.errors import SchemaError
from priory.queries.domain import Clique

MOST_CELLS, MOST_TOGETHER = 10_000_000, 100_000_000

Mask: TypeAlias = NDArray[np.bool_]
Columns: TypeAlias = Mapping[str, ModelledColumn]


@dataclass(frozen=True, kw_only=True)
class Condition:
    """What the values of one column must be for a forbidden combination to apply.

    On a column with bins it holds only for the bins that lie wholly inside it, so that no possible row is declared
    impossible. A missing cell satisfies no condition but `null`.
    """

    column: str  # the column
    values: tuple[PublicValue, ...] = ()  # any of these; or
    below: PublicValue | None = None  # less than this, and
    above: PublicValue | None = None  # greater than this; or
    null: bool = False  # missing

    def mask(self, column: ModelledColumn) -> Mask:
        """Which codes satisfy the condition, whatever value in their bin they stand for."""
        if self.null:
            if not column.nullable:
                raise SchemaError("null: true, but the column is not nullable", column=column.name)
            return np.asarray(np.arange(column.size) == column.null_code)
        mask = np.zeros(column.size, dtype=bool)
        mask[: column.places] = self._inside(column)
        if not mask.any():
            raise column.error("no bin or level lies wholly inside the condition; choose a limit at the edge of a bin")
        return mask

    def _inside(self, column: ModelledColumn) -> Mask:
        if self.values:
            return one_of(column, self.values)
        if column.order is None:
            raise column.error("below and above need an order; list the values, or use kind: ordinal")
        inside = _ranked(column)
        first, last = _extent(column)
        if self.below is not None:
            limit = column.point_of(self.below)
            # The upper end of a bin of reals is outside the bin, except in the last one.
            is_open = not column.is_whole
            inside &= (last <= limit) & (~_is_last(column) | (last < limit)) if is_open else last < limit
        if self.above is not None:
            inside &= first > column.point_of(self.above)
        return inside


@dataclass(frozen=True, kw_only=True)
class Forbid:
    """A combination of conditions that no row satisfies."""

    conditions: tuple[Condition, ...]  # one for each column concerned

    @property
    def cliques(self) -> tuple[Clique, ...]:
        """The columns that are constrained together."""
        return (tuple(condition.column for condition in self.conditions),)

    def masks(self, columns: Columns) -> list[Mask]:
        """The impossible cells of each of `cliques`."""
        impossible = np.ones((), dtype=bool)
        for condition in self.conditions:
            impossible = np.logical_and.outer(impossible, condition.mask(columns[condition.column]))
        return [impossible]


@dataclass(frozen=True, kw_only=True)
class Determine:
    """A column whose value follows from another's; a missing cell breaks no dependency."""

    column: str  # the column that is determined
    by: str  # the column that determines it
    # pairs of a value of `by` and the value of `column` that follows; other values of `by` leave it free
    values: tuple[tuple[PublicValue, PublicValue], ...]

    @property
    def cliques(self) -> tuple[Clique, ...]:
        """The columns that are constrained together."""
        return ((self.by, self.column),)

    def masks(self, columns: Columns) -> list[Mask]:
        """The impossible cells of each of `cliques`."""
        by, column = columns[self.by], columns[self.column]
        mask = np.zeros((by.size, column.size), dtype=bool)
        for given, value in self.values:
            rows = Condition(column=by.name, values=(given,)).mask(by)
            allowed = Condition(column=column.name, values=(value,)).mask(column)
            allowed[column.places :] = True
            mask |= rows[:, None] & ~allowed
        return [mask]


@dataclass(frozen=True, kw_only=True)
class Order:
    """Columns whose values do not fall from one to the next; a missing cell breaks no order."""

    columns: tuple[str, ...]  # at least two, all numbers, all dates, all datetimes, or ordinals with the same levels

    @property
    def cliques(self) -> tuple[Clique, ...]:
        """The pairs of columns that are constrained together."""
        return tuple(itertools.pairwise(self.columns))

    def masks(self, columns: Columns) -> list[Mask]:
        """The impossible cells of each of `cliques`: bins of which every pair of values falls."""
        return [_falls(columns[before], columns[after]) for before, after in self.cliques]


Constraint: TypeAlias = Forbid | Determine | Order


def within_cells(constraints: Iterable[Constraint], columns: Columns) -> tuple[Constraint, ...]:
    """The constraints, one after the other and checked, as long as their tables are not too large together."""
    cells, taken = 0, list[Constraint]()
    for constraint in constraints:
        check(constraint, columns)
        cells += sum(_cells(clique, columns) for clique in constraint.cliques)
        if cells > MOST_TOGETHER:
            raise SchemaError(f"all constraints together have more than {MOST_TOGETHER:,} cells; use wider bins")
        taken.append(constraint)
    return tuple(taken)


def _cells(clique: Clique, columns: Columns) -> int:
    return math.prod(columns[name].size for name in clique)


def check(constraint: Constraint, columns: Columns) -> None:
    """Refuse a constraint that does not fit the columns, or whose table of cells would be too large."""
    for clique in constraint.cliques:
        unknown = [name for name in clique if name not in columns]
        if unknown:
            raise SchemaError("a constraint needs a column that is declared and modelled", column=unknown[0])
        if len(set(clique)) < len(clique):
            raise SchemaError("a constraint names a column twice; keep one", column=clique[-1])
        cells = _cells(clique, columns)
        if cells > MOST_CELLS:
            size = f"{cells:,} cells, more than {MOST_CELLS:,}"
            raise SchemaError(f"a constraint on {list(clique)} has {size}; use wider bins")
    constraint.masks(columns)


def one_of(column: ModelledColumn, values: tuple[PublicValue, ...]) -> Mask:
    """Which places stand for nothing but `values`."""
    points = np.array(sorted({column.point_of(value) for value in values}))
    first, last = _extent(column)
    if not column.is_whole:
        spans = [column.period_of(value) for value in values]
        if any(start == end for start, end in spans):
            raise column.error("reals are compared by below and above, and by value only where it is one of spikes")
        return np.array([span in spans for span in itertools.pairwise(column.edges)])
    held = np.searchsorted(points, last, side="right") - np.searchsorted(points, first, side="left")
    return np.asarray(held == last - first + 1)


def _extent(column: ModelledColumn) -> tuple[NDArray[Any], NDArray[Any]]:
    """The smallest and the largest point of each place (for reals, where the bin ends)."""
    edges = np.asarray(column.edges)
    return edges[:-1], edges[1:] - column.is_whole


def _ranked(column: ModelledColumn) -> Mask:
    """Which places have a rank: all but a label for other cells that is not itself a level."""
    return np.asarray(np.arange(column.places) < column.ranks)


def _is_last(column: ModelledColumn) -> Mask:
    return np.asarray(np.arange(column.places) == column.places - 1)


def _falls(before: ModelledColumn, after: ModelledColumn) -> Mask:
    """Pairs of codes of which every pair of values falls."""
    if before.order is None or before.order != after.order:
        takes = "order takes numbers, dates, datetimes, or ordinals with the same levels"
        raise after.error(f"cannot be ordered after {before.name!r}; {takes}")
    mask = np.zeros((before.size, after.size), dtype=bool)
    first, last = _extent(before)[0], _extent(after)[1]
    falls = (first[:, None] > last) & _ranked(before)[:, None] & _ranked(after)
    if not after.is_whole:
        falls |= (first[:, None] == last) & ~_is_last(after)
    mask[: before.places, : after.places] = falls
    return mask
