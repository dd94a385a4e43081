"""Constraints: combinations of values that cannot be, as structural zeros on codes."""

import datetime as dt
import itertools
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from priory.data.columns import Boolean, Category, ModelledColumn, Moment, Number
from priory.data.moments import DAY_ZERO, ISO_DATE, ISO_DATETIME, MICROSECONDS_A_DAY
from priory.domain import Clique
from priory.errors import SchemaError

MOST_CELLS = 10_000_000

PublicValue: TypeAlias = str | int | float | bool
Mask: TypeAlias = NDArray[np.bool_]
Columns: TypeAlias = Mapping[str, ModelledColumn]


@dataclass(frozen=True, kw_only=True)
class Condition:
    """What the values of one column must be for a forbidden combination to apply.

    On a column with bins it holds only for the bins that lie wholly inside it, so that no possible row is declared
    impossible. A missing cell satisfies no condition but `null`.

    Attributes:
        column: the column.
        values: any of these; or
        below: less than this, and
        above: greater than this; or
        null: missing.
    """

    column: str
    values: tuple[PublicValue, ...] = ()
    below: PublicValue | None = None
    above: PublicValue | None = None
    null: bool = False

    def mask(self, column: ModelledColumn) -> Mask:
        """Which codes satisfy the condition, whatever value in their bin they stand for."""
        if self.null:
            if not column.nullable:
                raise SchemaError("null: true, but the column is not nullable", column=column.name)
            return np.asarray(np.arange(column.size) == column.null_code)
        mask = np.zeros(column.size, dtype=bool)
        mask[: column.places] = self._inside(column)
        if not mask.any():
            raise SchemaError(
                "no bin or level lies wholly inside the condition; choose a limit at the edge of a bin",
                column=column.name,
            )
        return mask

    def _inside(self, column: ModelledColumn) -> Mask:
        if self.values:
            return one_of(column, self.values)
        if isinstance(column, Boolean) or (isinstance(column, Category) and not column.ordered):
            raise SchemaError(
                "below and above need an order; list the values, or use kind: ordinal", column=column.name
            )
        inside = _ranked(column)
        first, last = _extent(column)
        if self.below is not None:
            limit = point_of(column, self.below)
            # The upper end of a bin of reals is outside the bin, except in the last one.
            is_open = isinstance(column, Number) and not column.whole
            inside &= (last <= limit) & (~_is_last(column) | (last < limit)) if is_open else last < limit
        if self.above is not None:
            inside &= first > point_of(column, self.above)
        return inside


@dataclass(frozen=True, kw_only=True)
class Forbid:
    """A combination of conditions that no row satisfies.

    Attributes:
        conditions: one for each column concerned.
    """

    conditions: tuple[Condition, ...]

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
    """A column whose value follows from another's; a missing cell breaks no dependency.

    Attributes:
        column: the column that is determined.
        by: the column that determines it.
        values: pairs of a value of `by` and the value of `column` that follows; other values of `by` leave it free.
    """

    column: str
    by: str
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
    """Columns whose values do not fall from one to the next; a missing cell breaks no order.

    Attributes:
        columns: at least two, all numbers, all dates, all datetimes, or ordinals with the same levels.
    """

    columns: tuple[str, ...]

    @property
    def cliques(self) -> tuple[Clique, ...]:
        """The pairs of columns that are constrained together."""
        return tuple(itertools.pairwise(self.columns))

    def masks(self, columns: Columns) -> list[Mask]:
        """The impossible cells of each of `cliques`: bins of which every pair of values falls."""
        return [_falls(columns[before], columns[after]) for before, after in self.cliques]


Constraint: TypeAlias = Forbid | Determine | Order


def check(constraint: Constraint, columns: Columns) -> None:
    """Refuse a constraint that does not fit the columns, or whose table of cells would be too large."""
    for clique in constraint.cliques:
        unknown = [name for name in clique if name not in columns]
        if unknown:
            raise SchemaError("a constraint needs a column that is declared and modelled", column=unknown[0])
        if len(set(clique)) < len(clique):
            raise SchemaError("a constraint names a column twice; keep one", column=clique[-1])
        cells = math.prod(columns[name].size for name in clique)
        if cells > MOST_CELLS:
            raise SchemaError(
                f"a constraint on {list(clique)} has {cells:,} cells, more than {MOST_CELLS:,}; use wider bins"
            )
    constraint.masks(columns)


def one_of(column: ModelledColumn, values: tuple[PublicValue, ...]) -> Mask:
    """Which places stand for nothing but `values`."""
    points = np.array(sorted({point_of(column, value) for value in values}))
    first, last = _extent(column)
    if isinstance(column, Number) and not column.whole:
        raise SchemaError("reals are compared by below and above, not by value", column=column.name)
    held = np.searchsorted(points, last, side="right") - np.searchsorted(points, first, side="left")
    return np.asarray(held == last - first + 1)


def point_of(column: ModelledColumn, value: PublicValue) -> float:
    """A value of a schema as a number: its place among levels, itself, or days or microseconds.

    Raises:
        SchemaError: the column cannot have this value.
    """
    match column:
        case Category():
            if isinstance(value, bool | float) or value not in column.place_by_value:
                raise SchemaError(f"{value!r} is not one of the levels", column=column.name)
            return column.place_by_value[value]
        case Boolean():
            if isinstance(value, bool) or value in (*column.true, *column.false):
                return int(value) if isinstance(value, bool) else int(value in column.true)
            raise SchemaError(f"{value!r} is not true or false", column=column.name)
        case Number():
            if isinstance(value, bool | str):
                raise SchemaError(f"{value!r} is not a number", column=column.name)
            return value
        case Moment():
            return moment_of(column.name, value, clock=column.clock)


def moment_of(name: str, value: object, *, clock: bool, is_end: bool = False) -> int:
    """A moment of a schema, written in ISO 8601, as an integer.

    Args:
        name: the column, for errors.
        value: the text.
        clock: whether the column has a time of day; if so, a date alone means its midnight.
        is_end: a date alone means its last microsecond instead.
    """
    is_date = isinstance(value, str) and re.fullmatch(ISO_DATE, value) is not None
    is_moment = is_date or (clock and isinstance(value, str) and re.fullmatch(ISO_DATETIME, value) is not None)
    try:
        moment = dt.datetime.fromisoformat(str(value) if is_moment else "")
    except ValueError:
        example = "2024-03-01T12:30" if clock else "2024-03-01"
        raise SchemaError(f"{value!r} is not a moment of this column; write it as {example}", column=name) from None
    days = moment.toordinal() - DAY_ZERO
    if not clock:
        return days
    start = days * MICROSECONDS_A_DAY
    if is_date:
        return start + MICROSECONDS_A_DAY - 1 if is_end else start
    return start + (moment - dt.datetime.combine(moment.date(), dt.time())) // dt.timedelta(microseconds=1)


def _extent(column: ModelledColumn) -> tuple[NDArray[Any], NDArray[Any]]:
    """The smallest and the largest point of each place (for reals, where the bin ends)."""
    if isinstance(column, Category | Boolean):
        return np.arange(column.places), np.arange(column.places)
    edges = np.asarray(column.edges)
    is_whole = isinstance(column, Moment) or column.whole
    return edges[:-1], edges[1:] - 1 if is_whole else edges[1:]


def _ranked(column: ModelledColumn) -> Mask:
    """Which places have a rank: all but a label for other cells that is not itself a level."""
    ranked = len(column.levels) if isinstance(column, Category) else column.places
    return np.asarray(np.arange(column.places) < ranked)


def _is_last(column: ModelledColumn) -> Mask:
    return np.asarray(np.arange(column.places) == column.places - 1)


def _falls(before: ModelledColumn, after: ModelledColumn) -> Mask:
    """Pairs of codes of which every pair of values falls."""
    _check_comparable(before, after)
    mask = np.zeros((before.size, after.size), dtype=bool)
    first, last = _extent(before)[0], _extent(after)[1]
    falls = (first[:, None] > last) & _ranked(before)[:, None] & _ranked(after)
    if isinstance(after, Number) and not after.whole:
        falls |= (first[:, None] == last) & ~_is_last(after)
    mask[: before.places, : after.places] = falls
    return mask


def _check_comparable(before: ModelledColumn, after: ModelledColumn) -> None:
    numbers = isinstance(before, Number) and isinstance(after, Number)
    moments = isinstance(before, Moment) and isinstance(after, Moment) and before.clock == after.clock
    if numbers or moments:
        return
    ordinals = isinstance(before, Category) and isinstance(after, Category) and before.ordered and after.ordered
    if not ordinals or before.values != after.values:  # type: ignore[union-attr]  # both are categories here
        raise SchemaError(
            f"cannot be ordered after {before.name!r}; "
            "order takes numbers, dates, datetimes, or ordinals with the same levels",
            column=after.name,
        )
