"""Progress: what a run tells whoever waits for it, while it spends."""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from priory.privacy.budget import Budget, rounded_up


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
