"""Partition selection: which values of a column exist, told only of values that enough persons have.

Each person has at most L values of a column, L the bound on their rows. Noise is added to the number of persons of
every value that occurs, and a value is told where the noisy number reaches a threshold T, chosen so that a value of one
person reaches it with probability at most δ′/L.

**Claim.** This costs what noise of that scale costs for answers that one person moves by √L in the L2 norm (√(2L)
under replace-one), and δ′.

*Proof.* Let two neighbours be C + p and C, or C + p and C + q, and let V be the values that occur in C. Of p's values
at most L are not in V; each has the count 1 in C + p, and is told with probability at most δ′/L. So with probability at
least 1 − δ′ none of them is told, and likewise for q. Given that, both runs tell only of V. Noise is independent from
value to value, so that their outcomes are post-processing of noisy counts of the values in V. Adding or removing p
moves at most L of these counts by 1 each: L1 = L, L2² = L. Replacing p by q moves at most 2L of them by 1 each:
L1 = 2L, L2² = 2L. Two laws, each within δ′ of a pair at that cost, add δ′ to δ wherever they are composed and
converted: this is δ′-approximate zCDP [Bun & Steinke 2016, Section 8], and for μ² the same argument with trade-off
curves. ∎

No ε, ρ or μ² alone covers it: a value that only one table has is told there with a positive probability. A pure budget
therefore cannot pay for it.
"""

import math
from collections.abc import Callable, Iterable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np

from priory.data.sources.raw import Values
from priory.errors import OptionError
from priory.privacy.noise import Gaussian, Integers, Noise, RoundedGaussian
from priory.privacy.normal import upper_tail
from priory.queries.sensitivity import Relation, Sensitivity

_DIGITS = 30
_LEAST_CHANCE = Fraction(1, 10**300)
_ALLOWANCE = 1 + Decimal("1e-25")


def persons_sensitivity(relation: Relation, max_rows: int) -> Sensitivity:
    """How far one person moves the numbers of persons of values that others have, too."""
    values = Fraction(max_rows if relation is Relation.ADD_REMOVE else 2 * max_rows)
    return Sensitivity(values, values)


def threshold_within(noise: Noise, chance: Fraction) -> int:
    """The smallest T found, in lattice steps, that 1 person and noise reach with a probability of at most `chance`.

    Raises:
        OptionError: the noise is not Gaussian.
    """
    if not _LEAST_CHANCE <= chance < 1:
        raise OptionError(
            "additive", f"a probability from {float(_LEAST_CHANCE):.0e} to below 1; got {float(chance):.3g}"
        )
    from scipy.special import ndtri

    steps, offset = noise.scale / noise.step, _offset(noise)
    # One step less than what a float says, so that only the careful comparison decides.
    reach = max(math.floor(-float(ndtri(float(chance))) * float(steps)) - 1, 1)
    while upper_tail((reach - offset) / steps, _DIGITS) * _ALLOWANCE > Decimal(chance.numerator) / chance.denominator:
        reach += 1
    return round(1 / noise.step) + reach


def _offset(noise: Noise) -> Fraction:
    """How far below m the normal number is that bounds P(noise ≥ m) by Φ(−(m − offset)/s), for m ≥ 1.

    Rounded Gaussian noise is at least m where the normal number is at least m − ½. For the discrete Gaussian,
    exp(−k²/2s²) is at most its integral from k − 1 to k, and the sum of all of them is at least √(2π)·s (Poisson's
    summation formula), so that the offset is 1.
    """
    if isinstance(noise, RoundedGaussian):
        return Fraction(1, 2)
    if isinstance(noise, Gaussian):
        return Fraction(1)
    raise OptionError("noise", "values are selected with Gaussian noise; give a delta")


def kept_values(
    noisy: Callable[[Integers, Noise], Integers], chunks: Iterable[Values], noise: Noise, threshold: int
) -> dict[Any, int]:
    """The values whose noisy number of persons is at least `threshold`, with that number, both in lattice steps.

    Memory holds one chunk and what is kept of those before.
    """
    kept: dict[Any, int] = {}
    for chunk in chunks:
        counts = noisy(chunk.persons, noise)
        kept.update((chunk.values[i], int(counts[i])) for i in np.flatnonzero(counts >= threshold))
    return kept
