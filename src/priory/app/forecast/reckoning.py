"""Reckoning: what trials with some of the columns or rows say of a fit with all of them.

With as much budget for each column, marginals have the same noise, and rounds grow with the columns. The time grows
like a power of the columns, which is fitted to the trials there are; errors go on falling, or stay as they are. With
some of the rows times grow as a law says, and trials say how fast this machine is. Where a law says how large errors
are, trials say which pairs have the larger ones.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean, geometric_mean

from priory.app.forecast.law import Facts, Laws
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
        rows: how many there are, where parts of the rows are tried; None where parts of the columns are.
        laws: what is known of such fits, if anything is.
        facts: what the laws are about, by size.
        is_by_law: whether a law says how large errors are, as trials with made-up rows do not.
        trials: in the order they were made.
    """

    budget: Budget
    columns: int
    rows: int | None = None
    laws: Laws | None = None
    facts: Mapping[int, Facts] = field(default_factory=dict)
    is_by_law: bool = False
    trials: tuple[Trial, ...] = ()

    def with_trial(self, trial: Trial) -> "Reckoning":
        """With one more."""
        return replace(self, trials=(*self.trials, trial))

    @property
    def whole(self) -> int:
        """The size of the whole table."""
        return self.columns if self.rows is None else self.rows

    @property
    def sizes(self) -> list[int]:
        """The sizes of trials that were not stopped, smallest first."""
        return sorted({trial.size for trial in self.trials if trial.errors})

    @property
    def paces(self) -> list[float]:
        """How many times as long the largest trials took as a law says that fits take on the study's machine."""
        # Much of a small trial is the same for every table.
        largest = [trial for trial in self.trials if trial.size == self.sizes[-1]]
        return [trial.seconds / known for trial in largest if (known := self._lawful(trial.size)) is not None]

    def runs(self, size: int) -> int:
        """How many trials of that size there are."""
        return len(self.ended(size))

    def seconds(self, size: int, pace: float | None = None) -> float:
        """How long a fit of that size takes: by the law for times, at a pace; or as tried, or from the sizes below."""
        lawful = self._lawful(size)
        if lawful is not None:
            return lawful * (pace or geometric_mean(self.paces))
        known = {trial.size: self._seconds(trial.size) for trial in self.trials}
        if size in known:
            return known[size]
        below = sorted(each for each in known if each < size) or sorted(known)[:1]
        last = below[-1]
        return known[last] * math.pow(size / last, _power([(each, known[each]) for each in below]))

    def rehearsal(self, pace: float | None = None, like: "Reckoning | None" = None) -> Rehearsal:
        """What a fit of the whole table takes, and its errors, as far as is known.

        Args:
            pace: see `seconds`; by default that of these trials.
            like: of another budget: where no trial of this one ended, errors are spread over pairs as there.
        """
        tried = like or self
        size = tried.sizes[-1]
        ended = tried.ended(size)
        worse = self.mean(self.whole) / max(tried.tried(size), 1e-9)
        means = {clique: min(1.0, worse * fmean(trial.errors[clique] for trial in ended)) for clique in ended[0].errors}
        time_off, error_off = self._off(size) if like is None else (None, None)
        return Rehearsal(
            self.budget,
            self.seconds(self.whole, pace),
            int(fmean(trial.memory_in_bytes for trial in ended) * (self.columns / size if self.rows is None else 1)),
            {clique[0]: error for clique, error in means.items() if len(clique) == 1},
            {(clique[0], clique[1]): error for clique, error in means.items() if len(clique) == 2},
            size if self.rows is None else self.columns,
            self.columns,
            rehearsed_rows=None if self.rows is None else size,
            of_rows=self.rows,
            time_off=time_off,
            error_off=error_off,
            is_interpolated=like is not None,
        )

    def mean(self, size: int) -> float:
        """The mean error of a fit of that size."""
        facts = self.facts.get(size, self.facts.get(self.whole))
        if self.is_by_law and self.laws is not None and facts is not None:
            # A part of the columns has its part of the budget: noise, and so errors, are about those of all.
            return self.laws.error(facts)
        known = size if size in self.sizes else self.sizes[-1]
        if self.rows is not None and self.laws is not None and facts is not None:
            return self.laws.error(facts) / self.laws.error(self.facts[known]) * self.tried(known)
        return self._worse(known, size) * self.tried(known)

    def _lawful(self, size: int) -> float | None:
        """What the law for times says, where there is one."""
        if self.laws is None or self.laws.times is None or size not in self.facts:
            return None
        return math.exp(self.laws.times.log(self.facts[size]))

    def _off(self, size: int) -> tuple[float | None, float | None]:
        """What was forecast of trials of that size, over what they showed: of their time and of their mean error."""
        before = replace(self, trials=tuple(trial for trial in self.trials if trial.size < size))
        time_off = before.seconds(size) / self._seconds(size) if before.sizes else None
        is_known = bool(before.sizes) or self.is_by_law
        return time_off, before.mean(size) / max(self.tried(size), 1e-9) if is_known else None

    def _worse(self, size: int, columns: int) -> float:
        """How many times larger errors are with so many columns than with `size` of them."""
        smaller = [each for each in self.sizes if each < size]
        if not smaller:
            return 1.0
        last = smaller[-1]
        ratio = self.tried(size) / max(self.tried(last), 1e-9)
        doubled = min(max(ratio ** (1 / math.log2(size / last)), LEAST_WORSE), MOST_WORSE)
        return float(doubled ** math.log2(columns / size))

    def tried(self, size: int) -> float:
        """The mean error of trials of that size."""
        return fmean(trial.mean for trial in self.ended(size))

    def ended(self, size: int) -> list[Trial]:
        """The trials of that size that were not stopped."""
        return [trial for trial in self.trials if trial.size == size and trial.errors]

    def _seconds(self, size: int) -> float:
        return fmean(trial.seconds for trial in self.trials if trial.size == size)


def _power(known: Sequence[tuple[int, float]]) -> float:
    """With which power of the columns times grow."""
    long = [(columns, seconds) for columns, seconds in known if seconds >= SHORTEST]
    if len(long) < 2:
        return USUAL_POWER
    (few, short), (many, longer) = long[-2:]
    power = math.log(longer / short) / math.log(many / few)
    return min(max(power, LEAST_POWER), MOST_POWER)
