"""MST: one-way marginals, a spanning tree of the pairs that depend most, and their marginals."""

import itertools
from dataclasses import dataclass
from fractions import Fraction

from priory.measure import measure
from priory.mechanisms.steps.fitted import Fitted
from priory.mechanisms.steps.public_rows import starting_base
from priory.model.bases import PublicRows
from priory.privacy.budget import Budget, Number, exact
from priory.privacy.session import Session, asking
from priory.queries.query import Query
from priory.release import Release
from priory.select.merging import merged_parts, merged_query
from priory.select.spanning_tree import spanning_tree

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
        return exact("shares", self.shares[1]) / sum(exact("shares", share) for share in self.shares)

    def run(self, session: Session, budget: Budget) -> Release:
        """Measure attributes, choose a tree, measure it."""
        domain = session.domain
        fitted = Fitted.start(session, starting_base(domain, self.public))
        session.check(budget)
        pairs = [pair for pair in itertools.combinations(domain, 2) if domain.size_of(pair) <= self.most_cells]
        attributes = [Query.marginal(domain, name) for name in domain]
        session.report_progress(1, 3, "one-way marginals")
        if not pairs:
            return fitted.with_measured(measure(session, attributes, budget)).released(session, "mst")
        one_way, choosing, two_way = budget.split(self.shares)
        fitted = fitted.with_measured(measure(session, attributes, one_way))
        with asking():
            session.report_progress(2, 3, "choosing a tree")
            parts = merged_parts(domain, fitted.measurements)
            queries = [merged_query(domain, pair, parts) for pair in pairs]
            tree = spanning_tree(session, queries, fitted.model, choosing)
            session.report_progress(3, 3, "its marginals")
            fitted = fitted.with_measured(measure(session, tree, two_way))
        return fitted.released(session, "mst")
