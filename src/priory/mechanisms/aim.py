"""AIM: again and again the marginal on which the model is farther off than a measurement would be."""

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from priory.domain import Domain
from priory.errors import OptionError
from priory.measure import measure
from priory.mechanisms.candidates import Candidates, default_workload, structure
from priory.mechanisms.fitted import Fitted, prior
from priory.model.bases import PublicRows
from priory.privacy.budget import Budget, exact
from priory.privacy.curator import Curator
from priory.privacy.scores import L1Error
from priory.queries.query import Query
from priory.queries.workload import Workload
from priory.release import Release

# Candidates with more cells are not counted: they would drown in their noise.
MOST_CELLS = 1_000_000


@dataclass(frozen=True, kw_only=True, eq=False)
class AIM:
    """The adaptive and iterative mechanism, as published [McKenna et al. 2022], with priory's estimates.

    One-way marginals are measured once. Each round picks the marginal of the workload's marginals whose error, less
    the noise that its measurement would have, weighs most; measures it; and estimates anew. Where the estimate moved no
    farther than the noise, later rounds get half the noise.

    Attributes:
        public: rows to start from; without any, every cell alike.
        workload: the marginals that matter; see `default_workload` for what they are unless told.
        rounds: over how many rounds the budget would be spread if each were worth it; 16 an attribute unless told.
        choosing: what part of a round's budget picks its marginal.
        model_cells: how many cells all tables of the model may have together when all is spent; less before.
    """

    public: PublicRows | None = None
    workload: Workload | None = None
    rounds: int | None = None
    choosing: Fraction = Fraction(1, 10)
    model_cells: int = 10_000_000
    name: ClassVar[str] = "aim-textbook"

    def run(self, curator: Curator, budget: Budget) -> Release:
        """Spend `budget`, a round at a time."""
        domain = curator.domain
        candidates = self._checked(domain)
        found = Fitted.start(curator, prior(domain, self.public))
        curator.check(budget)
        rounds = 16 * len(domain) if self.rounds is None else self.rounds
        share = budget.amount / max(rounds, len(domain))
        left = budget.amount - len(domain) * share * (1 - self.choosing)
        curator.tell(0, note="one-way marginals")
        attributes = [Query.marginal(domain, name) for name in domain]
        found = found.and_measured(measure(curator, attributes, budget.worth(budget.amount - left)))
        number = 0
        while left > 0:
            # What would not pay for two more rounds is spent in a last one.
            share = share if left >= 2 * share else left
            left -= share
            number += 1
            curator.tell(number)
            most = self.model_cells * float(1 - left / budget.amount)
            found, moved = self._round(curator, budget.worth(share), found, candidates, most)
            # Half the noise costs twice a pure ε and four times a ρ.
            share *= 1 if moved else 2 if budget.is_pure else 4
        return found.released(curator, self.name)

    def _checked(self, domain: Domain) -> Candidates:
        if not 0 < exact("choosing", self.choosing) < 1:
            raise OptionError("choosing", f"a part between 0 and 1; got {self.choosing}")
        if self.rounds is not None and self.rounds < 1:
            raise OptionError("rounds", f"at least one; got {self.rounds}")
        workload = default_workload(domain) if self.workload is None else self.workload.checked(domain)
        return Candidates.of(workload, MOST_CELLS)

    def _round(
        self, curator: Curator, share: Budget, found: Fitted, candidates: Candidates, most_cells: float
    ) -> tuple[Fitted, bool]:
        """One more marginal, and whether the estimate moved on it by more than its noise."""
        choosing, measuring = share.split((self.choosing, 1 - self.choosing))
        planned = structure(curator.domain, [m.query.clique for m in found.measurements])
        queries, weights, noise = candidates.audible(planned, most_cells, measuring, found.model.total)
        answers = found.model.answers(queries)
        score = L1Error(weights, tuple(min(size, 2.0**31) for size in noise))
        [pick] = curator.choose(queries, answers, score, choosing)
        query = queries[pick.query]
        after = found.and_measured(measure(curator, [query], measuring))
        return after, bool(np.abs(after.model.answer(query) - answers[pick.query]).sum() > noise[pick.query])
