"""Errors: what a release's measurements tell of the errors of its answers; the same whatever is asked."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from priory.answer.intervals import Source, noise_left
from priory.privacy.measurement import Measurement
from priory.queries.factor import Array
from priory.queries.query import Query


@dataclass(frozen=True, eq=False)
class Bias:
    """The error of measured answers that redrawing does not show, for answers of each size."""

    edges: Array  # the sizes, in standard deviations, between the groups
    values: Array  # for each group √(error − variance), in standard deviations, rather too large than too small

    def __call__(self, sizes: Array) -> Array:
        """The bias of answers of these sizes."""
        return np.asarray(self.values[np.searchsorted(self.edges, sizes)])


@dataclass(frozen=True, eq=False)
class Misfit:
    """The root mean square misfit of answers of each size, rather too large than too small.

    Attributes:
        edges: the sizes, in records, between the groups.
        shares: for each group, the misfit as a share of the answer.
        least: the misfit of the smallest answers, in records: of next to nothing a share is nothing.
    """

    edges: Array
    shares: Array
    least: float

    def __call__(self, answers: Array) -> Array:
        """The misfit of these answers, in records; NaN where nothing tells."""
        shares = self.shares[np.searchsorted(self.edges, answers)] * np.abs(answers)
        return np.maximum(shares, self.least)


@dataclass(frozen=True, eq=False)
class Errors:
    """What redrawing noise does not show of the errors of answers."""

    temperature: float  # at which the model responds to its answers
    bias: Bias  # what redrawing does not show of measured answers
    misfit: Misfit  # how far the model is from answers that it was not fitted to

    def hidden(self, query: Query, answer: Array, source: Source, measurements: Iterable[Measurement]) -> Array:
        """The standard deviation of what redrawing does not show of an answer."""
        if source != "measured":
            # Of the number of rows alone a model assumes nothing.
            return self.misfit(answer) if query.clique else np.zeros(answer.shape)
        holding = [m for m in measurements if set(query.clique) <= set(m.query.clique)]
        stddev = np.min([noise_left(query, m) for m in holding], axis=0)
        sizes = np.divide(answer, stddev, out=np.zeros(answer.shape), where=stddev > 0)
        return np.asarray(self.bias(sizes) * stddev)


def size_groups(sizes: Array, edges: Iterable[float], fewest: int) -> Array:
    """Those of `edges` between which there are at least so many of `sizes`, to compare answers of like size."""
    used: list[float] = []
    for edge in edges:
        below = np.sum((sizes <= edge) & (sizes > (used[-1] if used else -np.inf)))
        if below >= fewest and np.sum(sizes > edge) >= fewest:
            used.append(edge)
    return np.array(used)
