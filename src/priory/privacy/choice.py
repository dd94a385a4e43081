"""Choice: picking the candidate with a high score, privately, and what that costs.

Both ways of picking need nothing but fair coins, and are exact (`priory.privacy.uniforms`):

- permute-and-flip accepts candidate i with probability exp((s_i − s_max)/scale), in a random order. The first one
  accepted is a uniformly random one of all that would be, so all coins can be flipped at once.
- the exponential mechanism picks i with probability ∝ w_i = exp((s_i − s_max)/scale). Give each candidate a level k_i
  with w_i ≤ 2^−k_i, which is nearly equal; propose a level by its number of candidates times 2^−k, in whole numbers,
  and a candidate of it uniformly; accept with probability w_i·2^k_i, or propose anew. It takes about two proposals.
"""

import itertools
import math
import os
from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from priory.errors import OptionError
from priory.privacy.budget import Budget, Currency
from priory.privacy.drawing import check_floats
from priory.privacy.noise import Integers, divided_up
from priory.privacy.prices import bounded_range_within, price_of_bounded_range, price_of_pure, pure_within
from priory.privacy.uniforms import Bits, below, coins, intervals

ChoiceKind = Literal["noisy-max", "permute-and-flip"]

# Candidates whose weight is below 2^−256 share the last level: they are proposed almost never.
_LEVELS = 256
# So many coins are flipped at once.
_MOST_AT_ONCE = 2**20


@dataclass(frozen=True)
class Choice(ABC):
    """A way to pick one of many integer scores."""

    scale: Fraction  # the divisor of the scores; a number that a double holds exactly
    kind: ClassVar[str]

    def epsilon(self, sensitivity: Fraction) -> Fraction:
        """The pure ε of one pick among scores that one person moves by at most `sensitivity`: 2Δ/scale."""
        return 2 * sensitivity / self.scale if sensitivity else Fraction(0)

    @abstractmethod
    def cost(self, sensitivity: Fraction, currency: Currency) -> Fraction:
        """What one pick costs in `currency`."""

    @abstractmethod
    def _picks(self, scores: Integers, draws: int, bits: Bits) -> list[int]:
        """Independent picks at a scale above 0; `bits(n)` gives n random bytes."""

    def pick(self, scores: Integers) -> int:
        """The index of the candidate picked, with randomness from the operating system."""
        return self.picks(scores, 1)[0]

    def picks(self, scores: Integers, draws: int) -> list[int]:
        """The indices of candidates picked, each independently out of all."""
        if scores.dtype != np.int64 or scores.ndim != 1 or scores.size == 0:
            raise TypeError(f"a choice is made among int64 scores, at least one; got {scores.dtype} {scores.shape}")
        if self.scale == 0:
            return [int(scores.argmax())] * draws
        return self._picks(scores, draws, os.urandom)


class NoisyMax(Choice):
    """The exponential mechanism, as the largest of scores with Gumbel noise: P(i) ∝ exp(s_i/scale)."""

    kind = "noisy-max"

    def cost(self, sensitivity: Fraction, currency: Currency) -> Fraction:
        """ε-DP [McSherry & Talwar 2007, Theorem 6]; ε²/8 in zCDP [Cesar & Rogers 2021: it has bounded range]."""
        return price_of_bounded_range(self.epsilon(sensitivity), currency)

    def _picks(self, scores: Integers, draws: int, bits: Bits) -> list[int]:
        behind = scores.max() - scores
        # A little below behind/(scale·log 2), so that rounding never lifts a weight above its level.
        per_level = float(self.scale) * math.log(2) * (1 + 2.0**-40)
        # A warning about an overflow would depend on private scores; infinity is right here.
        with np.errstate(over="ignore"):
            levels = np.minimum(behind / per_level, _LEVELS).astype(np.int64)
        sizes = np.bincount(levels)
        ends = list(itertools.accumulate(size << (_LEVELS - level) for level, size in enumerate(sizes.tolist())))
        members: dict[int, NDArray[np.int64]] = {}
        picked: list[int] = []
        while missing := draws - len(picked):
            proposed_levels = intervals(ends, min(missing, _MOST_AT_ONCE), bits)
            proposed = below(sizes[proposed_levels], bits)
            for level in np.unique(proposed_levels).tolist():
                if level not in members:
                    members[level] = np.flatnonzero(levels == level)
                is_here = proposed_levels == level
                proposed[is_here] = members[level][proposed[is_here]]
            picked += proposed[_coins(behind[proposed], self.scale, bits, proposed_levels)].tolist()
        return picked


class PermuteAndFlip(Choice):
    """Permute-and-flip: candidates in random order, accepted with probability exp((s_i − s_max)/scale)."""

    kind = "permute-and-flip"

    def cost(self, sensitivity: Fraction, currency: Currency) -> Fraction:
        """ε-DP [McKenna & Sheldon 2020, Theorem 1]; no bounded range, so only ε²/2 in zCDP."""
        return price_of_pure(self.epsilon(sensitivity), currency)

    def _picks(self, scores: Integers, draws: int, bits: Bits) -> list[int]:
        behind = scores.max() - scores
        at_once = max(1, _MOST_AT_ONCE // scores.size)
        picked: list[int] = []
        while missing := draws - len(picked):
            count = min(missing, at_once)
            is_accepted = _coins(np.tile(behind, count), self.scale, bits).reshape(count, scores.size)
            # The first one accepted is a uniformly random one of them.
            numbers = np.cumsum(is_accepted, axis=1, dtype=np.int64)
            chosen = below(numbers[:, -1], bits)
            picked += (numbers > chosen[:, None]).argmax(axis=1).tolist()
        return picked


def choice_within(share: Budget, sensitivity: Fraction, kind: ChoiceKind | None = None) -> Choice:
    """The sharpest pick of `kind` whose cost is at most `share`."""
    # By default it is permute-and-flip if pure, else the exponential mechanism: the better one at the same cost.
    chosen = kind or ("permute-and-flip" if share.is_pure else "noisy-max")
    if chosen not in ("noisy-max", "permute-and-flip"):
        raise OptionError("choice", f"{kind!r} is neither 'noisy-max' nor 'permute-and-flip'")
    check_floats()
    # ε = 2Δ/scale.
    if chosen == "noisy-max":
        return NoisyMax(divided_up(2 * sensitivity, bounded_range_within(share.amount, share.currency)))
    return PermuteAndFlip(divided_up(2 * sensitivity, pure_within(share.amount, share.currency)))


def _coins(behind: Integers, scale: Fraction, bits: Bits, levels: NDArray[np.int64] | None = None) -> NDArray[np.bool_]:
    """Independent coins that are true with probability exp(−behind/scale)·2^level, exactly."""
    # A warning about an overflow would depend on private scores; infinity is right here.
    with np.errstate(over="ignore"):
        exponents = behind / float(scale)
    return coins(exponents, lambda i: int(behind[i]) / scale, bits, levels=levels)
