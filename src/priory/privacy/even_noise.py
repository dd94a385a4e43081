"""Even noise: how noisy the counts of marginals are that share a budget evenly; known before anything is measured."""

import math

from priory.privacy.budget import Budget
from priory.queries.sensitivity import Relation


def even_stddev(budget: Budget, marginals: int) -> float:
    """The standard deviation of the noise on the counts of each of so many marginals that share a budget evenly.

    >>> round(even_stddev(Budget.of(rho="0.5"), 1), 3), round(even_stddev(Budget.of(rho="0.5"), 4), 3)
    (1.0, 2.0)
    """
    share = float(budget.amount) / marginals
    # How many cells of a marginal one record changes by 1: under replace-one it leaves one and enters another.
    moved = 1 if budget.relation is Relation.ADD_REMOVE else 2
    if budget.is_pure:
        return math.sqrt(2) * budget.max_rows * moved / share
    return budget.max_rows * math.sqrt(moved / (2 * share))
