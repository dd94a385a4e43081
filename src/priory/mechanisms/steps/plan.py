"""Plan: what `Weighing` asks after one-way marginals and how finely, by public facts and the noisy number of rows."""

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from priory.estimate.rows.work import Work
from priory.privacy.budget import Budget, Number
from priory.queries.domain import Clique, Domain
from priory.queries.factor import Array
from priory.queries.parts import Part
from priory.queries.query import Query
from priory.select.noisy_pairs import queries_on, runs, triangles
from priory.select.one_ways import OneWays, expected_noise

# Pairs of more cells are measured on runs, most of their cells being empty; triples of more together take gigabytes.
MOST_PAIR_CELLS, MOST_TRIPLE_CELLS = 20_000, 25_000_000
# How single attributes are measured first, and how where they get everything: each alike, as most are lost in noise.
ONE_WAYS, ONE_WAYS_ONLY = OneWays(), OneWays(power=0.0, coarse=Fraction(1, 10))


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The numbers that decide what is asked; docs/studies/weighing.md says which others were tried.

    Attributes:
        one_ways: the part of the budget for one-way marginals.
        shares: of the rest, for coarse pairs, chosen cliques and everything once.
        fewest_runs: where coarse pairs on fewer runs of values drown in their noise, one-way marginals get everything.
        runs: how many runs an attribute is cut into, for each run above the noise.
        most_runs: and at most.
        triple_runs: how many more runs of triples than of pairs are above the noise before all triples are measured.
        triples: beside pairs, how many triples are measured for each attribute.
        tree_noise: the distance of a pair from what a noisy tree implies has so many times its own noise.
        telling: coarse pairs go into the first model from so many standard deviations of noise beyond it.
    """

    one_ways: Fraction = Fraction(1, 5)
    shares: tuple[Number, Number, Number] = (3, 3, 4)
    fewest_runs: float = 4.0
    runs: float = 0.7
    most_runs: int = 16
    triple_runs: float = 4.0
    triples: int = 3
    tree_noise: float = 1.8
    telling: float = 2.0


@dataclass(frozen=True, eq=False)
class Plan:
    """Coarse pairs, the cliques that these choose, and everything once."""

    domain: Domain
    coarse: Budget  # for coarse pairs
    chosen: Budget  # for the cliques chosen by them
    everything: Budget  # for everything once
    runs: int  # into how many runs of values coarse pairs cut an attribute
    has_triples: bool  # whether everything is all triples; else all pairs and some triples
    triples: int  # how many of these for each attribute
    marginals: int  # everything is at most so many marginals

    @classmethod
    def of(
        cls, domain: Domain, left: Budget, total: float, settings: Settings, work: Work, *, has_public: bool = False
    ) -> "Plan | None":
        """What is asked for what is left; None where one-way marginals get it. Public rows tell of pairs themselves."""
        coarse, chosen, everything = left.split(settings.shares)
        if len(domain) < 2 or (
            runs_above_noise(domain, coarse, total, ways=2) < settings.fewest_runs and not has_public
        ):
            return None
        has_triples = _has_triples(domain, everything, total, settings, work)
        above_noise = runs_above_noise(domain, coarse, total, ways=2)
        wanted = round(max(2, min(settings.runs * above_noise, settings.most_runs)))
        return cls(domain, coarse, chosen, everything, wanted, has_triples, settings.triples, work.marginals)

    @property
    def everything_and_chosen(self) -> Budget:
        """For everything once where no clique was chosen."""
        return self.everything.worth(self.everything.amount + self.chosen.amount)

    def coarse_pairs(self, counts: Mapping[str, Array]) -> list[Query]:
        """All pairs on runs of values of about equal noisy counts."""
        return queries_on(self.domain, itertools.combinations(self.domain, 2), _parts(counts, self.runs))

    def every_marginal(self, counts: Mapping[str, Array], strength: Mapping[Clique, float]) -> list[Query]:
        """What is measured once; `strength` says how much pairs depend, the strongest first."""
        if self.has_triples:
            return [Query.marginal(self.domain, clique) for clique in itertools.combinations(self.domain, 3)]
        order = {pair: number for number, pair in enumerate(strength)}
        pairs = sorted(itertools.combinations(self.domain, 2), key=lambda pair: order.get(pair, len(order)))
        triples = triangles(self.domain, strength)[: self.triples * len(self.domain)]
        on_runs = queries_on(self.domain, pairs, _parts(counts, math.isqrt(MOST_PAIR_CELLS)))
        queries = [
            Query.marginal(self.domain, pair) if self.domain.size_of(pair) <= MOST_PAIR_CELLS else query
            for pair, query in zip(pairs, on_runs, strict=True)
        ]
        # Where triples would take the place of pairs they tell less than these.
        if len(pairs) + len(triples) > self.marginals:
            return queries[: self.marginals]
        return [*queries, *(Query.marginal(self.domain, triple) for triple in triples)]


def _parts(counts: Mapping[str, Array], most: int) -> dict[str, Part]:
    return {name: runs(values, most) for name, values in counts.items()}


def runs_above_noise(domain: Domain, share: Budget, total: float, *, ways: int) -> float:
    """Into how many runs an attribute can be cut so that cells of marginals of so many attributes are above the noise.

    Where all such marginals share a budget, a cell of one of B runs an attribute has total/B^ways records.
    """
    marginals = math.comb(len(domain), ways)
    if not marginals:
        return 0.0
    one = Query.marginal(domain, domain.attributes[:1])
    noise = expected_noise(one, share.part(Fraction(1, marginals))) / one.rows
    return float((max(total, 1.0) / max(noise, 0.1)) ** (1 / ways))


def _has_triples(domain: Domain, share: Budget, total: float, settings: Settings, work: Work) -> bool:
    """Whether all triples tell more than pairs: a pair that triples imply is noisier than one that is measured."""
    triples = list(itertools.combinations(domain, 3))
    if (
        not triples
        or work.rows_for(total, len(triples)) < total
        or sum(map(domain.size_of, triples)) > MOST_TRIPLE_CELLS
    ):
        return False
    noisier = (len(domain) - 2) / 3 / sum(1 / size for size in domain.shape)
    return runs_above_noise(domain, share, total, ways=3) >= settings.triple_runs * noisier
