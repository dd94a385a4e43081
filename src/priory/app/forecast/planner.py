"""Planner: forecasts of one table's fits as they come, and what was rehearsed before is not rehearsed again."""

import math
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from statistics import geometric_mean

import numpy as np
from numpy.typing import NDArray

from priory.app.forecast.approach import Approach, does_the_work
from priory.app.forecast.clock import Clock, OutOfTime, never
from priory.app.forecast.law import WITH_PUBLIC_ROWS
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
from priory.work import measured_by, reached

# How much work the rehearsals of one call may take, in processor seconds.
SECONDS = 30.0
# How many tables are rehearsed with all columns, while there is time.
RUNS = 3
# After the time is up by so many seconds no budget is tried for the first time.
LATE = 5.0
# A fit that cannot be stopped is begun only where there is so many times the time that it should take.
UNSTOPPABLE = 1.5
# What a forecast says of its accuracy where nothing is known.
NOT_COMPARED = "Forecasts for {} like this one were not compared with fits of real tables."


@dataclass(frozen=True, eq=False)
class Planner:
    """Forecasts for one schema, number of rows and mechanism, at any budget; it never opens a private table.

    Make it with `Planner.of`. One call of `forecasts` works at a time; others wait.
    """

    schema: Schema
    rows: int
    trials: Trials
    known: NDArray[np.int64] | None  # the codes of public rows
    seed: int
    is_custom: bool = False  # whether the recipe has settings of its own
    _approaches: dict[str, Approach] = field(default_factory=dict)
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
        entry = chosen(mechanism, has_public=public is not None, has_workload=False)
        known = None if public is None else np.asarray(public_codes(schema, public), dtype=np.int64)
        is_custom = mechanism is not None and not isinstance(mechanism, str)
        return cls(schema, rows, Trials(entry, effort, len(schema.domain)), known, seed, is_custom)

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

        Rehearsals take some of the columns or rows first, then more, until all are taken or the next would take too
        long; then other tables are rehearsed, while there is time. The last forecast for each budget is marked final.

        Args:
            budgets: what may be spent.
            seconds: about how much work it may be, in processor seconds.
            runs: how many rehearsals of the largest size are averaged, if there is time.
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
                for stage in range(self._stages(budgets) + runs - 1):
                    yield from self._stage(budgets, stage, clock)
            except OutOfTime:
                if is_stopped():
                    return
            yield from (replace(found, is_final=True) for budget in budgets if (found := self._at(budget)) is not None)

    def at(self, budget: Budget) -> Rehearsal | None:
        """The forecast for a budget from what was rehearsed so far, without any work; None where that says nothing."""
        check_budgets([budget])
        return self._at(budget)

    def accuracy(self, budgets: Sequence[Budget]) -> str:
        """How near forecasts for such budgets were to fits of real tables, in words."""
        if self.known is not None:
            known = WITH_PUBLIC_ROWS.get(self.mechanism.name)
            return str(known) if known is not None else NOT_COMPARED.format(self.mechanism.name)
        told = []
        for budget in budgets:
            laws = self._reckoning(budget).laws if self._reckoning(budget).is_by_law else None
            name = self._approach(budget).trials.entry.name
            told.append(NOT_COMPARED.format(name) if laws is None else str(laws.accuracy))
        return " ".join(dict.fromkeys(told))

    def _at(self, budget: Budget) -> Rehearsal | None:
        made = self._reckoning(budget)
        others = [each for each in list(self._reckonings.values()) if each.sizes and each.rows == made.rows]
        if made.sizes:
            return made.rehearsal(self._pace(made))
        if made.is_by_law and others:
            nearest = min(others, key=lambda each: abs(math.log(each.budget.amount / budget.amount)))
            return made.rehearsal(self._pace(made), like=nearest)
        most = max((each.sizes[-1] for each in others), default=0)
        return interpolated(budget, [each.rehearsal() for each in others if each.sizes[-1] == most])

    def _pace(self, made: Reckoning) -> float | None:
        """How fast this machine is, by all trials to which the same law applies; None where there are none."""
        paces = [pace for each in list(self._reckonings.values()) if each.laws is made.laws for pace in each.paces]
        return geometric_mean(paces) if paces else None

    def _approach(self, budget: Budget) -> Approach:
        """How the fits of a budget are tried."""
        entry = self.trials.entry
        if not self.is_custom:
            entry = does_the_work(entry, self.schema.domain, budget)
        if entry.name not in self._approaches:
            trials = replace(self.trials, entry=entry)
            kind = {"is_custom": self.is_custom, "has_public": self.known is not None}
            self._approaches[entry.name] = Approach.of(trials, self.schema.domain, self.rows, **kind)
        return self._approaches[entry.name]

    def _reckoning(self, budget: Budget) -> Reckoning:
        """What was tried of a budget so far."""
        if budget not in self._reckonings:
            approach = self._approach(budget)
            rows = self.rows if approach.is_by_rows else None
            facts = approach.facts(self.schema.domain, self.rows, budget)
            is_by_law = bool(facts) and self.known is None
            return Reckoning(budget, len(self.schema.domain), rows, approach.laws, facts, is_by_law)
        return self._reckonings[budget]

    def _stages(self, budgets: Sequence[Budget]) -> int:
        """How many sizes are tried."""
        return max(len(self._approach(budget).sizes) for budget in budgets)

    def _stage(self, budgets: Sequence[Budget], stage: int, clock: Clock) -> Iterator[Rehearsal]:
        """Try the next size with each budget, or another table where all sizes were tried, as far as there is time."""
        for done, budget in enumerate(budgets):
            approach, reckoning = self._approach(budget), self._reckoning(budget)
            size = approach.sizes[min(stage, len(approach.sizes) - 1)]
            number = max(0, stage - len(approach.sizes) + 1)
            share = clock.left / (len(budgets) - done)
            if self._is_due(reckoning, size, number, share):
                clock.check(late=LATE)
                # Most of a fit that is tried by its rows cannot be stopped.
                check = self._check(clock, share if reckoning.sizes and not approach.is_by_rows else math.inf)
                with measured_by(lambda: clock.used, f"rehearsing, within {clock.seconds:g} CPU s"):
                    trial = approach.trials.run(approach.some(self._table(number), size), size, budget, check)
                if trial is not None:
                    reckoning = reckoning.with_trial(trial)
                    self._reckonings[budget] = reckoning
                    yield reckoning.rehearsal(self._pace(reckoning))

    def _is_due(self, reckoning: Reckoning, size: int, number: int, share: float) -> bool:
        """Whether a trial tells something new, and there is time for it, or it is the first."""
        pace = self._pace(reckoning)
        if not reckoning.sizes and (reckoning.rows is None or pace is None):
            return True
        # Where a law says how large errors are, another table tells nothing more.
        if reckoning.runs(size) > number or share <= 0 or (reckoning.is_by_law and number and reckoning.rows):
            return False
        # Of a fit of all columns even a part says how long all of it takes, if it can be stopped; `weighing` cannot.
        can_stop = reckoning.rows is None and all(trial.rounds >= FEWEST_ROUNDS for trial in reckoning.trials)
        if can_stop and size == reckoning.whole and number == 0:
            return True
        return (1 if can_stop else UNSTOPPABLE) * reckoning.seconds(size, pace) <= share

    def _check(self, clock: Clock, share: float) -> Callable[[], None]:
        """What reports progress and stops a trial after so many seconds; the first one of a budget is not."""
        until = replace(clock, ends=clock.now() + share)

        def check() -> None:
            reached(clock.used, "rehearsing")
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
