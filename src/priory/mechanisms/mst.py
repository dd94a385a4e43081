"""MST: one-way marginals, a spanning tree of the pairs that depend most, and their marginals."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from priory.domain import Domain
from priory.measure import measure
from priory.mechanisms.steps.fitted import Fitted, prior, refitted
from priory.select.merging import merged_query, rare_together
from priory.model.bases import PublicRows
from priory.privacy.budget import Budget, Number, exact
from priory.privacy.curator import Curator
from priory.privacy.journal import Transcript
from priory.privacy.scores import L1Error
from priory.queries.parts import Part
from priory.queries.query import Query
from priory.release import Release

# Values whose noisy count is below so many standard deviations of its noise are measured together.
DROWNED = 3.0
# Pairs with more cells than this are no candidates: they would have to be counted, and modelled.
MOST_CELLS = 5_000_000


@dataclass(frozen=True, kw_only=True, eq=False)
class MST:
    """A maximum spanning tree of two-way marginals [McKenna, Miklau & Sheldon 2021].

    Equal parts of the budget go to one-way marginals, to choosing the tree by how far each pair is from the model of
    the one-way marginals, and to the pairs of the tree. Values that noise drowns are merged before pairs are measured.

    Attributes:
        public: rows to start from; without any, every cell alike.
        shares: what one-way marginals, choosing and pairs get.
        most_cells: pairs with more are no candidates; the tree may then be several.
    """

    public: PublicRows | None = None
    shares: tuple[Number, Number, Number] = (1, 1, 1)
    most_cells: int = MOST_CELLS

    @property
    def choice_share(self) -> Fraction:
        """The part of the budget that private choices cost, at most."""
        return exact("shares", self.shares[1]) / sum(exact("shares", share) for share in self.shares)

    def run(self, curator: Curator, budget: Budget) -> Release:
        """Measure attributes, choose a tree, measure it."""
        domain = curator.domain
        start = Fitted.start(curator, prior(domain, self.public))
        curator.check(budget)
        pairs = [pair for pair in itertools.combinations(domain, 2) if domain.size_of(pair) <= self.most_cells]
        attributes = [Query.marginal(domain, name) for name in domain]
        curator.tell(1, 3, "one-way marginals")
        if not pairs:
            return start.and_measured(measure(curator, attributes, budget)).released(curator, "mst")
        one_way, choosing, two_way = budget.split(self.shares)
        found = start.and_measured(measure(curator, attributes, one_way))
        curator.tell(2, 3, "choosing a tree")
        parts = merged_parts(domain, found)
        queries = [merged_query(domain, pair, parts) for pair in pairs]
        tree = spanning_tree(curator, queries, found, choosing)
        curator.tell(3, 3, "its marginals")
        return found.and_measured(measure(curator, tree, two_way)).released(curator, "mst")

    def recovered(self, release: Release, transcript: Transcript, budget: Budget) -> Release:
        """The release of a run that ended early, with the estimate from what was measured until then."""
        return refitted(release, self.public)


def merged_parts(domain: Domain, found: Fitted) -> dict[str, Part]:
    """How the values of each attribute are merged, by its noisy one-way marginal."""
    noisy = {m.query.clique: m for m in found.measurements}
    return {name: rare_together(noisy[name,].values, DROWNED * float(np.max(noisy[name,].stddev))) for name in domain}


def spanning_tree(curator: Curator, queries: Sequence[Query], found: Fitted, budget: Budget) -> list[Query]:
    """Pairs that join all attributes, each chosen privately among those that join what was not joined before."""
    answers = found.model.answers(queries)
    group = {name: name for query in queries for name in query.clique}
    ends = [query.clique for query in queries]
    tree: list[Query] = []
    for share in budget.split([1] * (_joinable(ends) or 1)):
        allowed = np.array([group[a] != group[b] for a, b in ends])
        [pick] = curator.choose(queries, answers, L1Error(), share, allowed=allowed)
        tree.append(queries[pick.query])
        kept, gone = (group[name] for name in ends[pick.query])
        group = {name: kept if held == gone else held for name, held in group.items()}
    return tree


def _joinable(ends: Sequence[tuple[str, ...]]) -> int:
    """How many edges a forest over these pairs has."""
    group = {name: name for pair in ends for name in pair}
    edges = 0
    for a, b in ends:
        kept, gone = group[a], group[b]
        if kept != gone:
            edges += 1
            group = {name: kept if held == gone else held for name, held in group.items()}
    return edges
