"""Probes: public partitions of the texts that a cell may be, for learning what a column holds.

A probe is fixed before any row is read, and every text, a missing one included, falls into exactly one of its cells.
So a column counted by a probe is a marginal like any other, with a marginal's sensitivity.
"""

import datetime as dt
import math
import re
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from priory.data.cells import Unread
from priory.data.kinds.declared import MOST_WHOLE
from priory.data.kinds.numbers import PLAIN, NumberFormat
from priory.data.moments import DAY_ZERO

# Longer texts are neither numbers nor levels.
LONGEST = 200
# Texts that usually mean that a cell is missing.
NULL_TOKENS = ("NA", "N/A", "n/a", "na", "NaN", "nan", "NULL", "null", "None", "#N/A", "?", "-", "--", ".")
# Words for true and false, in three spellings each.
PAIRS = (
    ("true", "false"),
    ("yes", "no"),
    ("y", "n"),
    ("t", "f"),
    ("ja", "nein"),
    ("j", "n"),
    ("oui", "non"),
    ("si", "no"),
)
WORDS = tuple(
    dict.fromkeys(spell(word) for pair in PAIRS for word in pair for spell in (str, str.capitalize, str.upper))
)
# How numbers are written that are read only with options.
ODD_NUMBERS = {
    "decimal comma": re.compile(r" *[+-]?(?:[0-9]+|[0-9]{1,3}(?:[. ][0-9]{3})+),[0-9]+ *"),
    "thousands": re.compile(r" *[+-]?[0-9]{1,3}(?:[,. '][0-9]{3})+(?:\.[0-9]+)? *"),
    "percent or currency": re.compile(r" *[€$£]? *[+-]?[0-9.,]+ *[%€$£]? *"),
}
PADDED = re.compile(r"0[0-9]+")
# 1, 2 and 5 times the powers of ten, for numbers of either sign; zero has a cell of its own.
_SIZES = tuple(float(f"{digit}e{power}") for power in range(-6, 16) for digit in (1, 2, 5))
SCALE = (*(-size for size in reversed(_SIZES)), 0.0, math.ulp(0.0), *_SIZES)
DECADES = tuple(dt.date(year, 1, 1).toordinal() - DAY_ZERO for year in range(1700, 2201, 10))
_CLOCK = r"(?:[T ][0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:[.,][0-9]{1,9})?)?(?: ?(?:Z|[+-][0-9]{2}(?::?[0-9]{2})?))?)"
_ISO = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})(" + _CLOCK + ")?")
_SPELLED = re.compile(r"([0-9]{1,2})([./-])([0-9]{1,2})\2([0-9]{4})")


class Probe(ABC):
    """A partition of all texts into cells, numbered from 0."""

    @property
    @abstractmethod
    def size(self) -> int:
        """How many cells there are."""

    @abstractmethod
    def place(self, text: str | None) -> int:
        """The cell that a text is in; it never fails."""


@dataclass(frozen=True)
class Spellings(Probe):
    """What a text can be read as: missing, a word for true or false, a number, a date, or just a text."""

    format: NumberFormat = PLAIN  # how texts spell numbers

    @cached_property
    def cells(self) -> tuple[tuple[str, str, int], ...]:
        """What each cell stands for: a family, a spelling within it, and an interval of numbers or dates, or −1."""
        single = [("null", ""), *(("null", token) for token in NULL_TOKENS), *(("boolean", word) for word in WORDS)]
        single += [("padded", ""), *(("odd number", name) for name in ODD_NUMBERS), ("text", "")]
        return (
            *((family, spelling, -1) for family, spelling in single),
            *(("number", kind, i) for kind in ("whole", "fraction") for i in range(len(SCALE) + 1)),
            *(("date", kind, i) for kind in DATE_FORMATS for i in range(len(DECADES) + 1)),
        )

    @cached_property
    def _places(self) -> dict[tuple[str, str, int], int]:
        return {cell: i for i, cell in enumerate(self.cells)}

    @property
    def size(self) -> int:
        return len(self.cells)

    def place(self, text: str | None) -> int:
        return self._places[_spelled(text, self.format)]


@dataclass(frozen=True)
class Numbers(Probe):
    """Intervals of numbers: below the first edge, between edges, from the last one on; then one cell for the rest."""

    edges: tuple[float, ...]  # where the intervals begin, rising
    format: NumberFormat = PLAIN  # how texts spell numbers

    @property
    def size(self) -> int:
        return len(self.edges) + 2

    def place(self, text: str | None) -> int:
        number = None if text is None or len(text) > LONGEST else self.format.of_text(text)
        return self.size - 1 if number is None or isinstance(number, Unread) else bisect_right(self.edges, number)


@dataclass(frozen=True)
class Days(Probe):
    """The same for dates, as days since 1970."""

    edges: tuple[int, ...]  # the days on which the intervals begin, rising
    kind: str  # how dates are spelled, one of `DATE_FORMATS`

    @property
    def size(self) -> int:
        return len(self.edges) + 2

    def place(self, text: str | None) -> int:
        found = None if text is None or len(text) > LONGEST else _date(text)
        if found is None or found[0] not in (self.kind, _EITHER.get(self.kind)):
            return self.size - 1
        day = found[1] if found[0] == self.kind else _day(*_swapped(text or "", self.kind))
        return self.size - 1 if day is None else bisect_right(self.edges, day)


# A date with a slash may be read in two ways where its first two numbers are at most 12.
DATE_FORMATS = {
    "date": None,
    "datetime": None,
    "d.m.Y": "%d.%m.%Y",
    "d-m-Y": "%d-%m-%Y",
    "m/d/Y": "%m/%d/%Y",
    "d/m/Y": "%d/%m/%Y",
    "either": None,
}
_EITHER = {"m/d/Y": "either", "d/m/Y": "either"}
PROBES = (Spellings, Numbers, Days)


def _spelled(text: str | None, form: NumberFormat) -> tuple[str, str, int]:
    if text is None or not text.strip():
        return "null", "", -1
    if len(text) > LONGEST:
        return "text", "", -1
    if text in NULL_TOKENS or text in WORDS:
        return "null" if text in NULL_TOKENS else "boolean", text, -1
    return _measured(text, form) or ("text", "", -1)


def _measured(text: str, form: NumberFormat) -> tuple[str, str, int] | None:
    """The cell of a text that is a number, a code of digits or a date."""
    number = form.of_text(text)
    if PADDED.fullmatch(text):
        return "padded", "", -1
    if not isinstance(number, Unread):
        kind = "whole" if math.isinf(number) or number.is_integer() else "fraction"
        return "number", kind, bisect_right(SCALE, number)
    date = _date(text)
    if date is not None:
        return "date", date[0], bisect_right(DECADES, date[1])
    odd = next((name for name, pattern in ODD_NUMBERS.items() if pattern.fullmatch(text)), None)
    return None if odd is None else ("odd number", odd, -1)


def _date(text: str) -> tuple[str, int] | None:
    """How a text spells a date, and its day; None where it does not."""
    iso = _ISO.fullmatch(text)
    if iso:
        day = _day(*map(int, iso.groups()[:3]))
        return None if day is None else ("datetime" if iso[4] else "date", day)
    spelled = _SPELLED.fullmatch(text)
    if not spelled:
        return None
    first, sign, second, year = int(spelled[1]), spelled[2], int(spelled[3]), int(spelled[4])
    if sign != "/":
        day = _day(year, second, first)
        return None if day is None else ("d.m.Y" if sign == "." else "d-m-Y", day)
    by_month, by_day = _day(year, first, second), _day(year, second, first)
    if by_month is None and by_day is None:
        return None
    kind = "either" if by_month is not None and by_day is not None else "m/d/Y" if by_day is None else "d/m/Y"
    day = by_month if by_day is None else by_day
    return (kind, day) if day is not None else None


def _swapped(text: str, kind: str) -> tuple[int, int, int]:
    """Year, month and day of a date with slashes, read as `kind`."""
    first, second, year = (int(part) for part in text.split("/"))
    return (year, first, second) if kind == "m/d/Y" else (year, second, first)


def _day(year: int, month: int, day: int) -> int | None:
    try:
        return dt.date(year, month, day).toordinal() - DAY_ZERO
    except ValueError:
        return None


def refined(counts: Mapping[int, float], enough: float, *, whole: bool) -> tuple[float, ...]:
    """Edges from the first to the last of some intervals of `SCALE`, finer within these, in steps that people write.

    Args:
        counts: about how many rows are in each of the intervals.
        enough: how many rows a step should have: an interval is divided by as many as it has rows for.
        whole: whether numbers are whole; then no step is shorter than 1.
    """
    first, last = min(counts), max(counts)
    edges = [edge for i in range(first, last + 1) for edge in _steps(i, counts.get(i, 0.0) / enough, whole=whole)]
    edges.append(_ends(last)[1])
    if not whole:
        return tuple(sorted(set(edges)))
    return tuple(sorted({float(min(max(math.ceil(edge), -MOST_WHOLE), MOST_WHOLE)) for edge in edges}))


def _ends(interval: int) -> tuple[float, float]:
    """Where an interval of `SCALE` begins and ends; the outermost are cut off at ten times the largest size."""
    padded = (SCALE[0] * 10, *SCALE, SCALE[-1] * 10)
    return padded[interval], padded[interval + 1]


# By how many an interval can be divided into steps of few digits: from 1 to 2 and from 5 to 10, and from 2 to 5.
_DIVISORS, _DIVISORS_OF_THREE = (1, 2, 5, 10), (1, 3, 6, 15, 30)


def _steps(interval: int, most: float, *, whole: bool) -> list[float]:
    """Where the steps of an interval of `SCALE` begin: at most `most`, and one where it is at zero."""
    low, high = _ends(interval)
    small, large = sorted((abs(low), abs(high)))
    if small < _SIZES[0] or large > 11 * small:
        return [low]
    divisors = _DIVISORS_OF_THREE if 2.4 < large / small < 2.6 else _DIVISORS
    count = max(n for n in divisors if n == 1 or (n <= most and (not whole or n <= high - low)))
    return [float(f"{low + (high - low) * i / count:.12g}") for i in range(count)]
