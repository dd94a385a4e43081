"""Reckoning: what trials with some of the columns say of a fit with all of them.

With as much budget for each column, marginals have the same noise, and rounds grow with the columns. The time grows
like a power of the columns, which is fitted to the trials there are; errors go on falling, or stay as they are.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from priory.app.forecast.rehearsal import Rehearsal
from priory.app.forecast.trial import Trial
from priory.privacy.budget import Budget

# Times grow with a power of the columns between the first two; with the last one as long as only one size was tried.
LEAST_POWER, MOST_POWER, USUAL_POWER = 1.0, 2.0, 1.3
# Twice the columns have errors between these many times as large. That some more columns had larger ones says little of
# all, as which columns they are decides: with 1.3, errors of the census and of Stroke were forecast 1.3 times larger.
LEAST_WORSE, MOST_WORSE = 0.8, 1.0
# Shorter trials say nothing of how times grow: much of them is the same for every table.
SHORTEST = 0.05


@dataclass(frozen=True)
class Reckoning:
    """The trials of one budget so far.

    Attributes:
        budget: what all columns may spend.
        columns: how many there are.
        trials: in the order they were made.
    """

    budget: Budget
    columns: int
    trials: tuple[Trial, ...] = ()

    def with_trial(self, trial: Trial) -> "Reckoning":
        """With one more."""
        return replace(self, trials=(*self.trials, trial))

    @property
    def sizes(self) -> list[int]:
        """The numbers of columns of trials that were not stopped, smallest first."""
        return sorted({trial.columns for trial in self.trials if trial.errors})

    @property
    def is_whole(self) -> bool:
        """Whether all columns were tried."""
        return self.columns in self.sizes

    def runs(self, columns: int) -> int:
        """How many trials of so many columns there are."""
        return len(self._ended(columns))

    def seconds(self, columns: int) -> float:
        """How long a fit of so many columns takes: as tried, or by the power of the two largest sizes below."""
        known = {trial.columns: self._seconds(trial.columns) for trial in self.trials}
        if columns in known:
            return known[columns]
        below = sorted(size for size in known if size < columns) or sorted(known)[:1]
        last = below[-1]
        power = _power([(size, known[size]) for size in below])
        return known[last] * math.pow(columns / last, power)

    def rehearsal(self) -> Rehearsal:
        """What a fit of all columns takes, and its errors, as far as is known; there must be a trial that ended."""
        size = self.sizes[-1]
        ended = self._ended(size)
        worse = self._worse(size)
        means = {clique: min(1.0, worse * fmean(trial.errors[clique] for trial in ended)) for clique in ended[0].errors}
        before = replace(self, trials=tuple(trial for trial in self.trials if trial.columns < size))
        return Rehearsal(
            self.budget,
            self.seconds(self.columns),
            int(fmean(trial.memory_in_bytes for trial in ended) * self.columns / size),
            {clique[0]: error for clique, error in means.items() if len(clique) == 1},
            {(clique[0], clique[1]): error for clique, error in means.items() if len(clique) == 2},
            size,
            self.columns,
            time_off=before.seconds(size) / self.seconds(size) if before.sizes else None,
            error_off=before.mean(size) / max(self.mean(size), 1e-9) if before.sizes else None,
        )

    def mean(self, columns: int) -> float:
        """The mean error of a fit of so many columns."""
        size = columns if columns in self.sizes else self.sizes[-1]
        growth = self._worse(size, columns)
        return growth * fmean(trial.mean for trial in self._ended(size))

    def _worse(self, size: int, columns: int | None = None) -> float:
        """How many times larger errors are with all columns, or so many, than with `size` of them."""
        smaller = [each for each in self.sizes if each < size]
        if not smaller:
            return 1.0
        last = smaller[-1]
        ratio = fmean(t.mean for t in self._ended(size)) / max(fmean(t.mean for t in self._ended(last)), 1e-9)
        doubled = min(max(ratio ** (1 / math.log2(size / last)), LEAST_WORSE), MOST_WORSE)
        return float(doubled ** math.log2((columns or self.columns) / size))

    def _ended(self, columns: int) -> list[Trial]:
        return [trial for trial in self.trials if trial.columns == columns and trial.errors]

    def _seconds(self, columns: int) -> float:
        return fmean(trial.seconds for trial in self.trials if trial.columns == columns)


def _power(known: Sequence[tuple[int, float]]) -> float:
    """With which power of the columns times grow."""
    long = [(columns, seconds) for columns, seconds in known if seconds >= SHORTEST]
    if len(long) < 2:
        return USUAL_POWER
    (few, short), (many, longer) = long[-2:]
    power = math.log(longer / short) / math.log(many / few)
    return min(max(power, LEAST_POWER), MOST_POWER)
