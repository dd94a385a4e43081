"""AIM: again and again measure the marginal on which the model is farther off than a measurement would be."""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from priory.errors import OptionError
from priory.measure import measure
from priory.mechanisms.steps.fitted import Fitted, refitted
from priory.mechanisms.steps.public_rows import starting_base
from priory.model.bases import PublicRows
from priory.privacy.budget import Budget, exact
from priory.privacy.curator import Curator
from priory.privacy.journal import Transcript
from priory.privacy.scores import L1Error
from priory.queries.domain import Domain
from priory.queries.workload import Workload
from priory.release import Release
from priory.select.candidates import Candidates, structure
from priory.select.one_ways import OneWays

# Candidates with more cells are not counted: they would drown in their noise.
MOST_CELLS = 1_000_000
CAREFUL = OneWays()


@dataclass(frozen=True, kw_only=True, eq=False)
class AIM:
    """The adaptive and iterative mechanism [McKenna et al. 2022], with priory's estimates.

    One-way marginals are measured once. Each round picks the marginal of the workload's marginals whose error, less
    the noise that its measurement would have, weighs most; measures it; and estimates anew. Where the estimate moved no
    farther than the noise, later rounds get half the noise.

    Attributes:
        public: rows to start from; without any, every cell alike.
        workload: the marginals that matter; see `select.workloads` for the default.
        one_ways: how one-way marginals are measured.
        rounds: for each attribute, over how many rounds the rest is spread, if each moves the estimate.
        choosing: what part of a round's budget picks its marginal.
        model_cells: how many cells all tables of the model may have together when all is spent; less before.
        name: what the release calls it.
    """

    public: PublicRows | None = None
    workload: Workload | None = None
    one_ways: OneWays = CAREFUL
    rounds: Fraction = Fraction(4)
    choosing: Fraction = Fraction(1, 10)
    model_cells: int = 2_000_000
    name: str = "aim"

    @classmethod
    def textbook(cls, *, public: PublicRows | None = None, workload: Workload | None = None) -> "AIM":
        """The mechanism as published: 16 rounds an attribute, of which nine tenths of one measure it by itself."""
        one_round = Fraction(9, 10)
        alike = OneWays(first=one_round / 16, most=one_round / 16, power=0.0, groups=None)
        rounds = 16 - one_round
        return cls(
            public=public, workload=workload, one_ways=alike, rounds=rounds, model_cells=10_000_000, name="aim-textbook"
        )

    @property
    def choice_share(self) -> Fraction:
        return exact("choosing", self.choosing) * (1 - self.one_ways.first)

    def run(self, curator: Curator, budget: Budget) -> Release:
        """Spend `budget`, a round at a time."""
        domain = curator.domain
        candidates = self._checked(domain)
        fitted, left = self._measured_one_ways(curator, budget)
        share = left / max(Fraction(1), self.rounds * len(domain))
        number = 0
        while left > 0:
            # What would not pay for two more rounds is spent in a last one.
            share = share if left >= 2 * share else left
            left -= share
            number += 1
            curator.report_progress(number)
            most = self.model_cells * float(1 - left / budget.amount)
            fitted, has_moved = self._round(curator, budget.worth(share), fitted, candidates, most)
            # Half the noise costs twice a pure ε and four times a ρ or μ².
            share *= 1 if has_moved else 2 if budget.is_pure else 4
        return fitted.released(curator, self.name)

    def recovered(self, release: Release, transcript: Transcript, budget: Budget) -> Release:
        """The release of a run that ended early, with the estimate from what was measured until then."""
        return refitted(release, self.public)

    def _checked(self, domain: Domain) -> Candidates:
        if not 0 < exact("choosing", self.choosing) < 1:
            raise OptionError("choosing", f"a part between 0 and 1; got {self.choosing}")
        if exact("rounds", self.rounds) <= 0:
            raise OptionError("rounds", f"a number above 0; got {self.rounds}")
        return Candidates.of(domain, self.workload, MOST_CELLS)

    def _measured_one_ways(self, curator: Curator, budget: Budget) -> tuple[Fitted, Fraction]:
        """The estimate from one-way marginals, and what is left; what is asked again depends on noisy answers only."""
        start = Fitted.start(curator, starting_base(curator.domain, self.public))
        curator.check(budget)
        curator.report_progress(0, note="one-way marginals")
        one_ways, first = self.one_ways, budget.part(self.one_ways.first)
        asked = one_ways.strategy(curator.domain)
        fitted = start.with_measured(measure(curator, list(asked), first, shares=list(asked.values())))
        again = one_ways.still_noisy(asked, first, fitted.model.total)
        if one_ways.most == one_ways.first or not again:
            return fitted, budget.amount * (1 - one_ways.first)
        curator.report_progress(0, note="wide attributes again")
        rest = budget.part(one_ways.most - one_ways.first)
        second = measure(curator, list(again), rest, shares=list(again.values()))
        return fitted.with_measured(second), budget.amount * (1 - one_ways.most)

    def _round(
        self, curator: Curator, share: Budget, fitted: Fitted, candidates: Candidates, most_cells: float
    ) -> tuple[Fitted, bool]:
        """One more marginal, and whether the estimate moved on it by more than its noise."""
        choosing, measuring = share.split((self.choosing, 1 - self.choosing))
        planned = structure(curator.domain, [m.query.clique for m in fitted.measurements])
        queries, weights, noise = candidates.above_the_noise(planned, most_cells, measuring, fitted.model.total)
        answers = fitted.model.answers(queries)
        score = L1Error(weights, tuple(min(size, 2.0**31) for size in noise))
        [pick] = curator.choose(queries, answers, score, choosing)
        query = queries[pick.query]
        after = fitted.with_measured(measure(curator, [query], measuring))
        return after, bool(np.abs(after.model.answer(query) - answers[pick.query]).sum() > noise[pick.query])
