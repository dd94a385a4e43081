"""Findings: one line of the audit's table."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Finding:
    """What one test of the battery found.

    Attributes:
        test: what was tested.
        figure: what was measured.
        limit: what it had to be.
        passed: whether it was.
    """

    test: str
    figure: str
    limit: str
    passed: bool

    @property
    def verdict(self) -> str:
        """One word for the table."""
        return "pass" if self.passed else "FAIL"


@dataclass(frozen=True)
class Effort:
    """How hard the battery tries.

    Attributes:
        draws: at most for each test of a sampler's distribution; no more than its power takes.
        trials: on each side of a pair of neighbours, for one primitive.
        picks: the same for a selection, which cannot be drawn at once.
        least_share: a lower bound below this part of the claim means that the audit is blind.
        neighbours: pairs for each mechanism that is replayed.
        fits: on each side, for each mechanism end to end.
        plans: runs of the ledger that are killed.
        scales: how many scales of each sampler are tested.
        categories: of the widest table of one column.
    """

    draws: int
    trials: int
    picks: int
    least_share: float
    neighbours: int
    fits: int
    plans: int
    scales: int
    categories: int


WHOLE = Effort(
    draws=40_000_000,
    trials=200_000,
    picks=200_000,
    least_share=0.75,
    neighbours=200,
    fits=2_000,
    plans=1_000,
    scales=7,
    categories=1_000_000,
)
QUICK = Effort(
    draws=50_000,
    trials=60_000,
    picks=8_000,
    least_share=0.5,
    neighbours=12,
    fits=40,
    plans=40,
    scales=2,
    categories=2_000,
)

Test = Callable[[Effort], Iterable[Finding]]
