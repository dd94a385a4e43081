"""Selection: a set of values of one column, as spans on a line of points and whether null is in it."""

import itertools
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from priory.data.kinds import ModelledColumn, Span
from priory.queries.factor import Array

INFINITY = float("inf")


@dataclass(frozen=True)
class Selection:
    """Values of one column.

    Points are the codes of levels, numbers, days or microseconds. Where points are whole, the span (a, b) holds
    a … b−1; where they are not, its ends have no weight and it does not matter which of them it holds.

    Attributes:
        spans: disjoint, ascending, none empty.
        null: whether missing values are selected.
    """

    spans: tuple[Span, ...] = ()
    null: bool = False

    @classmethod
    def of(cls, spans: Iterable[Span], *, null: bool = False) -> "Selection":
        """Build it from spans in any order, which may overlap or be empty.

        >>> Selection.of([(5, 9), (1, 3), (2, 5), (7, 7)]).spans
        ((1, 9),)
        """
        merged: list[Span] = []
        for low, high in sorted(span for span in spans if span[0] < span[1]):
            if merged and low <= merged[-1][1]:
                merged[-1] = (merged[-1][0], max(high, merged[-1][1]))
            else:
                merged.append((low, high))
        return cls(tuple(merged), null)

    def __and__(self, other: "Selection") -> "Selection":
        pairs = itertools.product(self.spans, other.spans)
        return Selection.of(((max(a, c), min(b, d)) for (a, b), (c, d) in pairs), null=self.null and other.null)

    def __or__(self, other: "Selection") -> "Selection":
        return Selection.of((*self.spans, *other.spans), null=self.null or other.null)

    def __invert__(self) -> "Selection":
        """Everything else, null included."""
        edges = [-INFINITY, *(edge for span in self.spans for edge in span), INFINITY]
        return Selection.of(zip(edges[::2], edges[1::2], strict=True), null=not self.null)

    def weights(self, column: ModelledColumn) -> Array:
        """For each code, which share of its values is selected, by the shape of the column's bins."""
        return self._measured(column)[0]

    def sums(self, column: ModelledColumn) -> Array:
        """For each code, the mean over all its values of the value where selected, and of 0 elsewhere.

        The value of a level is the whole number it is; of false and true 0 and 1; null has none.
        """
        return self._measured(column)[1]

    def spreads(self, column: ModelledColumn) -> Array:
        """For each code, how far `sums` can be off because a bin hides its values: their standard deviation."""
        return self._measured(column)[2]

    def _measured(self, column: ModelledColumn) -> tuple[Array, Array, Array]:
        weights, sums, spreads = np.zeros((3, column.size))
        places, edges = slice(column.places), np.asarray(column.edges)
        for low, high in self.spans:
            selected = np.clip(edges, *_inside(edges, low, high))
            first, last = selected[:-1], selected[1:]
            share = column.shares(first, last)
            weights[places] += share
            sums[places] += share * column.middles(first, last)
            spreads[places] += share * column.spreads(first, last)
        if column.null_code is not None:
            weights[column.null_code] = float(self.null)
        return weights, sums, spreads


def _inside(edges: np.ndarray[tuple[int], np.dtype[np.int64]], low: float, high: float) -> Span:
    """The span cut off at the ends of the bins, in their own type."""
    first, last = edges[0].item(), edges[-1].item()
    return max(first, min(last, low)), min(last, max(first, high))
