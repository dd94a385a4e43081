"""Labels: the codes of an attribute in words short enough for an axis."""

from collections.abc import Sequence

from priory.data.kinds import ModelledColumn
from priory.report.html import shortened

MOST_LETTERS = 34


def axis_labels(column: ModelledColumn) -> tuple[str, ...]:
    """One label for each code, all of them different."""
    texts = [*column.short_labels, *(["not given"] if column.nullable else [])]
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
