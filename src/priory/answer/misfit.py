"""Misfit: how far a model is from answers that it was not fitted to.

Each measured marginal of two or more attributes is left out in turn, with all that contain it, and predicted from its
neighbours (`answer/neighbours.py`); what the prediction misses beyond the noise is misfit: of what the model assumes
where nothing was measured. It is taken as a share of the predicted count that falls, or stays, as counts grow.
Mechanisms measure what their model predicts worst, so other answers are rather missed by less. Where no marginal can be
left out nothing is known of it.
"""

from collections.abc import Sequence

import numpy as np

from priory.answer.errors import Misfit, size_groups
from priory.answer.neighbours import Neighbours
from priory.privacy.measurement import Measurement
from priory.queries.factor import Array

# Of many measured marginals so many are left out, spread evenly over them.
_MOST = 24
_EDGES = (1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0, 3000.0, 10_000.0)
# With fewer cells in a group than this the noise would speak.
_FEWEST = 60


def misfit_of(neighbours: Neighbours, measurements: Sequence[Measurement]) -> Misfit:
    """Leave measured marginals out and see how they are predicted."""
    sizes, excess = [], []
    for out in _left_out(measurements):
        predicted = out.query(neighbours.predicted(out.query.clique))
        sizes.append(np.ravel(predicted))
        excess.append(np.ravel((out.values - predicted) ** 2 - out.stddev**2))
    if not sizes:
        return Misfit(np.empty(0), np.array([np.nan]), np.nan)
    return _grouped(np.concatenate(sizes), np.concatenate(excess))


def _grouped(sizes: Array, excess: Array) -> Misfit:
    edges = size_groups(sizes, _EDGES, _FEWEST)
    group = np.searchsorted(edges, sizes)
    tops, spreads, weights = (
        np.bincount(group, each, len(edges) + 1).astype(np.float64) for each in (excess, excess**2, sizes**2)
    )
    shares = _falling(tops, spreads, weights)
    if not len(edges):
        return Misfit(edges, shares, 0.0)
    # The smallest may be predicted as nothing at all, and any share of that is none.
    shares[0] = shares[1]
    least = _upper(tops[:1], spreads[:1], np.array([np.sum(group == 0)]))
    return Misfit(edges, shares, float(least[0]))


def _left_out(measurements: Sequence[Measurement]) -> list[Measurement]:
    """Marginals whose attributes are all in other measurements, too."""
    chosen = []
    for out in measurements:
        clique = set(out.query.clique)
        others = [m.query.clique for m in measurements if not clique <= set(m.query.clique)]
        if len(clique) > 1 and clique <= {name for other in others for name in other}:
            chosen.append(out)
    return chosen[:: -(-len(chosen) // _MOST)] if chosen else []


def _upper(tops: Array, spreads: Array, weights: Array) -> Array:
    """The root of tops/weights with one standard error of the sum added, as noise may hide that much."""
    return np.sqrt((np.maximum(tops, 0.0) + np.sqrt(spreads)) / np.maximum(weights, 1e-12))


def _falling(tops: Array, spreads: Array, weights: Array) -> Array:
    """The misfit of each group, with neighbours pooled until none exceeds the one before [Barlow et al. 1972]."""
    pools: list[tuple[Array, int]] = []
    for group in np.stack([tops, spreads, weights], axis=1):
        pool, size = group, 1
        while pools and _mean(pool) > _mean(pools[-1][0]):
            before, more = pools.pop()
            pool, size = pool + before, size + more
        pools.append((pool, size))
    return np.concatenate([np.repeat(_upper(*pool), size) for pool, size in pools])


def _mean(pool: Array) -> float:
    return float(pool[0] / max(pool[2], 1e-12))
