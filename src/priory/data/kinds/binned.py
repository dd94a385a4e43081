"""Binned: what columns whose codes are bins have in common."""

import bisect
import itertools
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from priory.data.kinds import shape
from priory.data.kinds.kind import Mask, ModelledColumn, Spans
from priory.data.sql import literal


class Binned(ModelledColumn):
    """A column whose codes are bins between edges.

    Bins are closed on the left and open on the right. Points out of bounds go to the first or the last bin.

    Attributes:
        low: the smallest point, inclusive.
        high: the largest point, inclusive.
        edges: where the bins begin, and where the last one ends.
        other: a point in the bin where bad cells go.
        slopes: how values lie inside each bin, as in `shape`; empty where they are spread evenly.
    """

    low: float
    high: float
    edges: tuple[float, ...]
    other: float | None
    slopes: tuple[float, ...]

    @property
    def other_place(self) -> int | None:
        """The code of the bin that holds `other`, if it is declared."""
        return None if self.other is None else bisect.bisect_right(self.edges, self.other, 1, self.places) - 1

    @property
    def is_binned(self) -> bool:
        return True

    @property
    def is_coarse(self) -> bool:
        return any(after - before != 1 for before, after in itertools.pairwise(self.edges))

    @abstractmethod
    def point_text(self, point: float) -> str:
        """A point as people write it."""

    def interval(self, i: int) -> str:
        """Bin `i` as an interval."""
        is_last = i == self.places - 1
        end = self.point_text(self.high if is_last else self.edges[i + 1])
        return f"[{self.point_text(self.edges[i])}, {end}{']' if is_last else ')'}"

    def places_of(self, points: NDArray[Any]) -> NDArray[np.int64]:
        return np.searchsorted(np.asarray(self.edges[1:-1]), points, side="right")

    def outside(self, points: NDArray[Any]) -> Mask:
        return np.asarray((points < self.low) | (points > self.high))

    def sql_place(self, point: str) -> str:
        return f"CASE WHEN {point} IS NULL THEN NULL ELSE {_sql_bin(self.edges, point)} END"

    def shaped(self, totals: NDArray[np.float64]) -> Self:
        places = self._sloped_places
        if not self.is_coarse or len(places) < 2:
            return self
        found = np.zeros(self.places)
        with np.errstate(over="ignore"):
            widths = self._steps(places, self._ends(places)) * self._scales(places)
        if not np.isfinite(widths).all():
            return self
        found[places] = shape.slopes(widths.astype(np.float64), np.asarray(totals, dtype=np.float64)[places])
        return replace(self, slopes=tuple(found.tolist()))  # type: ignore[type-var]  # every kind is a dataclass

    def shares(self, first: NDArray[Any], last: NDArray[Any]) -> NDArray[np.float64]:
        inside = self._inside(np.arange(self.places), first, last)
        return shape.share(inside.slope, inside.last) - shape.share(inside.slope, inside.first)

    def middles(self, first: NDArray[Any], last: NDArray[Any]) -> NDArray[Any]:
        places = np.arange(self.places)
        inside = self._inside(places, first, last)
        steps = inside.first + inside.width * shape.mean(inside.slope * inside.width)
        steps -= inside.unit * shape.mean(inside.slope * inside.unit)
        return np.asarray(self._starts(places) + steps * inside.steps * self._scales(places))

    def spreads(self, first: NDArray[Any], last: NDArray[Any]) -> NDArray[np.float64]:
        places = np.arange(self.places)
        inside = self._inside(places, first, last)
        variance = inside.width**2 * shape.variance(inside.slope * inside.width)
        variance -= inside.unit**2 * shape.variance(inside.slope * inside.unit)
        return np.asarray(np.sqrt(np.maximum(variance, 0.0)) * inside.steps * self._scales(places))

    def located(self, places: NDArray[np.intp], spans: Spans, below: NDArray[np.float64]) -> NDArray[Any]:
        inside = self._inside(places, *spans)
        part = inside.first + inside.width * shape.place_of(inside.slope * inside.width, below)
        steps = part * inside.steps
        # Rounding must not lead out of the span.
        first, last = np.rint(inside.first * inside.steps), np.rint(inside.last * inside.steps) - 1
        steps = np.where(inside.unit > 0, np.clip(np.floor(steps), first, np.maximum(first, last)), steps)
        return self._points(places, steps, *spans)

    def _inside(self, places: NDArray[np.intp], first: NDArray[Any], last: NDArray[Any]) -> "_Inside":
        steps = self._steps(places, self._ends(places)).astype(np.float64)
        steps[steps == 0] = 1.0  # a spike too narrow for the units of a column that is too wide for doubles
        slopes = np.asarray(self.slopes or np.zeros(self.places))[places]
        begin, end = (np.clip(self._steps(places, points), 0, steps) / steps for points in (first, last))
        return _Inside(slopes, begin, end, self._units(places) / steps, steps)

    @property
    def _sloped_places(self) -> NDArray[np.intp]:
        """The places that judge the shape of each other, in order."""
        return np.arange(self.places)

    def _ends(self, places: NDArray[np.intp]) -> NDArray[Any]:
        return np.asarray(self.edges)[places + 1]

    def _starts(self, places: NDArray[np.intp]) -> NDArray[Any]:
        """The first point of each place."""
        return np.asarray(self.edges)[places]

    def _steps(self, places: NDArray[np.intp], points: NDArray[Any]) -> NDArray[Any]:
        """How many steps of the column's grid each point is after the start of its place."""
        return np.asarray(points - np.asarray(self.edges)[places])

    def _scales(self, places: NDArray[np.intp]) -> NDArray[Any]:
        """How long a step is."""
        return np.ones(len(places), dtype=np.int64)

    def _units(self, places: NDArray[np.intp]) -> NDArray[np.float64]:
        """1 where values lie on the grid, 0 where steps only measure length."""
        return np.ones(len(places))

    def _points(
        self, places: NDArray[np.intp], steps: NDArray[np.float64], low: NDArray[Any], high: NDArray[Any]
    ) -> NDArray[Any]:
        """The points so many steps after the start of each place, kept in [low, high)."""
        return self._starts(places) + steps.astype(np.int64)


@dataclass(frozen=True, eq=False)
class _Inside:
    """Spans inside bins, in parts of their width."""

    slope: NDArray[np.float64]
    first: NDArray[np.float64]
    last: NDArray[np.float64]
    unit: NDArray[np.float64]  # a step of the column's grid; 0 where there is none
    steps: NDArray[np.float64]  # how many steps the bin has

    @property
    def width(self) -> NDArray[np.float64]:
        """How much of the bin the span takes."""
        return self.last - self.first


def whole(points: NDArray[Any]) -> NDArray[np.int64]:
    """Points rounded down to whole ones."""
    return points.astype(np.int64, copy=False) if points.dtype.kind in "iu" else np.floor(points).astype(np.int64)


def _sql_bin(edges: Sequence[float], point: str) -> str:
    """How many inner edges are not above `point`; the first or the last bin beyond the ends."""
    if all(isinstance(edge, int) for edge in edges) and edges[-1] - edges[0] == len(edges) - 1:
        # One bin for each whole number. Clamped before it becomes an integer, which an infinity could not.
        inside = f"greatest(least({point}, {edges[-1] - 1}), {edges[0]})"
        return f"CAST(floor({inside}) AS BIGINT) - ({edges[0]})"
    return _bisect(edges, 0, len(edges) - 2, point)


def _bisect(edges: Sequence[float], first: int, last: int, point: str) -> str:
    """A binary search as nested cases, so that a cell takes as many comparisons as the logarithm of the bins."""
    if first == last:
        return str(first)
    middle = (first + last + 1) // 2
    edge = f"CAST({literal(repr(edges[middle]))} AS {'BIGINT' if isinstance(edges[middle], int) else 'DOUBLE'})"
    below, above = _bisect(edges, first, middle - 1, point), _bisect(edges, middle, last, point)
    return f"CASE WHEN {point} < {edge} THEN {below} ELSE {above} END"
