"""Binned: what columns whose codes are bins have in common."""

import bisect
import itertools
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from priory.data.kinds.kind import Mask, ModelledColumn
from priory.data.sql import literal


class Binned(ModelledColumn):
    """A column whose codes are bins between edges.

    Bins are closed on the left and open on the right. Points out of bounds go to the first or the last bin.

    Attributes:
        low: the smallest point, inclusive.
        high: the largest point, inclusive.
        edges: where the bins begin, and where the last one ends.
        other: a point in the bin where bad cells go.
    """

    low: float
    high: float
    edges: tuple[float, ...]
    other: float | None

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

    def drawn(self, low: NDArray[Any], high: NDArray[Any], rng: np.random.Generator) -> NDArray[Any]:
        return rng.integers(low, high, dtype=np.int64)

    def middles(self, first: NDArray[Any], last: NDArray[Any]) -> NDArray[Any]:
        # The last of whole points is one before the end.
        return np.asarray(first + (last - self.is_whole - first) / 2)


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
