"""Misfit: how far a model is from answers that it was not fitted to.

Each measured marginal of two or more attributes is left out in turn, with all that contain it, and predicted from the
rest; what the prediction misses beyond the noise is misfit: of what the model assumes where nothing was measured. It is
taken as a share of the predicted count that falls, or stays, as counts grow. Mechanisms measure what their model
predicts worst, so other answers are rather missed by less.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from priory.estimate.response import without
from priory.factor import Array
from priory.model.model import Model
from priory.privacy.measurement import Measurement

# Of many measured marginals so many are left out, spread evenly over them.
_MOST = 24
_EDGES = (1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0, 3000.0, 10_000.0)
# With fewer cells in a group than this the noise would speak.
_LEAST = 60


@dataclass(frozen=True, eq=False)
class Misfit:
    """The root mean square misfit of answers of each size, as a share of the answer.

    Attributes:
        edges: the sizes, in records, between the groups.
        shares: for each group, the misfit as a share of the answer.
    """

    edges: Array
    shares: Array

    @classmethod
    def of(cls, model: Model, measurements: Sequence[Measurement], temperature: float) -> "Misfit":
        """Leave measured marginals out and see how they are predicted.

        Args:
            model: the estimate.
            measurements: what it was estimated from.
            temperature: at which it responds to its answers.
        """
        sizes, excess = [np.empty(0)], [np.empty(0)]
        for out in _left_out(measurements):
            kept = [m for m in measurements if not set(out.query.clique) <= set(m.query.clique)]
            predicted = without(model, kept, out.query, temperature)
            sizes.append(np.ravel(predicted))
            excess.append(np.ravel((out.values - predicted) ** 2 - out.stddev**2))
        return cls._grouped(np.concatenate(sizes), np.concatenate(excess))

    @classmethod
    def _grouped(cls, sizes: Array, excess: Array) -> "Misfit":
        edges: list[float] = []
        for edge in _EDGES:
            below = np.sum((sizes <= edge) & (sizes > (edges[-1] if edges else -np.inf)))
            if below >= _LEAST and np.sum(sizes > edge) >= _LEAST:
                edges.append(edge)
        group = np.searchsorted(edges, sizes)
        tops = np.bincount(group, excess, len(edges) + 1).astype(np.float64)
        weights = np.bincount(group, sizes**2, len(edges) + 1).astype(np.float64)
        return cls(np.array(edges), np.sqrt(np.maximum(_falling(tops, weights), 0.0)))

    def __call__(self, answers: Array) -> Array:
        """The misfit of these answers, in records."""
        return np.asarray(self.shares[np.searchsorted(self.edges, answers)] * np.abs(answers))


def _left_out(measurements: Sequence[Measurement]) -> list[Measurement]:
    """Marginals whose attributes are all in other measurements, too."""
    found = []
    for out in measurements:
        clique = set(out.query.clique)
        others = [m.query.clique for m in measurements if not clique <= set(m.query.clique)]
        if len(clique) > 1 and out.query.is_marginal and clique <= {name for other in others for name in other}:
            found.append(out)
    return found[:: -(-len(found) // _MOST)] if found else []


def _falling(tops: Array, weights: Array) -> Array:
    """tops/weights, with neighbours pooled until none exceeds the one before [Barlow et al. 1972]."""
    blocks: list[list[float]] = []
    for top, weight in zip(tops, weights, strict=True):
        blocks.append([float(top), float(weight), 1])
        while len(blocks) > 1 and blocks[-1][0] * blocks[-2][1] >= blocks[-2][0] * blocks[-1][1]:
            *_, last = blocks
            blocks.pop()
            blocks[-1] = [a + b for a, b in zip(blocks[-1], last, strict=True)]
    return np.array([top / max(weight, 1e-300) for top, weight, n in blocks for _ in range(int(n))])
