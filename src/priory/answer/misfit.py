"""Misfit: how far a model is from answers that it was not fitted to.

Each measured marginal of two or more attributes is left out in turn, with all that contain it, and predicted from its
neighbours (`answer/neighbours.py`); what the prediction misses beyond the noise is misfit: of what the model assumes
where nothing was measured. Mechanisms measure what their model predicts worst, so other answers are missed by no more
than the marginal that is missed least.
"""

from collections.abc import Sequence

import numpy as np

from priory.answer.neighbours import Neighbours
from priory.privacy.measurement import Measurement

# Of many measured marginals so many are left out, spread evenly over them.
_MOST = 24


def least_misfit(neighbours: Neighbours, measurements: Sequence[Measurement]) -> float:
    """The least of all left-out marginals' squared misfits, for each record; 0 where it is below the noise."""
    misfits = []
    for out in _left_out(measurements):
        predicted = out.query(neighbours.predicted(out.query.clique))
        excess = float(np.sum((out.values - predicted) ** 2 - out.stddev**2))
        misfits.append(excess / max(float(np.sum(predicted)), 1.0))
    return max(0.0, min(misfits, default=0.0))


def _left_out(measurements: Sequence[Measurement]) -> list[Measurement]:
    """Marginals whose attributes are all in other measurements, too."""
    chosen = []
    for out in measurements:
        clique = set(out.query.clique)
        others = [m.query.clique for m in measurements if not clique <= set(m.query.clique)]
        if len(clique) > 1 and clique <= {name for other in others for name in other}:
            chosen.append(out)
    return chosen[:: -(-len(chosen) // _MOST)] if chosen else []
