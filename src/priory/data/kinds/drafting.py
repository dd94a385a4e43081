"""Drafting: bins and spikes for the values of a public table. Never for private rows: they are read from the cells.

Bins are chosen by a forecast: how far means and quantiles would be off because bins hide where values lie, and because
each bin gets noise. Few wide bins hide much; many narrow ones collect noise, most of all at the far end of a tail.
"""

import math
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from priory.data.kinds.declared import MOST_WHOLE
from priory.data.kinds.number import Number

Floats = NDArray[np.float64]

# Up to this many integers may get a bin each; otherwise a column gets about 8 to 34 bins.
MOST_SINGLE = 100
COUNTS = (8, 12, 16, 20, 26, 34)
# The table that is forecast: its rows and the standard deviation of the noise of a count, as at ε = 1 with six columns.
# Of four skewed columns, half the noise gives drafts a quarter more bins, and twice the noise a tenth less.
ROWS, NOISE = 20_000.0, 14.0
# A spike has at least this share of the rows and this many of them, and this many times those of a usual value nearby.
_SPIKE_SHARE, _SPIKE_ROWS, _SPIKE_RATIO, _NEARBY = 0.005, 5, 5.0, 10
_MOST_SPIKES = 12
# How much worse than the best a draft may be: if it has fewer bins, from which pairs of columns gain; if its bins have
# one width, which is the easiest to read; if every integer has a bin. An error below the last number is always allowed
# to bins of single integers.
_FEWER, _EQUAL, _SINGLE, _GOOD = 1.25, 2.5, 1.5, 0.02
_MOST_VALUES = 3000
# Squares of larger numbers are more than doubles hold: such columns get one bin.
_WIDEST = 1e150
_AT = (0.1, 0.25, 0.5, 0.75, 0.9)
_TAIL = (0.001, 0.005, 0.02, 0.05)
# Values are taken to be rounded if so many different ones are multiples of one step.
_STEPPED = 20
_STEPS = (1000, 500, 100, 50, 20, 10, 5, 2)


@dataclass(frozen=True)
class Drafted:
    """Bins and spikes that suit some values: what `Number.of` takes."""

    whole: bool
    low: float
    high: float
    edges: tuple[float, ...] | None  # None is one bin for each integer
    spikes: tuple[float, ...] = ()
    step: float | None = None


def draft_bins(values: NDArray[np.floating] | NDArray[np.integer]) -> Drafted:
    """The bins, spikes and step that suit the values of a public table, all of them finite; at least one."""
    whole = bool((np.floor(values) == values).all() and (np.abs(values.astype(float)) <= MOST_WHOLE).all())
    rows: NDArray[np.integer]
    distinct, rows = np.unique(values.astype(np.float64) + 0.0, return_counts=True)
    spikes = _spikes(distinct, rows)
    body = ~np.isin(distinct, spikes)
    step = _step(distinct[body], whole=whole)
    low, high = float(distinct[0]), float(distinct[-1])
    if max(-low, high) > _WIDEST:
        ends = max(low - abs(low), -sys.float_info.max), min(high + abs(high), sys.float_info.max)
        return Drafted(whole, *ends, ends)
    single = Drafted(whole, low, high, None, tuple(spikes.tolist()), step)
    can_single = whole and high - low < MOST_SINGLE
    if can_single and len(distinct) <= COUNTS[0]:
        return Drafted(whole, low, high, None)
    distinct, rows = _thinned(distinct, rows, spikes)
    body = ~np.isin(distinct, spikes)
    sample = _Sample(distinct, rows / rows.sum(), whole=whole, spikes=single.spikes, step=step)
    found = [(sample.error(edges), edges) for edges in _candidates(sample, distinct[body], rows[body])]
    best = min(error for error, _ in found)
    good = [edges for error, edges in found if error <= (_EQUAL if _are_equal(edges) else _FEWER) * best]
    edges = min(good, key=lambda edges: (not _are_equal(edges), len(edges)))
    if can_single and sample.error(tuple(np.arange(low, high + 2))) <= max(_SINGLE * best, _GOOD):
        return Drafted(whole, low, high, None)
    kept = tuple(int(edge) for edge in edges) if whole else edges
    return Drafted(whole, kept[0], kept[-1] - whole, kept, single.spikes, step)


def _are_equal(edges: Sequence[float]) -> bool:
    """Whether all bins but the outer ones, which end at the bounds, have about the same width."""
    widths = np.diff(edges[1:-1])
    return len(widths) > 0 and bool(widths.max() < 1.01 * widths.min())


def _spikes(distinct: Floats, rows: NDArray[np.integer]) -> Floats:
    """The values that have far more rows than those around them; all where there are few and each has many rows."""
    if len(distinct) <= _MOST_SPIKES and rows.min() >= _SPIKE_ROWS:
        return distinct
    if len(distinct) < 3:
        return distinct[:0]
    heavy = rows >= max(_SPIKE_ROWS, _SPIKE_SHARE * rows.sum())
    spikes = []
    for i in np.flatnonzero(heavy):
        around = np.r_[max(i - _NEARBY, 0) : i, i + 1 : i + 1 + _NEARBY]
        around = around[around < len(rows)]
        usual = float(np.median(np.minimum(rows[around], rows[i])))
        if rows[i] >= _SPIKE_RATIO * max(usual, 1.0):
            spikes.append(i)
    spikes.sort(key=lambda i: -rows[i])
    return np.sort(distinct[spikes[:_MOST_SPIKES]])


def _thinned(distinct: Floats, rows: NDArray[np.integer], spikes: Floats) -> tuple[Floats, NDArray[np.integer]]:
    """Some thousand of the values, each with the rows of those that it stands for; all where there are no more."""
    if len(distinct) <= _MOST_VALUES:
        return distinct, rows
    below = rows.cumsum()
    kept = np.searchsorted(below, np.linspace(0, below[-1], _MOST_VALUES, endpoint=False) + 1)
    kept = np.union1d(kept, [0, len(distinct) - 1, *np.searchsorted(distinct, spikes)])
    return distinct[kept], np.diff(below[kept], prepend=0)


def _step(values: Floats, *, whole: bool) -> float | None:
    """The largest usual step that all values are multiples of; None for integers that are multiples of 1 only."""
    if len(values) < _STEPPED:
        return None
    steps: Iterable[float] = _STEPS if whole else (0.5, 0.1, 0.05, 0.01, 0.001, 0.0001)
    for step in steps:
        multiples = values / step
        if (np.abs(multiples - np.rint(multiples)) <= 1e-6).all() and (np.abs(multiples) < 1e9).all():
            return step
    return None


@dataclass(frozen=True, eq=False)
class _Sample:
    """The values of a public column, and what bins would make of them."""

    values: Floats  # the different ones, ascending
    shares: Floats  # of the rows that have each
    whole: bool
    spikes: tuple[float, ...]
    step: float | None

    def error(self, edges: Sequence[float]) -> float:
        """How far means and quantiles would be off, relative to the values' own spread."""
        column = Number.of(
            "draft",
            whole=self.whole,
            low=edges[0],
            high=edges[-1] - self.whole,
            edges=edges,
            spikes=self.spikes,
            step=self.step,
            nullable=True,
        )
        places = column.places_of(self.values)
        held: Floats = np.bincount(places, self.shares, column.places).astype(np.float64)
        column = column.shaped(held * ROWS)
        first, last = np.asarray(column.edges[:-1]), np.asarray(column.edges[1:])
        mean_error = self._mean_error(held, column.middles(first, last), column.spreads(first, last))
        below = np.append(0.0, held.cumsum())
        return math.hypot(mean_error, *(self._rank_error(column, below, at) / len(_AT) ** 0.5 for at in _AT))

    def _mean_error(self, held: Floats, middles: Floats, spreads: Floats) -> float:
        mean, median = self.values @ self.shares, self._quantile(0.5)
        scale = float(np.abs(self.values - median) @ self.shares) or 1.0
        shifted = float(held @ middles - mean)
        hidden = math.hypot(shifted, float(np.sqrt(((held * spreads) ** 2).sum())))
        noise = NOISE / ROWS * float(np.sqrt(((middles - mean) ** 2).sum()))
        return math.hypot(hidden, noise) / scale

    def _rank_error(self, column: Number, below: Floats, at: float) -> float:
        """How far a quantile would be off; a hundredth of the rows counts for about three of the value."""
        place = max(min(int(np.searchsorted(below, at)), column.places) - 1, 0)
        held = below[place + 1] - below[place]
        part = np.array([(at - below[place]) / held if held > 0 else 0.5])
        span = np.array([column.edges[place]]), np.array([column.edges[place + 1]])
        value = float(column.located(np.array([place]), span, np.clip(part, 0, 1))[0])
        before, through = (self._below[np.searchsorted(self.values, value, side=side)] for side in ("left", "right"))
        missed = max(before - at, at - through, 0.0)
        hidden = 0.0 if column.singles[place] else held / 12**0.5
        noise = NOISE / ROWS * math.sqrt((1 - at) ** 2 * (place + 1) + at**2 * (column.places - place - 1))
        return 3 * math.hypot(missed, hidden, noise)

    def _quantile(self, at: float) -> float:
        return float(self.values[min(int(np.searchsorted(self._below[1:], at)), len(self.values) - 1)])

    @cached_property
    def _below(self) -> Floats:
        """Which share of the rows has less than each value, and at the end all."""
        return np.append(0.0, self.shares.cumsum())


def _candidates(sample: _Sample, values: Floats, rows: NDArray[np.integer]) -> Iterator[tuple[float, ...]]:
    """Edges to choose from: of equal width, logarithmic, by quantiles, and by quantiles with finer or longer tails."""
    if len(values) < 2:
        yield _ended(sample, values[:0])
        return
    first, last = float(values[0]), float(values[-1])
    shares = rows.cumsum() / rows.sum()

    def at(part: float) -> float:
        return float(values[min(int(np.searchsorted(shares, part)), len(values) - 1)])

    for count in COUNTS:
        step = _round_step(first, last, count)
        begin, end = math.floor(Fraction(first) / step), math.ceil(Fraction(last) / step)
        yield _ended(sample, [float(step * i) for i in range(begin + 1, end)])
        parts = [i / count for i in range(1, count)]
        yield _ended(sample, _rounded([at(part) for part in parts], first, last))
        tails = [*_TAIL, *(part for part in parts if _TAIL[-1] < part < 1 - _TAIL[-1]), *(1 - p for p in _TAIL)]
        yield _ended(sample, _rounded([at(part) for part in tails], first, last))
        if (start := at(0.02)) > 0 and first >= 0:
            ratio = (last / start) ** (1 / count)
            yield _ended(sample, _rounded([start * ratio**i for i in range(count)], first, last))
            middle = at(0.8)
            ratio = (last / middle) ** (3 / count)
            body = [at(0.8 * i / count) for i in range(1, count)]
            yield _ended(sample, _rounded([*body, *(middle * ratio**i for i in range(count // 3))], first, last))


def _ended(sample: _Sample, inner: Iterable[float]) -> tuple[float, ...]:
    """Edges from round bounds, with the inner ones between them; a bound that is a spike stays as it is."""
    low, high = float(sample.values[0]), float(sample.values[-1])
    edges = sorted({round(edge) if sample.whole else edge for edge in inner})
    # Whole numbers end before the edge, which is the round one.
    after = high + sample.whole
    start = low if low in sample.spikes else _round_out(low, high, up=False)
    end = after if high in sample.spikes else _round_out(after, low, up=True)
    if sample.whole:
        start, end = max(math.floor(start), -MOST_WHOLE), min(math.ceil(end), MOST_WHOLE + 1)
    if start == end:
        end = start + float(_power_of_ten(abs(start) / 10))
    kept = (edge for edge in edges if start < edge < end)
    return (start, *kept, end)


def _round_out(bound: float, other: float, *, up: bool) -> float:
    """A round number at or beyond a bound, no further than a tenth of the range; 0 where that is near."""
    span = abs(other - bound) or abs(bound) or 1.0
    if 0 <= bound < span / 10 and not up:
        return 0.0
    if -span / 10 < bound <= 0 and up:
        return 0.0
    unit = _power_of_ten(span / 10)
    return float((math.ceil if up else math.floor)(Fraction(bound) / unit) * unit)


def _rounded(edges: Sequence[float], first: float, last: float) -> list[float]:
    """Edges with as few digits as keep each nearer to itself than to its neighbours."""
    inner = sorted({edge for edge in edges if first < edge < last})
    around = [first, *inner, last]
    found = []
    for before, edge, after in zip(around, inner, around[2:], strict=False):
        gap = min(edge - before, after - edge)
        unit = _power_of_ten(gap / 2)
        found.append(float(round(Fraction(edge) / unit) * unit))
    return [edge for edge, before in zip(found, [first, *found], strict=False) if before < edge]


def _power_of_ten(size: float) -> Fraction:
    return Fraction(10) ** math.floor(math.log10(size)) if size > 0 else Fraction(1)


def _round_step(low: float, high: float, count: int) -> Fraction:
    """The smallest of 1, 2, 5, 10, … (or 0.1, 0.2, …) that makes no more than `count` bins."""
    width = (Fraction(high) - Fraction(low)) / count or Fraction(1, count)
    # Wide enough for neighbouring edges to be different floats.
    width = max(width, 4 * Fraction(math.ulp(max(abs(low), abs(high)))))
    power = Fraction(10) ** math.floor(math.log10(width))
    return next(power * digit for digit in (1, 2, 5, 10, 20) if power * digit >= width)
