"""Prior update: noisy counts and marginals improve public data level by level, for all, then for each group [IDE]."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Literal

import numpy as np

from priory.domain import Clique, Domain
from priory.errors import DomainError, OptionError
from priory.factor import Array
from priory.measure import measure
from priory.mechanisms.ide.budget_plan import Allotment, Offer, allotted
from priory.mechanisms.ide.group_counts import expected_counts, likely_counts
from priory.mechanisms.ide.group_weights import raked, updated, weighed
from priory.mechanisms.ide.hierarchy import Group, Level, drawn_rows, levels
from priory.select.information import small_singles, strongest_pairs, unrelated_singles
from priory.mechanisms.steps.total import Counted, counted
from priory.model.bases import PublicRows
from priory.model.model import Model
from priory.privacy.budget import Budget
from priory.privacy.curator import Curator
from priory.privacy.journal import Answered, Transcript
from priory.privacy.measurement import Measurement
from priory.queries.query import Query
from priory.release import Release

# A first look at the number of rows, by which the rest is shared out: it need not be exact.
FIRST_LOOK = Fraction(1, 100)
# What is left of a typical distance where all single attributes are known, or a few that tell little about each other.
SINGLES_LEAVE, FEW_LEAVE = 0.4, 0.5


@dataclass(frozen=True, kw_only=True, eq=False)
class PriorUpdate:
    """Algorithm 2 of IDE for any hierarchy: at each level a noisy count and noisy marginals of every group.

    The marginals of all groups together are one marginal of the table, so that a person in several groups is paid for
    as in any other: each of two answers a level gets an equal part of the budget, a fourth at the paper's two levels.

    Attributes:
        public: the rows to start from; what they say of the groups' own attributes is not used.
        by: the attributes that each level adds to those above; the first may add none, for the table as a whole.
        groups: which groups of the last level exist, by their codes; all combinations unless told. It is public.
        workloads: the marginals of each level; from public data unless told: pairs, and at the last level single ones.
        way: "raking" meets every noisy marginal, as in the paper; "noise-aware" gives counts and marginals what they
            need, leaves out those that could tell nothing, weighs prior and marginals by what each tells, one worth of
            the prior for all groups of a level, and shrinks the counts of groups by as much as they are noise.
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

    @property
    def choice_share(self) -> Fraction:
        """The part of the budget that private choices cost, at most."""
        return Fraction(0)

    def run(self, curator: Curator, budget: Budget) -> Release:
        """Spend `budget` and draw, for each group of the last level, as many rows as it is thought to have."""
        found = self.levels(curator.domain)
        curator.check(budget)
        if self.way == "raking":
            measured, priors, counts = self._raking(curator, budget, found)
        else:
            look = counted(curator, budget, FIRST_LOOK)
            measured, priors, counts = self._noise_aware(look, found, partial(measure, curator), curator.tell)
        release = Release(curator.domain, tuple(measured), curator.statement("prior-update"))
        return self._drawn(release, found[-1], priors, counts)

    def recovered(self, release: Release, transcript: Transcript, budget: Budget) -> Release:
        """The release of a run that ended early: levels that were not answered keep what is known from those above.

        Raises:
            OptionError: the run was raking, which needs the answers of every level.
        """
        if self.way == "raking":
            raise OptionError("way", "raking needs the answers of every level")
        found = self.levels(release.domain)
        first, *_ = release.measurements
        is_public = transcript.public_total is not None
        look = Counted(first, budget.worth(budget.amount) if is_public else budget.part(1 - FIRST_LOOK))
        batches = iter(transcript.answers if is_public else transcript.answers[1:])

        def ask(queries: Sequence[Query], share: Budget) -> list[Measurement]:  # noqa: ARG001 - what `measure` takes
            return list(next(batches, Answered(())).measurements)

        _, priors, counts = self._noise_aware(look, found, ask, lambda number, of: None)  # noqa: ARG005 - as above
        return self._drawn(release, found[-1], priors, counts)

    def _drawn(self, release: Release, last: Level, priors: Sequence[Array], counts: Array) -> Release:
        """The release with rows drawn for every group, where there are any."""
        rows = drawn_rows(self.public, last, priors, np.rint(counts), self.seed)
        if not len(rows):
            return release
        return release.with_model(Model.of(PublicRows(rows, release.domain), {}, len(rows)))

    def levels(self, domain: Domain) -> list[Level]:
        """The hierarchy, checked before anything is spent."""
        if self.public.domain != domain:
            raise DomainError(f"the public rows have {self.public.domain}, the private table {domain}")
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

    def _raking(self, curator: Curator, budget: Budget, found: Sequence[Level]) -> "_Found":
        """Counts and marginals of each level for an equal part of the budget each, and every marginal met."""
        measured: list[Measurement] = []
        priors, counts = [self.public.shares], np.zeros(0)
        shares, rake = iter(budget.split([1] * (2 * len(found)))), partial(raked, epochs=self.epochs)
        for number, level in enumerate(found, start=1):
            curator.tell(number, of=len(found))
            [counted_here] = measure(curator, [Query.marginal(curator.domain, level.attributes)], next(shares))
            counts = np.rint(np.maximum(level.counts(counted_here), 0.0))
            tables = measure(curator, level.queries(curator.domain), next(shares))
            priors = updated(self.public, level, priors, counts, tables, update=rake)
            measured += [counted_here, *tables]
        return measured, priors, counts

    def _noise_aware(self, look: Counted, found: Sequence[Level], ask: "_Ask", tell: "_Tell") -> "_Found":
        """Counts of the last level, then marginals of those levels where they can tell something."""
        domain = self.public.domain
        allotment = allotted(look.rest, domain, found, self._choices(found), look.total)
        counting = ask([self._counting(domain, found[-1], allotment)], allotment.counting)
        counts = self._counts(found[-1], [look.measurement, *counting][-1], allotment)
        measured, priors = [look.measurement, *counting], [self.public.shares]
        weigh = partial(weighed, records=self.public.records, seed=self.seed)
        for number, (level, workload, share) in enumerate(
            zip(found, allotment.workloads, allotment.telling, strict=True), start=1
        ):
            tell(number, len(found))
            queries = [level.query(domain, clique) for clique in workload]
            tables = [] if share is None else ask(queries, share)
            priors = updated(self.public, level, priors, level.sums(found[-1], counts), tables, update=weigh)
            measured += tables
        return measured, priors, counts

    def _choices(self, found: Sequence[Level]) -> list[list[Offer | None]]:
        """Workloads to choose from at each level, in public data; those given are measured in any case."""
        if self.workloads is not None:
            return [[Offer(level.workload, 0.0) if level.workload else None] for level in found]
        features = tuple(name for name in self.public.domain if name not in found[-1].attributes)
        offers = (
            (strongest_pairs(self.public, features), 0.0),
            (small_singles(self.public, features), SINGLES_LEAVE),
            (unrelated_singles(self.public, features), FEW_LEAVE),
        )
        every = [Offer(tuple(cliques), untold) for cliques, untold in offers if cliques]
        return [[None, *every] for _ in found]

    def _counting(self, domain: Domain, last: Level, allotment: Allotment) -> Query:
        return Query.marginal(domain, last.attributes if allotment.counts_groups else ())

    def _counts(self, last: Level, counting: Measurement, allotment: Allotment) -> Array:
        expected = expected_counts(self.public, last)
        if allotment.counts_groups and counting.query.clique:
            return likely_counts(last, counting, expected)
        return max(float(counting.values), 0.0) * expected


_Found = tuple[list[Measurement], list[Array], Array]
_Ask = Callable[[Sequence[Query], Budget], list[Measurement]]
_Tell = Callable[[int, int], None]
