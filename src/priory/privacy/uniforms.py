"""Uniforms: exact decisions from random bits, in floats where that is certain and with more digits where it is not.

Everything drawn here and in `priory.privacy.drawing` compares a uniform number U in [0, 1) with a boundary. U is given
by its first 64 binary digits, and the comparison is made in floats. Where the two are closer than the floats' error
could be, U gets further digits and the boundary is worked out in decimals, both as far as it takes. So the result is
that of a comparison of real numbers; floats only decide how long it takes to find.
"""

import bisect
import decimal
import math
import os
import sys
from collections.abc import Callable, Sequence
from decimal import Decimal
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

# bits(n) gives n random bytes.
Bits = Callable[[int], bytes]
Words = NDArray[np.uint64]
# boundary(digits) is the boundary with an error below 10^−digits, relative to itself.
Boundary = Callable[[int], Decimal]

WORD = 64
# Floats further apart than this are in the right order: that of exp(k·log 2 − x), which is at most about 1, is wrong by
# less than 2⁻⁴² for k up to 256, and that of the draw by at most 2⁻⁵³.
_DOUBT = 2.0**-40


class Uniform:
    """A uniform number in [0, 1) whose binary digits are drawn when they are needed."""

    def __init__(self, head: int, places: int, bits: Bits) -> None:
        # The first digits as a whole number, how many those are, and where further ones come from.
        self._digits, self._places, self._bits = head, places, bits

    def is_below(self, boundary: Boundary) -> bool:
        """Whether it is below a boundary that is at most 1, with as many digits as it takes."""
        while (side := self.side(boundary)) == 0:
            self.extend()
        return side > 0

    def side(self, boundary: Boundary) -> int:
        """1 if its digits so far say that it is below the boundary, −1 if above, 0 if they do not say."""
        digits = self._places // 3 + 5
        with decimal.localcontext(context(digits + 10)):
            # 10^−digits is less than 2^−places, so the boundary is within 2 of this in units of 2^−places; and the
            # number itself is at least its digits and less than 1 more.
            gap = int(boundary(digits) * (1 << self._places)) - self._digits
        return (gap > 3) - (gap < -3)

    def extend(self) -> None:
        """Draw another word of digits."""
        self._digits = self._digits << WORD | int.from_bytes(self._bits(WORD // 8), "little")
        self._places += WORD

    def about(self) -> float:
        """About what it is; digits are drawn until forty of them count."""
        while self._digits < 2**40:
            self.extend()
        return max(self._digits / (1 << self._places), sys.float_info.min)

    def bounds(self) -> tuple[Fraction, Fraction]:
        """What it is at least, and what it is less than."""
        return Fraction(self._digits, 1 << self._places), Fraction(self._digits + 1, 1 << self._places)


def words(size: int, bits: Bits) -> Words:
    """`size` words of 64 random bits."""
    return np.frombuffer(bits(8 * size), dtype="<u8")


def below(limits: NDArray[np.int64], bits: Bits = os.urandom) -> NDArray[np.int64]:
    """Exactly uniform whole numbers, each from 0 to its limit − 1."""
    most = limits.astype(np.uint64)
    drawn = words(most.size, bits)
    # 2⁶⁴ is no multiple of the limit: the remainder's words would favour small numbers, and are drawn again.
    spare = (np.uint64(0) - most) % most
    numbers = (drawn % most).astype(np.int64)
    again = np.flatnonzero(drawn < spare)
    if again.size:
        numbers[again] = below(limits[again], bits)
    return numbers


def intervals(ends: Sequence[int], size: int, bits: Bits = os.urandom) -> NDArray[np.int64]:
    """In which of the intervals from 0 that end at `ends` uniform numbers below the last end lie."""
    drawn, whole = words(size, bits), ends[-1]
    heads = np.array([min((end << WORD) // whole, 2**WORD - 1) for end in ends], dtype=np.uint64)
    found = np.searchsorted(heads, drawn, side="right")
    # A number that begins with the digits of an end can lie on either side of it.
    for i in np.flatnonzero(drawn == heads[np.maximum(found - 1, 0)]):
        number = Uniform(int(drawn[i]), WORD, bits)
        while True:
            low, high = (bound * whole for bound in number.bounds())
            places = bisect.bisect_right(ends, low), bisect.bisect_left(ends, high)
            if places[0] == places[1]:
                found[i] = places[0]
                break
            number.extend()
    return found.astype(np.int64)


def coins(
    exponents: NDArray[np.float64],
    exact: Callable[[int], Fraction],
    bits: Bits = os.urandom,
    *,
    levels: NDArray[np.int64] | None = None,
) -> NDArray[np.bool_]:
    """Independent coins that are true with probability exp(−exponent)·2^level, which is at most 1.

    `exact(i)` is the exponent of coin i, which floats need only give so nearly that chances are right to 2⁻⁴⁰.
    """
    with np.errstate(over="ignore", under="ignore"):
        chances = np.exp((0 if levels is None else levels * math.log(2)) - exponents)

    def is_below(i: int, number: Uniform) -> bool:
        exponent, level = exact(i), 0 if levels is None else int(levels[i])
        # A chance of 1 needs no digits of its own; no number of them would be enough.
        return (exponent == 0 and level == 0) or number.is_below(exponential(exponent, level))

    return decided(chances, is_below, bits)


def decided(chances: NDArray[np.float64], is_below: Callable[[int, Uniform], bool], bits: Bits) -> NDArray[np.bool_]:
    """Coins with these chances, which are right to 2⁻⁴⁰; `is_below` settles the coins that this leaves in doubt."""
    drawn = words(chances.size, bits)
    numbers = drawn * 2.0**-WORD
    fallen: NDArray[np.bool_] = numbers < chances
    for i in np.flatnonzero(np.abs(numbers - chances) < _DOUBT):
        fallen[i] = is_below(int(i), Uniform(int(drawn[i]), WORD, bits))
    return fallen


def exponential(exponent: Fraction, level: int = 0) -> Boundary:
    """exp(−exponent)·2^level as a boundary."""

    def boundary(digits: int) -> Decimal:
        # The quotient's rounding error is multiplied by the exponent, whose size takes that many digits more.
        spare = len(str(int(exponent))) + 5
        with decimal.localcontext(context(digits + spare)):
            return (-to_decimal(exponent)).exp() * (1 << level)

    return boundary


def context(digits: int) -> decimal.Context:
    """Decimals of `digits` digits, however large or small."""
    return decimal.Context(prec=digits, Emax=decimal.MAX_EMAX, Emin=decimal.MIN_EMIN)


def to_decimal(value: Fraction) -> Decimal:
    """A fraction in as many digits as the context at hand has."""
    return Decimal(value.numerator) / Decimal(value.denominator)
