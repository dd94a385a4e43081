"""Accounting: converting zCDP to (ε, δ) and back, with every rounding towards privacy.

The bound is that of Canonne, Kamath & Steinke [2020, Corollary 13]: a ρ-zCDP release is (ε, δ)-private for

    ε = ρα + log(1/(αδ))/(α−1) + log(1−1/α)        for every α > 1.

Any α gives a true bound, so the search for a good one may be careless; only the last evaluation is careful, and it is
done with 50 digits.
"""

import decimal
import math
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction

from priory.privacy.uniforms import context, to_decimal

# Fifty digits, and an allowance of 10⁻⁴⁰ for the few roundings of one evaluation.
DIGITS = context(50)
ALLOWANCE = Decimal("1e-40")
# log(α−1) is searched between these; the best α is near √(log(1/δ)/ρ).
_LOWEST, _HIGHEST, _POINTS = math.log(1e-9), math.log(1e15), 200
_SIGNIFICANT_BITS = 64


def rho_of_pure(epsilon: Fraction) -> Fraction:
    """What a pure ε costs in zCDP: ε²/2 [Bun & Steinke 2016, Proposition 1.4]."""
    return epsilon**2 / 2


def epsilon_at(rho: Fraction, delta: Fraction) -> Fraction:
    """The smallest ε found at which ρ-zCDP gives (ε, δ); never below the true one.

    >>> round(float(epsilon_at(Fraction(1, 2), Fraction(1, 10**9))), 3)
    6.474
    """
    if rho == 0:
        return Fraction(0)
    r, log_delta = float(rho), math.log(delta)
    a = _minimiser(lambda a: r * (1 + a) + _excess(a, log_delta))
    with decimal.localcontext(DIGITS):
        spent = to_decimal(rho) * (1 + Decimal(a)) * (1 + ALLOWANCE)
        value = spent + _exact_excess(Decimal(a), delta)
    return max(Fraction(0), round_up(Fraction(value)))


def rho_within(epsilon: Fraction, delta: Fraction) -> Fraction:
    """The largest ρ found whose bound is at most ε at δ; never above the true one.

    For one α the bound is linear in ρ, so each α proposes the ρ at which its own bound is ε, and the best is taken.

    >>> round(float(rho_within(Fraction(1), Fraction(1, 43_944**2))), 6)
    0.014435
    """
    e, log_delta = float(epsilon), math.log(delta)
    a = _minimiser(lambda a: (_excess(a, log_delta) - e) / (1 + a))
    with decimal.localcontext(DIGITS):
        room = to_decimal(epsilon) * (1 - ALLOWANCE) - _exact_excess(Decimal(a), delta)
        proposed = room / (1 + Decimal(a)) * (1 - ALLOWANCE)
    return max(Fraction(0), round_down(Fraction(proposed)))


def delta_at(rho: Fraction, epsilon: Fraction) -> Fraction:
    """The smallest δ found at which ρ-zCDP gives (ε, δ); never below the true one."""
    if rho == 0:
        return Fraction(0)
    r, e = float(rho), float(epsilon)
    a = Decimal(_minimiser(lambda a: a * ((1 + a) * r - e) - math.log(a) - (1 + a) * math.log1p(1 / a)))
    with decimal.localcontext(DIGITS):
        exponent = a * ((1 + a) * to_decimal(rho) - to_decimal(epsilon)) - a.ln() - (1 + a) * (1 + 1 / a).ln()
        value = (exponent + (1 + abs(exponent)) * ALLOWANCE).exp()
    return min(Fraction(1), round_up(Fraction(value)))


def _excess(a: float, log_delta: float) -> float:
    """The bound without its term in ρ, for α = 1 + a."""
    return (-math.log1p(a) - log_delta) / a - math.log1p(1 / a)


def _exact_excess(a: Decimal, delta: Fraction) -> Decimal:
    """The same with fifty digits, rounded up."""
    with decimal.localcontext(DIGITS):
        first = (-(1 + a).ln() - to_decimal(delta).ln()) / a
        second = (1 + 1 / a).ln()
        return first - second + (1 + abs(first) + abs(second)) * ALLOWANCE


def _minimiser(f: Callable[[float], float]) -> float:
    """Where f is about smallest: a grid over log a, then golden sections around its best point."""
    step = (_HIGHEST - _LOWEST) / _POINTS
    best = min((_LOWEST + i * step for i in range(_POINTS + 1)), key=lambda t: f(math.exp(t)))
    low, high = best - step, best + step
    golden = (math.sqrt(5) - 1) / 2
    for _ in range(40):
        left, right = high - golden * (high - low), low + golden * (high - low)
        low, high = (low, right) if f(math.exp(left)) < f(math.exp(right)) else (left, high)
    return math.exp((low + high) / 2)


def round_down(value: Fraction) -> Fraction:
    """The nearest fraction not above `value` with 64 significant bits, so that sums stay short."""
    shift = _shift(value)
    return Fraction(math.floor(value * Fraction(2) ** shift)) / Fraction(2) ** shift


def round_up(value: Fraction) -> Fraction:
    """The nearest fraction not below `value` with 64 significant bits."""
    return -round_down(-value)


def _shift(value: Fraction) -> int:
    return _SIGNIFICANT_BITS - abs(value.numerator).bit_length() + value.denominator.bit_length()
