"""Bins: the edges that a schema's words for them stand for."""

import datetime as dt
import itertools
import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Literal, TypeAlias, get_args

from priory.data.kinds.declared import check_bounds, check_codes
from priory.data.moments import DAY_ZERO, LAST_DAY, MICROSECONDS_A_DAY
from priory.errors import SchemaError

MOST_BINS = 10_000

Every: TypeAlias = Literal["hour", "day", "week", "month", "quarter", "year"]
EVERY: tuple[Every, ...] = get_args(Every)


def equal_width(name: str, low: float, high: float, count: int, *, whole: bool) -> tuple[float, ...]:
    """Edges of `count` bins of the same width; whole bins that cannot be the same differ by one.

    >>> equal_width("age", 0, 9, 3, whole=True)
    (0, 3, 6, 10)
    """
    end = _checked_end(name, low, high, count, whole=whole)
    if whole:
        return tuple(int(low) + int(end - low) * i // count for i in range(count + 1))
    # Exact in between and rounded once, so that [0, 1] in ten bins has the edge 0.3 that people write.
    start, step = Fraction(low), (Fraction(end) - Fraction(low)) / count
    return (*(float(start + step * i) for i in range(count)), float(end))


def logarithmic(name: str, low: float, high: float, count: int, *, whole: bool) -> tuple[float, ...]:
    """Edges of `count` bins whose ends have the same ratio; from a lower bound of 0, those of one plus them.

    >>> logarithmic("income", 1, 1000, 3, whole=False)
    (1.0, 10.0, 100.0, 1000.0)
    """
    end = _checked_end(name, low, high, count, whole=whole)
    if low < 0:
        raise SchemaError("logarithmic bins need bounds that are not negative; give edges", column=name)
    shift = 0 if low else 1
    # Not the logarithm of the ratio, which may be infinite.
    start, stop = math.log(low + shift), math.log(end + shift)
    inner = [math.exp(start + (stop - start) * i / count) - shift for i in range(1, count)]
    if whole:
        return _apart([int(low), *(round(edge) for edge in inner), int(end)])
    # Six digits are readable, and the same on every machine however its exp rounds.
    edges = (float(low), *(float(f"{edge:.6g}") for edge in inner), float(end))
    if any(before >= after for before, after in itertools.pairwise(edges)):
        raise SchemaError(f"{count} logarithmic bins are too narrow for these bounds; ask for fewer", column=name)
    return edges


def calendar_units(name: str, low: int, high: int, every: Every, *, clock: bool) -> tuple[int, ...]:
    """Edges where each hour, day, week (from Monday), month, quarter or year begins."""
    check_bounds(name, low, high, whole=True)
    if every == "hour" and not clock:
        raise SchemaError("a date has no hours; use every: day, or kind: datetime", column=name)
    day = MICROSECONDS_A_DAY if clock else 1
    if every == "hour":
        hour = MICROSECONDS_A_DAY // 24
        starts: range | list[int] = range(low // hour * hour, high + 1, hour)
    elif every in ("day", "week"):
        step = day if every == "day" else 7 * day
        monday = -3 * day if every == "week" else 0  # 1970-01-01 was a Thursday
        starts = range((low - monday) // step * step + monday, high + 1, step)
    else:
        starts = [start * day for start in _months(low // day, high // day, {"month": 1, "quarter": 3}.get(every, 12))]
    check_codes(name, len(starts))
    return (low, *(start for start in starts if low < start <= high), high + 1)


def _months(first: int, last: int, step: int) -> Iterator[int]:
    """The days on which every `step`-th month from `first` (or just before) to `last` begins."""
    date = dt.date.fromordinal(first + DAY_ZERO)
    month = (date.year * 12 + date.month - 1) // step * step
    end = dt.date.fromordinal(min(last, LAST_DAY) + DAY_ZERO)
    for start in range(month, end.year * 12 + end.month, step):
        yield dt.date(start // 12, start % 12 + 1, 1).toordinal() - DAY_ZERO


def _checked_end(name: str, low: float, high: float, count: int, *, whole: bool) -> float:
    """Where the last bin ends, after checking that `count` bins fit the bounds."""
    check_bounds(name, low, high, whole=whole)
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise SchemaError(f"the number of bins is a whole number, at least 1; got {count!r}", column=name)
    if count > MOST_BINS:
        raise SchemaError(f"{count:,} bins are more than the {MOST_BINS:,} allowed; ask for fewer", column=name)
    if whole and count > high - low + 1:
        raise SchemaError(
            f"{count} bins for {int(high - low) + 1} integers; leave bins out for one bin each", column=name
        )
    return high + 1 if whole else high


def _apart(edges: list[int]) -> tuple[int, ...]:
    """Move inner edges as little as needed so that every bin holds at least one integer."""
    for i in range(1, len(edges) - 1):
        edges[i] = max(edges[i], edges[i - 1] + 1)
    for i in range(len(edges) - 2, 0, -1):
        edges[i] = min(edges[i], edges[i + 1] - 1)
    return tuple(edges)
