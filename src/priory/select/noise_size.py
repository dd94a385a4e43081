"""Noise size: how far noise will move the answers to a query, known before it is paid for."""

import math

from priory.privacy.budget import Budget
from priory.privacy.noise import noise_within
from priory.queries.query import Query
from priory.queries.sensitivity import sensitivity

# The mean of |noise| over its standard deviation.
GAUSSIAN, LAPLACE = math.sqrt(2 / math.pi), math.sqrt(1 / 2)


def expected_noise(query: Query, share: Budget) -> float:
    """The L1 norm that the noise which `share` buys for `query` has on average."""
    noise = noise_within(share, sensitivity(query, share.relation, share.max_rows))
    return (GAUSSIAN if noise.family == "gaussian" else LAPLACE) * noise.stddev * query.rows
