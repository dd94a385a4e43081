"""Choice: picking the candidate with a high score, privately, and what that costs.

Up to ten thousand candidates go to OpenDP. More go to two exact samplers of our own that need nothing but fair coins:

- permute-and-flip accepts candidate i with probability exp((s_i − s_max)/scale), in a random order. The first one
  accepted is a uniformly random one of all that would be, so all coins can be flipped at once.
- the exponential mechanism picks i with probability ∝ exp(s_i/scale): propose candidates uniformly, again and again,
  and take the first whose coin of the same probability falls right. The best candidate's coin always does.

A coin compares sixty-four random bits with the probability in floats, and where the two are within 2⁻⁴⁶ it is decided
with as many digits and further bits as it takes. Nothing is rounded.
"""

import decimal
import os
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from priory.privacy.accounting import rho_of_pure
from priory.privacy.budget import Budget
from priory.privacy.noise import Bits, Integers, double_up, root_up

# Beyond this many candidates OpenDP takes longer than the samplers here.
MOST_FOR_OPENDP = 10_000
# Floats further apart than this are in the right order: the one of exp(−x) is wrong by at most e⁻ˣ(x + 1)·2⁻⁵², the
# one of the draw by at most 2⁻⁵³.
_DOUBT = 2.0**-46


@dataclass(frozen=True)
class Choice(ABC):
    """A way to pick one of many integer scores.

    Attributes:
        scale: the divisor of the scores; a number that a double holds exactly.
    """

    scale: Fraction
    kind: ClassVar[str]

    def epsilon(self, sensitivity: Fraction) -> Fraction:
        """The pure ε of one pick among scores that one person moves by at most `sensitivity`: 2Δ/scale."""
        return 2 * sensitivity / self.scale if sensitivity else Fraction(0)

    @abstractmethod
    def cost(self, sensitivity: Fraction, *, is_pure: bool) -> Fraction:
        """What one pick costs: ε where `is_pure`, else ρ."""

    @abstractmethod
    def _pick_many(self, scores: Integers, bits: Bits) -> int:
        """A pick by the samplers of this module."""

    def pick(self, scores: Integers) -> int:
        """The place of the candidate picked, with randomness from the operating system."""
        if scores.dtype != np.int64 or scores.ndim != 1 or scores.size == 0:
            raise TypeError(f"a choice is made among int64 scores, at least one; got {scores.dtype} {scores.shape}")
        if self.scale == 0:
            return int(scores.argmax())
        if scores.size > MOST_FOR_OPENDP:
            return self._pick_many(scores, os.urandom)
        return int(_opendp(self.kind, float(self.scale))(scores.tolist()))


class NoisyMax(Choice):
    """The exponential mechanism, as the largest of scores with Gumbel noise: P(i) ∝ exp(s_i/scale)."""

    kind = "noisy-max"

    def cost(self, sensitivity: Fraction, *, is_pure: bool) -> Fraction:
        """ε-DP [McSherry & Talwar 2007, Theorem 6]; ε²/8 in zCDP [Cesar & Rogers 2021: it has bounded range]."""
        epsilon = self.epsilon(sensitivity)
        return epsilon if is_pure else epsilon**2 / 8

    def _pick_many(self, scores: Integers, bits: Bits) -> int:
        behind = scores.max() - scores
        while True:
            proposed = _uniform(scores.size, scores.size, bits)
            accepted = np.flatnonzero(_coins(behind[proposed], self.scale, bits))
            if accepted.size:
                return int(proposed[accepted[0]])


class PermuteAndFlip(Choice):
    """Permute-and-flip: candidates in random order, accepted with probability exp((s_i − s_max)/scale)."""

    kind = "permute-and-flip"

    def cost(self, sensitivity: Fraction, *, is_pure: bool) -> Fraction:
        """ε-DP [McKenna & Sheldon 2020, Theorem 1]; no bounded range, so only ε²/2 in zCDP."""
        epsilon = self.epsilon(sensitivity)
        return epsilon if is_pure else rho_of_pure(epsilon)

    def _pick_many(self, scores: Integers, bits: Bits) -> int:
        accepted = np.flatnonzero(_coins(scores.max() - scores, self.scale, bits))
        return int(accepted[_uniform(accepted.size, 1, bits)[0]])


def choice_within(share: Budget, sensitivity: Fraction) -> Choice:
    """The sharpest pick whose cost is at most `share`: permute-and-flip if pure, else the exponential mechanism."""
    if share.is_pure:
        return PermuteAndFlip(double_up(2 * sensitivity / share.amount))
    # ρ = ε²/8 and ε = 2Δ/scale, so the squared scale is Δ²/2ρ.
    return NoisyMax(root_up(sensitivity**2 / (2 * share.amount)))


@lru_cache(maxsize=64)
def _opendp(kind: str, scale: float) -> Callable[[list[int]], int]:
    """OpenDP's noisy max; before 0.16 its zCDP form was permute-and-flip at the other one's price."""
    import opendp.prelude as dp

    dp.enable_features("contrib")
    vectors: Any = dp.vector_domain(dp.atom_domain(T="i64"))
    measure = dp.zero_concentrated_divergence() if kind == NoisyMax.kind else dp.max_divergence()
    return dp.m.make_noisy_max(vectors, dp.linf_distance(T="i64"), measure, scale=scale)


def _uniform(below: int, size: int, bits: Bits) -> Integers:
    """`size` independent, exactly uniform integers from 0 to `below` − 1."""
    # Numbers from the largest multiple of `below` on would favour small remainders: they are drawn again.
    limit = np.uint64(2**64 - 2**64 % below - 1)
    words = np.frombuffer(bits(8 * size), dtype="<u8").copy()
    while (again := np.flatnonzero(words > limit)).size:
        words[again] = np.frombuffer(bits(8 * again.size), dtype="<u8")
    return (words % np.uint64(below)).astype(np.int64)


def _coins(behind: Integers, scale: Fraction, bits: Bits) -> NDArray[np.bool_]:
    """Independent coins that are true with probability exp(−behind/scale), exactly."""
    words = np.frombuffer(bits(8 * behind.size), dtype="<u8")
    drawn = words * 2.0**-64
    chance = np.exp(-(behind / float(scale)))
    coins: NDArray[np.bool_] = (drawn < chance) | (behind == 0)
    for i in np.flatnonzero((np.abs(drawn - chance) < _DOUBT) & (behind > 0)):
        coins[i] = _settle(int(words[i]), int(behind[i]) / scale, bits)
    return coins


def _settle(word: int, exponent: Fraction, bits: Bits) -> bool:
    """Whether the number whose bits begin with `word` is below exp(−exponent)."""
    drawn, places = word, 64
    while True:
        drawn, places = (drawn << 64) | int.from_bytes(bits(8), "little"), places + 64
        with decimal.localcontext(decimal.Context(prec=places, Emax=decimal.MAX_EMAX, Emin=decimal.MIN_EMIN)):
            chance = (-Decimal(exponent.numerator) / Decimal(exponent.denominator)).exp()
            # `places` decimal digits are far more than `places` bits, so the error is less than a unit of the draw.
            gap = int(chance * (1 << places)) - drawn
        if abs(gap) > 2:
            return gap > 0
