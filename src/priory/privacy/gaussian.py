"""Gaussian differential privacy: its exact conversions, with every rounding towards privacy.

A release is μ-GDP where no test tells two neighbouring tables apart better than one tells N(0, 1) from N(μ, 1) [Dong,
Roth & Su 2022]. What adds up is μ², so the amounts here are squares. From μ to (ε, δ), exactly [Balle & Wang 2018]:

    δ = Φ(−ε/μ + μ/2) − e^ε·Φ(−ε/μ − μ/2).

What a private choice costs in μ² is proved in docs/privacy/costs.md: a step whose losses lie, for every pair of
neighbours, in some interval [t−ε, t] is μ-GDP with μ = 2h(ε/2), where h = Φ⁻¹ ∘ logistic. The exponential mechanism has
such a bounded range; a step that is ε-DP has one of 2ε.

The normal distribution function is evaluated with eighty digits, and an allowance of 10⁻⁶⁰ for the roundings of one
evaluation. Answers come from that careful evaluation alone, so the searches for them may be careless.
"""

import decimal
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache

from priory.privacy.accounting import epsilon_at, rho_within, round_down, round_up
from priory.privacy.normal import density, mills_ratio, upper_tail
from priory.privacy.uniforms import context, to_decimal

_DIGITS = context(80)
_ALLOWANCE = Decimal("1e-60")
_PI = Decimal("3.14159265358979323846264338327950288419716939937510582097494459230781640628620899862803")
# Of Φ and φ, relative to themselves.
_NORMAL_DIGITS = 65
# Φ(−100) is below 10⁻²¹⁷⁰, so that beyond it a δ is this or 1.
_FAR, _NEARLY_NOTHING = 100, Fraction(1, 10**2000)
# A μ that no release has; its δ is not worth working out.
_LARGEST_MU = 10**6
# Below and above these ε the price has a closed form: see `mu_squared_of_pure`.
_TINY, _HUGE = Fraction(1, 10**12), Fraction(20_000)
_STEPS = 60


@lru_cache(maxsize=1024)
def gaussian_delta(mu_squared: Fraction, epsilon: Fraction) -> Fraction:
    """The δ at which μ-GDP gives (ε, δ); never below the exact one.

    >>> round(float(gaussian_delta(Fraction(1), Fraction(1))), 6)
    0.126937
    """
    if mu_squared == 0:
        return Fraction(0)
    if mu_squared > _LARGEST_MU**2:
        return Fraction(1)
    with decimal.localcontext(_DIGITS):
        value = _delta(to_decimal(mu_squared).sqrt(), to_decimal(epsilon))
        if value is None:
            return _NEARLY_NOTHING
        return min(Fraction(1), round_up(Fraction(value)))


@lru_cache(maxsize=1024)
def gaussian_epsilon(mu_squared: Fraction, delta: Fraction) -> Fraction:
    """The smallest ε found at which μ-GDP gives (ε, δ); never below the exact one.

    The logarithm of δ is a concave function of ε, so Newton's steps from above stay above.

    >>> round(float(gaussian_epsilon(Fraction(1), Fraction(1, 10**9))), 3)
    6.174
    """
    if gaussian_delta(mu_squared, Fraction(0)) <= delta:
        return Fraction(0)
    best = epsilon_at(mu_squared / 2, delta)
    if mu_squared > _LARGEST_MU**2:
        return best
    with decimal.localcontext(_DIGITS):
        mu, wanted, e = to_decimal(mu_squared).sqrt(), to_decimal(delta), to_decimal(best)
        for _ in range(_STEPS):
            value = _delta(mu, e)
            if value is None:
                break
            b = e / mu + mu / 2
            step = (wanted / value).ln() * value / (_density(b - mu) * _mills(b))
            e = max(e - step, Decimal(0))
            if abs(step) <= e * Decimal("1e-30"):
                break
    return _settled(Fraction(e), lambda found: gaussian_delta(mu_squared, found) <= delta, best, up=True)


@lru_cache(maxsize=1024)
def mu_squared_within(epsilon: Fraction, delta: Fraction) -> Fraction:
    """The largest μ² found that gives (ε, δ); never above the exact one.

    >>> round(float(mu_squared_within(Fraction(1), Fraction(1, 10**9)) / 2), 5)
    0.01656
    """
    # Twice the zCDP bound is within it, and so is (2δ)², because δ(ε) ≤ δ(0) ≤ μ/√(2π).
    start = max(2 * rho_within(epsilon, delta), round_down(4 * delta**2))
    if start > _LARGEST_MU**2:
        return start
    with decimal.localcontext(_DIGITS):
        e, wanted, mu = to_decimal(epsilon), to_decimal(delta), to_decimal(start).sqrt()
        for _ in range(_STEPS):
            value = _delta(mu, e)
            if value is None or mu > _LARGEST_MU:
                break
            # ∂δ/∂μ = φ(ε/μ − μ/2); the steps are in log δ and log μ, where the curve is bent the least.
            step = (wanted / value).ln() * value / (mu * _density(e / mu - mu / 2))
            mu *= min(max(step, Decimal(-1)), Decimal(1)).exp()
            if abs(step) <= Decimal("1e-30"):
                break
    return _settled(Fraction(mu * mu), lambda found: gaussian_delta(found, epsilon) <= delta, start, up=False)


@lru_cache(maxsize=4096)
def mu_squared_of_pure(epsilon: Fraction) -> Fraction:
    """What an ε-DP step costs: μ = 2Φ⁻¹(e^ε/(1+e^ε)), rounded up [Dong, Roth & Su 2022].

    The slope of Φ⁻¹(logistic(x)) is at most √(2π)/4, so that μ² ≤ (π/2)ε², which is close where ε is small. Because
    Φ(−z) ≤ e^{−z²/2}/2, there is also μ² ≤ 8ε, which serves where ε is huge.

    >>> round(float(mu_squared_of_pure(Fraction(1))), 4)
    1.5179
    """
    with decimal.localcontext(_DIGITS):
        if epsilon <= _TINY:
            return round_up(Fraction(_PI + _ALLOWANCE) / 2 * epsilon**2)
        if epsilon >= _HUGE:
            return round_up(8 * epsilon)
        e = to_decimal(epsilon)
        tail = 1 / (1 + e.exp())
        # Φ(−z) ≤ e^{−z²/2}/2 makes this a z that is large enough; log Φ(−z) is concave, so the steps from it stay so.
        z = (-2 * (2 * tail).ln()).sqrt()
        for _ in range(_STEPS):
            value = _tail(z)
            step = (tail / value).ln() * value / _density(z)
            z -= step
            if abs(step) <= z * Decimal("1e-30"):
                break
    return _settled(Fraction(4 * z * z), lambda found: _pays_for(found, e), round_up(8 * epsilon), up=True)


@lru_cache(maxsize=4096)
def epsilon_of_pure(mu_squared: Fraction) -> Fraction:
    """The largest ε found for which an ε-DP step costs at most μ²: log(Φ(μ/2)/Φ(−μ/2)), rounded down.

    >>> round(float(epsilon_of_pure(mu_squared_of_pure(Fraction(3)))), 9)
    3.0
    """
    with decimal.localcontext(_DIGITS):
        z = to_decimal(mu_squared).sqrt() / 2
        if z < Decimal("1e-12"):
            proposed = z * (8 / _PI).sqrt()
        elif z > 2 * _FAR:
            proposed = z * z / 2
        else:
            tail = _tail(z)
            proposed = ((1 - tail) / tail).ln()
    return _settled(Fraction(proposed), lambda found: mu_squared_of_pure(found) <= mu_squared, Fraction(0), up=False)


def _settled(found: Fraction, holds: Callable[[Fraction], bool], fallback: Fraction, *, up: bool) -> Fraction:
    """The nearest number of 64 significant bits to `found`, on the side that is safe, of which it `holds`."""
    away = Fraction(1, 2**62)
    for _ in range(_STEPS):
        rounded = round_up(found) if up else round_down(found)
        if holds(rounded):
            return rounded
        found, away = found * (1 + away if up else 1 - away), 2 * away
    return fallback


def _delta(mu: Decimal, epsilon: Decimal) -> Decimal | None:
    """δ with its allowance; None where it is nearly nothing."""
    a = epsilon / mu - mu / 2
    if a > _FAR:
        return None
    if a < -_FAR:
        return Decimal(1)
    # e^ε·φ(a + μ) = φ(a), so no large exponent is needed.
    first, second = _tail(a), _density(a) * _mills(a + mu)
    return first - second + (first + second) * _ALLOWANCE


def _pays_for(mu_squared: Fraction, epsilon: Decimal) -> bool:
    """Whether Φ(−μ/2) ≤ 1/(1+e^ε), beyond doubt."""
    with decimal.localcontext(_DIGITS):
        return _tail(to_decimal(mu_squared).sqrt() / 2) * (1 + epsilon.exp()) <= 1 - _ALLOWANCE


def _tail(x: Decimal) -> Decimal:
    return upper_tail(Fraction(x), _NORMAL_DIGITS)


def _mills(x: Decimal) -> Decimal:
    return mills_ratio(Fraction(x), _NORMAL_DIGITS)


def _density(x: Decimal) -> Decimal:
    return density(Fraction(x), _NORMAL_DIGITS)
