"""Even noise: how noisy the counts of marginals are that share a budget evenly; known before anything is measured."""

from fractions import Fraction

from priory.privacy.budget import Budget
from priory.privacy.noise import noise_within
from priory.queries.domain import Domain
from priory.queries.query import Query
from priory.queries.sensitivity import sensitivity

# One record moves every marginal of two values or more alike.
_ANY = Query.marginal(Domain.of({"any": 2}), "any")


def even_stddev(budget: Budget, marginals: int) -> float:
    """The standard deviation of the noise on the counts of each of so many marginals that share a budget evenly.

    >>> round(even_stddev(Budget.of(rho="0.5"), 1), 3), round(even_stddev(Budget.of(rho="0.5"), 4), 3)
    (1.0, 2.0)
    """
    share = budget.part(Fraction(1, marginals))
    return noise_within(share, sensitivity(_ANY, budget.relation, budget.max_rows)).stddev
