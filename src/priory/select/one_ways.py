"""One-ways: every attribute by itself, wide ones coarsely too, and again where noise still hides them."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from priory.privacy.budget import Budget
from priory.privacy.noise import noise_within
from priory.queries.domain import Domain
from priory.queries.parts import Recode
from priory.queries.query import Query
from priory.queries.sensitivity import sensitivity

# What the noise of a wide attribute's cells asks for grows no more from here on: most of them are empty.
WIDEST = 200


@dataclass(frozen=True, kw_only=True)
class OneWays:
    """How one-way marginals are measured where noise counts.

    The sum over attributes of their noise, n·σ for n values, is least where each is paid in proportion to n^⅔; many
    values of a wide attribute are empty, and n^½ does better. Wide attributes are measured in equal runs of
    neighbouring values, too: for the same budget a run has the noise of one value.
    """

    first: Fraction = Fraction(1, 5)  # what part of the budget they get
    # what part they get where some are left noisier than `quiet`; what is added goes to those
    most: Fraction = Fraction(1, 2)
    quiet: float = 0.05  # the noise of an attribute that is little: its L1 norm over twice the number of rows
    power: float = 0.5  # an attribute of n values is paid in proportion to n^power
    # into how many runs a wide attribute is cut; attributes are wide from four times as many values. None where runs
    # are not measured
    groups: int | None = 10
    coarse: Fraction = Fraction(3, 10)  # what part of a wide attribute's budget its runs get

    def strategy(self, domain: Domain) -> dict[Query, Fraction]:
        """What is asked of each attribute, and in what proportion it is paid."""
        asked: dict[Query, Fraction] = {}
        for name, size in zip(domain, domain.shape, strict=True):
            share = Fraction(round(1000 * min(size, WIDEST) ** self.power))
            if self.groups is not None and size >= 4 * self.groups:
                runs = Recode(np.arange(size) * self.groups // size)
                asked[Query.product(domain, {name: runs})] = self.coarse * share
                share *= 1 - self.coarse
            asked[Query.marginal(domain, name)] = share
        return asked

    def still_noisy(self, asked: Mapping[Query, Fraction], budget: Budget, total: float) -> dict[Query, Fraction]:
        """The queries of `asked` about attributes whose noise is above `quiet`, for that budget and number of rows."""
        parts = zip(asked, budget.split(list(asked.values())), strict=True)
        most = self.quiet * (2 * total)
        noisy = {query.clique for query, part in parts if query.is_marginal and expected_noise(query, part) > most}
        return {query: share for query, share in asked.items() if query.clique in noisy}


def expected_noise(query: Query, share: Budget) -> float:
    """The L1 norm that the noise which `share` buys for `query` has on average."""
    noise = noise_within(share, sensitivity(query, share.relation, share.max_rows))
    # The mean of |noise| over its standard deviation.
    mean = math.sqrt(2 / math.pi) if noise.family == "gaussian" else math.sqrt(1 / 2)
    return mean * noise.stddev * query.rows
