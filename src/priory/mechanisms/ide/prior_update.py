"""Prior update: noisy counts and marginals improve public data level by level, for all, then for each group [IDE]."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import ClassVar, Literal

import numpy as np

from priory.errors import OptionError
from priory.measure import measure
from priory.mechanisms.ide.budget_plan import BudgetPlan, CandidateMarginals, budget_plan
from priory.mechanisms.ide.groups import expected_counts, likely_counts, raked, updated, weighed
from priory.mechanisms.ide.hierarchy import Group, Level, drawn_rows, levels
from priory.mechanisms.steps.public_rows import check_public_rows
from priory.mechanisms.steps.total import counted
from priory.model.bases import PublicRows
from priory.model.model import Model
from priory.privacy.budget import Budget
from priory.privacy.measurement import Measurement
from priory.privacy.session import Session, asking
from priory.queries.domain import Clique, Domain
from priory.queries.factor import Array
from priory.queries.query import Query
from priory.release import Release
from priory.select.information import small_singles, strongest_pairs, unrelated_singles

# A first look at the number of rows, by which the rest is shared out: it need not be exact.
FIRST_LOOK = Fraction(1, 100)
# What is left of a typical distance where all single attributes are known, or a few that depend little on each other.
SINGLES_LEAVE, FEW_LEAVE = 0.4, 0.5


@dataclass(frozen=True, kw_only=True, eq=False)
class PriorUpdate:
    """Algorithm 2 of IDE for any hierarchy: at each level a noisy count and noisy marginals of every group.

    The marginals of all groups together are one marginal of the table, so that a person in several groups is paid for
    as in any other: each of two answers a level gets an equal part of the budget, a fourth at the paper's two levels.

    Attributes:
        public: the rows to start from; what they say of the groups' own attributes is not used.
        by: the attributes that each level adds to those above; the first may add none, for the table as a whole.
        groups: which groups of the last level exist, by their codes; by default all combinations. It is public.
        workloads: the marginals of each level; by default from public data: pairs, and at the last level single ones.
        way: "raking" meets every noisy marginal, as in the paper; "noise-aware" gives counts and marginals what they
            need, leaves out those drowned by noise, weighs prior and marginals by their precision, one prior sample
            size for all groups of a level, and shrinks the counts of groups by as much as they are noise.
        epochs: of raking.
        seed: of the rows that are drawn.
    """

    public: PublicRows
    by: tuple[Clique, ...]
    groups: tuple[Group, ...] | None = None
    workloads: tuple[tuple[Clique, ...], ...] | None = None
    way: Literal["raking", "noise-aware"] = "noise-aware"
    epochs: int = 10
    seed: int = 0
    choice_share: ClassVar[Fraction] = Fraction(0)

    def run(self, session: Session, budget: Budget) -> Release:
        """Spend `budget` and draw, for each group of the last level, as many rows as it is thought to have."""
        hierarchy = self.levels(session.domain)
        session.check(budget)
        if self.way == "raking":
            measured, priors, counts = self._raking(session, budget, hierarchy)
        else:
            measured, priors, counts = self._noise_aware(session, budget, hierarchy)
        release = Release(session.domain, tuple(measured), session.statement("prior-update"))
        rows = drawn_rows(self.public, hierarchy[-1], priors, np.rint(counts), self.seed)
        if not len(rows):
            return release
        return release.with_model(Model.of(PublicRows(rows, release.domain), {}, len(rows)))

    def levels(self, domain: Domain) -> list[Level]:
        """The hierarchy, checked before anything is spent."""
        check_public_rows(self.public, domain)
        if self.way not in ("raking", "noise-aware"):
            raise OptionError("way", f"'raking' or 'noise-aware'; got {self.way!r}")
        names = domain.checked(name for level in self.by for name in level)
        features = tuple(name for name in domain if name not in names)
        if not self.by or not features or (self.workloads is not None and len(self.workloads) != len(self.by)):
            raise OptionError("by", "at least one level, a workload for each, and attributes that make no groups")
        return levels(domain, self.by, self.groups, self.workloads or self._workloads(features))

    def _workloads(self, features: Clique) -> list[tuple[Clique, ...]]:
        pairs = tuple(strongest_pairs(self.public, features)) if len(self.by) > 1 else ()
        return [*[pairs] * (len(self.by) - 1), tuple(unrelated_singles(self.public, features))]

    def _raking(self, session: Session, budget: Budget, hierarchy: Sequence[Level]) -> "_Updated":
        """Counts and marginals of each level for an equal part of the budget each, and every marginal met."""
        measured: list[Measurement] = []
        priors, counts = [self.public.shares], np.zeros(0)
        shares, rake = iter(budget.split([1] * (2 * len(hierarchy)))), partial(raked, epochs=self.epochs)
        for number, level in enumerate(hierarchy, start=1):
            session.report_progress(number, of=len(hierarchy))
            [counted_here] = measure(session, [Query.marginal(session.domain, level.attributes)], next(shares))
            counts = np.rint(np.maximum(level.counts(counted_here), 0.0))
            tables = measure(session, level.queries(session.domain), next(shares))
            priors = updated(self.public, level, priors, counts, tables, update=rake)
            measured += [counted_here, *tables]
        return measured, priors, counts

    def _noise_aware(self, session: Session, budget: Budget, hierarchy: Sequence[Level]) -> "_Updated":
        """Counts of the last level, then marginals of those levels where they are expected to help.

        Levels that are not answered keep what is known from those above.
        """
        domain, look = session.domain, counted(session, budget, FIRST_LOOK)
        plan = budget_plan(look.rest, domain, hierarchy, self._choices(hierarchy), look.total)
        counting: list[Measurement] = []
        with asking():
            asked = Query.marginal(domain, hierarchy[-1].attributes if plan.counts_groups else ())
            counting = measure(session, [asked], plan.counting)
        counts = self._counts(hierarchy[-1], [look.measurement, *counting][-1], plan)
        measured, priors = [look.measurement, *counting], [self.public.shares]
        weigh = partial(weighed, records=self.public.records, seed=self.seed)
        each = zip(hierarchy, plan.workloads, plan.shares, strict=True)
        for number, (level, workload, share) in enumerate(each, start=1):
            session.report_progress(number, len(hierarchy))
            tables: list[Measurement] = []
            with asking():
                if share is not None:
                    tables = measure(session, [level.query(domain, clique) for clique in workload], share)
            priors = updated(self.public, level, priors, level.sums(hierarchy[-1], counts), tables, update=weigh)
            measured += tables
        return measured, priors, counts

    def _choices(self, hierarchy: Sequence[Level]) -> list[list[CandidateMarginals | None]]:
        """Workloads to choose from at each level, in public data; those given are measured in any case."""
        if self.workloads is not None:
            return [[CandidateMarginals(level.workload, 0.0) if level.workload else None] for level in hierarchy]
        features = tuple(name for name in self.public.domain if name not in hierarchy[-1].attributes)
        singles, few = small_singles(self.public, features), unrelated_singles(self.public, features)
        candidates = ((strongest_pairs(self.public, features), 0.0), (singles, SINGLES_LEAVE), (few, FEW_LEAVE))
        every = [CandidateMarginals(tuple(cliques), rest) for cliques, rest in candidates if cliques]
        return [[None, *every] for _ in hierarchy]

    def _counts(self, last: Level, counting: Measurement, plan: BudgetPlan) -> Array:
        expected = expected_counts(self.public, last)
        if plan.counts_groups and counting.query.clique:
            return likely_counts(last, counting, expected)
        return max(float(counting.values), 0.0) * expected


_Updated = tuple[list[Measurement], list[Array], Array]
