"""Clock: how much work rehearsals may take, in processor seconds; they read no private rows, so that a clock is safe."""

import time
from collections.abc import Callable
from dataclasses import dataclass


class OutOfTime(Exception):
    """A rehearsal was stopped: the time is up, or nobody wants the result any more."""


def never() -> bool:
    """Nobody stops it."""
    return False


@dataclass(frozen=True)
class Clock:
    """When work must end, and whether somebody has stopped it before.

    Attributes:
        ends: when, by `now`.
        is_stopped: whether the result is still wanted.
        now: processor seconds of this process; something else in tests.
    """

    ends: float
    is_stopped: Callable[[], bool] = never
    now: Callable[[], float] = time.process_time

    @classmethod
    def of(
        cls, seconds: float, *, is_stopped: Callable[[], bool] = never, now: Callable[[], float] = time.process_time
    ) -> "Clock":
        """A clock that gives so many seconds from now on."""
        return cls(now() + seconds, is_stopped, now)

    @property
    def left(self) -> float:
        """How many seconds are left; 0 or less where the time is up."""
        return self.ends - self.now()

    def check(self, late: float = 0.0) -> None:
        """Raise `OutOfTime` where the time has been up for that long."""
        if self.is_stopped() or self.left < -late:
            raise OutOfTime
