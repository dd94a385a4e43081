"""Progress: what a run tells whoever waits for it, while it spends."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from priory.privacy.budget import Budget, rounded_up

# Later rounds are slower than earlier ones: the time to a share x of all grows like a power of x between these.
_SLOWEST_GROWTH, _FASTEST_GROWTH = 1.0, 3.0


@dataclass(frozen=True)
class Step:
    """Where a run has come to. Nothing in it is private: it says what was asked and paid, never what was counted.

    Attributes:
        number: the round that begins, from 1; 0 before the first one.
        of: how many rounds there are, where that is known beforehand; for adaptive runs, None.
        spent: what was paid so far, in the budget's currency.
        budget: what the run may spend.
        note: what happens now, in a few words.
    """

    number: int
    of: int | None
    spent: Fraction
    budget: Budget
    note: str = ""

    @property
    def share(self) -> float:
        """What was paid, as a share of the budget, from 0 to 1; of adaptive runs it says best how far they are."""
        return float(self.spent / self.budget.amount)

    def __str__(self) -> str:
        where = f"round {self.number}" + ("" if self.of is None else f" of {self.of}")
        paid = f"{self.budget.currency.letter} = {rounded_up(self.spent)} of {rounded_up(self.budget.amount)} spent"
        return ": ".join(filter(None, (f"{where}, {paid}", self.note)))


# A run calls it at the beginning of each round, in the run's own thread.
Progress = Callable[[Step], None]


def silent(_step: Step) -> None:
    """Say nothing."""


def time_left(seen: Sequence[tuple[float, float]]) -> float | None:
    """Seconds until all is done, from when which share of it was.

    The seconds to a share x grow like a power of x, which is fitted to what was seen: later rounds, with larger models,
    take longer than earlier ones.

    >>> time_left([(0.0, 0.0), (10.0, 0.25), (20.0, 0.5)])
    20.0
    """
    begun, start = seen[0] if seen else (0.0, 0.0)
    points = [(t - begun, (x - start) / (1 - start)) for t, x in seen if x > start and t > begun]
    if not points:
        return None
    elapsed, share = points[-1]
    logs = [(math.log(share / x), math.log(elapsed / t)) for t, x in points if x < share and t < elapsed]
    square = sum(x * x for x, _ in logs)
    power = sum(x * t for x, t in logs) / square if square > 0 else 1.0
    return elapsed * (math.pow(share, -min(max(power, _SLOWEST_GROWTH), _FASTEST_GROWTH)) - 1)
