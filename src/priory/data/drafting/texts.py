"""Texts: what the texts of a public column say: missing cells, numbers, moments, true and false, codes."""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from priory.data.cells import Unread
from priory.data.dialect import THOUSANDS, Dialect
from priory.data.kinds.moment_format import MomentFormat
from priory.data.kinds.numbers import NumberFormat
from priory.data.survey import Seen

# Texts that mean missing in any column, in any case of their letters.
NULLS = frozenset(
    [
        *("", "?", "-", "--", "---", ".", "..", "...", "na", "n/a", "n.a.", "nan", "null", "(null)", "nil", "\\n"),
        *("#n/a", "#na", "<na>", "#value!", "#ref!", "#div/0!", "#null!", "nat", "k.a.", "k. a."),
    ]
)
# These mean missing among numbers and moments; among other texts they may be levels.
WEAK_NULLS = frozenset(["none", "missing", "unknown", "unk", "not available", "keine angabe", "inf", "-inf", "*", "x"])
# Of the cells of a column of numbers or moments, at least this share must be some.
MOSTLY = 0.95
MOST_ODD = 20
PAIRS = (
    ("true", "false"), ("yes", "no"), ("y", "n"), ("t", "f"), ("ja", "nein"), ("j", "n"), ("oui", "non"), ("si", "no"),
    ("sí", "no"), ("sim", "não"), ("wahr", "falsch"), ("vrai", "faux"), ("on", "off"),
)  # fmt: skip
UNITS = ("%", "‰", "°", "kg", "cm", "mm", "km", "mg", "ml")
CURRENCIES = ("EUR", "USD", "GBP", "CHF", "JPY", "SEK", "NOK", "DKK", "PLN", "CZK", "US$")
PADDED = re.compile("0[0-9]+")
# More digits than a double holds: a code rather than a quantity.
LONG = re.compile("[+-]?[0-9]{16,}")
DATES = (
    "%d.%m.%Y", "%m/%d/%Y", "%d/%m/%Y", "%Y/%m/%d", "%Y.%m.%d", "%d-%m-%Y", "%m-%d-%Y",
    "%d.%m.%y", "%m/%d/%y", "%d/%m/%y",
    "%d-%b-%Y", "%d-%b-%y", "%d %b %Y", "%d %b %y", "%b %d %Y", "%b %d, %Y", "%d. %b %Y", "%b-%d-%Y", "%Y-%b-%d",
    "%Y-%m", "%m/%Y", "%m.%Y", "%b %Y", "%b-%Y", "%b-%y", "%Y %b",
)  # fmt: skip
CLOCKS = (" %H:%M", " %H:%M:%S", "T%H:%M", "T%H:%M:%S", " %I:%M %p", " %I:%M:%S %p", ", %H:%M", " - %H:%M")
MIDNIGHTS = (
    " 12:00:00 AM",
    " 12:00 AM",
    *(
        f"{between}{clock}{zone}"
        for between in " T"
        for clock in ("00:00", "00:00:00", "00:00:00.000", "00:00:00.000000", "0:00", "0:00:00")
        for zone in ("", "Z", "+00:00", "+0000", " UTC")
    ),
)
COMPACT = re.compile("(?:19|20)[0-9]{2}(?:0[1-9]|1[0-2])(?:0[1-9]|[12][0-9]|3[01])")
SAMPLE = 50
LONGEST = 40
LONGEST_NULL = 16


@dataclass(frozen=True, eq=False)
class Recognised:
    """What texts say, all but those that mean missing."""

    values: NDArray[Any]
    counts: NDArray[np.int64]  # how often each occurs
    nulls: tuple[str, ...]  # the texts that mean missing
    format: Any  # how the others spell what they say; for booleans, the texts for false and for true
    odd: tuple[str, ...] = ()  # those of `nulls` that are taken so only because nearly all others are values


def null_texts(texts: Iterable[str], *, weak: bool = False) -> tuple[str, ...]:
    """The texts that mean missing; a minus means something where a plus does, too."""
    known = NULLS | WEAK_NULLS if weak else NULLS
    short = [text for text in texts if len(text) <= LONGEST_NULL]
    nulls = tuple(text for text in short if text.strip().casefold() in known)
    return tuple(text for text in nulls if text != "-") if "+" in short else nulls


def booleans(seen: Seen) -> Recognised | None:
    """The column as true and false, if its texts are the two words of a language for them."""
    if len(seen.texts) > SAMPLE:
        return None
    nulls = null_texts(seen.texts)
    words = {text: text.strip().casefold() for text in seen.texts if text not in nulls}
    pair = next((pair for pair in PAIRS if set(words.values()) == set(pair)), None)
    if pair is None:
        return None
    true = tuple(sorted(text for text, word in words.items() if word == pair[0]))
    false = tuple(sorted(text for text, word in words.items() if word == pair[1]))
    return Recognised(np.array([False, True]), np.zeros(2, dtype=np.int64), nulls, (false, true))


def has_codes(texts: Iterable[str]) -> bool:
    """Whether some texts are digits that a number would lose: zeros before it, or more than a double holds."""
    return any(PADDED.fullmatch(text) or LONG.fullmatch(text) for text in texts)


def decimal_mark(columns: Iterable[Seen]) -> str:
    """The decimal mark of the whole table: the one that more columns need."""
    votes = {".": 0, ",": 0}
    for seen in columns:
        texts = _sampled(seen)
        symbol = _symbol(texts)
        for mark, other in (".,", ",."):
            plain = NumberFormat(decimal=mark, symbol=symbol)
            grouped = NumberFormat(decimal=other, thousands=mark, symbol=symbol)
            is_needed = any(mark in text for text in texts) and _share(plain, texts) > MOSTLY
            votes[mark] += is_needed and _share(grouped, texts) < 1
    return "," if votes[","] > votes["."] else "."


def numbers(seen: Seen, reading: Dialect) -> Recognised | None:
    """The column as numbers, if nearly all its texts are some by one format."""
    sample = _sampled(seen)
    formats = _formats(seen.texts, sample, reading) if _has_digits(sample) and not has_codes(sample) else []
    likely = [form for form in formats if _share(form, sample) >= 0.5]
    if not likely or has_codes(seen.texts):
        return None
    nulls = null_texts(seen.texts, weak=True)
    found = _without(seen.texts, nulls)
    tried = (_recognised(seen, found, form, form.of_text, nulls) for form in likely)
    return max((each for each in tried if each), key=lambda each: int(each.counts.sum()), default=None)


def moments(seen: Seen) -> Recognised | None:
    """The column as dates or datetimes, if nearly all its texts are some by one format."""
    formats = list(_moment_formats(_sampled(seen)))
    if not formats:
        return None
    nulls = null_texts(seen.texts, weak=True)
    found = _without(seen.texts, nulls)
    tried = (_recognised(seen, found, form, _never_raising(form), nulls) for form in formats)
    # Of formats that read as many cells, the first.
    best = max((each for each in tried if each), key=lambda each: int(each.counts.sum()), default=None)
    if best is None:
        return None
    return replace(best, values=best.values.astype("datetime64[us]" if best.format.clock else "datetime64[D]"))


def _sampled(seen: Seen) -> list[str]:
    """The most frequent texts that do not mean missing, and some of the others: rare ones may look different."""
    some = [*seen.texts[:SAMPLE], *seen.texts[SAMPLE :: max(len(seen.texts) // SAMPLE, 1)]]
    return _without(some, null_texts(some, weak=True))


def _has_digits(sample: Sequence[str]) -> bool:
    """Whether most of a sample may be numbers or moments."""
    return 2 * sum(len(text) <= LONGEST and any(map(str.isdigit, text)) for text in sample) > len(sample)


def _without(texts: Iterable[str], others: Iterable[str]) -> list[str]:
    others = set(others)
    return [text for text in texts if text not in others]


def _share(form: NumberFormat, texts: Sequence[str]) -> float:
    """The share of the texts that are numbers by a format."""
    return sum(not isinstance(form.of_text(text), Unread) for text in texts) / max(len(texts), 1)


def _formats(texts: Iterable[str], sample: Sequence[str], reading: Dialect) -> list[NumberFormat]:
    """The formats that a column of numbers may have, the more usual ones first."""
    usual = NumberFormat(decimal=reading.decimal, thousands=reading.thousands, parentheses=reading.parentheses)
    letters = set("".join(texts))
    between = [mark for mark in THOUSANDS if mark in letters]
    marks = [(decimal, thousands) for decimal in ".," for thousands in (None, *between) if decimal != thousands]
    marks.sort(key=lambda pair: (pair[0] != reading.decimal, pair[1] is not None))
    symbol = _symbol(sample)
    made = (
        NumberFormat(decimal=decimal, thousands=thousands, parentheses="(" in letters, symbol=symbol)
        for decimal, thousands in marks
    )
    return list(dict.fromkeys([usual, *made]))


def _symbol(texts: Sequence[str]) -> str | None:
    """The one unit or currency that stands with numbers, if there is one."""
    rests = {re.sub(r"[0-9.,'()+\s\u2019_-]", "", text) for text in texts} - {""}
    for rest in rests:
        is_currency = len(rest) == 1 and unicodedata.category(rest) == "Sc"
        if is_currency or rest in UNITS or rest in CURRENCIES:
            return rest
    return None


def _moment_formats(sample: Sequence[str]) -> Iterator[MomentFormat]:
    """The formats by which nearly all of a sample of texts are moments, days before times."""
    if not _has_digits(sample):
        return
    if all(COMPACT.fullmatch(text) for text in sample):
        yield MomentFormat("%Y%m%d", clock=False)
    [(usual, _)] = Counter(map(_shape, sample)).most_common(1)
    known = _formats_by_shape().get(usual, [])
    days = [form for form in known if not form.clock]
    for form in (MomentFormat(None, clock=False), *days, MomentFormat(None, clock=True), *known):
        read = _never_raising(form)
        if sum(not isinstance(read(text), Unread) for text in sample) >= 0.8 * len(sample):
            yield form


@cache
def _formats_by_shape() -> dict[str, list[MomentFormat]]:
    """The known formats by what stands between their words and numbers."""
    by_shape: dict[str, list[MomentFormat]] = {}
    for day in ("%Y-%m-%d", *DATES):
        for clock in ("", *MIDNIGHTS, *CLOCKS):
            form = MomentFormat(day + clock, clock=clock in CLOCKS)
            by_shape.setdefault(_shape(re.sub("%.", "0", day + clock)), []).append(form)
    return by_shape


def _shape(text: str) -> str:
    return re.sub("[0-9A-Za-z]+", "x", text)


def _never_raising(form: MomentFormat) -> Any:  # noqa: ANN401 - a function of a text
    def read(text: str) -> Any:  # noqa: ANN401 - a reading
        try:
            return form.of_text(text)
        except ValueError:
            return Unread.BAD

    return read


def _recognised(
    seen: Seen,
    texts: Sequence[str],
    form: object,
    read: Any,  # noqa: ANN401 - a function of a text
    nulls: tuple[str, ...],
) -> Recognised | None:
    """What the texts say, if they are nearly all read."""
    counts = dict(zip(seen.texts, seen.text_counts.tolist(), strict=True))
    readings = {text: read(text) for text in texts}
    odd = tuple(text for text, reading in readings.items() if isinstance(reading, Unread))
    good = _without(texts, odd)
    weight = sum(counts[text] for text in good)
    if not good or len(odd) > MOST_ODD or weight < MOSTLY * sum(counts[text] for text in texts):
        return None
    number = np.float64 if isinstance(form, NumberFormat) else np.int64
    values = np.array([readings[text] for text in good], dtype=number)
    return Recognised(values, np.array([counts[text] for text in good], dtype=np.int64), (*nulls, *odd), form, odd)
