"""Columns: the column and the comments that noisy counts lead to. No private data are needed."""

import datetime as dt
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from priory.app.discover.first_look import ENOUGH, FirstLook, stddev_of
from priory.app.discover.line import extent, number_line
from priory.data.drafting.columns import MOST_LEVELS
from priory.data.kinds import Boolean, Category, Column, Moment, Number, Unmodelled, bins
from priory.data.kinds.numbers import with_thousands
from priory.data.moments import DAY_ZERO, MICROSECONDS_A_DAY
from priory.data.probes import DATE_FORMATS, DECADES, Days, Numbers, refined
from priory.privacy.curator import NoisyValues
from priory.privacy.measurement import Measurement

# A step of the finer grid should have so many standard deviations of rows, or its bounds cannot be told from noise.
ROWS_OF_A_STEP = 5.0
NUMBERS, DATES, LISTED = ("integer", "real"), ("date", "datetime"), ("category", "ordinal")


@dataclass(frozen=True)
class NoisyCounts:
    """The noisy counts that a column was learnt from; they were paid for, and say no more than was."""

    values: tuple[tuple[str, float], ...] = ()  # values that enough persons have, and about how many do
    edges: tuple[float, ...] = ()  # of intervals of numbers, or of days since 1970
    rows: tuple[float, ...] = ()  # about how many rows lie between two of them


@dataclass(frozen=True)
class Found:
    """What was learnt of a column."""

    column: Column  # the column
    seen: str  # what was seen of it, with noise
    decided: str  # what follows
    instead: str  # what else could be chosen
    # what it was learnt from; not shown, as people would read noise as digits
    counts: NoisyCounts = field(default=NoisyCounts(), repr=False)

    @property
    def comments(self) -> tuple[str, ...]:
        """The paragraphs above the column in the schema file."""
        return f"Seen, with noise: {self.seen}.", f"Decided: {self.decided}.", f"Else: {self.instead}."


def grid_of(look: FirstLook) -> Numbers | Days | None:
    """What is to be counted next of a column: numbers or dates, more finely where they were seen; None for nothing."""
    if look.kind in NUMBERS and (seen := look.intervals("number")):
        return Numbers(refined(seen, _enough(look), whole=look.kind == "integer"), look.format)
    if look.kind in DATES and (seen := look.intervals("date")) and (spelling := _spelling(look)) is not None:
        return Days(_years(seen, _enough(look)), spelling)
    return None


def _enough(look: FirstLook) -> float:
    """How many rows a step of the finer grid should have."""
    return max(ROWS_OF_A_STEP * look.stddev, 1.0)


def found(look: FirstLook, grid: Numbers | Days | None, noisy: Measurement | None, values: NoisyValues | None) -> Found:
    """The column that all the looks lead to; one that is left out where nothing was above the noise."""
    column: Column | None = None
    decided = look.kind
    if look.kind in LISTED and values is not None:
        column = _category(look, values)
        decided = f"{look.kind} with these levels; rarer ones go to other, or to null"
    elif look.kind == "boolean":
        column = _boolean(look)
    elif isinstance(grid, Numbers) and noisy is not None:
        column = number = _number(look, grid, noisy, values)
        decided = decided if number is None else _number_words(look, number)
    elif isinstance(grid, Days) and noisy is not None:
        column = moment = _moment(look, grid, noisy)
        decided = decided if moment is None else _moment_words(look, moment)
    if column is None:
        return _left_out(look, values)
    return Found(column, _seen(look, values), decided, _INSTEAD[look.kind], _counts(grid, noisy, values))


def _counts(grid: Numbers | Days | None, noisy: Measurement | None, values: NoisyValues | None) -> NoisyCounts:
    told = () if values is None else tuple((str(value), float(n)) for value, n in values.persons.items())
    if grid is None or noisy is None:
        return NoisyCounts(told)
    # Without those below the first edge, above the last and the rest.
    return NoisyCounts(told, tuple(map(float, grid.edges)), tuple(map(float, noisy.values[1:-2])))


def _category(look: FirstLook, values: NoisyValues) -> Category | None:
    most = sorted(values.persons, key=lambda value: -values.persons[value])[:MOST_LEVELS]
    levels = [value for value in values.persons if value in most and value not in look.nulls]
    if not levels:
        return None
    name, ordered = look.column.name, look.kind == "ordinal"
    if all(_is_whole(level) for level in levels):
        # Integer levels fit texts and numbers alike; a cell without a level is then null.
        whole = sorted(map(int, levels))
        return Category.of(name, whole, ordered=ordered, nullable=True, nulls=look.nulls)
    other = next(word for word in ("other", "(other)", "((other))") if word not in look.nulls)
    return Category.of(name, levels, other=other, ordered=ordered, nullable=look.missing > 0, nulls=look.nulls)


def _is_whole(text: str) -> bool:
    return text.isascii() and text.removeprefix("-").isdigit() and str(int(text)) == text and len(text) < 16


def _boolean(look: FirstLook) -> Boolean:
    if look.words is None or {word.lower() for words in look.words for word in words} == {"true", "false"}:
        return Boolean.of(look.column.name, nullable=True, nulls=look.nulls)
    true, false = look.words
    nulls = tuple(text for text in look.nulls if text not in (*true, *false))
    return Boolean.of(look.column.name, true=true, false=false, nullable=True, nulls=nulls)


def _number(look: FirstLook, grid: Numbers, noisy: Measurement, values: NoisyValues | None) -> Number | None:
    whole = look.kind == "integer"
    frequent = {} if values is None else {float(value): float(n) for value, n in values.persons.items()}
    # Without those below the first edge, above the last and the rest.
    counts = np.asarray(noisy.values[1:-2], dtype=np.float64)
    line = number_line(grid.edges, counts, stddev_of(noisy), frequent, whole=whole)
    if line is None:
        return None
    low, high = line.edges[0], line.edges[-1] - whole
    edges = None if line.is_single else line.edges
    return Number.of(
        look.column.name,
        whole=whole,
        low=low,
        high=high,
        edges=edges,
        spikes=() if line.is_single else line.spikes,
        format=look.format,
        nullable=True,
        nulls=look.nulls,
    )


def _spelling(look: FirstLook) -> str | None:
    """Which of `DATE_FORMATS` the column has: as declared, else as seen."""
    if look.column.format is None:
        return look.date_format
    return next((word for word, spelled in DATE_FORMATS.items() if spelled == look.column.format), None)


def _years(decades: dict[int, float], enough: float) -> tuple[int, ...]:
    """The days on which steps begin, from the first to the last of some decades: years, where a decade has the rows."""
    inner = [min(max(i, 1), len(DECADES) - 1) for i in decades]
    years: list[int] = []
    for i in range(min(inner), max(inner) + 1):
        steps = max(n for n in (1, 2, 5, 10) if n == 1 or n <= decades.get(i, 0.0) / enough)
        years += [_year(DECADES[i - 1]) + 10 * k // steps for k in range(steps)]
    return tuple(dt.date(year, 1, 1).toordinal() - DAY_ZERO for year in (*years, _year(DECADES[max(inner)])))


def _year(day: int) -> int:
    return dt.date.fromordinal(day + DAY_ZERO).year


def _moment(look: FirstLook, grid: Days, noisy: Measurement) -> Moment | None:
    first, last = extent(np.asarray(noisy.values[1:-2], dtype=np.float64), stddev_of(noisy))
    if first is None or last is None:
        return None
    clock = look.kind == "datetime"
    day = MICROSECONDS_A_DAY if clock else 1
    low, high = grid.edges[first] * day, grid.edges[last + 1] * day - 1
    years = _year(grid.edges[last + 1]) - _year(grid.edges[first])
    every: bins.Every = "month" if years <= 3 else "quarter" if years <= 12 else "year"
    edges = bins.calendar_units(look.column.name, low, high, every, clock=clock)
    return Moment.of(
        look.column.name,
        clock=clock,
        low=low,
        high=high,
        edges=edges,
        format=DATE_FORMATS[grid.kind],
        nullable=True,
        nulls=look.nulls,
    )


def _left_out(look: FirstLook, values: NoisyValues | None) -> Found:
    column = Unmodelled.of(look.column.name, kind=look.kind if look.kind in ("id", "text") else "text")
    if look.column.kind in ("id", "text"):
        return Found(column, "nothing was asked", "left out, as declared", "declare another kind")
    if values is None and look.kind in LISTED:
        why = "left out: to learn which values there are needs a delta"
    elif look.present == 0:
        why = "left out: nothing was above the noise"
    elif look.kind in LISTED:
        why = (
            f"left out: no value is held by enough persons (about {with_thousands(round(values.threshold))})"
            if values
            else ""
        )
    else:
        why = "left out: its values are too far apart to tell their bounds from the noise"
    instead = "declare its kind by hand, with levels or bounds that are publicly known, or spend more"
    return Found(column, _seen(look, values), why, instead)


def _seen(look: FirstLook, values: NoisyValues | None) -> str:
    """Shares of what cells could be read as, and what is frequent."""
    if not look.rows:
        return f"nothing (counts below about {with_thousands(round(5.2 * look.stddev))} do not show)"
    shares = {
        "numbers": look.total("number"),
        "dates": look.total("date"),
        "words for true and false": look.total("boolean"),
        "codes with leading zeros": look.total("padded"),
        "numbers in another format": look.total("odd number"),
        "other texts": look.total("text"),
    }
    parts = [f"{_percent(look.missing / look.rows)} missing"]
    parts += [f"{_percent(n / look.rows)} {word}" for word, n in shares.items() if n]
    if values is not None and look.kind in LISTED:
        parts.append(
            f"{len(values.persons)} values of at least about {with_thousands(round(values.threshold))} persons"
        )
    if look.total("odd number") > (1 - ENOUGH) * look.present:
        parts.append("see `reading:` for decimal commas and thousands")
    return ", ".join(parts)


def _percent(share: float | Fraction) -> str:
    return f"{100 * float(share):.1f} %"


def _number_words(look: FirstLook, column: Number) -> str:
    bad = 1 - look.total("number") / look.present if look.present else 0.0
    unread = f"; about {_percent(bad)} of the cells are no numbers and become null" if bad > 0 else ""
    low, high = with_thousands(column.low), with_thousands(column.high)
    return f"{look.kind} from {low} to {high}; what is beyond goes to the bound{unread}"


def _moment_words(look: FirstLook, column: Moment) -> str:
    guess = ""
    if column.format in ("%m/%d/%Y", "%d/%m/%Y") and not look.total("date", _spelling(look)):
        guess = "; days and months cannot be told apart here: this is a guess"
    return f"{look.kind} from {column.point_text(column.low)} to {column.point_text(column.high)}{guess}"


_OF_LEVELS = "add levels that you know to be possible; ordinal, with the levels in order; text, to leave it out"
_OF_NUMBERS = "wider or narrower bounds; bins: {log: 20} or {edges: […]}; category, where numbers are codes; id"
_OF_DATES = "other bounds; bins: {every: month}, quarter or year; category or text"
_INSTEAD = {
    **dict.fromkeys(LISTED, _OF_LEVELS),
    **dict.fromkeys(NUMBERS, _OF_NUMBERS),
    **dict.fromkeys(DATES, _OF_DATES),
    "boolean": "category, with the words as levels",
}
