"""Choice: picking the candidate with a high score, privately, and what that costs.

Up to five hundred candidates go to OpenDP. More go to two exact samplers of our own that need nothing but fair coins:

- permute-and-flip accepts candidate i with probability exp((s_i − s_max)/scale), in a random order. The first one
  accepted is a uniformly random one of all that would be, so all coins can be flipped at once.
- the exponential mechanism picks i with probability ∝ w_i = exp((s_i − s_max)/scale). Give each candidate a level k_i
  with w_i ≤ 2^−k_i, which is nearly equal; propose a level by its number of candidates times 2^−k, in whole numbers,
  and a candidate of it uniformly; accept with probability w_i·2^k_i, or propose anew. It takes about two proposals.

A coin compares sixty-four random bits with the probability in floats, and where the two are within 2⁻⁴⁰ it is decided
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

from priory.errors import OptionError
from priory.privacy.budget import Budget, Currency
from priory.privacy.noise import Bits, Integers, double_up, root_up
from priory.privacy.prices import price_of_bounded_range, price_of_pure

ChoiceKind = Literal["noisy-max", "permute-and-flip"]

# Beyond this many candidates OpenDP takes longer than the samplers here.
MOST_FOR_OPENDP = 500
# Floats further apart than this are in the right order: the one of exp(k·log 2 − x), which is at most about 1, is wrong
# by less than 2⁻⁴² for k up to 256, and the one of the draw by at most 2⁻⁵³.
_DOUBT = 2.0**-40
# Candidates whose weight is below 2^−256 share the last level: they are proposed almost never.
_LEVELS = 256


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
    def cost(self, sensitivity: Fraction, currency: Currency) -> Fraction:
        """What one pick costs in `currency`."""

    @abstractmethod
    def picks_by_coins(self, scores: Integers, draws: int, bits: Bits = os.urandom) -> list[int]:
        """Independent picks by the sampler of this module; `bits(n)` gives n random bytes."""

    def pick_by_coins(self, scores: Integers, bits: Bits = os.urandom) -> int:
        """One pick by the sampler of this module."""
        return self.picks_by_coins(scores, 1, bits)[0]

    def pick(self, scores: Integers) -> int:
        """The place of the candidate picked, with randomness from the operating system."""
        return self.picks(scores, 1)[0]

    def picks(self, scores: Integers, draws: int) -> list[int]:
        """The places of candidates picked, each independently out of all."""
        if scores.dtype != np.int64 or scores.ndim != 1 or scores.size == 0:
            raise TypeError(f"a choice is made among int64 scores, at least one; got {scores.dtype} {scores.shape}")
        if self.scale == 0:
            return [int(scores.argmax())] * draws
        if scores.size <= MOST_FOR_OPENDP:
            return [self.pick_by_opendp(scores) for _ in range(draws)]
        return self.picks_by_coins(scores, draws)

    def pick_by_opendp(self, scores: Integers) -> int:
        """A pick by OpenDP."""
        return int(_opendp(self.kind, float(self.scale))(scores.tolist()))


class NoisyMax(Choice):
    """The exponential mechanism, as the largest of scores with Gumbel noise: P(i) ∝ exp(s_i/scale)."""

    kind = "noisy-max"

    def cost(self, sensitivity: Fraction, currency: Currency) -> Fraction:
        """ε-DP [McSherry & Talwar 2007, Theorem 6]; ε²/8 in zCDP [Cesar & Rogers 2021: it has bounded range]."""
        epsilon = self.epsilon(sensitivity)
        return price_of_bounded_range(epsilon, currency)

    def picks_by_coins(self, scores: Integers, draws: int, bits: Bits = os.urandom) -> list[int]:
        behind = scores.max() - scores
        # A little below behind/(scale·log 2), so that rounding never lifts a weight above its level.
        per_level = float(self.scale) * math.log(2) * (1 + 2.0**-40)
        # A warning about an overflow would depend on private scores; infinity is right here.
        with np.errstate(over="ignore"):
            levels = np.minimum(behind / per_level, _LEVELS).astype(np.int64)
        sizes = [size << (_LEVELS - level) for level, size in enumerate(np.bincount(levels).tolist())]
        ends = list(itertools.accumulate(sizes))
        members: dict[int, NDArray[np.int64]] = {}
        picked: list[int] = []
        while len(picked) < draws:
            level = bisect.bisect_right(ends, _below(ends[-1], bits))
            if level not in members:
                members[level] = np.flatnonzero(levels == level)
            proposed = members[level][_below(members[level].size, bits)]
            if _coins(behind[[proposed]], self.scale, bits, level=level)[0]:
                picked.append(int(proposed))
        return picked


class PermuteAndFlip(Choice):
    """Permute-and-flip: candidates in random order, accepted with probability exp((s_i − s_max)/scale)."""

    kind = "permute-and-flip"

    def cost(self, sensitivity: Fraction, currency: Currency) -> Fraction:
        """ε-DP [McKenna & Sheldon 2020, Theorem 1]; no bounded range, so only ε²/2 in zCDP."""
        epsilon = self.epsilon(sensitivity)
        return price_of_pure(epsilon, currency)

    def picks_by_coins(self, scores: Integers, draws: int, bits: Bits = os.urandom) -> list[int]:
        behind = scores.max() - scores
        accepted = [np.flatnonzero(_coins(behind, self.scale, bits)) for _ in range(draws)]
        return [int(places[_below(places.size, bits)]) for places in accepted]


def choice_within(share: Budget, sensitivity: Fraction, kind: ChoiceKind | None = None) -> Choice:
    """The sharpest pick of `kind` whose cost is at most `share`.

    Unless told it is permute-and-flip if pure, else the exponential mechanism: the better one at the same cost.
    """
    chosen = kind or ("permute-and-flip" if share.is_pure else "noisy-max")
    if chosen not in ("noisy-max", "permute-and-flip"):
        raise OptionError("choice", f"{kind!r} is neither 'noisy-max' nor 'permute-and-flip'")
    made = NoisyMax if chosen == "noisy-max" else PermuteAndFlip
    if share.is_pure:
        return made(double_up(2 * sensitivity / share.amount))
    # ε = 2Δ/scale, and ρ is ε²/8 for the one and ε²/2 for the other, so the squared scale is Δ²/2ρ or 2Δ²/ρ.
    return made(root_up(sensitivity**2 * (Fraction(1, 2) if made is NoisyMax else 2) / share.amount))


@lru_cache(maxsize=64)
def _opendp(kind: str, scale: float) -> Callable[[list[int]], int]:
    """OpenDP's noisy max; before 0.16 its zCDP form was permute-and-flip at the other one's price."""
    import opendp.prelude as dp

    dp.enable_features("contrib")
    vectors: Any = dp.vector_domain(dp.atom_domain(T="i64"))
    measure = dp.zero_concentrated_divergence() if kind == NoisyMax.kind else dp.max_divergence()
    return dp.m.make_noisy_max(vectors, dp.linf_distance(T="i64"), measure, scale=scale)


def _below(limit: int, bits: Bits) -> int:
    """An exactly uniform whole number from 0 to `limit` − 1."""
    size = (limit.bit_length() + 7) // 8
    # Numbers from the largest multiple of `limit` on would favour small remainders: they are drawn again.
    most = 256**size - 256**size % limit
    while (drawn := int.from_bytes(bits(size), "little")) >= most:
        pass
    return drawn % limit


def _coins(behind: Integers, scale: Fraction, bits: Bits, level: int = 0) -> NDArray[np.bool_]:
    """Independent coins that are true with probability exp(−behind/scale)·2^level, exactly."""
    words = np.frombuffer(bits(8 * behind.size), dtype="<u8")
    drawn = words * 2.0**-64
    with np.errstate(over="ignore", under="ignore"):
        chance = np.exp(level * math.log(2) - behind / float(scale))
    coins: NDArray[np.bool_] = (drawn < chance) | (behind == 0)
    for i in np.flatnonzero((np.abs(drawn - chance) < _DOUBT) & (behind > 0)):
        coins[i] = _settle(int(words[i]), int(behind[i]) / scale, level, bits)
    return coins


def _settle(word: int, exponent: Fraction, level: int, bits: Bits) -> bool:
    """Whether the number whose bits begin with `word` is below exp(−exponent)·2^level."""
    drawn, places = word, 64
    while True:
        drawn, places = (drawn << 64) | int.from_bytes(bits(8), "little"), places + 64
        with decimal.localcontext(decimal.Context(prec=places, Emax=decimal.MAX_EMAX, Emin=decimal.MIN_EMIN)):
            chance = (-Decimal(exponent.numerator) / Decimal(exponent.denominator)).exp() * 2**level
            # `places` decimal digits are far more than `places` bits, so the error is less than a unit of the draw.
            gap = int(chance * (1 << places)) - drawn
        if abs(gap) > 2:
            return gap > 0
