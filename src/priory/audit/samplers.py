"""Samplers: is the noise that is drawn the noise that is charged, for each source of randomness?

Two tests look at every sampler. χ² finds many small differences. The other looks at each value by itself: how often it
was drawn is binomial, and its p-value is exact. With m values, the smallest p-value times m is compared with 10⁻⁶, so
that a right sampler fails at most once in a million runs.

How many draws that takes: against a sampler that gives one value the probability p ± b, n draws find it with power 0.99
where b·√n ≥ √(p(1−p))·(z + 2.33), with z the normal quantile of 10⁻⁶/2m. For b = 10⁻³ that is about 1.5·10⁷ draws at a
scale of 0.7 and fewer at larger ones. Every row says what it found, and the smallest bias that its draws show.
"""

import math
import multiprocessing
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from priory.audit.findings import Effort, Finding
from priory.audit.laws import log_chances
from priory.errors import MissingExtra
from priory.privacy.choice import Choice, NoisyMax, PermuteAndFlip
from priory.privacy.noise import Floats, Gaussian, Integers, Laplace, Noise, RoundedGaussian
from priory.privacy.randomness import OpenDP, OperatingSystem, Randomness

NOISES: tuple[type[Noise], ...] = (Laplace, Gaussian, RoundedGaussian)
SCALES = tuple(map(Fraction, (0.7, 1, 0.5, 3, 10, 14.25, 100)))
# A right sampler falls below this once in a million tests.
LEAST_P = 1e-6
# What the whole battery finds at any one value, in absolute probability, and how surely.
BIAS, POWER = 1e-3, 0.99
WORKERS = 8
# Of noise vectors of workers that fork: a short and a long one.
_SIZES = (50, 20_000)
_SCORES = np.array([0, 1, 3, 3, -2])
# OpenDP draws some fifty thousand values a second.
_FEWEST_OPENDP_DRAWS, _OPENDP_SHARE = 20_000, 100
_PIECE = 2**20


def exactness(effort: Effort) -> Iterator[Finding]:
    """χ² and a test of each value, for every kind of noise from each source of randomness."""
    for source in _sources():
        is_ours = source.name == OperatingSystem.name
        most = effort.draws if is_ours else max(_FEWEST_OPENDP_DRAWS, effort.draws // _OPENDP_SHARE)
        for kind in NOISES:
            if kind.kind in source.kinds:
                yield _exactness(source, [kind(scale) for scale in SCALES[: effort.scales]], most)
    yield from _absent()


def planted_bias(effort: Effort) -> Iterator[Finding]:
    """A sampler that moves a little of the probability of 0 to 1 is caught."""
    noise = RoundedGaussian(SCALES[0])
    law = Law.of(noise, effort.draws)
    # So many draws that the bias is missed once in a million runs.
    bias = max(BIAS, law.bias_found(effort.draws, power=1 - LEAST_P))
    draws = law.draws_to_find(bias, power=1 - LEAST_P)
    p = law.p_value(_tally(Biased(bias), noise, draws, law))
    test = f"planted bug: {bias:.1e} of the probability of 0 moved to 1, {draws:,} draws"
    yield Finding(test, f"p {p:.1e}", "caught", p < LEAST_P)


def selection_law(effort: Effort) -> Iterator[Finding]:
    """The same two tests of many picks against the law that each price belongs to."""
    for source in _sources():
        for choice in (NoisyMax(Fraction(2)), PermuteAndFlip(Fraction(2))):
            law = Law(np.exp(log_chances(choice, _SCORES)), np.arange(len(_SCORES)), 0)
            is_ours = source.name == OperatingSystem.name
            trials = min(effort.draws, law.draws_to_find(BIAS)) if is_ours else effort.picks // 2
            p = law.p_value(_tally_picks(source, choice, trials))
            yield _finding(f"{choice.kind}, {source.name}, {trials:,} picks", p, law.bias_found(trials))
    yield from _absent()


def support(effort: Effort) -> Iterator[Finding]:  # noqa: ARG001
    """Answers stay integers, and floats are refused."""
    zeros = np.zeros(5_000, dtype=np.int64)
    noisy, refused, asked = [], 0, 0
    for source in _sources():
        for kind in NOISES:
            if kind.kind not in source.kinds:
                continue
            noisy += [source.noisy(zeros, kind(scale)) for scale in SCALES]
            asked += 1
            try:
                source.noisy(np.zeros(3), kind(SCALES[0]))  # type: ignore[arg-type]
            except TypeError:
                refused += 1
    whole = all(values.dtype == np.int64 for values in noisy)
    test = "support: integers in, integers out; floats refused"
    yield Finding(test, f"{refused} of {asked} refused", "all", whole and refused == asked)


def forks(effort: Effort) -> Iterator[Finding]:  # noqa: ARG001
    """Workers that fork must not share noise."""
    if "fork" not in multiprocessing.get_all_start_methods():
        yield Finding("forks: this system cannot fork", "-", "-", passed=True)
        return
    with multiprocessing.get_context("fork").Pool(WORKERS) as pool:
        drawn = pool.map(_noise_of_a_worker, [size for size in _SIZES for _ in range(2 * WORKERS)])
    repeated = len(drawn) - len(set(drawn))
    yield Finding(f"forks: {WORKERS} workers", f"{repeated} noise vectors repeated", "0", repeated == 0)


@dataclass(frozen=True)
class Law:
    """The values that are tested one by one, with the tails as two more, and how likely each is."""

    probabilities: Floats  # of each value from −reach to reach
    edges: NDArray[np.int64]  # where in them each tested value begins; unlikely ones are merged
    reach: int  # see `probabilities`

    @classmethod
    def of(cls, noise: Noise, draws: int) -> "Law":
        """That of `noise`, with the values in a tail together that are drawn less than once in so many draws."""
        reach = int(40 * noise.scale / noise.step) + 40
        law = noise.probabilities(np.arange(-reach, reach + 1))
        return cls(law, _edges(law * draws, 1), reach)

    @property
    def cells(self) -> Floats:
        """How likely each tested value is."""
        cells: Floats = np.add.reduceat(self.probabilities, self.edges)
        return cells

    def p_value(self, observed: NDArray[np.int64]) -> float:
        """The smaller p-value of χ² and of the tests of each value, the latter times their number."""
        from scipy.stats import binom

        draws, cells = int(observed.sum()), self.cells
        counts = np.add.reduceat(observed, self.edges)
        both = np.minimum(binom.cdf(counts, draws, cells), binom.sf(counts - 1, draws, cells))
        # χ² holds for values that are not too rare.
        edges = _edges(cells * draws, 100)
        fit = chi_square(np.add.reduceat(counts, edges), np.add.reduceat(cells, edges) * draws)
        return min(1.0, 2 * len(cells) * float(both.min()), fit)

    def draws_to_find(self, bias: float, power: float = POWER) -> int:
        """How many draws show with `power` that some value is more or less likely than it should be by `bias`."""
        return math.ceil((self._deviation(bias, power) / bias) ** 2)

    def bias_found(self, draws: int, power: float = POWER) -> float:
        """The smallest bias that so many draws show at any one value."""
        bias = 0.0
        for _ in range(5):
            bias = self._deviation(bias, power) / math.sqrt(draws)
        return bias

    def _deviation(self, bias: float, power: float) -> float:
        """√draws times the smallest bias that they show, where counts have the spread of a value with that bias."""
        from scipy.special import ndtri

        right, wrong = self.cells, np.minimum(self.cells + bias, np.maximum(self.cells, 0.5))
        refused, found = -ndtri(LEAST_P / (2 * len(right))), ndtri(power)
        # 2 % for what a binomial's tail is heavier than a normal one's.
        widest = 1.02 * (refused * np.sqrt(right * (1 - right)) + found * np.sqrt(wrong * (1 - wrong)))
        return float(widest.max())


@dataclass(frozen=True)
class Biased(Randomness):
    """A planted bug: noise that is 1 instead of 0 a little too often."""

    bias: float  # how much of the probability is moved
    name = "biased"
    kinds = OperatingSystem.kinds

    def noisy(self, values: Integers, noise: Noise) -> Integers:
        """Honest noise, of which some zeros are changed."""
        honest = noise.add(np.zeros_like(values))
        chance = self.bias / float(noise.probabilities(np.zeros(1, dtype=np.int64))[0])
        moved = (np.random.default_rng().random(values.shape) < chance) & (honest == 0)
        biased: Integers = noise.on_lattice(values) + honest + moved
        return biased

    def picks(self, scores: Integers, choice: Choice, draws: int) -> list[int]:
        """Honest picks."""
        return choice.picks(scores, draws)


def chi_square(observed: NDArray[np.int64], expected: Floats) -> float:
    """The probability of a worse fit than this one if `expected` is true."""
    from scipy.stats import chi2

    return float(chi2.sf(((observed - expected) ** 2 / expected).sum(), len(expected) - 1))


def _exactness(source: Randomness, noises: Sequence[Noise], most: int) -> Finding:
    """One row: the worst p-value over the scales, and the largest bias that could be missed at one of them."""
    worst, missed, total = 1.0, 0.0, 0
    for noise in noises:
        draws = min(most, Law.of(noise, most).draws_to_find(BIAS))
        law = Law.of(noise, draws)
        worst = min(worst, law.p_value(_tally(source, noise, draws, law)))
        missed, total = max(missed, law.bias_found(draws)), total + draws
    return _finding(f"{noises[0].kind}, {source.name}, {len(noises)} scales, {total:,} draws", worst, missed)


def _finding(what: str, p: float, bias: float) -> Finding:
    figure = f"smallest p {p:.2g}; finds a bias of {bias:.1e} at any value"
    return Finding(f"sampler exactness: {what}", figure, f"≥ {LEAST_P:.0e}", p >= LEAST_P)


def _tally(source: Randomness, noise: Noise, draws: int, law: Law) -> NDArray[np.int64]:
    """How often each value was drawn."""
    counts = np.zeros(2 * law.reach + 1, dtype=np.int64)
    for start in range(0, draws, _PIECE):
        drawn = source.noisy(np.zeros(min(_PIECE, draws - start), dtype=np.int64), noise)
        counts += np.bincount(np.clip(drawn, -law.reach, law.reach) + law.reach, minlength=len(counts))
    return counts


def _tally_picks(source: Randomness, choice: Choice, trials: int) -> NDArray[np.int64]:
    """How often each candidate was picked."""
    counts = np.zeros(len(_SCORES), dtype=np.int64)
    for start in range(0, trials, _PIECE):
        picked = source.picks(_SCORES, choice, min(_PIECE, trials - start))
        counts += np.bincount(picked, minlength=len(counts))
    return counts


def _sources() -> list[Randomness]:
    """Both sources of randomness, or ours alone where OpenDP is not installed."""
    try:
        return [OperatingSystem(), OpenDP()]
    except MissingExtra:
        return [OperatingSystem()]


def _absent() -> Iterator[Finding]:
    if len(_sources()) == 1:
        yield Finding("sampler exactness: opendp is not installed", "not tested", "-", passed=True)


def _edges(expected: Floats, fewest: int) -> NDArray[np.int64]:
    """Where each value begins if those at either end that are expected less often than `fewest` are put together."""
    likely = np.flatnonzero(expected >= fewest)
    return np.concatenate([[0], np.arange(likely[0] + 1, likely[-1] + 1)])


def _noise_of_a_worker(size: int) -> bytes:
    return RoundedGaussian(Fraction(100)).add(np.zeros(size, dtype=np.int64)).tobytes()
