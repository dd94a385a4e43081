"""Normal: the standard normal distribution, to as many digits as are asked for.

Two expansions of Φ(−x) are used, each with a bound on what is cut off:

- below 4, ½ − φ(x)·(x + x³/3 + x⁵/(3·5) + …), whose terms are all positive. Once a term is at most half of the one
  before, so are all that follow, and what is left is at most the last term;
- from 4 on, Laplace's continued fraction φ(x)/(x + 1/(x + 2/(x + 3/(x + …)))), whose convergents are in turn above and
  below the value, so that two neighbours bound it.
"""

import decimal
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache

from priory.privacy.uniforms import context, to_decimal

# The series loses five digits below 4, and neither expansion has 10^12 roundings.
_SPARE_DIGITS = 25
_SERIES_BELOW = 4


def upper_tail(x: Fraction, digits: int) -> Decimal:
    """Φ(−x), with a relative error below 10^−digits.

    >>> round(upper_tail(Fraction(196, 100), 20), 6)
    Decimal('0.024998')
    """
    with decimal.localcontext(context(digits + _SPARE_DIGITS)):
        if x < 0:
            return 1 - upper_tail(-x, digits)
        if x < _SERIES_BELOW:
            return Decimal("0.5") - density(x, digits) * _series(to_decimal(x), digits)
        return density(x, digits) * mills_ratio(x, digits)


def density(x: Fraction, digits: int) -> Decimal:
    """φ(x), with a relative error below 10^−digits."""
    with decimal.localcontext(context(digits + _SPARE_DIGITS)):
        # x² as a fraction, so that nothing is lost before its exponential is taken.
        return (-to_decimal(x * x / 2)).exp() / _root_of_two_pi(digits)


def mills_ratio(x: Fraction, digits: int) -> Decimal:
    """Φ(−x)/φ(x), with a relative error below 10^−digits."""
    with decimal.localcontext(context(digits + _SPARE_DIGITS)):
        if x < _SERIES_BELOW:
            return upper_tail(x, digits) / density(x, digits)
        return _continued_fraction(to_decimal(x), digits)


def _series(x: Decimal, digits: int) -> Decimal:
    """The sum x + x³/3 + x⁵/(3·5) + and so on."""
    smallest = Decimal(10) ** -(digits + _SPARE_DIGITS // 2)
    square, term, whole, odd = x * x, x, x, 1
    while 2 * square > odd + 2 or term > smallest:
        odd += 2
        term *= square / odd
        whole += term
    return whole


def _continued_fraction(x: Decimal, digits: int) -> Decimal:
    """1/(x + 1/(x + 2/(x + …))), by the recurrences of the convergents' numerators and denominators."""
    smallest = Decimal(10) ** -(digits + 2)
    before, after = (Decimal(0), Decimal(1)), (Decimal(1), x)
    k = 0
    while True:
        k += 1
        before, after = after, (x * after[0] + k * before[0], x * after[1] + k * before[1])
        if after[1].adjusted() > 1000:
            # Both are ratios, so a common factor may be taken out.
            before, after = (before[0] / after[1], before[1] / after[1]), (after[0] / after[1], Decimal(1))
        older, newer = before[0] / before[1], after[0] / after[1]
        if abs(newer - older) <= smallest * newer:
            return (older + newer) / 2


@lru_cache(maxsize=32)
def _root_of_two_pi(digits: int) -> Decimal:
    """√(2π), with π by Machin's formula 16·arctan(1/5) − 4·arctan(1/239)."""
    with decimal.localcontext(context(digits + 2 * _SPARE_DIGITS)):
        return (2 * (16 * _arctan_inverse(5) - 4 * _arctan_inverse(239))).sqrt()


def _arctan_inverse(n: int) -> Decimal:
    """arctan(1/n), to the digits of the context."""
    power = whole = Decimal(1) / n
    odd = 1
    while abs(power) > Decimal(10) ** -decimal.getcontext().prec:
        odd += 2
        power /= -n * n
        whole += power / odd
    return whole
