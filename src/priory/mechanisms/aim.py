"""AIM: again and again measure the marginal on which the model is farther off than a measurement would be."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from priory.errors import OptionError
from priory.measure import measure
from priory.mechanisms.steps.fitted import Fitted
from priory.mechanisms.steps.public_rows import starting_base
from priory.model.bases import PublicRows
from priory.model.fitting import structure
from priory.privacy.budget import Budget, exact
from priory.privacy.scores import L1Error
from priory.privacy.session import Session, asking
from priory.queries.domain import Domain
from priory.queries.workload import Workload
from priory.release import Release
from priory.select.candidates import Candidates
from priory.select.one_ways import OneWays

# Candidates with more cells are not counted: they would drown in their noise.
MOST_CELLS = 1_000_000
CAREFUL = OneWays()
# Where a model of few attributes has no more cells, every round estimates everything anew.
QUICK_COLUMNS, QUICK_CELLS = 28, 50_000
# What part of the budget noisy one-way marginals of more than `AIM.wide` attributes get: it took 5 % off the errors
# of Loans and Stroke at ε = 0.1.
MOST_OF_WIDE = Fraction(7, 10)
# Candidates that each choice is made among, at least, where there are as many.
LEAST_CANDIDATES = 400


@dataclass(frozen=True, kw_only=True, eq=False)
class AIM:
    """The adaptive and iterative mechanism [McKenna et al. 2022], with priory's estimates.

    One-way marginals are measured once. Each round picks the marginal of the workload's marginals whose error, less
    the noise that its measurement would have, weighs most; measures it; and estimates anew. Where the estimate moved no
    farther than the noise, later rounds get half the noise. Public rows are left out where the one-way marginals say
    that their values of some column are not those of the private rows.

    Attributes:
        public: rows to start from; without any, every cell alike.
        workload: the marginals that matter; see `select.workloads` for the default.
        one_ways: how one-way marginals are measured.
        rounds: for each attribute, over how many rounds the rest is spread, if each moves the estimate.
        choosing: what part of a round's budget picks its marginal.
        model_cells: how many cells all tables of the model may have together when all is spent; less before.
        wide: from twice so many attributes on, the cells are fewer in proportion to those beyond the first so many:
            more attributes take more rounds, and each goes over all cells. Beyond so many, one-way marginals that are
            noisy get more.
        together: of how many attributes one round measures one marginal, and of twice as many two.
        grown: everything is estimated anew where there are so many times the measurements of the last time; in
            between a new one is taken in by its clique alone.
        most_candidates: how many marginals a round looks at, of many; more where it measures several.
        name: what the release calls it.
    """

    public: PublicRows | None = None
    workload: Workload | None = None
    one_ways: OneWays = CAREFUL
    rounds: Fraction = Fraction(4)
    choosing: Fraction = Fraction(1, 10)
    model_cells: int = 2_000_000
    wide: int = 25
    together: int = 20
    grown: float = 1.25
    most_candidates: int = 5_000
    name: str = "aim"

    @classmethod
    def textbook(cls, *, public: PublicRows | None = None, workload: Workload | None = None) -> "AIM":
        """The mechanism as published: 16 rounds an attribute, of which nine tenths of one measure it by itself."""
        one_round = Fraction(9, 10)
        alike = OneWays(first=one_round / 16, most=one_round / 16, power=0.0, groups=None)
        rounds = 16 - one_round
        return cls(
            public=public,
            workload=workload,
            one_ways=alike,
            rounds=rounds,
            model_cells=10_000_000,
            wide=10**9,
            together=10**9,
            grown=1.0,
            most_candidates=10**9,
            name="aim-textbook",
        )

    def with_effort(self, factor: float) -> "AIM":
        """The mechanism with a model of so many times more cells, and rounds that look at as many more marginals."""
        cells, candidates = int(factor * self.model_cells), int(factor * self.most_candidates)
        return replace(self, model_cells=cells, most_candidates=max(LEAST_CANDIDATES, candidates))

    @property
    def choice_share(self) -> Fraction:
        return exact("choosing", self.choosing) * (1 - self.one_ways.first)

    def most_cells(self, domain: Domain) -> float:
        """How many cells all tables of the model may have together when all is spent."""
        return self.model_cells * min(1.0, self.wide / max(1, len(domain) - self.wide))

    def run(self, session: Session, budget: Budget) -> Release:
        """Spend `budget`, a round at a time."""
        domain = session.domain
        candidates = self._checked(domain)
        fitted, left = self._measured_one_ways(session, budget)
        share = left / max(Fraction(1), self.rounds * len(domain))
        cells = self.most_cells(domain)
        number = 0
        with asking():
            while left > 0:
                # What would not pay for two more measurements is spent with the last ones.
                several = min(max(1, len(domain) // self.together), max(1, int(left / share)))
                share = share if left >= (several + 1) * share else left / several
                number += 1
                session.report_progress(number)
                most = cells * float(1 - (left - several * share) / budget.amount)
                some = candidates.some(max(self.most_candidates, several * LEAST_CANDIDATES), number)
                moved: list[bool] = []
                for after, has_moved in self._round(session, [budget.worth(share)] * several, fitted, some, most):
                    fitted, left = after, left - share
                    moved.append(has_moved)
                # Half the noise costs twice a pure ε and four times a ρ or μ².
                share *= 1 if 2 * sum(moved) >= len(moved) else 2 if budget.is_pure else 4
                if left == 0 or len(fitted.measurements) >= self.grown * fitted.settled:
                    fitted = fitted.settled_anew()
        return fitted.settled_anew().released(session, self.name)

    def _checked(self, domain: Domain) -> Candidates:
        if not 0 < exact("choosing", self.choosing) < 1:
            raise OptionError("choosing", f"a part between 0 and 1; got {self.choosing}")
        if exact("rounds", self.rounds) <= 0:
            raise OptionError("rounds", f"a number above 0; got {self.rounds}")
        return Candidates.of(domain, self.workload, MOST_CELLS)

    def _measured_one_ways(self, session: Session, budget: Budget) -> tuple[Fitted, Fraction]:
        """The estimate from one-way marginals, and what is left; what is asked again depends on noisy answers only."""
        start = Fitted.start(session, starting_base(session.domain, self.public))
        session.check(budget)
        session.report_progress(0, note="one-way marginals")
        one_ways, first = self.one_ways, budget.part(self.one_ways.first)
        asked = one_ways.strategy(session.domain)
        fitted = start.with_measured(measure(session, list(asked), first, shares=list(asked.values())))
        if self.public is not None:
            fitted = fitted.without_drifted(session, self.public)
        again = one_ways.still_noisy(asked, first, fitted.model.total)
        if one_ways.most == one_ways.first or not again:
            return fitted, budget.amount * (1 - one_ways.first)
        most = max(one_ways.most, MOST_OF_WIDE) if len(session.domain) > self.wide else one_ways.most
        with asking():
            session.report_progress(0, note="wide attributes again")
            second = measure(session, list(again), budget.part(most - one_ways.first), shares=list(again.values()))
            fitted = fitted.with_measured(second)
        return fitted, budget.amount * (1 - most)

    def _round(
        self, session: Session, shares: list[Budget], fitted: Fitted, candidates: Candidates, most_cells: float
    ) -> Iterator[tuple[Fitted, bool]]:
        """After each of some more marginals of different attributes, whether it moved the estimate by more than noise.

        Each is chosen among a part of the candidates.
        """
        domain = session.domain
        planned = structure(domain, fitted.cliques)
        total = fitted.model.total
        worth = candidates.above_the_noise(planned, most_cells, shares[0].part(1 - self.choosing), total)
        answers = dict(zip(worth.queries, fitted.model.answers(worth.queries), strict=True))
        taken: set[str] = set()
        sizer, limit = planned.sizer, max(most_cells, planned.size_in_cells)
        for number, share in enumerate(shares):
            group = range(number, len(worth.queries), len(shares))
            free = [i for i in group if taken.isdisjoint(worth.queries[i].clique)]
            # Each one fits by itself; beside those of this round it may not.
            if number:
                free = [i for i in free if sizer.fits([domain.axis[v] for v in worth.queries[i].clique], limit)]
            if not free:
                continue
            choosing, measuring = share.split((self.choosing, 1 - self.choosing))
            queries = [worth.queries[i] for i in free]
            score = L1Error(tuple(worth.weights[i] for i in free), tuple(min(worth.noise[i], 2.0**31) for i in free))
            [pick] = session.choose(queries, [answers[query] for query in queries], score, choosing)
            query = queries[pick.query]
            [measurement] = measure(session, [query], measuring)
            if len(domain) < QUICK_COLUMNS and planned.size_in_cells <= QUICK_CELLS:
                fitted = fitted.with_measured([measurement])
                [after] = fitted.model.answers([query])
            else:
                fitted, after = fitted.nudged(measurement, answers[query])
            yield fitted, float(np.abs(after - answers[query]).sum()) > worth.noise[free[pick.query]]
            taken.update(query.clique)
            sizer = sizer.grown(domain.axis[name] for name in query.clique)
