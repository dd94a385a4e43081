"""Noise: the three kinds of noise that are added to whole numbers, and what each costs.

How they are drawn, exactly, is in `priory.privacy.drawing`.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from priory.errors import OptionError
from priory.privacy import drawing
from priory.privacy.budget import Budget, Currency
from priory.privacy.prices import price_of_pure, pure_within
from priory.queries.sensitivity import Sensitivity

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]

# Noise of this scale would not fit 62 bits beside the counts.
LARGEST_SCALE = Fraction(2**48)
# Rounding a Gaussian of s lattice steps adds 1/12 to its s²: 0.13 % at 8 steps, 0.52 % at 4, 8.3 % at 1. Exact
# accounting gains from 8 to 18 % of the variance, so that steps are made at least this fine, up to so many bits.
_FEWEST_STEPS, MOST_BITS = 8, 16
# Answers on a finer lattice are cut off here, each by itself, which moves no two of them further apart.
_LARGEST_ANSWER = 2**61


@dataclass(frozen=True)
class Noise(ABC):
    """A distribution on the whole numbers, symmetric about 0, that is added to answers."""

    # Its parameter, in counts; a number that a double holds exactly, so that what is drawn is what was paid.
    scale: Fraction
    kind: ClassVar[str]  # its name
    family: ClassVar[Literal["laplace", "gaussian"]]  # the shape of its curve, where that is all that matters

    @abstractmethod
    def cost(self, sensitivity: Sensitivity, currency: Currency) -> Fraction | None:
        """What one answer costs in `currency`; None where that cannot express it."""

    @property
    @abstractmethod
    def variance(self) -> float:
        """The variance of one draw, in counts."""

    @abstractmethod
    def probabilities(self, values: Integers) -> Floats:
        """How likely a draw is each of `values`, which are in lattice steps."""

    @abstractmethod
    def _draws(self, size: int) -> Integers:
        """`size` draws in lattice steps, with randomness from the operating system."""

    @property
    def step(self) -> Fraction:
        """The lattice step of noisy answers, in counts: 1, or less where the noise is smaller than a count."""
        return Fraction(1)

    @property
    def stddev(self) -> float:
        """The standard deviation of one draw, in counts."""
        return math.sqrt(self.variance)

    def on_lattice(self, values: Integers) -> Integers:
        """Answers in counts, as numbers of lattice steps."""
        return values

    def in_counts(self, noisy: Integers) -> Integers | Floats:
        """Noisy answers in counts: whole numbers where the step is 1."""
        if self.step == 1:
            return noisy
        return (noisy * float(self.step)).astype(np.float64)

    def add(self, values: Integers) -> Integers:
        """Noisy `values`, in lattice steps, with randomness from the operating system."""
        if values.dtype != np.int64:
            raise TypeError(f"noise is added to int64 answers; got {values.dtype}")
        if self.scale == 0:
            return self.on_lattice(values).copy()
        return self.on_lattice(values) + self._draws(values.size).reshape(values.shape)


class Laplace(Noise):
    """Discrete Laplace noise: P(k) ∝ exp(−|k|/scale)."""

    kind = "laplace"
    family = "laplace"

    def cost(self, sensitivity: Sensitivity, currency: Currency) -> Fraction:
        """ε = Δ₁/scale [Ghosh, Roughgarden & Sundararajan 2012]; in the other currencies, the price of a pure ε."""
        if sensitivity.l1 == 0:
            return Fraction(0)
        return price_of_pure(sensitivity.l1 / self.scale, currency)

    @property
    def variance(self) -> float:
        """2e^{1/b}/(e^{1/b}−1)², which is about 2b²."""
        if self.scale == 0:
            return 0.0
        half = 1 / (2 * float(self.scale))
        return 1 / (2 * math.sinh(half) ** 2) if half < 350 else 0.0

    def probabilities(self, values: Integers) -> Floats:
        """tanh(1/2b)·exp(−|k|/b)."""
        scale = float(self.scale)
        return np.asarray(math.tanh(1 / (2 * scale)) * np.exp(-np.abs(values) / scale))

    def _draws(self, size: int) -> Integers:
        return drawing.laplace(self.scale, size)


class Gaussian(Noise):
    """Discrete Gaussian noise: P(k) ∝ exp(−k²/(2·scale²))."""

    kind = "gaussian"
    family = "gaussian"

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
        return float((k**2 * self.probabilities(k)).sum())

    def probabilities(self, values: Integers) -> Floats:
        """exp(−k²/2σ²) over its sum, which is √(2π)·σ to all digits where σ > 4."""
        sigma = float(self.scale)
        whole = math.sqrt(2 * math.pi) * sigma if sigma > 4 else float(self._masses(np.arange(-60, 61)).sum())
        return np.asarray(self._masses(values) / whole)

    def _masses(self, values: Integers) -> Floats:
        return np.asarray(np.exp(-((values / float(self.scale)) ** 2) / 2))

    def _draws(self, size: int) -> Integers:
        return drawing.gaussian(self.scale, size)


@dataclass(frozen=True)
class RoundedGaussian(Noise):
    """Gaussian noise rounded to a lattice: P(k) = Φ((k+½)/s) − Φ((k−½)/s) with s = scale·2^bits, in steps of 2^−bits.

    Answers are whole numbers of steps, so that adding rounded noise to one is rounding the sum of it and Gaussian
    noise: what is released is worked out from the Gaussian mechanism's answer, and costs what that does.
    """

    bits: int = 0  # the lattice step is 2^−bits counts
    kind = "rounded-gaussian"
    family = "gaussian"

    def cost(self, sensitivity: Sensitivity, currency: Currency) -> Fraction | None:
        """μ² = Δ₂²/scale² [Dong, Roth & Su 2022], ρ = μ²/2 [Bun & Steinke 2016, Proposition 1.6]; no pure ε."""
        if sensitivity.l2_squared == 0:
            return Fraction(0)
        if currency is Currency.PURE:
            return None
        return sensitivity.l2_squared / self.scale**2 / (2 if currency is Currency.ZCDP else 1)

    @property
    def step(self) -> Fraction:
        return Fraction(1, 2**self.bits)

    @property
    def variance(self) -> float:
        """scale² + 4^−bits/12; where the noise is smaller than two steps, the sum of (2m−1)·P(|X| ≥ m)."""
        steps = float(self._steps)
        if steps == 0:
            return 0.0
        if steps >= 2:
            # What is left out is about exp(−2π²s²).
            return float(self.step) ** 2 * (steps**2 + 1 / 12)
        tails = ((2 * m - 1) * math.erfc((m - 0.5) / steps / math.sqrt(2)) for m in range(1, 80))
        return float(self.step) ** 2 * sum(tails)

    def probabilities(self, values: Integers) -> Floats:
        from scipy.special import ndtr

        # On the negative side, where Φ has all its digits.
        centre, steps = -np.abs(values), float(self._steps)
        return np.asarray(ndtr((centre + 0.5) / steps) - ndtr((centre - 0.5) / steps))

    def on_lattice(self, values: Integers) -> Integers:
        most = _LARGEST_ANSWER >> self.bits
        return np.clip(values, -most, most) << self.bits if self.bits else values

    @property
    def _steps(self) -> Fraction:
        return self.scale / self.step

    def _draws(self, size: int) -> Integers:
        return drawing.rounded_gaussian(self._steps, size)


NoiseKind = Literal["laplace", "gaussian"]


def noise_within(share: Budget, sensitivity: Sensitivity, kind: NoiseKind | None = None) -> Noise:
    """The least noise of `kind` whose cost is at most `share`; its scale is rounded up to a double.

    By default it is Laplace noise for a pure share and Gaussian noise otherwise. Gaussian noise is the discrete kind
    where ρ pays and the rounded kind where μ² does.
    A pure share cannot pay for Gaussian noise.
    """
    chosen = kind or ("laplace" if share.is_pure else "gaussian")
    if chosen not in ("laplace", "gaussian"):
        raise OptionError("noise", f"{kind!r} is neither 'laplace' nor 'gaussian'")
    drawing.check_floats()
    if chosen == "laplace":
        return Laplace(divided_up(sensitivity.l1, pure_within(share.amount, share.currency)))
    if share.is_pure:
        raise OptionError("noise", "a pure budget cannot pay for Gaussian noise; use Laplace noise, or give a delta")
    if share.currency is Currency.ZCDP:
        return Gaussian(root_up(sensitivity.l2_squared / (2 * share.amount)))
    scale = root_up(sensitivity.l2_squared / share.amount)
    return RoundedGaussian(scale, _fine_bits(scale))


def _fine_bits(scale: Fraction) -> int:
    """So many that rounding adds next to nothing to noise of this scale."""
    if scale == 0:
        return 0
    return next((bits for bits in range(MOST_BITS) if scale * 2**bits >= _FEWEST_STEPS), MOST_BITS)


def divided_up(value: Fraction, epsilon: Fraction) -> Fraction:
    """The smallest double not below value/ε, as a fraction."""
    if value == 0:
        return Fraction(0)
    if epsilon * LARGEST_SCALE < value:
        raise OptionError("budget", f"it is too small: the noise would have a scale above {float(LARGEST_SCALE):.3g}")
    exact = value / epsilon
    double = float(exact)
    return Fraction(double if Fraction(double) >= exact else math.nextafter(double, math.inf))


def root_up(square: Fraction) -> Fraction:
    """The smallest double whose square is not below `square`, as a fraction."""
    if square > LARGEST_SCALE**2:
        raise OptionError("budget", f"it is too small: the noise would have a variance of {float(square):.3g}")
    root = math.sqrt(square)
    while root > 0 and Fraction(math.nextafter(root, 0)) ** 2 >= square:
        root = math.nextafter(root, 0)
    while Fraction(root) ** 2 < square:
        root = math.nextafter(root, math.inf)
    return Fraction(root)
