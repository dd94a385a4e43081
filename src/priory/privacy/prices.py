"""Prices: what a step costs in each currency, what an amount buys, and which currencies turn into which.

A pure ε turns into ρ and into μ², and μ² into ρ. Nothing turns into a pure ε, and ρ never into μ²: discrete Gaussian
noise has a ρ and is not Gaussian DP.
"""

import math
from fractions import Fraction

from priory.privacy.accounting import rho_of_pure, round_down
from priory.privacy.budget import Currency
from priory.privacy.gaussian import epsilon_of_pure, mu_squared_of_pure

_ROOT_BITS = 2**256


def price_of_pure(epsilon: Fraction, currency: Currency) -> Fraction:
    """What an ε-DP step costs in `currency`."""
    if currency is Currency.PURE:
        return epsilon
    return rho_of_pure(epsilon) if currency is Currency.ZCDP else mu_squared_of_pure(epsilon)


def price_of_bounded_range(epsilon: Fraction, currency: Currency) -> Fraction:
    """What a step costs that is ε-DP with losses in some interval of length ε, as the exponential mechanism is."""
    # But for pure ε it is the price of ε/2: in zCDP ε²/8 [Cesar & Rogers 2021], in μ² see `priory.privacy.gaussian`.
    return epsilon if currency is Currency.PURE else price_of_pure(epsilon / 2, currency)


def pure_within(amount: Fraction, currency: Currency) -> Fraction:
    """The largest ε found for which an ε-DP step costs at most `amount`.

    >>> pure_within(Fraction(2), Currency.ZCDP)
    Fraction(2, 1)
    """
    if currency is Currency.PURE:
        return amount
    return _root_down(2 * amount) if currency is Currency.ZCDP else epsilon_of_pure(amount)


def bounded_range_within(amount: Fraction, currency: Currency) -> Fraction:
    """The largest ε found for which a pick by the exponential mechanism costs at most `amount`."""
    return amount if currency is Currency.PURE else 2 * pure_within(amount, currency)


def converted(amount: Fraction, currency: Currency, to: Currency) -> Fraction | None:
    """What `amount` counts in another currency; None where it cannot be turned into that."""
    if currency is to:
        return amount
    if currency is Currency.PURE:
        return price_of_pure(amount, to)
    return amount / 2 if (currency, to) == (Currency.GAUSSIAN, Currency.ZCDP) else None


def _root_down(square: Fraction) -> Fraction:
    """A fraction whose square is at most `square`, to 64 significant bits."""
    return round_down(Fraction(math.isqrt(math.floor(square * _ROOT_BITS**8)), _ROOT_BITS**4))
