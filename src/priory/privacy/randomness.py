"""Randomness: where the randomness that protects people comes from, and the tests' stand-in for it."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from priory.privacy.choice import Choice
from priory.privacy.noise import Integers, Noise


class Randomness(Protocol):
    """Turns true answers into noisy ones and scores into picks."""

    def noisy(self, values: Integers, noise: Noise) -> Integers:
        """`values` with `noise` added."""

    def picks(self, scores: Integers, choice: Choice, draws: int) -> list[int]:
        """The places of some of `scores`, each picked by `choice` out of all."""


@dataclass(frozen=True)
class OperatingSystem:
    """The operating system's randomness; it cannot be seeded, and only with it is a release private."""

    def noisy(self, values: Integers, noise: Noise) -> Integers:
        return noise.add(values)

    def picks(self, scores: Integers, choice: Choice, draws: int) -> list[int]:
        return choice.picks(scores, draws)


@dataclass(frozen=True, eq=False)
class Asked:
    """What a replay saw: one request and the true values behind it.

    Attributes:
        request: the noise or the choice, with its scale.
        truth: the true answers or scores. Private: this is for tests on made-up tables.
        result: what was returned for it.
    """

    request: Noise | Choice
    truth: Integers
    result: Integers | int


class Replay:
    """For tests: returns a given transcript, or noise from a seed, and keeps everything it was asked.

    Every release made with it is stamped NOT PRIVATE.

    Attributes:
        asked: the requests so far, with the true values.
    """

    def __init__(self, transcript: Iterable[Integers | int] = (), *, seed: int | None = None) -> None:
        self.asked: list[Asked] = []
        self._transcript = list(transcript)
        self._rng = None if seed is None else np.random.default_rng(seed)

    @property
    def transcript(self) -> list[Integers | int]:
        """What was returned so far, to be forced upon another run."""
        return [asked.result for asked in self.asked]

    def noisy(self, values: Integers, noise: Noise) -> Integers:
        forced = self._forced()
        if isinstance(forced, np.ndarray) and forced.shape == values.shape:
            result = forced
        elif forced is not None:
            raise AssertionError("the transcript has another kind of answer here: the run took another path")
        elif self._rng is None:
            result = noise.add(values)
        else:
            result = values + np.rint(self._rng.normal(0, noise.stddev, values.shape)).astype(np.int64)
        self.asked.append(Asked(noise, values.copy(), result))
        return result

    def picks(self, scores: Integers, choice: Choice, draws: int) -> list[int]:
        return [self._pick(scores, choice) for _ in range(draws)]

    def _pick(self, scores: Integers, choice: Choice) -> int:
        forced = self._forced()
        if isinstance(forced, int):
            result = forced
        elif forced is not None:
            raise AssertionError("the transcript has another kind of answer here: the run took another path")
        elif self._rng is None:
            result = choice.pick(scores)
        else:
            noise = self._rng.gumbel(size=scores.shape)
            result = int((scores / float(choice.scale) + noise).argmax()) if choice.scale else int(scores.argmax())
        self.asked.append(Asked(choice, scores.copy(), result))
        return result

    def _forced(self) -> Integers | int | None:
        place = len(self.asked)
        return self._transcript[place] if place < len(self._transcript) else None
