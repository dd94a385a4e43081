"""Mixture bounds: the error that reweighing public rows cannot repair, from true answers and without privacy."""

import numpy as np

from priory.mechanisms.pmw_pub.row_weights import RowWeights
from priory.model.bases import PublicRows
from priory.privacy.mixture import Bounds, best_mixture
from priory.queries.factor import Array
from priory.queries.workload import Workload


def mixture_bounds(rows: PublicRows, workload: Workload, truths: list[Array], tolerance: float) -> Bounds:
    """What `BestMixture` releases, bounded from both sides: for data that is public anyway."""
    weights = RowWeights.of(workload.queries, rows)
    shares = [np.ravel(truth) / max(truth.sum(), 1) for truth in truths]
    return best_mixture(weights.cells, shares, weights.weights, tolerance)
