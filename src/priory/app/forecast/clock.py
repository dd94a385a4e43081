"""Clock: how much work rehearsals may take, in processor seconds.

Rehearsals read no private rows, so that what a clock stops says nothing about them.
"""

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
        seconds: how many there were from the beginning.
        is_stopped: whether the result is still wanted.
        now: processor seconds of this process; something else in tests.
    """

    ends: float
    seconds: float
    is_stopped: Callable[[], bool] = never
    now: Callable[[], float] = time.process_time

    @classmethod
    def of(
        cls, seconds: float, *, is_stopped: Callable[[], bool] = never, now: Callable[[], float] = time.process_time
    ) -> "Clock":
        """A clock that gives so many seconds from now on."""
        return cls(now() + seconds, seconds, is_stopped, now)

    @property
    def left(self) -> float:
        """How many seconds are left; 0 or less where the time is up."""
        return self.ends - self.now()

    @property
    def used(self) -> float:
        """Which share of the seconds is over, from 0 to 1."""
        return min(1.0, max(0.0, 1 - self.left / self.seconds)) if self.seconds > 0 else 1.0

    def check(self, late: float = 0.0) -> None:
        """Raise `OutOfTime` where the time has been up for that long."""
        if self.is_stopped() or self.left < -late:
            raise OutOfTime
