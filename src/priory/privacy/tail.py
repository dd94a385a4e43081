"""Tail: an upper bound on the probability that the privacy loss exceeds ε.

Let P and P′ be the distributions of the release on two neighbouring tables. The privacy loss of an outcome o that is
drawn from P is L = log(P[o]/P′[o]); it is by e^L that the release changes the odds of the first table against the
second. A promise of (ε, δ) does not say P[L > ε] ≤ δ. With

    δ(ε′) = sup over sets S of P[S] − e^ε′·P′[S] = E[(1 − e^(ε′−L))₊],

where o is drawn from P, the bracket is at least 1 − e^(ε′−ε) wherever L > ε > ε′, so that

    P[L > ε] ≤ δ(ε′) / (1 − e^(ε′−ε))        for every ε′ < ε,

and P[L > ε] can be many times δ(ε). Every bound here is of this form, for a curve δ(·) that holds for all pairs of
neighbours in both orders. Such a curve holds for everything computed from the release, and so does the bound. The tail
itself does not have this property [Meiser 2018]: rounding joins outcomes whose loss is below ε with others above it.
The tail of unrounded Gaussian noise, Φ(−ε/μ + μ/2), is therefore no bound for rounded noise, and is not used.

All results are rounded up.
"""

import decimal
import math
from decimal import Decimal
from fractions import Fraction

from priory.privacy.accounting import ALLOWANCE, DIGITS, delta_at, round_down, round_up
from priory.privacy.budget import Budget, Currency
from priory.privacy.gaussian import gaussian_delta
from priory.privacy.uniforms import to_decimal

# A probability below 10⁻²⁰⁰⁰ is rounded up to about that.
_LEAST_EXPONENT = Decimal(-4605)
# ε − ε′ is searched from a quarter to four times its best value in zCDP. Any of them gives a true bound.
_FACTORS = tuple(Fraction(2 ** (k / 4)) for k in range(-8, 9))
# The same as shares of ε where δ′ is added, which makes larger ones better.
_SHARES = tuple(Fraction(2 ** (k / 2)) for k in range(-24, 1))


def loss_tail(budget: Budget, epsilon: Fraction, *, steps: int = 1) -> Fraction:
    """A bound on P[L > ε] for a release made under `budget`, between tables that are `steps` neighbours apart.

    Over k steps, 1 or 2, ε grows to kε, ρ to k²ρ [Bun & Steinke 2016] and μ to kμ [Dong, Roth & Su 2022].

    >>> float(loss_tail(Budget.pure(1), Fraction(1)))
    0.0
    >>> f"{float(loss_tail(Budget.approximate(1, 1e-9), Fraction(1))):.1e}"
    '9.2e-08'
    """
    if budget.currency is Currency.PURE:
        return Fraction(0) if epsilon >= steps * budget.amount and not budget.additive else Fraction(1)
    if budget.additive:
        # δ′ is added to the curve of the amount, so that δ(ε′) never falls below it.
        gaps = [epsilon * share for share in _SHARES]
        return min(Fraction(1), *(approximate_tail(_delta(budget, epsilon - gap, steps), gap) for gap in gaps))
    if budget.currency is Currency.ZCDP:
        return zcdp_tail(steps**2 * budget.amount, epsilon)
    return gaussian_tail(steps**2 * budget.amount, epsilon)


def belief_tail(budget: Budget, epsilon: Fraction, *, steps: int = 1) -> Fraction:
    """A bound on the probability that odds grow by more than e^ε for somebody who knows all other records."""
    # They may give any probabilities to what the person's record says. Let Q₁ be the distribution of the release that
    # they expect if what they believe is true, and Q₀ the one if not: mixtures over records. Let S be the outcomes that
    # are more than e^ε times as likely under Q₁ as under Q₀. A curve δ(·) that holds for all pairs holds for mixtures,
    # so that Q₁[S] ≤ t with the tail t of the loss, and Q₀[S] ≤ e^−ε·t. For the distribution P on the true table,
    # therefore, P[S] ≤ e^ε·Q₀[S] + δ(ε) ≤ t + δ(ε).
    return min(Fraction(1), loss_tail(budget, epsilon, steps=steps) + _delta(budget, epsilon, steps))


def zcdp_tail(rho: Fraction, epsilon: Fraction) -> Fraction:
    """A bound on P[L > ε] under ρ-zCDP: exp(−(ε−ρ)²/4ρ) where ε > ρ, otherwise 1."""
    # For one order α the bound of Canonne, Kamath & Steinke [2020, Corollary 13] is δ(ε′) = c·e^(−(α−1)ε′). The
    # right-hand side of the module's inequality is then least at e^(ε′−ε) = 1 − 1/α, where it is e^((α−1)(αρ−ε)). This
    # is also Markov's inequality for e^((α−1)L). The best order is α = (ε+ρ)/2ρ.
    if rho == 0:
        return Fraction(0)
    if epsilon <= rho:
        return Fraction(1)
    with decimal.localcontext(DIGITS):
        exponent = -to_decimal((epsilon - rho) ** 2 / (4 * rho)) * (1 - ALLOWANCE)
        return min(Fraction(1), round_up(Fraction(max(exponent, _LEAST_EXPONENT).exp() * (1 + ALLOWANCE))))


def gaussian_tail(mu_squared: Fraction, epsilon: Fraction) -> Fraction:
    """A bound on P[L > ε] under μ-GDP, whose δ(·) is that of Gaussian noise; also (μ²/2)-zCDP, so never above that."""
    if mu_squared == 0:
        return Fraction(0)
    # About the best in zCDP: 1 − e^(ε′−ε) = 1/α, with α = (ε+ρ)/2ρ and ρ = μ²/2.
    start = mu_squared / (epsilon + mu_squared / 2)
    gaps = {min(start * factor, epsilon) for factor in _FACTORS}
    bounds = (approximate_tail(gaussian_delta(mu_squared, epsilon - gap), gap) for gap in gaps)
    return min(zcdp_tail(mu_squared / 2, epsilon), *bounds)


def approximate_tail(delta: Fraction, beyond: Fraction) -> Fraction:
    """A bound on P[L > ε + beyond] where nothing is known but a promise of (ε, δ): δ/(1 − e^(−beyond)).

    >>> round(float(approximate_tail(Fraction(1, 10**9), Fraction("0.693147180559945310"))) * 1e9, 6)
    2.0
    """
    with decimal.localcontext(DIGITS):
        share = 1 - (-to_decimal(beyond)).exp() - ALLOWANCE
        if share <= 0:
            return Fraction(1)
        return min(Fraction(1), round_up(delta / round_down(Fraction(share))))


def _delta(budget: Budget, epsilon: Fraction, steps: int) -> Fraction:
    """The curve δ(ε) of a budget; over two steps with a δ′, δ₂(2ε) ≤ δ(ε) + e^ε·δ(ε), as for any promise of (ε, δ)."""
    if budget.currency is Currency.PURE:
        return Fraction(0) if epsilon >= steps * budget.amount and not budget.additive else Fraction(1)
    curve = delta_at if budget.currency is Currency.ZCDP else gaussian_delta
    if not budget.additive:
        return curve(steps**2 * budget.amount, epsilon)
    delta = curve(budget.amount, epsilon / steps) + budget.additive
    return delta if steps == 1 else delta + power_up(epsilon / steps) * delta


def power_up(epsilon: Fraction) -> Fraction:
    """e^ε, rounded up; beyond e^700, where it makes every bound 1, it is taken for that."""
    return Fraction(math.exp(min(float(epsilon), 700.0))) * (1 + Fraction(1, 10**12))
