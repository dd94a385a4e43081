"""Resolution: what each step of `Weighing` gets and how fine it asks, by public facts and the noisy number of rows.

The numbers here are from docs/studies/weighing.md, which says what others did.
"""

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Literal

from priory.privacy.budget import Budget
from priory.queries.domain import Clique, Domain
from priory.queries.factor import Array
from priory.queries.query import Query
from priory.release.dense import LEAST_A_RECORD, MOST_TRIPLE_PLACES
from priory.select.noisy_pairs import queries_on, runs
from priory.select.one_ways import expected_noise

# The part of the budget that one-way marginals get at least and at most; between, it is BARE + STEEP·√ν, where ν is
# the total variation distance that the noise of the whole budget, spent on them alone, makes of one on average.
LEAST_FOR_ONE_WAYS, MOST_FOR_ONE_WAYS = Fraction(1, 10), Fraction(7, 10)
BARE, STEEP = 0.03, 1.4
# What is left goes to coarse pairs, to chosen cliques and to everything once, in these shares.
SHARES = (3, 3, 4)
# The same where everything is all triples, which tell of what a first model misses, too.
TRIPLE_SHARES = (1, 2, 7)
# Where few runs of values are above the noise, what is left goes to coarse pairs, to the choice of a tree and to its
# pairs: how far the strongest pairs are from independence is above the noise of a choice where their cells drown.
FEW_RUNS_SHARES = (5, 1, 4)
# In both cases pairs are cut into fewer runs than are above the noise, by this factor.
COARSER = 0.65
# Where hardly any are, at nine tenths of what is left, a tree tells nothing: everything is the coarse pairs again.
HARDLY_ANY_SHARES = (9, 1)
# Where fewer than these are, one-way marginals get the most they may.
FEWEST_FOR_PAIRS = 3
# Coarse pairs on more runs of values choose cliques no better.
MOST_RUNS = 16
# Triples need so many more runs above their noise as pairs would be noisier for being sums of them.
TRIPLE_RUNS = 4.0
# Triples of more cells together take gigabytes.
MOST_TRIPLE_CELLS = 25_000_000
# Pairs of more cells are measured on runs: most of their cells are empty.
MOST_PAIR_CELLS = 20_000
# Everything is at most so many pairs, the strongest first.
MOST_MARGINALS = 400


def share_of_one_ways(domain: Domain, budget: Budget, total: float) -> Fraction:
    """What part of the budget one-way marginals get."""
    alone = budget.part(Fraction(1, len(domain)))
    noise = sum(expected_noise(Query.marginal(domain, name), alone) for name in domain)
    distance = noise / (2 * len(domain) * max(total, 1.0))
    share = Fraction(min(BARE + STEEP * math.sqrt(distance), 1.0)).limit_denominator(1000)
    share = min(max(share, LEAST_FOR_ONE_WAYS), MOST_FOR_ONE_WAYS)
    coarse, _ = budget.part(1 - share).split(HARDLY_ANY_SHARES)
    hears_pairs = _runs_above_noise(domain, coarse, total, ways=2) >= FEWEST_FOR_PAIRS
    return share if hears_pairs else MOST_FOR_ONE_WAYS


@dataclass(frozen=True, eq=False)
class Resolution:
    """The steps after one-way marginals."""

    coarse: Budget  # for all pairs on runs of values
    runs: int  # into how many runs of values they cut an attribute
    choosing: Budget | None = None  # for the private choice of a tree, where coarse pairs are too noisy to choose by
    chosen: Budget | None = None  # for the cliques that were chosen, if any are
    everything: Budget | None = None  # for all marginals once
    last: Literal["runs", "pairs", "triples"] = "runs"  # what everything is: coarse pairs again, all pairs, all triples

    @classmethod
    def of(
        cls, domain: Domain, left: Budget, total: float, *, fewest_runs: float, fewest_for_a_tree: float
    ) -> "Resolution":
        """What can be heard for what is left after one-way marginals; see `Weighing` for the limits."""
        coarse, chosen, everything = left.split(SHARES)
        count = _runs_above_noise(domain, coarse, total, ways=2)
        if count >= fewest_runs:
            triples = _runs_above_noise(domain, everything, total, ways=3)
            runs_of_values = int(max(2, min(count, MOST_RUNS)))
            if not _are_triples_better(domain, triples, total):
                return cls(coarse, runs_of_values, chosen=chosen, everything=everything, last="pairs")
            coarse, chosen, everything = left.split(TRIPLE_SHARES)
            return cls(coarse, runs_of_values, chosen=chosen, everything=everything, last="triples")
        coarse, everything = left.split(HARDLY_ANY_SHARES)
        count = _runs_above_noise(domain, coarse, total, ways=2)
        runs_of_values = round(max(2, min(COARSER * count, MOST_RUNS)))
        if count < fewest_for_a_tree:
            return cls(coarse, runs_of_values, everything=everything)
        coarse, choosing, chosen = left.split(FEW_RUNS_SHARES)
        return cls(coarse, runs_of_values, choosing=choosing, chosen=chosen)

    def without_choice(self) -> "Resolution":
        """The same where nothing is chosen: what was for it goes to everything."""
        if self.chosen is None or self.everything is None:
            return self
        everything = self.everything.worth(self.chosen.amount + self.everything.amount)
        return replace(self, chosen=None, everything=everything)

    def coarse_pairs(self, domain: Domain, counts: Mapping[str, Array]) -> list[Query]:
        """All pairs on runs of values of about equal counts."""
        parts = {name: runs(values, self.runs) for name, values in counts.items()}
        return queries_on(domain, itertools.combinations(domain, 2), parts)

    def every_marginal(
        self, domain: Domain, counts: Mapping[str, Array], strength: Mapping[Clique, float]
    ) -> list[Query]:
        """What is measured once and for all; `strength` says which pairs depend most, the strongest first."""
        if self.last == "triples":
            return [Query.marginal(domain, clique) for clique in itertools.combinations(domain, 3)]
        pairs = self.coarse_pairs(domain, counts) if self.last == "runs" else _fine_pairs(domain, counts)
        order = {clique: number for number, clique in enumerate(strength)}
        return sorted(pairs, key=lambda query: order.get(query.clique, len(order)))[:MOST_MARGINALS]


def _fine_pairs(domain: Domain, counts: Mapping[str, Array]) -> list[Query]:
    """All pairs by their cells; too large ones on as many runs of values as there can be."""
    parts = {name: runs(values, math.isqrt(MOST_PAIR_CELLS)) for name, values in counts.items()}
    pairs = list(itertools.combinations(domain, 2))
    on_runs = queries_on(domain, pairs, parts)
    return [
        Query.marginal(domain, pair) if domain.size_of(pair) <= MOST_PAIR_CELLS else query
        for pair, query in zip(pairs, on_runs, strict=True)
    ]


def _runs_above_noise(domain: Domain, share: Budget, total: float, *, ways: int) -> float:
    """Into how many runs of values an attribute can be cut so that marginals of so many attributes are above noise.

    Where all such marginals share a budget, a cell of one of B runs an attribute has total/B^ways records.
    """
    marginals = math.comb(len(domain), ways)
    if not marginals:
        return 0.0
    one = Query.marginal(domain, domain.attributes[:1])
    noise = expected_noise(one, share.part(Fraction(1, marginals))) / one.rows
    return float((max(total, 1.0) / max(noise, 0.1)) ** (1 / ways))


def _are_triples_better(domain: Domain, triple_runs: float, total: float) -> bool:
    """Whether triples tell more than pairs: a pair that triples imply is noisier than one that is measured."""
    places = LEAST_A_RECORD * total * math.comb(len(domain), 3)
    cells = sum(map(domain.size_of, itertools.combinations(domain, 3)))
    if cells > MOST_TRIPLE_CELLS or places > MOST_TRIPLE_PLACES:
        return False
    lost = (len(domain) - 2) / 3 / sum(1 / size for size in domain.shape)
    return triple_runs >= TRIPLE_RUNS * lost > 0
