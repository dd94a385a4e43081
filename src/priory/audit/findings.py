"""Findings: one line of the audit's table."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

# How the names of tests begin that look for a bug put in on purpose, and of those that attack whole fits.
BUG_PREFIX, END_PREFIX = "planted bug: ", "end to end: "


@dataclass(frozen=True)
class Finding:
    """What one test of the battery found."""

    test: str  # what was tested
    figure: str  # what was measured
    limit: str  # what it had to be
    passed: bool  # whether it was
    seconds: float = 0.0  # how long it took

    @property
    def verdict(self) -> str:
        """One word for the table."""
        return "pass" if self.passed else "FAIL"


@dataclass(frozen=True)
class Effort:
    """How hard the battery tries; by default, as a whole audit does."""

    draws: int = 40_000_000  # at most for each test of a sampler's distribution; no more than its power takes
    trials: int = 200_000  # on each side of a pair of neighbours, for one primitive
    picks: int = 200_000  # the same for a selection, which cannot be drawn at once
    least_share: float = 0.75  # a lower bound below this part of the claim means that the audit is blind
    neighbours: int = 200  # pairs for each mechanism that is replayed
    settings: int = 100  # the same for each setting other than the defaults
    public: int = 50  # the same for each kind of public rows
    fits: int = 2_000  # on each side, for each mechanism end to end
    least_loss: float = 0.5  # the same for a bound end to end of what only adds noise
    plans: int = 1_000  # runs of the ledger that are killed
    kills: int = 300  # fits of the command line that are killed
    scales: int = 7  # how many scales of each sampler are tested
    opening: float = 2.0  # seconds of the processor that such a file may take
    lies: int = 10_000  # numbers and sizes of each kind of file that are replaced; no more than there are
    categories: int = 1_000_000  # of the widest table of one column


WHOLE = Effort()
QUICK = Effort(
    draws=50_000,
    trials=100_000,
    picks=20_000,
    least_share=0.5,
    neighbours=40,
    settings=16,
    public=6,
    fits=4,
    least_loss=0.0,
    plans=40,
    kills=6,
    scales=2,
    opening=6.0,
    lies=60,
    categories=300,
)

Test = Callable[[Effort], Iterable[Finding]]
