"""Noise: discrete Laplace and discrete Gaussian noise on integers, and what each costs.

Small jobs go to OpenDP, with the values passed in. Large ones go to an exact sampler of our own: draw sixty-four bits a
cell, find them in a table of the cumulative distribution, and where they fall on the very boundary between two
values, draw more bits and look again in a finer table. There is no rounding in it, only a number of bits that has no
limit.
"""

import bisect
import decimal
import itertools
import math
import os
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from priory.errors import OptionError
from priory.privacy.budget import Budget, Currency
from priory.privacy.prices import price_of_pure
from priory.queries.sensitivity import Sensitivity

Integers = NDArray[np.int64]
Bits = Callable[[int], bytes]

# Noise of this scale would not fit 62 bits beside the counts.
LARGEST_SCALE = Fraction(2**48)
# From this many cells on a table pays for itself, if it is no longer than the cells are many, nor than this.
TABLE_CELLS, TABLE_LENGTH = 20_000, 400_000
_PIECE = 2**20


@dataclass(frozen=True)
class Noise(ABC):
    """A distribution on the integers, symmetric about 0, that is added to answers.

    Attributes:
        scale: its parameter; a number that a double holds exactly, so that what is drawn is what was paid for.
    """

    scale: Fraction
    kind: ClassVar[str]

    @abstractmethod
    def cost(self, sensitivity: Sensitivity, currency: Currency) -> Fraction | None:
        """What one answer costs in `currency`; None where that cannot express it."""

    @property
    @abstractmethod
    def variance(self) -> float:
        """The variance of one draw."""

    @abstractmethod
    def log_mass(self, k: int) -> Fraction:
        """The logarithm of the probability of k, up to a constant."""

    @property
    @abstractmethod
    def reach(self) -> float:
        """How many values to either side of 0 have a probability worth a place in a table."""

    @property
    def stddev(self) -> float:
        """The standard deviation of one draw."""
        return math.sqrt(self.variance)

    def add(self, values: Integers) -> Integers:
        """Noisy `values`, with randomness from the operating system."""
        if values.dtype != np.int64:
            raise TypeError(f"noise is added to int64 answers; got {values.dtype}")
        if self.scale == 0 or values.size == 0:
            return values.copy()
        is_worth_a_table = TABLE_CELLS <= values.size >= self.reach <= TABLE_LENGTH
        return self.add_by_table(values) if is_worth_a_table else self.add_by_opendp(values)

    def add_by_opendp(self, values: Integers) -> Integers:
        """The same, by OpenDP."""
        noisy = _opendp(self.kind, float(self.scale))(values.ravel().tolist())
        return np.array(noisy, dtype=np.int64).reshape(values.shape)

    def add_by_table(self, values: Integers) -> Integers:
        """The same, by the sampler of this module."""
        return values + _draw(self, values.size).reshape(values.shape)


class Laplace(Noise):
    """Discrete Laplace noise: P(k) ∝ exp(−|k|/scale)."""

    kind = "laplace"

    def cost(self, sensitivity: Sensitivity, currency: Currency) -> Fraction:
        """ε = Δ₁/scale [Ghosh, Roughgarden & Sundararajan 2012]; in the other currencies, the price of a pure ε."""
        if sensitivity.l1 == 0:
            return Fraction(0)
        epsilon = sensitivity.l1 / self.scale
        return price_of_pure(epsilon, currency)

    @property
    def variance(self) -> float:
        """2e^{1/b}/(e^{1/b}−1)², which is about 2b²."""
        if self.scale == 0:
            return 0.0
        half = 1 / (2 * float(self.scale))
        return 1 / (2 * math.sinh(half) ** 2) if half < 350 else 0.0

    def log_mass(self, k: int) -> Fraction:
        """−|k|/scale."""
        return -abs(k) / self.scale

    @property
    def reach(self) -> float:
        """To a mass of 2^−104."""
        return 73 * float(self.scale)


class Gaussian(Noise):
    """Discrete Gaussian noise: P(k) ∝ exp(−k²/(2·scale²))."""

    kind = "gaussian"

    def cost(self, sensitivity: Sensitivity, currency: Currency) -> Fraction | None:
        """ρ = Δ₂²/(2·scale²) [Canonne, Kamath & Steinke 2020, Theorem 4, a coordinate at a time]; no other."""
        if sensitivity.l2_squared == 0:
            return Fraction(0)
        return sensitivity.l2_squared / (2 * self.scale**2) if currency is Currency.ZCDP else None

    @property
    def variance(self) -> float:
        """The exact variance, a little under scale² where the scale is small."""
        sigma = float(self.scale)
        if sigma > 4:
            return sigma**2
        if sigma < 0.03:
            # 2·exp(−1/2σ²), which no double can hold.
            return 0.0
        k = np.arange(-60, 61)
        weights = np.exp(-(k**2) / (2 * sigma**2))
        return float((k**2 * weights).sum() / weights.sum())

    def log_mass(self, k: int) -> Fraction:
        """−k²/(2·scale²)."""
        return -(k**2) / (2 * self.scale**2)

    @property
    def reach(self) -> float:
        """To a mass of 2^−104."""
        return 12.1 * float(self.scale)


NoiseKind = Literal["laplace", "gaussian"]


def noise_within(share: Budget, sensitivity: Sensitivity, kind: NoiseKind | None = None) -> Noise:
    """The least noise of `kind` whose cost is at most `share`; its scale is rounded up to a double.

    Raises:
        OptionError: there is no such noise, a pure budget was to pay for Gaussian noise, or the share is too small.
    """
    chosen = kind or ("laplace" if share.is_pure else "gaussian")
    if chosen not in ("laplace", "gaussian"):
        raise OptionError("noise", f"{kind!r} is neither 'laplace' nor 'gaussian'")
    if chosen == "gaussian":
        if share.is_pure:
            raise OptionError(
                "noise", "a pure budget cannot pay for Gaussian noise; use Laplace noise, or give a delta"
            )
        return Gaussian(root_up(sensitivity.l2_squared / (2 * share.amount)))
    if share.is_pure:
        return Laplace(double_up(sensitivity.l1 / share.amount))
    # ρ = ε²/2, so the scale is Δ₁/√(2ρ).
    return Laplace(root_up(sensitivity.l1**2 / (2 * share.amount)))


def double_up(value: Fraction) -> Fraction:
    """The smallest double not below `value`, as a fraction."""
    if value > LARGEST_SCALE:
        raise OptionError("budget", f"it is too small: the noise would have a scale of {float(value):.3g}")
    double = float(value)
    if Fraction(double) < value:
        double = math.nextafter(double, math.inf)
    return Fraction(double)


def root_up(square: Fraction) -> Fraction:
    """A double whose square is not below `square`, as a fraction."""
    if square > LARGEST_SCALE**2:
        raise OptionError("budget", f"it is too small: the noise would have a variance of {float(square):.3g}")
    root = math.sqrt(square)
    while Fraction(root) ** 2 < square:
        root = math.nextafter(root, math.inf)
    return Fraction(root)


@lru_cache(maxsize=64)
def _opendp(kind: str, scale: float) -> Callable[[list[int]], list[int]]:
    """OpenDP's measurement on vectors of 64-bit integers; the cost charged is ours, and tests compare the two."""
    import opendp.prelude as dp

    dp.enable_features("contrib")
    vectors: Any = dp.vector_domain(dp.atom_domain(T="i64"))
    if kind == "laplace":
        return dp.m.make_laplace(vectors, dp.l1_distance(T="i64"), scale=scale)
    return dp.m.make_gaussian(vectors, dp.l2_distance(T="i64"), scale=scale)


def _draw(noise: Noise, size: int, bits: Bits = os.urandom) -> Integers:
    """`size` exact draws; `bits(n)` gives n random bytes."""
    pieces = [_draw_piece(noise, min(_PIECE, size - start), bits) for start in range(0, size, _PIECE)]
    return np.concatenate(pieces)


def _draw_piece(noise: Noise, size: int, bits: Bits) -> Integers:
    table = _Table.of(noise, 1)
    words = np.frombuffer(bits(8 * size), dtype="<u8")
    # The value is the number of boundaries at or below the bits. A boundary is known to less than one unit, so the
    # place is certain unless the bits are within one unit of the boundary on either side (differences wrap around).
    place = np.searchsorted(table.heads, words, side="right")
    below = words - table.heads[np.maximum(place - 1, 0)]
    above = table.heads[np.minimum(place, len(table.heads) - 1)] - words
    draws = place.astype(np.int64) + table.lowest
    for i in np.flatnonzero((below <= 1) | (above <= 1)):
        draws[i] = _settle(noise, int(words[i]), bits)
    return draws


def _settle(noise: Noise, word: int, bits: Bits) -> int:
    """The draw whose bits begin with `word`, with as many further bits as it takes."""
    drawn, words = word, 1
    while True:
        words += 1
        drawn = (drawn << 64) | int.from_bytes(bits(8), "little")
        table = _Table.of(noise, words)
        place = bisect.bisect_right(table.boundaries, drawn)
        near = table.boundaries[max(place - 1, 0) : place + 1]
        if all(abs(boundary - drawn) > 1 for boundary in near):
            return place + table.lowest


@dataclass(frozen=True)
class _Table:
    """The cumulative distribution in `words` words of 64 bits.

    Attributes:
        lowest: the smallest value it gives. What lies beyond, on either side, has a probability of less than a unit,
            so bits that lead there are within one unit of the first or the last boundary and go to a finer table.
        boundaries: 2^(64·words)·P(X < k) for k = lowest + 1, …, −lowest, each known to less than one unit.
        heads: the same as an array, for the first table.
    """

    lowest: int
    boundaries: tuple[int, ...]
    heads: NDArray[np.uint64]

    @classmethod
    @lru_cache(maxsize=8)
    def of(cls, noise: Noise, words: int) -> "_Table":
        """Work it out, with forty digits and forty bits more than a unit needs."""
        half = _half_masses(noise, digits=20 * words + 40, smallest=Decimal(2) ** -(64 * words + 40))
        whole = 2 * sum(half) - half[0]
        running, boundaries = 0, []
        for mass in itertools.chain(reversed(half), half[1:-1]):
            running += mass
            # The last boundary is below 2^(64·words), though the mass above it may have been rounded to nothing.
            boundaries.append(min((running << (64 * words)) // whole, 2 ** (64 * words) - 1))
        if words > 1:
            return cls(1 - len(half), tuple(boundaries), np.empty(0, dtype=np.uint64))
        return cls(1 - len(half), (), np.array(boundaries, dtype=np.uint64))


def _half_masses(noise: Noise, digits: int, smallest: Decimal) -> list[int]:
    """exp(log_mass(k)) for k = 0, 1, … down to `smallest`, as integers in units of its 2^−40th part.

    The second ratios of both families are constant, so each mass is two products from the one before. Rounding errors
    grow with the square of the number of masses, which costs at most 12 of the 40 digits to spare. Masses are
    log-concave, so the probability of k and beyond is at most exp(log_mass(k)): what is cut off is below 2^−40 units.
    """
    units = []
    with decimal.localcontext(decimal.Context(prec=digits, Emax=decimal.MAX_EMAX, Emin=decimal.MIN_EMIN)):
        unit = Decimal(2) ** 40 / smallest
        ratio = _exp(noise.log_mass(1))
        second = _exp(noise.log_mass(2) - 2 * noise.log_mass(1))
        mass = Decimal(1)
        while mass > smallest:
            units.append(int(mass * unit))
            mass *= ratio
            ratio *= second
        return [*units, int(mass * unit)]


def _exp(value: Fraction) -> Decimal:
    return (Decimal(value.numerator) / Decimal(value.denominator)).exp()
