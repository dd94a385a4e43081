"""Declared: what a schema may say of a column, checked before a column is made of it."""

import itertools
import re
import sys
from collections.abc import Iterable, Sequence
from typing import TypeAlias, TypedDict, TypeVar

from priory.errors import SchemaError

MOST_CODES = 999_999
# Up to here every integer is a double and no other integer rounds to it, so that a number read as the nearest double
# compares with whole bounds and integer levels as if it had been read exactly.
MOST_WHOLE = 2**53 - 1

_SURROGATE = re.compile("[\ud800-\udfff]")

Level: TypeAlias = str | int
Item = TypeVar("Item")


def check_codes(name: str, codes: int) -> None:
    """Refuse a column with too many codes before anything is made for them."""
    if codes > MOST_CODES:
        raise SchemaError(
            f"{codes:,} levels or bins are more than the {MOST_CODES:,} a column may have; "
            "declare it as id or text, or group them",
            column=name,
        )


def repeated(items: Iterable[Item]) -> Item | None:
    """The first item that is there a second time; None where there is none."""
    seen = set[Item]()
    for item in items:
        if item in seen:
            return item
        seen.add(item)
    return None


def checked_bounds(name: str, low: float, high: float, *, whole: bool) -> tuple[float, float]:
    """Bounds as integers or floats, if they are numbers and leave something between them."""
    low, high = (checked_number(name, bound, "a bound", whole=whole) for bound in (low, high))
    check_bounds(name, low, high, whole=whole)
    return low, high


def check_bounds(name: str, low: float, high: float, *, whole: bool) -> None:
    """Refuse reversed bounds, and equal ones where they leave nothing between them."""
    if low > high:
        raise SchemaError("bounds are reversed; write the smaller one first", column=name)
    if low == high and not whole:
        raise SchemaError("bounds are empty: both are the same; the first must be smaller", column=name)


def checked_name(name: str) -> None:
    """Refuse a name that is no text, or an empty one."""
    if not isinstance(name, str) or not name:
        raise SchemaError(f"a column's name is a text that is not empty; got {name!r}")
    checked_texts(name, "the name", [name])


class Nulls(TypedDict, total=False):
    """What a modelled column may declare of its missing cells: whether they have a code, and texts that mean them."""

    nullable: bool
    nulls: Iterable[str]


class Checked(TypedDict):
    """What every modelled column has: its name, and the same of its missing cells."""

    name: str
    nullable: bool
    nulls: tuple[str, ...]


def checked_common(name: str, other: object, given: Nulls) -> Checked:
    """What every modelled column declares: a name, somewhere for bad cells to go, and its texts for missing ones."""
    checked_name(name)
    nullable = given.get("nullable", False)
    if not nullable and other is None:
        raise SchemaError(
            "bad cells have nowhere to go; add nullable: true, or other: with the value that stands for them",
            column=name,
        )
    return {"name": name, "nullable": nullable, "nulls": checked_texts(name, "nulls", given.get("nulls", ()))}


def checked_texts(name: str, what: str, texts: Iterable[str]) -> tuple[str, ...]:
    """The texts, if they are valid Unicode and none is listed twice."""
    texts = tuple(texts)
    for text in texts:
        if not isinstance(text, str):
            raise SchemaError(f"{what} lists texts; got {text!r}: put it in quotes", column=name)
        if _SURROGATE.search(text):
            raise SchemaError(f"{what}: {text!r} is not valid Unicode", column=name)
    if len(set(texts)) < len(texts):
        raise SchemaError(f"{what} lists a text twice; keep one", column=name)
    return texts


def checked_levels(name: str, levels: Sequence[Level]) -> tuple[str, ...]:
    """Check that levels are all texts or all integers; the texts, if they are texts."""
    texts = [level for level in levels if isinstance(level, str)]
    if len(texts) == len(levels):
        return checked_texts(name, "levels", dict.fromkeys(texts))
    for level in levels:
        if isinstance(level, bool) or not isinstance(level, int | str):
            raise SchemaError(
                f"levels are texts or integers; got {level!r}: put it in quotes, or declare another kind", column=name
            )
        if texts and isinstance(level, int):
            raise SchemaError(
                f"levels and other are all texts or all integers; got {texts[0]!r} and {level!r}: "
                "put the numbers in quotes if the table has texts",
                column=name,
            )
        if isinstance(level, int) and abs(level) > MOST_WHOLE:
            raise SchemaError(f"level {level} is beyond ±{MOST_WHOLE}; use text levels", column=name)
    return ()


def checked_number(name: str, value: float, what: str, *, whole: bool) -> float:
    """The number as an int (whole) or a float, if it is one."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    # Not math.isfinite, which cannot take an integer beyond the largest float.
    if not is_number or not -sys.float_info.max <= value <= sys.float_info.max:
        raise SchemaError(f"{what} must be a finite number; got {value!r}", column=name)
    if not whole:
        return float(value) + 0.0  # -0.0 becomes 0.0
    if value != int(value) or abs(value) > MOST_WHOLE + 1:
        raise SchemaError(
            f"{what} must be a whole number within ±{MOST_WHOLE}; got {value!r}: round it, or use kind: real",
            column=name,
        )
    return int(value)


def check_edges(name: str, edges: Sequence[float], low: float, end: float) -> None:
    """Refuse edges that do not rise from the lower bound to the upper one."""
    if len(edges) < 2 or edges[0] != low or edges[-1] != end:
        raise SchemaError("edges begin at the lower bound and end at the upper one", column=name)
    for before, after in itertools.pairwise(edges):
        if before >= after:
            raise SchemaError("edges must rise from each to the next", column=name)


def check_other_inside(name: str, other: float, low: float, high: float) -> None:
    """Refuse a value for bad cells that is out of bounds."""
    if not low <= other <= high:
        raise SchemaError("other is outside the bounds; choose a value inside", column=name)
