"""Prices: what noise and choices are charged, against the exact divergence of their laws on worst neighbours."""

from collections.abc import Iterator
from fractions import Fraction

import numpy as np

from priory.audit.findings import Effort, Finding
from priory.audit.laws import Pair
from priory.privacy.budget import Budget, Currency
from priory.privacy.choice import ChoiceKind, choice_within
from priory.privacy.noise import Integers, noise_within
from priory.queries.sensitivity import Sensitivity

AMOUNTS = ("1/100", "1/4", "2")
CANDIDATES = (2, 20, 200)
KINDS: tuple[ChoiceKind, ...] = ("noisy-max", "permute-and-flip")
# What floats of the exact laws may add to a divergence.
ROUNDING = 1e-6
SEED = 7


def prices(effort: Effort) -> Iterator[Finding]:  # noqa: ARG001
    """The exact divergence of each primitive in each currency, over what it is charged: never above 1."""
    for currency in Currency:
        budgets = [Budget(currency, Fraction(amount)) for amount in AMOUNTS]
        for kind in KINDS:
            share = max(_choice_share(budget, kind) for budget in budgets)
            yield _finding(f"price: {kind}, {currency.value}", share)
        share = max(_noise_share(budget, gap) for budget in budgets for gap in (1, 5))
        yield _finding(f"price: noise, {currency.value}", share)


def _finding(test: str, share: float) -> Finding:
    return Finding(f"{test}, exact on worst neighbours", f"{share:.4f} of the charge", "≤ 1", share <= 1 + ROUNDING)


def _choice_share(budget: Budget, kind: ChoiceKind) -> float:
    """The largest part of its charge that a pick needs, over the worst changes of scores by at most 1."""
    steps = 1000
    choice = choice_within(budget, Fraction(steps), kind)
    return max(
        Pair.of_choice(choice, one, other).amount(budget.currency) / float(budget.amount)
        for count in CANDIDATES
        for one, other in _worst_scores(count, steps, float(choice.scale))
    )


def _worst_scores(count: int, steps: int, scale: float) -> Iterator[tuple[Integers, Integers]]:
    """Scores that change by at most `steps`: one up and the others down, from ties and from a lead, and at random."""
    rng = np.random.default_rng(SEED)
    for lead in (-2 * steps, -steps, 0, steps, int(scale)):
        even = np.zeros(count, dtype=np.int64)
        even[0] = lead
        raised = even - steps
        raised[0] = lead + steps
        yield even, raised
    for _ in range(20):
        scores = rng.integers(-steps, steps + 1, count)
        yield scores, scores + rng.integers(-1, 2, count) * steps


def _noise_share(budget: Budget, gap: int) -> float:
    """The part of its charge that noise on one answer needs, for an answer that one person moves by `gap`."""
    noise = noise_within(budget, Sensitivity(Fraction(gap), Fraction(gap**2)))
    return Pair.of_noise(noise, gap).amount(budget.currency) / float(budget.amount)
