"""Samplers: is the noise that is drawn the noise that is charged?"""

import multiprocessing
from collections.abc import Iterator, Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from priory.audit.findings import Effort, Finding
from priory.privacy.choice import Choice, NoisyMax, PermuteAndFlip
from priory.privacy.noise import TABLE_CELLS, Gaussian, Integers, Laplace, Noise

SCALES = (Fraction(1), Fraction(1, 2), Fraction(3), Fraction(10), Fraction(57, 4), Fraction(100))
# A right sampler falls below this once in a million tests.
LEAST_P = 1e-6
WORKERS = 8
_SCORES = np.array([0, 1, 3, 3, -2])


def exactness(effort: Effort) -> Iterator[Finding]:
    """χ² of many draws against the exact probabilities, for OpenDP's samplers and for ours."""
    zeros = np.zeros(effort.draws, dtype=np.int64)
    for kind in (Laplace, Gaussian):
        for path, add in {"OpenDP": kind.add_by_opendp, "our sampler": kind.add_by_table}.items():
            worst = min(p_value(add(noise, zeros), noise) for noise in map(kind, SCALES[: effort.scales]))
            yield Finding(
                f"sampler exactness: {kind.kind}, {path}, {effort.scales} scales of {effort.draws:,} draws",
                f"smallest p {worst:.2g}",
                f"≥ {LEAST_P:.0e}",
                worst >= LEAST_P,
            )


def selection_law(effort: Effort) -> Iterator[Finding]:
    """χ² of many picks against the law that each price belongs to."""
    trials = effort.picks // 2
    for choice in (NoisyMax(Fraction(2)), PermuteAndFlip(Fraction(2))):
        for path, pick in {"OpenDP": choice.pick_by_opendp, "our sampler": choice.pick_by_coins}.items():
            counts = np.bincount([pick(_SCORES) for _ in range(trials)], minlength=len(_SCORES))
            p = chi_square(counts, selection_probabilities(choice, _SCORES) * trials)
            test = f"sampler exactness: {choice.kind}, {path}, {trials:,} picks"
            yield Finding(test, f"p {p:.2g}", f"≥ {LEAST_P:.0e}", p >= LEAST_P)


def support(effort: Effort) -> Iterator[Finding]:
    """Answers stay integers, and floats are refused."""
    noisy = [
        kind(scale).add(np.zeros(effort.draws // 10, dtype=np.int64))
        for kind in (Laplace, Gaussian)
        for scale in SCALES
    ]
    refused = 0
    for kind in (Laplace, Gaussian):
        try:
            kind(SCALES[0]).add(np.zeros(3))  # type: ignore[arg-type]
        except TypeError:
            refused += 1
    whole = all(values.dtype == np.int64 for values in noisy)
    yield Finding(
        "support: integers in, integers out; floats refused", f"{refused} of 2 refused", "all", whole and refused == 2
    )


def forks(effort: Effort) -> Iterator[Finding]:  # noqa: ARG001
    """Workers that fork must not share noise."""
    if "fork" not in multiprocessing.get_all_start_methods():
        yield Finding("forks: this system cannot fork", "-", "-", passed=True)
        return
    with multiprocessing.get_context("fork").Pool(WORKERS) as pool:
        drawn = pool.map(_noise_of_a_worker, [50] * 2 * WORKERS + [TABLE_CELLS] * 2 * WORKERS)
    repeated = len(drawn) - len(set(drawn))
    yield Finding(f"forks: {WORKERS} workers", f"{repeated} noise vectors repeated", "0", repeated == 0)


def p_value(draws: Integers, noise: Noise) -> float:
    """χ² of `draws` against the exact probabilities of `noise`, with the tails merged."""
    reach = int(40 * noise.scale) + 40
    k = np.arange(-reach, reach + 1)
    weights = np.exp(np.array([float(noise.log_mass(int(i))) for i in k]))
    expected = weights / weights.sum() * len(draws)
    observed = np.bincount(np.clip(draws, -reach, reach) + reach, minlength=2 * reach + 1)
    big = np.flatnonzero(expected >= 10)
    edges = np.concatenate([[0], np.arange(big[0] + 1, big[-1] + 1)])
    return chi_square(np.add.reduceat(observed, edges), np.add.reduceat(expected, edges))


def chi_square(observed: NDArray[np.int64], expected: NDArray[np.float64]) -> float:
    """The probability of a worse fit than this one if `expected` is true."""
    from scipy.stats import chi2

    return float(chi2.sf(((observed - expected) ** 2 / expected).sum(), len(expected) - 1))


def selection_probabilities(choice: Choice, scores: Sequence[int] | Integers) -> NDArray[np.float64]:
    """How likely each candidate is picked, from the definition."""
    behind = np.asarray(scores).max() - np.asarray(scores)
    coins: NDArray[np.float64] = np.exp(-behind / float(choice.scale))
    if isinstance(choice, NoisyMax):
        softmax: NDArray[np.float64] = coins / coins.sum()
        return softmax
    # Permute-and-flip is uniform among the accepted: P(i) = c_i·E[1/(1 + others)], with the number of others that are
    # accepted distributed as a sum of coins.
    return np.array([c * _mean_inverse(np.delete(coins, i)) for i, c in enumerate(coins)])


def _mean_inverse(coins: NDArray[np.float64]) -> float:
    law = np.ones(1)
    for coin in coins:
        law = np.convolve(law, [1 - coin, coin])
    return float((law / np.arange(1, len(law) + 1)).sum())


def _noise_of_a_worker(size: int) -> bytes:
    return Gaussian(Fraction(100)).add(np.zeros(size, dtype=np.int64)).tobytes()
