"""Labels: the codes of an attribute in words short enough for an axis."""

import datetime as dt
import itertools
from collections.abc import Sequence

from priory.data.columns import ModelledColumn, Moment, Number, number_text
from priory.data.moments import DAY_ZERO
from priory.report.html import shortened

MOST_LETTERS = 34


def axis_labels(column: ModelledColumn) -> tuple[str, ...]:
    """One label for each code, all of them different."""
    texts: Sequence[str] = column.place_labels
    if isinstance(column, Number):
        texts = _numbers(column)
    elif isinstance(column, Moment) and not column.clock:
        texts = _dates(column)
    texts = [*texts, *(["not given"] if column.nullable else [])]
    return distinct([shortened(text, MOST_LETTERS) for text in texts])


def distinct(labels: Sequence[str]) -> tuple[str, ...]:
    """The labels, with a number after each that was there before: a chart would put equal ones in one place.

    >>> distinct(["a", "b", "a"])
    ('a', 'b', 'a (2)')
    """
    seen: dict[str, int] = {}
    found: list[str] = []
    for label in labels:
        number = seen.get(label, 0) + 1
        seen[label] = number
        found.append(label if number == 1 else f"{label} ({number})")
    return tuple(found) if len(set(found)) == len(found) else tuple(f"{i}: {label}" for i, label in enumerate(labels))


def _numbers(column: Number) -> list[str]:
    edges = column.edges
    found = []
    for i, (low, high) in enumerate(itertools.pairwise(edges)):
        is_last = i == column.places - 1
        if column.whole:
            last = column.high if is_last else high - 1
            found.append(_grouped(low) if last == low else f"{_grouped(low)}–{_grouped(last)}")
        else:
            found.append(f"{_grouped(low)}–{_grouped(column.high if is_last else high)}")
    return found


def _grouped(number: float) -> str:
    return f"{int(number):,}" if number == int(number) and abs(number) < 1e15 else number_text(number)


def _dates(column: Moment) -> list[str]:
    """Years where bins begin and end with years, else first and last days."""
    spans = [(_day(low), _day(end - 1)) for low, end in itertools.pairwise(column.edges)]
    if all(first.month == first.day == 1 and _ends_year(last) for first, last in spans):
        return [f"{a.year}" if a.year == b.year else f"{a.year}–{b.year}" for a, b in spans]
    return [f"{a}" if a == b else f"{a} to {b}" for a, b in spans]


def _day(number: int) -> dt.date:
    return dt.date.fromordinal(number + DAY_ZERO)


def _ends_year(day: dt.date) -> bool:
    return (day.month, day.day) == (12, 31)
