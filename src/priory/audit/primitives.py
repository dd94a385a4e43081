"""Primitives: attack each of them with its worst neighbours.

An attacker guesses which of two neighbouring tables an output came from. The guess is right and wrong with certain
frequencies, and no ε-private release allows frequencies p and q with p > e^ε·q. Lower bounds on p and upper bounds on q
at 99.9 % confidence [Clopper & Pearson 1934] therefore bound ε from below. Gaussian noise is audited in
μ = Φ⁻¹(p) − Φ⁻¹(q), which is its true shape; ε at a tiny δ would need more trials than there are.
"""

import math
from collections.abc import Callable, Iterator
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from priory.audit.findings import Effort, Finding
from priory.audit.tables import coded
from priory.data.sources.memory import MemorySource
from priory.privacy.budget import Budget, Currency
from priory.privacy.choice import Choice, NoisyMax, PermuteAndFlip
from priory.privacy.curator import Curator
from priory.privacy.ledger import Ledger
from priory.privacy.noise import Integers, Noise
from priory.privacy.randomness import KINDS, Randomness
from priory.queries.domain import Domain
from priory.queries.query import Query
from priory.queries.sensitivity import Relation

CONFIDENCE = 0.999
CANDIDATES = 20

_DOMAIN = Domain.of({"a": 2})
_QUERY = Query.marginal(_DOMAIN, "a")
# Two tables of one row under replace-one: the row is in the first cell or in the second.
_NEIGHBOURS = (coded(_DOMAIN, [[0]]), coded(_DOMAIN, [[1]]))


class Repeated(Randomness):
    """Randomness for an attacker: each answer is drawn many times, perhaps with a planted bug in the noise."""

    name = "repeated"
    kinds = KINDS

    def __init__(self, trials: int, change: Callable[[Noise], Noise] | None) -> None:
        self.drawn: Integers = np.zeros((0, 0), dtype=np.int64)  # every draw for the latest answer, one a row
        self._trials = trials
        self._change = change

    def noisy(self, values: Integers, noise: Noise) -> Integers:
        """One of the draws."""
        used = noise if self._change is None else self._change(noise)
        self.drawn = used.add(np.tile(values, (self._trials, 1)))
        one: Integers = self.drawn[0]
        return one

    def picks(self, scores: Integers, choice: Choice, draws: int) -> list[int]:
        """Honest picks."""
        return choice.picks(scores, draws)


def primitives(effort: Effort) -> Iterator[Finding]:
    """Laplace, Gaussian and selection as they are: below the claim, and not far below."""
    names = {Currency.PURE: "Laplace, ε", Currency.ZCDP: "Gaussian, μ", Currency.GAUSSIAN: "rounded Gaussian, μ"}
    for currency, name in names.items():
        amount = Fraction(1, 2) if currency is Currency.ZCDP else Fraction(1)
        budget = Budget(currency, amount, Relation.REPLACE_ONE)
        found = audited_noise(budget, effort.trials)
        yield _finding(f"primitive audit: {name}, {effort.trials:,} trials a side", found, claim_of(budget), effort)
    for choice in (NoisyMax(Fraction(2)), PermuteAndFlip(Fraction(2))):
        found = audited_choice(choice, effort.picks)
        yield _finding(f"primitive audit: {choice.kind}, ε, {effort.picks:,} trials a side", found, 1.0, effort)


def audited_noise(
    budget: Budget, trials: int, change: Callable[[Noise], Noise] | None = None, *, answers: int = 1
) -> float:
    """A lower bound on the true ε (pure) or μ (zCDP) of an answer that claims `budget`, from `trials` on each table."""
    # A bug can be planted: a `change` of the noise, or several `answers` for one charge.
    samples = [_answers(table, budget, trials * answers, change).reshape(answers, trials, 2) for table in _NEIGHBOURS]
    if not budget.is_pure:
        # Gaussian likelihoods: the difference of the cells tells the tables apart, best in the middle.
        evidence = [(sample[:, :, 0] - sample[:, :, 1]).sum(axis=0) for sample in samples]
        return mu_bound(evidence[0], evidence[1], threshold=1)
    # Laplace likelihoods differ by a constant on either side of the step in each cell; all steps together are extreme.
    evidence = [((sample[:, :, 0] >= 1).sum(axis=0) + (sample[:, :, 1] <= 0).sum(axis=0)) for sample in samples]
    return epsilon_bound(evidence[0], evidence[1], threshold=2 * answers)


def _answers(table: MemorySource, budget: Budget, trials: int, change: Callable[[Noise], Noise] | None) -> Integers:
    randomness = Repeated(trials, change)
    with Ledger.in_memory(budget).reserve(budget, "audit") as reservation:
        Curator(reservation, table, randomness=randomness).answer([_QUERY], [budget])
    return randomness.drawn


def audited_choice(choice: Choice, trials: int) -> float:
    """A lower bound on the true ε of a pick that claims sensitivity 1 at scale 2, so ε = 1."""
    # The worst neighbours raise one score by the sensitivity and lower all others.
    even = np.zeros(CANDIDATES, dtype=np.int64)
    raised = even - 1
    raised[0] = 1
    picked = [np.array([choice.pick(scores) == 0 for _ in range(trials)], dtype=np.int64) for scores in (raised, even)]
    return epsilon_bound(picked[0], picked[1], threshold=1)


def epsilon_bound(high: Integers, low: Integers, threshold: int) -> float:
    """A lower bound on ε from how often evidence reaches `threshold` on either side."""
    p, q = clopper_pearson(high >= threshold, low >= threshold)
    return math.log(p / q) if p > 0 else 0.0


def mu_bound(high: Integers, low: Integers, threshold: int) -> float:
    """A lower bound on μ, of Gaussian differential privacy [Dong, Roth & Su 2022], from the same."""
    from scipy.stats import norm

    p, q = clopper_pearson(high >= threshold, low >= threshold)
    return float(norm.ppf(p) - norm.ppf(q))


def clopper_pearson(high: NDArray[np.bool_], low: NDArray[np.bool_]) -> tuple[float, float]:
    """At least how often `high` is true and at most how often `low` is, each at 99.9 % confidence."""
    from scipy.stats import beta

    hits, false = int(high.sum()), int(low.sum())
    p = float(beta.ppf(1 - CONFIDENCE, hits, len(high) - hits + 1)) if hits else 0.0
    q = float(beta.ppf(CONFIDENCE, false + 1, len(low) - false)) if false < len(low) else 1.0
    return p, q


def claim_of(budget: Budget) -> float:
    """ε, or the μ of Gaussian noise at the same price."""
    amount = float(budget.amount)
    return {Currency.PURE: amount, Currency.ZCDP: math.sqrt(2 * amount), Currency.GAUSSIAN: math.sqrt(amount)}[
        budget.currency
    ]


def _finding(test: str, found: float, claim: float, effort: Effort) -> Finding:
    least = effort.least_share * claim
    return Finding(test, f"≥ {found:.3f}", f"{least:.2f} … {claim:.2f}", least <= found <= claim)
