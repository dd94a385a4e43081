"""DualQuery: a game in which queries are sampled privately and records are found that avoid them."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from priory.errors import OptionError
from priory.mechanisms.dualquery.data_player import Reward, best_record
from priory.mechanisms.dualquery.estimates import answers, records_model
from priory.mechanisms.steps.total import counted
from priory.privacy.budget import Budget
from priory.privacy.prices import bounded_range_within, price_of_bounded_range
from priory.privacy.scores import Payoff, Pick
from priory.privacy.session import Session, asking
from priory.queries.domain import Domain
from priory.queries.workload import Workload
from priory.release import Release
from priory.release.parts import Round

# Workloads with more answers than this score no more than so many candidates in a run: about ten seconds.
LARGE, MOST_SCORES = 1_000_000, 1 << 29


@dataclass(frozen=True)
class DualQuery:
    """DualQuery [Gaboardi, Gallego Arias, Hsu, Roth & Wu 2014] for workloads of counting queries.

    In round t queries are sampled with chances ∝ exp((η/n)·payoff), where the payoff of q in counts is
    n·Σ_{i<t} q(x^i) − (t−1)·q(D): the record found next avoids what the records so far overdid. Complements are
    sampled too. The first round needs no private look. What is released are the samples and the records.

    Attributes:
        workload: what is to be answered, with parts of zeros and ones.
        learning_rate: η; where it and the samples leave a rest of the budget, it is raised to spend it.
        samples: how many queries are sampled in a round.
        rounds: how many rounds; by default as many as the budget pays for.
        most_rounds: and at most so many; fewer for workloads of millions of answers, where they would take long.
        seed: for the first samples and for values that no sampled query distinguishes; it protects nobody.
    """

    workload: Workload
    learning_rate: float = 2.0
    samples: int = 50
    rounds: int | None = None
    most_rounds: int = 200
    seed: int = 0
    choice_share: ClassVar[Fraction] = Fraction(1)

    def run(self, session: Session, budget: Budget) -> Release:
        """Play the game."""
        workload = self._checked(session.domain)
        count = counted(session, budget)
        rounds = self._affordable(count.rest, count.total) if self.rounds is None else self.rounds
        rng = np.random.default_rng(self.seed)
        played = [np.zeros(query.shape) for query in workload]
        game = [_round(workload, session.domain, self._first(rng), 0.0, rng)]
        # The payoff of round t + 1 is t times as sensitive as that of one: these shares keep η the same.
        shares = count.rest.split([self._price(t, count.rest, count.total) for t in range(1, rounds)])
        with asking():
            for t, share in enumerate(shares, start=1):
                played = [s + answers(q, game[-1].row, session.domain) for q, s in zip(workload, played, strict=True)]
                estimates, payoff = [count.total * s for s in played], Payoff(t, count.total)
                picks = session.choose(workload.queries, estimates, payoff, share, draws=self.samples, kind="noisy-max")
                game.append(_round(workload, session.domain, picks, self._sharpness(share, t), rng))
        statement = session.statement("dualquery")
        release = Release(session.domain, (count.measurement,), statement, rounds=tuple(game))
        return release.with_model(records_model(release))

    def _checked(self, domain: Domain) -> Workload:
        if not all(part.is_counting for query in self.workload for part in query.parts):
            raise OptionError("workload", "DualQuery answers counting queries: parts of zeros and ones")
        if self.samples < 1 or not self.learning_rate > 0:
            raise OptionError("samples", "at least one, with a learning rate above 0")
        if not 2 <= (self.most_rounds if self.rounds is None else self.rounds) < 1024:
            raise OptionError("rounds", "from 2 to 1023: the first one needs no private look")
        return self.workload.checked(domain)

    def _affordable(self, budget: Budget, total: float) -> int:
        """The largest T whose cost at η is within the budget."""
        spent, rounds = Fraction(0), 1
        while rounds < self._most_rounds():
            spent += self._price(rounds, budget, total)
            if spent > budget.amount:
                break
            rounds += 1
        return max(2, rounds)

    def _price(self, rounds: int, budget: Budget, total: float) -> Fraction:
        """What the samples of the round after so many cost at η: s times the price of ε_t = 2ηt·m/n."""
        epsilon = Fraction(2 * self.learning_rate * rounds * budget.max_rows / total)
        return self.samples * price_of_bounded_range(epsilon, budget.currency)

    def _most_rounds(self) -> int:
        """How many rounds there may be: what follows from the workload is public."""
        if self.workload.rows <= LARGE:
            return self.most_rounds
        return max(2, min(self.most_rounds, MOST_SCORES // (2 * self.workload.rows)))

    def _sharpness(self, share: Budget, rounds: int) -> float:
        """1/scale in counts, which is ε/2Δ: one person moves the payoff by Δ = rounds·max_rows."""
        epsilon = bounded_range_within(share.amount / self.samples, share.currency)
        return float(epsilon) / (2 * rounds * share.max_rows)

    def _first(self, rng: np.random.Generator) -> tuple[Pick, ...]:
        rows = np.array([query.rows for query in self.workload])
        chosen = rng.choice(len(rows), self.samples, p=rows / self.workload.rows)
        return tuple(Pick(int(i), int(rng.integers(rows[i])), is_complement=bool(rng.integers(2))) for i in chosen)


def _round(
    workload: Workload, domain: Domain, picks: Sequence[Pick], sharpness: float, rng: np.random.Generator
) -> Round:
    """The record that satisfies as few of the picks as can be; a complement is one to satisfy."""
    rows = [workload.queries[pick.query].row(pick.cell or 0) for pick in picks]
    rewards = [Reward(row, 1.0 if pick.is_complement else -1.0) for row, pick in zip(rows, picks, strict=True)]
    return Round(tuple(picks), tuple(best_record(domain, rewards, rng).tolist()), sharpness)
