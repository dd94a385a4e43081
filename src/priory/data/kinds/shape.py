"""Shape: how values lie inside a bin, judged by what its neighbours hold.

Inside a bin the density is exponential, f(t) ∝ e^{ut} for t from 0 to 1, with one number u, the bin's slope: the
logarithm of how many times denser values lie at its end than at its start. Slope 0 is an even spread. Where values lie
on a grid, the grid points have the chances of the cells that begin at them; the position inside such a cell is
independent of which cell it is, so that means and variances of points are differences of those of cells.
"""

import math

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

# Beyond this all values of a bin are at one of its ends, as far as floats can say.
STEEPEST = 50.0
# Added to the rows of each bin before logarithms are taken: half a row, so that empty bins have one.
_PSEUDO_ROWS = 0.5
_FLAT = 1e-4


def slopes(widths: Floats, totals: Floats) -> Floats:
    """The slope of each of some adjoining bins, from their widths and how many rows each of them holds.

    The density at an edge is interpolated, in logarithms, between those of the two bins that meet there. The first and
    the last bin, which may be wide and nearly empty, continue the density of their only neighbour.
    """
    if len(widths) < 2:
        return np.zeros(len(widths))
    heights = np.log(np.maximum(totals, 0.0) + _PSEUDO_ROWS) - np.log(widths)
    at_edges = (widths[1:] * heights[:-1] + widths[:-1] * heights[1:]) / (widths[1:] + widths[:-1])
    inner = np.clip(np.diff(at_edges), -STEEPEST, STEEPEST)
    if len(widths) == 2:
        starts, ends = at_edges, at_edges
    else:
        # What a neighbour's own shape says of the edge that it shares with the bin at the end.
        starts = heights[1:2] + _log_end(-inner[:1])
        ends = heights[-2:-1] + _log_end(inner[-1:])
    first, last = -_slope_to(float(starts[0] - heights[0])), _slope_to(float(ends[0] - heights[-1]))
    return np.concatenate([[first], inner, [last]])


def share(slope: Floats, part: Floats) -> Floats:
    """Which share of a bin's rows lies before a part of its width."""
    flat = np.abs(slope) < _FLAT
    steep = np.where(flat, 1.0, slope)
    # The second term of the series: exact to 1e-9 where it is used.
    return np.where(flat, part * (1 + slope * (part - 1) / 2), np.expm1(steep * part) / np.expm1(steep))


def place_of(slope: Floats, below: Floats) -> Floats:
    """The part of a bin's width that a share of its rows lies before: the inverse of `share`."""
    flat = np.abs(slope) < _FLAT
    # A falling bin is a rising one from the other end, where no digits are lost.
    steep, rows = np.where(flat, 1.0, np.abs(slope)), np.where(slope < 0, 1 - below, below)
    part = np.log1p(rows * np.expm1(steep)) / steep
    return np.where(flat, below * (1 + slope * (1 - below) / 2), np.where(slope < 0, 1 - part, part))


def mean(slope: Floats) -> Floats:
    """The mean of values from 0 to 1."""
    flat = np.abs(slope) < _FLAT
    steep = np.where(flat, 1.0, slope)
    return np.where(flat, 0.5 + slope / 12, -1 / np.expm1(-steep) - 1 / steep)


def variance(slope: Floats) -> Floats:
    """The variance of values from 0 to 1."""
    flat = np.abs(slope) < 0.01
    steep = np.where(flat, 1.0, slope)
    return np.where(flat, 1 / 12 - slope**2 / 240, 1 / steep**2 - 1 / (4 * np.sinh(steep / 2) ** 2))


def _log_end(slope: Floats) -> Floats:
    """The logarithm of the density at a bin's end, relative to the bin's mean density."""
    flat = np.abs(slope) < _FLAT
    steep = np.where(flat, 1.0, slope)
    return np.where(flat, slope / 2, np.log(steep / -np.expm1(-steep)))


def _slope_to(start: float) -> float:
    """The slope of a bin whose density at the start, relative to its mean, has this logarithm."""
    low, high = -STEEPEST, STEEPEST
    for _ in range(60):
        middle = (low + high) / 2
        # The density at the start is that at the end of the mirrored bin; it falls as the slope rises.
        found = float(_log_end(np.array(-middle)))
        low, high = (middle, high) if found > start else (low, middle)
    return math.fsum((low, high)) / 2
