"""Planner: forecasts of one table's fits as they come, and what was rehearsed before is not rehearsed again."""

import math
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from priory.app.forecast.clock import Clock, OutOfTime, never
from priory.app.forecast.reckoning import Reckoning
from priory.app.forecast.rehearsal import Rehearsal, interpolated
from priory.app.forecast.tables import Played
from priory.app.forecast.trial import FEWEST_ROUNDS, Trials
from priory.app.registry import Mechanism, Registered, chosen
from priory.data.public import public_codes
from priory.data.schema import Schema
from priory.errors import OptionError
from priory.mechanisms.steps.effort import NORMAL
from priory.privacy.budget import Budget, Currency
from priory.work import reached

# How much work the rehearsals of one call may take, in processor seconds.
SECONDS = 30.0
# How many tables are rehearsed with all columns, while there is time.
RUNS = 3
# After the time is up by so many seconds no budget is tried for the first time.
LATE = 5.0
# A fit that cannot be stopped is begun only where there is so many times the time that it should take.
UNSTOPPABLE = 1.5
# Fewer columns are not rehearsed, where there are more.
FEWEST = 5


@dataclass(frozen=True, eq=False)
class Planner:
    """Forecasts for one schema, number of rows and mechanism, at any budget; it never opens a private table.

    Make it with `Planner.of`. One call of `forecasts` works at a time; others wait.
    """

    schema: Schema
    rows: int
    trials: Trials
    sizes: tuple[int, ...]  # how many columns are tried, one after the other
    known: NDArray[np.int64] | None  # the codes of public rows
    seed: int
    _played: dict[int, Played] = field(default_factory=dict)
    _reckonings: dict[Budget, Reckoning] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @classmethod
    def of(
        cls,
        schema: Schema,
        rows: int,
        *,
        mechanism: str | Mechanism | None = None,
        public: object | None = None,
        effort: str = NORMAL,
        seed: int = 0,
    ) -> "Planner":
        """Read the public table, where there is one.

        Args:
            schema: what the columns are.
            rows: how many rows the private table has, as far as one may say.
            mechanism: which recipe; by default `fit`'s own choice.
            public: a public table with the same columns.
            effort: that of the fit.
            seed: of the made-up tables; the noise is fresh each time.

        Raises:
            OptionError: there are no rows, or the mechanism or the effort is unknown.
            DataError: the public table does not fit the schema, or has no rows.
        """
        if rows < 1:
            raise OptionError("rows", "at least one is needed")
        columns = len(schema.domain)
        entry = chosen(mechanism, has_public=public is not None, columns=columns, has_workload=False)
        known = None if public is None else np.asarray(public_codes(schema, public), dtype=np.int64)
        trials = Trials(entry, effort, columns)
        # A recipe with settings of its own may be about all columns.
        is_whole = trials.is_whole or (mechanism is not None and not isinstance(mechanism, str))
        sizes = (columns,) if is_whole else _sizes(columns)
        return cls(schema, rows, trials, sizes, known, seed)

    @property
    def mechanism(self) -> Registered:
        """The recipe that is rehearsed."""
        return self.trials.entry

    def forecasts(
        self,
        budgets: Sequence[Budget],
        *,
        seconds: float = SECONDS,
        runs: int = RUNS,
        is_stopped: Callable[[], bool] = never,
    ) -> Iterator[Rehearsal]:
        """Forecasts for each budget, first from other budgets or few columns, then better ones.

        Rehearsals take some of the columns first, then twice as many, until all are taken or the next would take too
        long; then other tables are rehearsed, while there is time. The last forecast for each budget is marked final.

        Args:
            budgets: what may be spent.
            seconds: about how much work it may be, in processor seconds.
            runs: how many rehearsals with all columns are averaged, if there is time.
            is_stopped: asked now and then; where it says True, the iterator ends.

        Raises:
            OptionError: there are no runs or budgets, or a budget is one that a fit is not asked for.
        """
        check_budgets(budgets)
        if runs < 1:
            raise OptionError("runs", "at least one is needed")
        with self._lock:
            clock = Clock.of(seconds, is_stopped=is_stopped, now=self.trials.now)
            yield from (found for budget in budgets if (found := self._at(budget)) is not None)
            try:
                for size, number in self._stages(runs):
                    yield from self._stage(budgets, size, number, clock)
            except OutOfTime:
                if is_stopped():
                    return
            yield from (replace(found, is_final=True) for budget in budgets if (found := self._at(budget)) is not None)

    def at(self, budget: Budget) -> Rehearsal | None:
        """The forecast for a budget from what was rehearsed so far, without any work; None where that says nothing."""
        check_budgets([budget])
        return self._at(budget)

    def _at(self, budget: Budget) -> Rehearsal | None:
        made = self._reckonings.get(budget)
        if made is not None and made.sizes:
            return made.rehearsal()
        others = [each for each in list(self._reckonings.values()) if each.sizes]
        most = max((each.sizes[-1] for each in others), default=0)
        return interpolated(budget, [each.rehearsal() for each in others if each.sizes[-1] == most])

    def _stages(self, runs: int) -> list[tuple[int, int]]:
        """Which numbers of columns are tried on which tables, in order."""
        return [(size, 0) for size in self.sizes] + [(self.sizes[-1], number) for number in range(1, runs)]

    def _stage(self, budgets: Sequence[Budget], size: int, number: int, clock: Clock) -> Iterator[Rehearsal]:
        """Try as many columns with each budget, as far as there is time."""
        for done, budget in enumerate(budgets):
            reckoning = self._reckonings.get(budget, Reckoning(budget, self.sizes[-1]))
            share = clock.left / (len(budgets) - done)
            if self._is_due(reckoning, size, number, share):
                clock.check(late=LATE)
                check = self._check(clock, share if reckoning.sizes else math.inf)
                trial = self.trials.run(self._table(number).some(size), budget, check)
                if trial is not None:
                    reckoning = reckoning.with_trial(trial)
                    self._reckonings[budget] = reckoning
                    yield reckoning.rehearsal()

    def _is_due(self, reckoning: Reckoning, size: int, number: int, share: float) -> bool:
        """Whether a trial tells something new, and there is time for it, or it is the first."""
        if not reckoning.sizes:
            return True
        if reckoning.runs(size) > number or share <= 0:
            return False
        # Of a fit of all columns even a part says how long all of it takes, if it can be stopped.
        can_stop = all(trial.rounds >= FEWEST_ROUNDS for trial in reckoning.trials)
        if can_stop and size == self.sizes[-1] and number == 0:
            return True
        return (1 if can_stop else UNSTOPPABLE) * reckoning.seconds(size) <= share

    def _check(self, clock: Clock, share: float) -> Callable[[], None]:
        """What reports progress and stops a trial after so many seconds; the first one of a budget is not."""
        until = replace(clock, ends=clock.now() + share)

        def check() -> None:
            reached(clock.used, f"rehearsing, within {clock.seconds:g} CPU s")
            until.check()

        return check

    def _table(self, number: int) -> Played:
        """The table of that number; the same for all budgets."""
        if number not in self._played:
            rng = np.random.default_rng([self.seed, number])
            self._played[number] = Played.of(self.schema, self.rows, self.known, rng)
        return self._played[number]


def check_budgets(budgets: Sequence[Budget]) -> None:
    """Refuse budgets that no fit is asked for, or none at all."""
    if any(budget.currency is Currency.GAUSSIAN and budget.epsilon is None for budget in budgets):
        raise OptionError("budgets", "a fit is asked for epsilon, epsilon and delta, or rho")
    if not budgets:
        raise OptionError("epsilon", "at least one is needed")


def _sizes(columns: int) -> tuple[int, ...]:
    """How many columns are rehearsed, one after the other: halves of all, as long as they are not too few."""
    sizes = [columns]
    while sizes[0] // 2 >= FEWEST:
        sizes.insert(0, sizes[0] // 2)
    return tuple(sizes)
