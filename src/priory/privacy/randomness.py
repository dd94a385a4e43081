"""Randomness: where the randomness that protects people comes from, and the tests' stand-in for it."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, Protocol

import numpy as np

from priory.data.sources.raw import Values
from priory.errors import MissingExtra, OptionError
from priory.privacy.choice import Choice, NoisyMax, PermuteAndFlip
from priory.privacy.noise import Gaussian, Integers, Laplace, Noise, RoundedGaussian
from priory.privacy.partition import kept_values

KINDS = frozenset(kind.kind for kind in (Laplace, Gaussian, RoundedGaussian, NoisyMax, PermuteAndFlip))


class Randomness(Protocol):
    """Turns true answers into noisy ones and scores into picks."""

    @property
    def name(self) -> str:
        """Who draws, for the statement."""

    @property
    def kinds(self) -> frozenset[str]:
        """The kinds of noise and choice that it can draw."""

    def noisy(self, values: Integers, noise: Noise) -> Integers:
        """`values` with `noise` added, in the noise's lattice steps."""

    def picks(self, scores: Integers, choice: Choice, draws: int) -> list[int]:
        """The indices of some of `scores`, each picked by `choice` out of all."""

    def kept(self, chunks: Iterable[Values], noise: Noise, threshold: int) -> dict[Any, int]:
        """The values whose number of persons, with `noise` added, is at least `threshold`, with that number."""
        return kept_values(self.noisy, chunks, noise, threshold)


@dataclass(frozen=True)
class OperatingSystem(Randomness):
    """This project's exact samplers, from the operating system's randomness, which cannot be seeded."""

    name = "priory"
    kinds = KINDS

    def noisy(self, values: Integers, noise: Noise) -> Integers:
        return noise.add(values)

    def picks(self, scores: Integers, choice: Choice, draws: int) -> list[int]:
        return choice.picks(scores, draws)


@dataclass(frozen=True)
class OpenDP(Randomness):
    """OpenDP's samplers, for who must have a vetted library draw; they have no rounded Gaussian noise."""

    name = "opendp"
    kinds = KINDS - {RoundedGaussian.kind}

    def __post_init__(self) -> None:
        try:
            import opendp  # noqa: F401 - only whether it is here
        except ImportError:
            raise MissingExtra("opendp", "priory[opendp]") from None

    def noisy(self, values: Integers, noise: Noise) -> Integers:
        if values.dtype != np.int64:
            raise TypeError(f"noise is added to int64 answers; got {values.dtype}")
        if noise.scale == 0 or values.size == 0:
            return values.copy()
        noisy = opendp_measurement(noise.kind, noise.scale)(values.ravel().tolist())
        return np.array(noisy, dtype=np.int64).reshape(values.shape)

    def picks(self, scores: Integers, choice: Choice, draws: int) -> list[int]:
        if choice.scale == 0:
            return choice.picks(scores, draws)
        pick = opendp_measurement(choice.kind, choice.scale)
        return [int(pick(scores.tolist())) for _ in range(draws)]


@lru_cache(maxsize=64)
def opendp_measurement(kind: str, scale: Fraction) -> Callable[[list[int]], Any]:
    """OpenDP's measurement on vectors of 64-bit integers; the cost charged is ours, and tests compare the two."""
    import opendp.prelude as dp

    dp.enable_features("contrib")
    vectors = dp.vector_domain(dp.atom_domain(T="i64"))
    measurement: Callable[[list[int]], Any]
    if kind == Laplace.kind:
        measurement = dp.m.make_laplace(vectors, dp.l1_distance(T="i64"), scale=float(scale))
    elif kind == Gaussian.kind:
        measurement = dp.m.make_gaussian(vectors, dp.l2_distance(T="i64"), scale=float(scale))
    else:
        # Before 0.16 its zCDP form was permute-and-flip at the other one's price.
        measures = {NoisyMax.kind: dp.zero_concentrated_divergence, PermuteAndFlip.kind: dp.max_divergence}
        measurement = dp.m.make_noisy_max(vectors, dp.linf_distance(T="i64"), measures[kind](), scale=float(scale))
    return measurement


SOURCES: dict[str, Callable[[], Randomness]] = {source.name: source for source in (OperatingSystem, OpenDP)}


def source_of(randomness: Randomness | str | None) -> Randomness:
    """The source of randomness that an option means; by default the operating system's."""
    if randomness is None:
        return OperatingSystem()
    if not isinstance(randomness, str):
        return randomness
    if randomness not in SOURCES:
        raise OptionError("randomness", f"{randomness!r} is none of {', '.join(SOURCES)}")
    return SOURCES[randomness]()


def is_private(randomness: Randomness) -> bool:
    """Whether a release made with it is private: for these two exactly, whatever another source says of itself."""
    return type(randomness) in (OperatingSystem, OpenDP)


@dataclass(frozen=True, eq=False)
class Asked:
    """What a replay saw: one request and the true values behind it."""

    request: Noise | Choice  # the noise or the choice, with its scale
    truth: Integers  # the true answers or scores. Private: this is for tests on made-up tables
    result: Integers | int  # what was returned for it


@dataclass(frozen=True, eq=False)
class AskedValues:
    """What a replay saw of one selection of values."""

    place: int  # how many other requests came before it
    noise: Noise
    threshold: int  # in the noise's lattice steps
    truth: dict[Any, int]  # how many persons have each value. Private: this is for tests on made-up tables
    result: dict[Any, int]  # what was returned for it


class TranscriptEnd(Exception):
    """The transcript of a replay that ends with it was returned, but for its last answer."""


class Replay(Randomness):
    """For tests: returns a given transcript, or noise from a seed, and keeps everything it was asked.

    Every release made with it is stamped NOT PRIVATE.
    """

    name = "replay"
    kinds = KINDS

    def __init__(
        self,
        transcript: Iterable[Integers | int] = (),
        *,
        values: Iterable[dict[Any, int]] = (),
        seed: int | None = None,
        ends: bool = False,
    ) -> None:
        self.asked: list[Asked] = []  # the requests so far, with the true values
        self.asked_values: list[AskedValues] = []  # the selections of values so far
        self._values = list(values)
        self._transcript = list(transcript)
        self._rng = None if seed is None else np.random.default_rng(seed)
        self._ends = ends

    @property
    def transcript(self) -> list[Integers | int]:
        """What was returned so far, for another run to repeat."""
        return [asked.result for asked in self.asked]

    def noisy(self, values: Integers, noise: Noise) -> Integers:
        return np.asarray(self._returned(noise, values, values.shape, lambda: self._drawn(values, noise)))

    def picks(self, scores: Integers, choice: Choice, draws: int) -> list[int]:
        def drawn() -> int:
            if self._rng is None or choice.scale == 0:
                return choice.pick(scores)
            return int((scores / float(choice.scale) + self._rng.gumbel(size=scores.shape)).argmax())

        return [int(self._returned(choice, scores, (), drawn)) for _ in range(draws)]

    def kept(self, chunks: Iterable[Values], noise: Noise, threshold: int) -> dict[Any, int]:
        seen = list(chunks)
        truth = {value: int(n) for chunk in seen for value, n in zip(chunk.values, chunk.persons, strict=True)}
        place = len(self.asked_values)
        forced = self._values[place] if place < len(self._values) else None
        result = kept_values(self._drawn, seen, noise, threshold) if forced is None else forced
        self.asked_values.append(AskedValues(len(self.asked), noise, threshold, truth, result))
        return result

    def _drawn(self, values: Integers, noise: Noise) -> Integers:
        if self._rng is None:
            return noise.add(values)
        steps = self._rng.normal(0, noise.stddev / float(noise.step), values.shape)
        return noise.on_lattice(values) + np.rint(steps).astype(np.int64)

    def _returned(
        self, request: Noise | Choice, truth: Integers, shape: tuple[int, ...], drawn: Callable[[], Integers | int]
    ) -> Integers | int:
        """The next answer of the transcript, which must have this shape, or one that is drawn."""
        place = len(self.asked)
        result = self._transcript[place] if place < len(self._transcript) else drawn()
        if np.shape(result) != shape:
            raise AssertionError("the transcript has another kind of answer here: the run took another path")
        self.asked.append(Asked(request, truth.copy(), result))
        if self._ends and len(self.asked) == len(self._transcript):
            raise TranscriptEnd
        return result
