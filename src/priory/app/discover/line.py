"""Line: bounds, bins and spikes of numbers, and bounds of dates, from noisy counts on a public grid."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from priory.data.kinds.declared import MOST_WHOLE

Counts = NDArray[np.float64]

# Whole numbers get a bin each up to this many; otherwise there are at most MOST_BINS, as drafts from public data have.
MOST_SINGLE, MOST_BINS = 100, 32
# A spike has at least this share of all rows, and of the rows in its cell.
SPIKE_SHARE, SPIKE_PART = 0.02, 0.5
MOST_SPIKES = 10
# The outer cells of a grid begin to count where their sum, from the end inwards, is so many standard deviations.
_EVIDENT = 4.0


@dataclass(frozen=True)
class Line:
    """Where the numbers of a column are."""

    edges: tuple[float, ...]  # of the bins; the first and the last are the bounds
    spikes: tuple[float, ...] = ()  # values with a place of their own
    is_single: bool = False  # whether every whole number has a bin


def number_line(
    edges: Sequence[float], counts: Counts, stddev: float, frequent: dict[float, float], *, whole: bool
) -> Line | None:
    """Bounds, bins and spikes; None where nothing is above the noise.

    Args:
        edges: of the grid.
        counts: noisy numbers of rows between them.
        stddev: of each count.
        frequent: values that enough persons have, and about how many.
        whole: whether numbers are whole.
    """
    first, last = extent(counts, stddev)
    if first is None or last is None:
        return None
    if whole and edges[last + 1] - edges[first] <= MOST_SINGLE:
        return Line((edges[first], edges[last + 1]), is_single=True)
    spikes = _spikes(edges, counts, frequent, whole=whole)
    rest = counts.copy()
    for spike in spikes:
        cell = int(np.searchsorted(edges, spike, side="right")) - 1
        rest[cell] = max(rest[cell] - frequent[spike], 0.0)
    first, last = extent(rest, stddev)
    bins: list[float] = []
    if first is not None and last is not None:
        bins = _merged(edges[first : last + 2], rest[first : last + 1], stddev)
    # The bounds hold the spikes; what lies between is a bin that hardly anybody is in.
    ends = [*bins, *spikes, *(spike + 1 for spike in spikes)]
    return Line(tuple(sorted({min(ends), *bins, max(ends)})), spikes) if ends else None


def extent(counts: Counts, stddev: float) -> tuple[int | None, int | None]:
    """The first and the last cell that anybody is in, as far as noise lets see; None where nobody is.

    From either end, sums are taken until one is evident. Cells count from where the sum, less two standard
    deviations for each cell, was least: noise alone makes that sum fall.
    """
    first, from_end = _start(counts, stddev), _start(counts[::-1], stddev)
    if first is None or from_end is None or first > len(counts) - 1 - from_end:
        return None, None
    return first, len(counts) - 1 - from_end


def _start(counts: Counts, stddev: float) -> int | None:
    sums = counts.cumsum()
    evident = np.flatnonzero(sums > _EVIDENT * stddev * np.sqrt(np.arange(1, len(counts) + 1)))
    if not len(evident):
        return None
    falling = (counts - 2 * stddev).cumsum()[: evident[0]]
    return int(np.argmin([0.0, *falling]))


def _spikes(edges: Sequence[float], counts: Counts, frequent: dict[float, float], *, whole: bool) -> tuple[float, ...]:
    """The most frequent values that stand out: of their cell, or of the cells beside it where that is one number."""
    rows, found = float(counts.clip(0).sum()), []
    for value, persons in frequent.items():
        cell = int(np.searchsorted(edges, value, side="right")) - 1
        is_inside = math.isfinite(value) and 0 <= cell < len(counts) and abs(value) <= MOST_WHOLE
        if not is_inside or (whole and value != int(value)) or persons < SPIKE_SHARE * rows:
            continue
        is_one = whole and edges[cell + 1] - edges[cell] <= 1
        beside = [counts[i] for i in (cell - 1, cell + 1) if 0 <= i < len(counts)] if is_one else [counts[cell]]
        if persons >= (2 if is_one else SPIKE_PART) * max(beside, default=0.0):
            found.append((persons, value))
    return tuple(sorted(value for _, value in sorted(found, reverse=True)[:MOST_SPIKES]))


def _merged(edges: Sequence[float], counts: Counts, stddev: float) -> list[float]:
    """Edges of at most `MOST_BINS` bins, each with about as many rows, and more than noise."""
    enough = max(float(counts.clip(0).sum()) / MOST_BINS, 2 * _EVIDENT * stddev)
    merged, inside = [edges[0]], 0.0
    for edge, count in zip(edges[1:-1], counts, strict=False):
        inside += count
        if inside >= enough:
            merged.append(edge)
            inside = 0.0
    return [*merged, edges[-1]]
