"""Moment: columns of dates, with a time of day or without, in bins."""

import datetime as dt
import re
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Unpack, cast

import numpy as np
from numpy.typing import NDArray

from priory.data.cells import Cells, Reading, Unread
from priory.data.kinds import bins
from priory.data.kinds.binned import Binned, whole
from priory.data.kinds.declared import (
    Nulls,
    check_bounds,
    check_codes,
    check_edges,
    check_other_inside,
    checked_common,
)
from priory.data.kinds.kind import Mask, PublicValue, Span
from priory.data.kinds.moment_format import MomentFormat, check_format
from priory.data.kinds.options import ColumnOptions
from priory.data.moments import (
    DAY_ZERO,
    FIRST_DAY,
    LAST_DAY,
    MICROSECONDS_A_DAY,
    calendar_label,
    days_in,
    days_or_microseconds,
    microseconds_of,
    moment_of,
    moment_text,
)
from priory.data.sql import Cell, as_text
from priory.data.yaml_reader import suggestion
from priory.errors import SchemaError


@dataclass(frozen=True, kw_only=True)
class Moment(Binned):
    """A column of dates ("date") or of dates with a time of day ("datetime") in bins.

    All moments are integers here: days since 1970-01-01 for dates, microseconds since its midnight for datetimes, in
    UTC where a cell has a time zone.

    Attributes:
        clock: whether there is a time of day.
        low: the first moment, inclusive.
        high: the last moment, inclusive.
        edges: where the bins begin, and after them `high + 1`.
        other: a moment in the bin where cells that are no moments go.
        format: how texts spell a moment, as in `MomentFormat`; None is ISO 8601.
    """

    WORDS: ClassVar[tuple[str, ...]] = ("date", "datetime")
    OPTIONS: ClassVar[tuple[str, ...]] = ("bounds", "bins", "format")

    name: str
    clock: bool
    low: int
    high: int
    edges: tuple[int, ...]
    other: int | None
    nullable: bool
    nulls: tuple[str, ...]
    format: str | None
    slopes: tuple[float, ...] = field(default=(), compare=False, repr=False)

    @classmethod
    def of(
        cls,
        name: str,
        *,
        clock: bool,
        low: int,
        high: int,
        edges: Sequence[int],
        other: int | None = None,
        format: str | None = None,  # noqa: A002 - the word of the schema file
        **missing: Unpack[Nulls],
    ) -> "Moment":
        """Build a column from its bounds and the edges of its bins, checking them."""
        common, edges = checked_common(name, other, missing), tuple(edges)
        day = MICROSECONDS_A_DAY if clock else 1
        if low < FIRST_DAY * day or high >= (LAST_DAY + 1) * day:
            raise SchemaError("bounds are outside the years 0001 to 9999", column=name)
        check_bounds(name, low, high, whole=True)
        check_edges(name, edges, low, high + 1)
        check_codes(name, len(edges) - 1 + common["nullable"])
        if other is not None:
            check_other_inside(name, other, low, high)
        if format is not None:
            check_format(name, format)
        return cls(clock=clock, low=low, high=high, edges=edges, other=other, format=format, **common)

    @property
    def kind(self) -> str:
        return "datetime" if self.clock else "date"

    @property
    def day(self) -> int:
        """How many points a day has."""
        return MICROSECONDS_A_DAY if self.clock else 1

    @classmethod
    def read(cls, kind: str, options: ColumnOptions) -> "Moment":
        name, clock = options.name, kind == "datetime"
        first, last = options.bounds("bounds: [2000-01-01, 2024-12-31]")
        with options.values["bounds"].located():
            low = moment_of(name, first, clock=clock)
            high = moment_of(name, last, clock=clock, is_end=True)
            check_bounds(name, low, high, whole=True)
        with options.required("bins", "bins: {every: month}").located():
            return cls.of(
                name,
                clock=clock,
                low=low,
                high=high,
                edges=_read_edges(options, low, high, clock=clock),
                other=None if options.other is None else moment_of(name, options.other, clock=clock),
                format=options.values["format"].written("format", name) if "format" in options.values else None,
                **options.nulls(),
            )

    def described(self) -> dict[str, Any]:
        """The bounds, the shortest words for the bins, and the format."""
        bounds = {"bounds": [self.point_text(bound) for bound in (self.low, self.high)]}
        return bounds | {"bins": self._described_bins()} | ({} if self.format is None else {"format": self.format})

    def _described_bins(self) -> object:
        # A date has no hours.
        for every in reversed(bins.EVERY if self.clock else bins.EVERY[1:]):
            try:
                if bins.calendar_units(self.name, self.low, self.high, every, clock=self.clock) == self.edges:
                    return {"every": every}
            except SchemaError:
                continue  # a long time has too many
        count = min(self.places, bins.MOST_BINS)
        if bins.equal_width(self.name, self.low, self.high, count, whole=True) == self.edges:
            return count
        return {"edges": [self.point_text(edge) for edge in (*self.edges[:-1], self.high)]}

    @property
    def other_written(self) -> str | None:
        return None if self.other is None else self.point_text(self.other)

    @classmethod
    def draft(cls, name: str, values: NDArray[Any]) -> "Moment":
        """Bins that suit the moments of a public table: years, months, days or hours, from the first to the last."""
        moments = days_or_microseconds(values, clock=True)
        clock = bool((moments % MICROSECONDS_A_DAY).any())
        first, last = (int(moment) // MICROSECONDS_A_DAY + DAY_ZERO for moment in (moments.min(), moments.max()))
        days = last - first
        every: bins.Every = (
            "year" if days > 3650 else "month" if days > 62 else "day" if days > 2 or not clock else "hour"
        )
        start, end = dt.date.fromordinal(first), dt.date.fromordinal(last)
        if every == "year":
            start, end = start.replace(month=1, day=1), end.replace(month=12, day=31)
        elif every == "month":
            start, end = start.replace(day=1), end.replace(day=days_in(end.year, end.month))
        day = MICROSECONDS_A_DAY if clock else 1
        low, high = (start.toordinal() - DAY_ZERO) * day, (end.toordinal() + 1 - DAY_ZERO) * day - 1
        edges = bins.calendar_units(name, low, high, every, clock=clock)
        return cls.of(name, clock=clock, low=low, high=high, edges=edges, nullable=True)

    def point_text(self, point: float) -> str:
        return moment_text(int(point), clock=self.clock)

    @property
    def place_labels(self) -> tuple[str, ...]:
        """The bins as calendar units where they are one (2024, 2024-03, 2024-03-01), else as intervals."""
        return tuple(calendar_label(self.edges, i, self.day) or self.interval(i) for i in range(self.places))

    @property
    def short_labels(self) -> tuple[str, ...]:
        """Years where bins of dates begin and end with years, else first and last days."""
        if self.clock:
            return self.place_labels
        days = [dt.date.fromordinal(edge + DAY_ZERO) for edge in self.edges[:-1]]
        ends = [dt.date.fromordinal(edge - 1 + DAY_ZERO) for edge in self.edges[1:]]
        if all((a.month, a.day, b.month, b.day) == (1, 1, 12, 31) for a, b in zip(days, ends, strict=True)):
            texts = [(f"{a.year}", f"–{b.year}") for a, b in zip(days, ends, strict=True)]
            return tuple(a if f"–{a}" == b else a + b for a, b in texts)
        return tuple(f"{a}" if a == b else f"{a} to {b}" for a, b in zip(days, ends, strict=True))

    @cached_property
    def _texts(self) -> MomentFormat:
        return MomentFormat(self.format, self.clock)

    def read_text(self, text: str) -> Reading:
        return self._texts.of_text(text)

    def read_typed(self, cell: object) -> Reading:
        moment = microseconds_of(cell)
        if moment is None:
            return Unread.BAD
        return moment if self.clock else moment // MICROSECONDS_A_DAY

    def read_array(self, values: NDArray[Any]) -> tuple[NDArray[Any], Mask] | None:
        if values.dtype.kind != "M":
            return None
        return days_or_microseconds(values, clock=self.clock), np.ones(len(values), dtype=bool)

    def sql_point(self, cell: Cell) -> str | None:
        if cell.family == "text":
            return self._texts.in_sql(as_text(cell.expression))
        if cell.family == "date":
            # Days reach further than timestamps, so they are brought back to the calendar before they become one.
            days = f"date_diff('day', DATE '1970-01-01', {cell.expression})"
            moment = f"greatest(least({days}, {LAST_DAY + 1}), {FIRST_DAY})" + (" * 86400000000" if self.clock else "")
            return f"CASE WHEN isfinite({cell.expression}) THEN {moment} END"
        if cell.family == "timestamp":
            # Seconds of far years cannot become microseconds, and are bad. With a time zone they are already.
            is_zoned = cell.sql_type.endswith("ZONE")
            stamp = cell.expression if is_zoned else f"TRY_CAST({cell.expression} AS TIMESTAMP)"
            moment = f"epoch_us({stamp})" if self.clock else f"CAST(floor(epoch_us({stamp}) / 86400000000) AS BIGINT)"
            return f"CASE WHEN isfinite({stamp}) THEN {moment} END"
        return None

    @property
    def spelling(self) -> str | None:
        return self.format

    def values_at(self, points: NDArray[Any]) -> NDArray[Any]:
        return whole(points).astype("datetime64[us]" if self.clock else "datetime64[D]")

    def means_at(self, means: NDArray[np.float64]) -> Cells:
        return self.cells_at(means)

    @property
    def is_coarse(self) -> bool:
        return self.clock or super().is_coarse

    @property
    def is_additive(self) -> bool:
        return False

    @property
    def order(self) -> Hashable:
        return self.kind

    def point_of(self, value: PublicValue) -> float:
        return moment_of(self.name, value, clock=self.clock)

    def period_of(self, value: object) -> Span:
        text = value.isoformat() if isinstance(value, dt.date) else str(value)
        if not self.clock and not isinstance(value, str):
            # What some libraries have for a date.
            text = re.sub(r"T00:00:00(\.0+)?", "", text)
        if unit := re.fullmatch(r"([0-9]{4})(?:-([0-9]{2}))?", text):
            return self._calendar_period(int(unit[1]), int(unit[2]) if unit[2] else None)
        start = moment_of(self.name, text, clock=self.clock)
        is_day = re.fullmatch("[0-9-]{10}", text) is not None
        return start, start + (self.day if is_day else 1)

    def _calendar_period(self, year: int, month: int | None) -> Span:
        try:
            first = dt.date(year, month or 1, 1)
            last = dt.date(year, month or 12, days_in(year, month or 12))
        except ValueError:
            raise self.error(f"{year:04}-{month:02} is no month" if month else f"{year} is no year") from None
        return (first.toordinal() - DAY_ZERO) * self.day, (last.toordinal() + 1 - DAY_ZERO) * self.day


def _read_edges(options: ColumnOptions, low: int, high: int, *, clock: bool) -> Sequence[int]:
    name = options.name
    word, value = options.binning(("edges", "every"))
    if word == "every":
        every = value.written("every", name)
        if every not in bins.EVERY:
            raise value.error(f"there is no unit {every!r}; {suggestion(every, bins.EVERY)}", name)
        return bins.calendar_units(name, low, high, every, clock=clock)
    if word == "count":
        edges: Sequence[float] = bins.equal_width(name, low, high, options.count(value), whole=True)
    else:
        *inner, last = options.scalars(value, "edges", "an edge") or [None]
        moments = [moment_of(name, text, clock=clock) for text in inner]
        edges = options.ended([*moments, moment_of(name, last, clock=clock, is_end=True)], high, high + 1)
    return cast(Sequence[int], edges)
