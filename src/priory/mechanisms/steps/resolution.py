"""Resolution: what each step of `Weighing` gets and how fine it asks, by public facts and the noisy number of rows.

The numbers here are from docs/studies/weighing.md, which says what others did.
"""

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Self

from priory.privacy.budget import Budget
from priory.queries.domain import Clique, Domain
from priory.queries.factor import Array
from priory.queries.query import Query
from priory.release.dense import LEAST_A_RECORD, MOST_TRIPLE_PLACES
from priory.select.noisy_pairs import queries_on, runs, triangles
from priory.select.one_ways import expected_noise

# The part of the budget that one-way marginals get at least and at most; between, it is BARE + STEEP·√ν, where ν is
# the total variation distance that the noise of the whole budget, spent on them alone, makes of one on average.
LEAST_FOR_ONE_WAYS, MOST_FOR_ONE_WAYS = Fraction(1, 10), Fraction(4, 5)
BARE, STEEP = 0.03, 1.4
# What is left goes to coarse pairs, to chosen cliques and to everything once, in these shares.
SHARES = (3, 3, 4)
# The same where everything is all triples, which tell of what a first model misses, too.
TRIPLE_SHARES = (1, 2, 7)
# Cliques are chosen by coarse pairs where so many runs of values are above their noise.
FEWEST_RUNS = 8
# Where fewer are, what is left goes to coarse pairs, to the choice of a tree and to its pairs: how far the strongest
# pairs are from independence is above the noise of a choice where their cells drown.
TREE_SHARES = (6, 1, 3)
# Where pairs on fewer runs than this, for all that is left, are above the noise, one-way marginals get the most they
# may; the rest goes to the choice of some pairs and to these.
FEWEST_FOR_A_TREE = 5
FOREST_SHARES = (1, 9)
# Where on fewer than this, all of it goes to single attributes.
FEWEST_FOR_A_FOREST = 2
# Beside a tree, pairs are cut into fewer runs than are above the noise, by this factor.
COARSER = 0.65
# Coarse pairs on more runs of values choose cliques no better.
MOST_RUNS = 16
# Beside pairs, everything has so many triples an attribute, those whose pairs depend most.
TRIPLES = 3
# Triples need so many more runs above their noise as pairs would be noisier for being sums of them.
TRIPLE_RUNS = 4.0
# Triples of more cells together take gigabytes.
MOST_TRIPLE_CELLS = 25_000_000
# Pairs of more cells are measured on runs: most of their cells are empty.
MOST_PAIR_CELLS = 20_000
# Everything is at most so many marginals, the strongest pairs first.
MOST_MARGINALS = 400


def share_of_one_ways(domain: Domain, budget: Budget, total: float) -> Fraction:
    """What part of the budget one-way marginals get."""
    alone = budget.part(Fraction(1, len(domain)))
    noise = sum(expected_noise(Query.marginal(domain, name), alone) for name in domain)
    distance = noise / (2 * len(domain) * max(total, 1.0))
    share = Fraction(min(BARE + STEEP * math.sqrt(distance), 1.0)).limit_denominator(1000)
    share = min(max(share, LEAST_FOR_ONE_WAYS), MOST_FOR_ONE_WAYS)
    runs_of_values = _runs_above_noise(domain, budget.part(1 - share), total, ways=2)
    return share if runs_of_values >= FEWEST_FOR_A_TREE else MOST_FOR_ONE_WAYS


@dataclass(frozen=True, eq=False)
class Coarse:
    """All pairs on runs of values."""

    coarse: Budget  # for these
    runs: int  # into how many runs of values they cut an attribute

    def coarse_pairs(self, domain: Domain, counts: Mapping[str, Array]) -> list[Query]:
        """All pairs on runs of values of about equal counts."""
        parts = {name: runs(values, self.runs) for name, values in counts.items()}
        return queries_on(domain, itertools.combinations(domain, 2), parts)

    def within(self, part: Fraction) -> Self:
        """The same for a part of the budget."""
        parts: dict[str, Any] = {k: each.part(part) for k, each in vars(self).items() if isinstance(each, Budget)}
        return replace(self, **parts)


@dataclass(frozen=True, eq=False)
class Forest:
    """Some pairs that are chosen privately, and nothing else."""

    choosing: Budget  # for the choice
    chosen: Budget  # for what was chosen


@dataclass(frozen=True, eq=False)
class Tree(Coarse):
    """A tree of pairs that is chosen privately, and coarse pairs."""

    choosing: Budget
    chosen: Budget


@dataclass(frozen=True, eq=False)
class Everything(Coarse):
    """Coarse pairs, cliques that are chosen by these, and all marginals once."""

    chosen: Budget | None  # for the cliques that were chosen, if any are
    everything: Budget  # for all marginals once
    has_triples: bool = False  # whether these are all triples; else all pairs and some triples

    def without_choice(self) -> "Everything":
        """The same where nothing is chosen: what was for it goes to everything."""
        if self.chosen is None:
            return self
        everything = self.everything.worth(self.chosen.amount + self.everything.amount)
        return replace(self, chosen=None, everything=everything)

    def every_marginal(
        self, domain: Domain, counts: Mapping[str, Array], strength: Mapping[Clique, float]
    ) -> list[Query]:
        """What is measured once and for all; `strength` says which pairs depend most, the strongest first."""
        if self.has_triples:
            return [Query.marginal(domain, clique) for clique in itertools.combinations(domain, 3)]
        order = {clique: number for number, clique in enumerate(strength)}
        pairs = sorted(_fine_pairs(domain, counts), key=lambda query: order.get(query.clique, len(order)))
        triples = triangles(domain, strength)[: TRIPLES * len(domain)]
        # Where triples would take the place of pairs they tell less than these.
        if len(pairs) + len(triples) > MOST_MARGINALS:
            return pairs[:MOST_MARGINALS]
        return [*pairs, *(Query.marginal(domain, clique) for clique in triples)]


# What is asked after one-way marginals; None where these get all.
Resolution = Forest | Tree | Everything | None


def resolution_for(
    domain: Domain,
    left: Budget,
    total: float,
    *,
    fewest_runs: float = FEWEST_RUNS,
    fewest_for_a_tree: float = FEWEST_FOR_A_TREE,
    fewest_for_a_forest: float = FEWEST_FOR_A_FOREST,
) -> Resolution:
    """What can be heard for what is left after one-way marginals; see `Weighing` for the limits."""
    coarse, chosen, everything = left.split(SHARES)
    count = _runs_above_noise(domain, coarse, total, ways=2)
    if count >= fewest_runs:
        runs_of_values = int(max(2, min(count, MOST_RUNS)))
        triples = _runs_above_noise(domain, everything, total, ways=3)
        if not _are_triples_better(domain, triples, total):
            return Everything(coarse, runs_of_values, chosen, everything)
        coarse, chosen, everything = left.split(TRIPLE_SHARES)
        return Everything(coarse, runs_of_values, chosen, everything, has_triples=True)
    count = _runs_above_noise(domain, left, total, ways=2)
    if count >= fewest_for_a_tree:
        coarse, choosing, chosen = left.split(TREE_SHARES)
        return Tree(coarse, _coarser(domain, coarse, total), choosing, chosen)
    return Forest(*left.split(FOREST_SHARES)) if count >= fewest_for_a_forest else None


def _coarser(domain: Domain, share: Budget, total: float) -> int:
    """Into how many runs of values coarse pairs are cut where few are above the noise."""
    return round(max(2, min(COARSER * _runs_above_noise(domain, share, total, ways=2), MOST_RUNS)))


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
