"""Findings: one line of the audit's table."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

# How the names of tests begin that look for a bug put in on purpose, and of those that attack whole fits.
BUG_PREFIX, END_PREFIX = "planted bug: ", "end to end: "


@dataclass(frozen=True)
class Finding:
    """What one test of the battery found.

    Attributes:
        test: what was tested.
        figure: what was measured.
        limit: what it had to be.
        passed: whether it was.
        seconds: how long it took.
    """

    test: str
    figure: str
    limit: str
    passed: bool
    seconds: float = 0.0

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
        settings: the same for each setting other than the defaults.
        public: the same for each kind of public rows.
        fits: on each side, for each mechanism end to end.
        least_loss: a lower bound end to end below this part of the claim, for what only adds noise, means the same.
        plans: runs of the ledger that are killed.
        kills: fits of the command line that are killed.
        scales: how many scales of each sampler are tested.
        categories: of the widest table of one column.
    """

    draws: int
    trials: int
    picks: int
    least_share: float
    neighbours: int
    settings: int
    public: int
    fits: int
    least_loss: float
    plans: int
    kills: int
    scales: int
    categories: int


WHOLE = Effort(
    draws=40_000_000,
    trials=200_000,
    picks=200_000,
    least_share=0.75,
    neighbours=200,
    settings=100,
    public=50,
    fits=2_000,
    least_loss=0.5,
    plans=1_000,
    kills=300,
    scales=7,
    categories=1_000_000,
)
QUICK = Effort(
    draws=50_000,
    trials=100_000,
    picks=20_000,
    least_share=0.5,
    neighbours=48,
    settings=40,
    public=6,
    fits=8,
    least_loss=0.0,
    plans=40,
    kills=6,
    scales=2,
    categories=2_000,
)

Test = Callable[[Effort], Iterable[Finding]]
