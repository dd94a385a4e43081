"""Accountant: our conversions and prices against those of others, and against sums over every answer."""

import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from importlib.util import find_spec
from typing import Any

import numpy as np

from priory.audit.findings import Effort, Finding
from priory.audit.laws import Pair
from priory.privacy.accounting import epsilon_at, rho_within
from priory.privacy.budget import Budget, Currency
from priory.privacy.choice import ChoiceKind, choice_within
from priory.privacy.gaussian import gaussian_delta, gaussian_epsilon, mu_squared_within
from priory.privacy.noise import Integers, RoundedGaussian, noise_within
from priory.queries.sensitivity import Sensitivity

RHOS = (1e-4, 1e-3, 1e-2, 0.1, 1.0, 10.0)
DELTAS = (1e-3, 1e-6, 1e-9, 1e-12)
# The privacy loss distributions of dp-accounting are slow beyond.
MUS, PLD_DELTAS = (0.05, 0.2, 0.5, 1.0), (1e-3, 1e-6, 1e-9)
MOST_APART = 1e-3
# In units of μ.
_EPSILONS = (0.1, 0.5, 1.0, 2.0, 4.0)
_NOISES = (RoundedGaussian(Fraction(0.7), 4), RoundedGaussian(Fraction(2), 2), RoundedGaussian(Fraction(8)))
AMOUNTS = ("1/100", "1/4", "2")
CANDIDATES = (2, 20, 200)
KINDS: tuple[ChoiceKind, ...] = ("noisy-max", "permute-and-flip")
# What floats of the exact laws may add to a divergence.
ROUNDING = 1e-6
SEED = 7


def accountant(effort: Effort) -> Iterator[Finding]:  # noqa: ARG001
    """ρ and μ² within 10⁻³ of the others, and never below the exact ε and δ of the Gaussian mechanism."""
    pairs = [(rho, delta) for rho in RHOS for delta in DELTAS]
    ours = {(rho, delta): float(epsilon_at(Fraction(rho), Fraction(delta))) for rho, delta in pairs}
    if find_spec("opendp") is None:
        yield Finding("accountant: opendp is not installed", "-", "-", passed=True)
    else:
        yield _agreement("ρ, opendp", ours, _opendp_epsilon)
    yield _inverse("ρ", pairs, epsilon_at, rho_within)
    gaussians = [(mu, delta) for mu in MUS for delta in PLD_DELTAS]
    exact = {(mu, delta): float(gaussian_epsilon(Fraction(mu) ** 2, Fraction(delta))) for mu, delta in gaussians}
    yield _inverse("μ²", [(mu**2, delta) for mu, delta in gaussians], gaussian_epsilon, mu_squared_within)
    yield _summed()
    if find_spec("dp_accounting") is None:
        yield Finding("accountant: dp-accounting is not installed", "-", "-", passed=True)
        return
    yield _agreement("ρ, dp-accounting", ours, _dp_accounting_epsilon)
    yield _agreement("μ², dp-accounting", exact, _pld_epsilon)
    above = [(rho, delta) for rho, delta in pairs if rho in (0.1, 1.0) and delta >= 1e-9]
    least = min(ours[rho, delta] / _pld_epsilon((2 * rho) ** 0.5, delta) for rho, delta in above)
    test = f"accountant: ρ at or above the exact ε, {len(above)} values"
    yield Finding(test, f"ratio ≥ {least:.4f}", "≥ 1", least >= 1)


def _agreement(other: str, ours: dict[tuple[float, float], float], theirs: Callable[[float, float], float]) -> Finding:
    apart = max(abs(epsilon / theirs(*pair) - 1) for pair, epsilon in ours.items())
    return _apart(other, len(ours), apart)


def _inverse(
    letter: str,
    pairs: list[tuple[float, float]],
    there: Callable[[Fraction, Fraction], Fraction],
    back: Callable[[Fraction, Fraction], Fraction],
) -> Finding:
    """How far off an amount is that was converted to ε and back."""
    exact = [(Fraction(amount), Fraction(delta)) for amount, delta in pairs]
    apart = max(abs(back(there(amount, delta), delta) / amount - 1) for amount, delta in exact)
    return _apart(f"{letter}, its own inverse", len(pairs), float(apart))


def _apart(other: str, count: int, apart: float) -> Finding:
    return Finding(f"accountant: {other}, {count} values", f"{apart:.1e} apart", f"≤ {MOST_APART}", apart <= MOST_APART)


def _summed() -> Finding:
    """δ of rounded Gaussian noise on counts that differ by one, summed over every answer, against what is charged."""
    largest = 0.0
    for noise in _NOISES:
        step = 2**noise.bits
        k = np.arange(-60 * step * 8, 60 * step * 8)
        here, there = noise.probabilities(k), noise.probabilities(k - step)
        for epsilon in (part / float(noise.scale) for part in _EPSILONS):
            delta = float(np.maximum(there - math.exp(epsilon) * here, 0).sum())
            claimed = float(gaussian_delta(1 / noise.scale**2, Fraction(epsilon)))
            # Floats lose the last digits of a sum that is nearly nothing.
            largest = max(largest, (delta - 1e-14) / claimed)
    test = f"accountant: δ of rounded noise, summed, {len(_NOISES) * len(_EPSILONS)} values"
    return Finding(test, f"ratio ≤ {largest:.4f}", "≤ 1", largest <= 1)


def _opendp_epsilon(rho: float, delta: float) -> float:
    import opendp.prelude as dp

    dp.enable_features("contrib")
    gaussian = dp.m.make_gaussian(dp.atom_domain(T="i64"), dp.absolute_distance(T="f64"), scale=1.0)
    converted: Any = dp.c.make_zCDP_to_approxDP(gaussian)
    return float(converted.map((2 * rho) ** 0.5).epsilon(delta))


def _dp_accounting_epsilon(rho: float, delta: float) -> float:
    from dp_accounting import rdp

    orders = [1 + 1.005**i for i in range(-1500, 2500)]
    return float(rdp.compute_epsilon(orders, [rho * order for order in orders], delta)[0])


def _pld_epsilon(mu: float, delta: float) -> float:
    """The ε of the Gaussian mechanism by its privacy loss distribution."""
    from dp_accounting import GaussianDpEvent, pld

    return float(pld.PLDAccountant().compose(GaussianDpEvent(1 / mu)).get_epsilon(delta))


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
    worst = [pair for count in CANDIDATES for pair in _worst_scores(count, steps, float(choice.scale))]
    return max(Pair.of_choice(choice, *pair).amount(budget.currency) for pair in worst) / float(budget.amount)


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
