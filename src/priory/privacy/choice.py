"""Choice: picking the candidate with a high score, privately, and what that costs.

Up to ten thousand candidates go to OpenDP. More go to two exact samplers of our own that need nothing but fair coins:

- permute-and-flip accepts candidate i with probability exp((s_i − s_max)/scale), in a random order. The first one
  accepted is a uniformly random one of all that would be, so all coins can be flipped at once.
- the exponential mechanism picks i with probability ∝ exp(s_i/scale): propose candidates again and again, each with
  probability ∝ 2^−j_i for a whole number j_i, and take the first whose coin, of probability
  2^j_i·exp((s_i − s_max)/scale), falls right. With the largest j_i that allows, that is at least every other one.

A coin compares sixty-four random bits with the probability in floats, and where the two are within 2⁻⁴⁶ it is decided
with as many digits and further bits as it takes. Nothing is rounded.
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

from priory.privacy.accounting import rho_of_pure
from priory.privacy.budget import Budget
from priory.privacy.noise import Bits, Integers, double_up, root_up

ChoiceKind = Literal["noisy-max", "permute-and-flip"]

# Beyond this many candidates OpenDP takes longer than the samplers here.
MOST_FOR_OPENDP = 10_000
# Floats further apart than this are in the right order: the one of exp(−x) is wrong by at most e⁻ˣ(x + 1)·2⁻⁵², the
# one of the draw by at most 2⁻⁵³.
_DOUBT = 2.0**-46
# Candidates whose chance is below 2^−64 of the best one's are proposed together.
_DEEPEST = 64


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
        levels = _levels(behind, self.scale)
        counts = np.bincount(levels, minlength=_DEEPEST + 1).tolist()
        ends = list(itertools.accumulate(count << (_DEEPEST - level) for level, count in enumerate(counts)))
        while True:
            drawn = _below(ends[-1], bits)
            level = bisect.bisect_right(ends, drawn)
            place = (drawn - (ends[level - 1] if level else 0)) >> (_DEEPEST - level)
            candidate = int(np.flatnonzero(levels == level)[place])
            if _coin(int(behind[candidate]) / self.scale, level, bits):
                return candidate


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


def choice_within(share: Budget, sensitivity: Fraction, kind: ChoiceKind | None = None) -> Choice:
    """The sharpest pick whose cost is at most `share`: permute-and-flip if pure, else the exponential mechanism.

    With `kind` it is that one, whether or not another would be sharper.
    """
    kind = kind or ("permute-and-flip" if share.is_pure else "noisy-max")
    maker = PermuteAndFlip if kind == "permute-and-flip" else NoisyMax
    if share.is_pure:
        return maker(double_up(2 * sensitivity / share.amount))
    # ε = 2Δ/scale; ρ is ε²/8 for the exponential mechanism and ε²/2 for permute-and-flip.
    return maker(root_up(sensitivity**2 * (2 if maker is PermuteAndFlip else Fraction(1, 2)) / share.amount))


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


def _below(limit: int, bits: Bits) -> int:
    """An exactly uniform integer from 0 to `limit` − 1, however large."""
    length = limit.bit_length()
    # Whole words, of which the surplus bits are dropped; at most every other number is too large.
    size = 8 * -(-length // 64)
    while (drawn := int.from_bytes(bits(size), "little") >> (8 * size - length)) >= limit:
        pass
    return drawn


def _levels(behind: Integers, scale: Fraction) -> NDArray[np.int64]:
    """The largest j, up to a limit, with exp(−behind/scale) ≤ 2^−j; or one less where floats cannot tell."""
    exact = behind / (float(scale) * math.log(2))
    # A share of 2^−40 less is more than all the roundings: what comes out is never too large.
    return np.minimum(exact * (1 - 2.0**-40), _DEEPEST).astype(np.int64)


def _coin(exponent: Fraction, level: int, bits: Bits) -> bool:
    """A coin that is true with probability 2^level·exp(−exponent), exactly."""
    word = int.from_bytes(bits(8), "little")
    chance = math.exp(level * math.log(2) - float(exponent))
    if exponent == 0 or abs(word * 2.0**-64 - chance) >= _DOUBT:
        return exponent == 0 or word * 2.0**-64 < chance
    return _settle(word, exponent, bits, level)


def _coins(behind: Integers, scale: Fraction, bits: Bits) -> NDArray[np.bool_]:
    """Independent coins that are true with probability exp(−behind/scale), exactly."""
    words = np.frombuffer(bits(8 * behind.size), dtype="<u8")
    drawn = words * 2.0**-64
    chance = np.exp(-(behind / float(scale)))
    coins: NDArray[np.bool_] = (drawn < chance) | (behind == 0)
    for i in np.flatnonzero((np.abs(drawn - chance) < _DOUBT) & (behind > 0)):
        coins[i] = _settle(int(words[i]), int(behind[i]) / scale, bits)
    return coins


def _settle(word: int, exponent: Fraction, bits: Bits, level: int = 0) -> bool:
    """Whether the number whose bits begin with `word` is below 2^level·exp(−exponent)."""
    drawn, places = word, 64
    while True:
        drawn, places = (drawn << 64) | int.from_bytes(bits(8), "little"), places + 64
        with decimal.localcontext(decimal.Context(prec=places, Emax=decimal.MAX_EMAX, Emin=decimal.MIN_EMIN)):
            chance = (-Decimal(exponent.numerator) / Decimal(exponent.denominator)).exp()
            # `places` decimal digits are far more than `places` bits, so the error is less than a unit of the draw.
            gap = int(chance * (1 << (places + level))) - drawn
        if abs(gap) > 2:
            return gap > 0
