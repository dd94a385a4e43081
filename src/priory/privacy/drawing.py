"""Drawing: exact draws of discrete Laplace, discrete Gaussian and rounded Gaussian noise, many at once.

A magnitude M ≥ 0 with tail P(M ≥ m) is drawn from a uniform number U: M is the largest m with U < P(M ≥ m). The inverse
of the tail, in floats, gives M at once, unless it is so close to a whole number that the floats could be wrong; then U
is compared with P(M ≥ m) itself (`priory.privacy.uniforms`). No probability is rounded.

That works up to a scale of 2²⁰. A larger one 2^j·s is drawn in two steps: which stretch of 2^j values, as above with
scale s; and where in it, uniformly, accepted with the probability that the density there has relative to the stretch's
first, or else drawn again.

What is assumed of floats: `log`, `exp` and `ndtri` are wrong by less than 2⁻⁴⁰ relative to 1 + |result|. They are wrong
by about 2⁻⁵⁰; `check_floats` looks once in a process before the first noise is bought.
"""

import decimal
import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from priory.errors import OptionError
from priory.privacy.normal import upper_tail
from priory.privacy.uniforms import WORD, Bits, Boundary, Uniform, Words, coins, context, decided, exponential, words

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]

# Of the 64 bits of a word one is the sign. The other 63 as a number are U, known to 2⁻⁴⁰ of itself from 2⁴⁰ on.
_PLACES, _LEAST_WORD = WORD - 1, 2**40
# The inverse of a tail, in units of its scale, is wrong by less than this relative to 1 + |result|: by 1.25·2⁻⁴⁰ for
# what is not known of U, and by 2⁻⁴⁰ for the floats.
_DOUBT = 2.0**-36
# Up to this scale fewer than one draw in ten thousand is in doubt.
_LARGEST_DIRECT = 2**20
_PIECE = 2**18
# Where floats are checked, and the error they may have.
_CHECKED, _FLOAT_ERROR = [2.0**-i * (1 - j / 7) for i in range(1, 64, 3) for j in (0, 1, 3)], Decimal(2) ** -40


@lru_cache(maxsize=1)
def check_floats() -> None:
    """Refuse a machine whose logarithms, exponentials or normal quantiles are wrong; looks once in a process."""
    if not all(map(_is_right_at, _CHECKED)):
        raise OptionError("randomness", "the logarithms, exponentials or normal quantiles of this machine are wrong")


def laplace(scale: Fraction, size: int, bits: Bits = os.urandom) -> Integers:
    """Draws with P(k) ∝ exp(−|k|/scale): signed geometric numbers without −0 [Canonne, Kamath & Steinke 2020]."""
    return _in_pieces(size, lambda count: _accepted(count, lambda n: _signed_geometric(scale, n, bits)))


def gaussian(scale: Fraction, size: int, bits: Bits = os.urandom) -> Integers:
    """Draws with P(k) ∝ exp(−k²/(2·scale²)), by rejection from Laplace draws [Canonne, Kamath & Steinke 2020]."""
    return _in_pieces(size, lambda count: _accepted(count, lambda n: _gaussian_proposals(scale, n, bits)))


def rounded_gaussian(scale: Fraction, size: int, bits: Bits = os.urandom) -> Integers:
    """Draws of round(scale·Z) with Z standard normal: P(k) = Φ((k+½)/scale) − Φ((k−½)/scale)."""
    return _in_pieces(size, lambda count: _rounded_gaussian(scale, count, bits))


def _in_pieces(size: int, draw: Callable[[int], Integers]) -> Integers:
    """`size` draws, so many at once that they stay in the processor's memory."""
    pieces = [draw(min(_PIECE, size - start)) for start in range(0, size, _PIECE)]
    return np.concatenate([np.empty(0, dtype=np.int64), *pieces])


def _accepted(size: int, propose: Callable[[int], tuple[Integers, NDArray[np.bool_]]]) -> Integers:
    """The first `size` proposals that are accepted."""
    values, is_accepted = propose(size)
    accepted = [values[is_accepted]]
    while (missing := size - sum(map(len, accepted))) > 0:
        values, is_accepted = propose(missing)
        accepted.append(values[is_accepted])
    return np.concatenate(accepted)


def _signed_geometric(scale: Fraction, size: int, bits: Bits) -> tuple[Integers, NDArray[np.bool_]]:
    drawn = words(size, bits)
    stretch = _stretch(scale)
    magnitudes = _magnitudes(_geometric(scale / 2**stretch), drawn, bits)
    if stretch:
        magnitudes = (magnitudes << stretch) + _places_of_geometric(scale, stretch, size, bits)
    is_negative = _is_negative(drawn)
    return np.where(is_negative, -magnitudes, magnitudes), ~is_negative | (magnitudes != 0)


def _gaussian_proposals(scale: Fraction, size: int, bits: Bits) -> tuple[Integers, NDArray[np.bool_]]:
    width = Fraction(math.floor(scale) + 1)
    values = laplace(width, size, bits)
    magnitudes, centre = np.abs(values), scale**2 / width
    # The exponent x is wrong by less than 2⁻⁵⁰·(2x + 4), so exp(−x) is by less than 2⁻⁴⁷.
    with np.errstate(over="ignore"):
        exponents = ((magnitudes - float(centre)) / float(scale)) ** 2 / 2
    return values, coins(exponents, lambda i: (int(magnitudes[i]) - centre) ** 2 / (2 * scale**2), bits)


def _rounded_gaussian(scale: Fraction, size: int, bits: Bits) -> Integers:
    drawn = words(size, bits)
    stretch = _stretch(scale)
    if stretch == 0:
        magnitudes = _magnitudes(_half_normal(scale, Fraction(1, 2)), drawn, bits)
    else:
        short = scale / 2**stretch
        stretches = _magnitudes(_half_normal(short, Fraction(0)), drawn, bits)
        magnitudes = (stretches << stretch) + _places_of_normal(short, stretches, stretch, bits)
    return np.where(_is_negative(drawn), -magnitudes, magnitudes)


@dataclass(frozen=True)
class _Tail:
    """A law on 0, 1, 2, … with P(M ≥ 0) = 1."""

    scale: Fraction
    # The number t with P(M ≥ t) = u, if P(M ≥ ·) is continued between whole numbers; M is t rounded down.
    inverse: Callable[[Floats], Floats]
    at: Callable[[int], Boundary]  # P(M ≥ m), for m ≥ 1


def _geometric(scale: Fraction) -> _Tail:
    """P(M ≥ m) = exp(−m/scale)."""
    return _Tail(scale, lambda u: -float(scale) * np.log(u), lambda m: exponential(m / scale))


def _half_normal(scale: Fraction, shift: Fraction) -> _Tail:
    """The magnitude of scale·Z + shift, rounded down: P(M ≥ m) = 2Φ(−(m − shift)/scale)."""
    from scipy.special import ndtri

    return _Tail(
        scale,
        lambda u: float(shift) - float(scale) * ndtri(u / 2),
        lambda m: lambda digits: 2 * upper_tail((m - shift) / scale, digits),
    )


def _magnitudes(tail: _Tail, drawn: Words, bits: Bits) -> Integers:
    """One magnitude for each word, from all its bits but the sign."""
    numbers = drawn >> np.uint64(1)
    # Numbers below the least are settled with further digits, so their inverse need not be right, only finite.
    t = tail.inverse(np.maximum(numbers, _LEAST_WORD) * 2.0**-_PLACES)
    magnitudes = t.astype(np.int64)
    nearest = np.rint(t)
    # Every magnitude is at least 0, so that 0 is no boundary.
    is_in_doubt = (np.abs(t - nearest) <= _DOUBT * (t + (float(tail.scale) + 1))) & (nearest > 0)
    for i in np.flatnonzero(is_in_doubt | (numbers < _LEAST_WORD)):
        magnitudes[i] = _settled(tail, Uniform(int(numbers[i]), _PLACES, bits))
    return magnitudes


def _settled(tail: _Tail, number: Uniform) -> int:
    """The largest m with number < P(M ≥ m), from about the right place up or down."""
    m = max(0, round(float(tail.inverse(np.array([number.about()]))[0])))
    while m > 0 and not number.is_below(tail.at(m)):
        m -= 1
    while number.is_below(tail.at(m + 1)):
        m += 1
    return m


def _stretch(scale: Fraction) -> int:
    """The smallest j such that scale/2^j can be drawn directly."""
    return max(0, math.ceil(math.log2(scale / _LARGEST_DIRECT))) if scale > _LARGEST_DIRECT else 0


def _is_negative(drawn: Words) -> NDArray[np.bool_]:
    return (drawn & np.uint64(1)).astype(np.bool_)


def _places_of_geometric(scale: Fraction, stretch: int, size: int, bits: Bits) -> Integers:
    """Where in its stretch a geometric magnitude is: place r with probability ∝ exp(−r/scale), in every stretch."""

    def propose(count: int) -> tuple[Integers, NDArray[np.bool_]]:
        places = (words(count, bits) >> np.uint64(WORD - stretch)).astype(np.int64)
        return places, coins(places / float(scale), lambda i: int(places[i]) / scale, bits)

    return _accepted(size, propose)


def _places_of_normal(scale: Fraction, stretches: Integers, stretch: int, bits: Bits) -> Integers:
    """Where in its stretch the magnitude of a normal number is, rounded to a whole number."""
    # The number is c + u in units of the stretch, and u has density ∝ exp(−((c + u)² − c²)/(2·scale²)) in [0, 1).
    places = np.empty(stretches.size, dtype=np.int64)
    missing = np.arange(stretches.size)
    while missing.size:
        drawn, c = words(missing.size, bits), stretches[missing]
        u = drawn * 2.0**-WORD

        def is_below(i: int, number: Uniform, drawn: Words = drawn, c: Integers = c) -> bool:
            return _is_below_density(scale, int(c[i]), Uniform(int(drawn[i]), WORD, bits), number)

        is_accepted = decided(np.exp(-(2 * c + u) * u / (2 * float(scale) ** 2)), is_below, bits)
        # u·2^stretch + ½, rounded down: the bits after these cannot change it.
        rounded = ((drawn >> np.uint64(WORD - 1 - stretch)) + np.uint64(1)) >> np.uint64(1)
        places[missing[is_accepted]] = rounded[is_accepted].astype(np.int64)
        missing = missing[~is_accepted]
    return places


def _is_below_density(scale: Fraction, c: int, place: Uniform, number: Uniform) -> bool:
    """Whether `number` is below exp(−(2cu + u²)/(2·scale²)), which falls with u, the number `place`."""
    while True:
        least, most = ((2 * c + u) * u / (2 * scale**2) for u in place.bounds())
        if number.side(exponential(most)) > 0:
            return True
        if number.side(exponential(least)) < 0:
            return False
        place.extend()
        number.extend()


def _is_right_at(u: float) -> bool:
    from scipy.special import ndtri

    with decimal.localcontext(context(40)):
        log, exponential_of_log = Decimal(u).ln(), Decimal(float(np.log(u))).exp()
        is_right_log = abs(log - Decimal(float(np.log(u)))) <= _FLOAT_ERROR * (1 - log)
        is_right_exp = abs(exponential_of_log - Decimal(float(np.exp(np.log(u))))) <= _FLOAT_ERROR
        z = -Fraction(float(ndtri(u)))
        error = Fraction(_FLOAT_ERROR) * (1 + abs(z))
        is_right_quantile = upper_tail(z + error, 30) < Decimal(u) < upper_tail(z - error, 30)
    return is_right_log and is_right_exp and is_right_quantile
