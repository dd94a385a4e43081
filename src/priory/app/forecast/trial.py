"""Trial: one fit of a table that plays the private one, or a part of such a fit, and how far off it was."""

import itertools
import math
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from priory.answer.metrics import total_variation
from priory.app.fit import fit
from priory.app.forecast.clock import OutOfTime
from priory.app.forecast.tables import Played
from priory.app.registry import Mechanism, Registered
from priory.mechanisms.aim import AIM
from priory.mechanisms.steps.effort import at_effort
from priory.model.bases import PublicRows
from priory.privacy.budget import Budget
from priory.privacy.progress import Step
from priory.queries.domain import Clique, Domain
from priory.queries.query import Query
from priory.release import Release
from priory.select.workloads import MOST_FOR_TRIPLES, default_workload

# Of how many pairs errors are compared, and which have too many cells.
MOST_PAIRS, MOST_CELLS = 200, 1_000_000
# A fit that was stopped says how long all of it takes from this share of its budget on, and after as many rounds.
LEAST_SHARE, FEWEST_ROUNDS = 0.2, 5


@dataclass(frozen=True)
class Trial:
    """What one fit took.

    Attributes:
        size: of how many columns or rows.
        seconds: its processor time; where it was stopped, what all of it would have taken.
        memory_in_bytes: what the model needs; 0 where it was stopped.
        errors: for columns and pairs, the total variation distance; none where it was stopped.
        rounds: how many it reported; between them it cannot be stopped.
    """

    size: int
    seconds: float
    memory_in_bytes: int
    errors: Mapping[Clique, float]
    rounds: int = 0

    @property
    def mean(self) -> float:
        """The mean error over pairs, or over columns where there is only one."""
        pairs = [error for clique, error in self.errors.items() if len(clique) == 2]
        errors = pairs or list(self.errors.values())
        return sum(errors) / len(errors)


@dataclass(frozen=True, eq=False)
class Trials:
    """How the fit of one mechanism is tried.

    Attributes:
        entry: the mechanism.
        effort: its effort.
        columns: how many columns the private table has.
        now: processor seconds; something else in tests.
    """

    entry: Registered
    effort: str
    columns: int
    now: Callable[[], float] = time.process_time

    def run(self, played: Played, size: int, budget: Budget, check: Callable[[], None]) -> Trial | None:
        """Fit with as much budget for each column as all columns have, or for each marginal.

        `check` is called as each round begins, and raises `OutOfTime` to stop the fit; None where it did so too early.
        `size` says how large the played table is, for those who compare trials.
        """
        columns = len(played.schema.domain)
        pace: list[tuple[float, float]] = []
        begun = self.now()

        def report_progress(step: Step) -> None:
            pace.append((self.now() - begun, step.share))
            check()

        try:
            release = self._fitted(played, budget, columns, report_progress)
        except OutOfTime:
            seconds = _whole(pace)
            return None if seconds is None else Trial(size, seconds, 0, {}, len(pace))
        seconds = self.now() - begun
        return Trial(size, seconds, release.model.bytes_of(), _errors(release, played), len(pace))

    def _fitted(self, played: Played, budget: Budget, columns: int, progress: Callable[[Step], None]) -> Release:
        # What a fit would warn of is said once, before the rehearsals.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            return fit(
                played.source,
                played.schema,
                mechanism=self._recipe(played),
                relation=budget.relation,
                progress=progress,
                **_options(budget, columns / self.columns),
            )

    def _recipe(self, played: Played) -> Mechanism:
        with_public, domain = self.entry.with_public, played.schema.domain
        if played.public is None or with_public is None:
            recipe = self.entry.build(domain)
        else:
            recipe = with_public(PublicRows(played.public, domain))
        if len(domain) < self.columns and isinstance(recipe, AIM):
            # A part of the columns could have a larger workload than all of them.
            ways = 2 if self.columns > MOST_FOR_TRIPLES else 3
            recipe = replace(recipe, workload=default_workload(domain, ways))
        return at_effort(recipe, self.effort)


def _whole(pace: list[tuple[float, float]]) -> float | None:
    """How long all of a fit takes that was stopped, where it had come far enough to tell."""
    seconds, share = pace[-1]
    if len(pace) < FEWEST_ROUNDS or share < LEAST_SHARE:
        return None
    # Single columns take much of the budget and little time: rounds count from the largest step on. Later ones estimate
    # from more, so that half of the budget takes about a quarter of the time, where rounds do not say that it is more.
    first = max(range(1, len(pace)), key=lambda i: pace[i][1] - pace[i - 1][1])
    begun, paid = pace[first]
    evenly = begun + (seconds - begun) * (1 - paid) / (share - paid) if share > paid else 0.0
    return max(evenly, seconds / share**2)


def _options(budget: Budget, part: float) -> dict[str, Any]:
    """What a fit is asked for that spends a part of the budget.

    The rows of the rehearsed table are nobody's: where k rows of a person count, each has the noise that k rows need,
    which is that of a k-th of a pure ε, or of the k²-th part of ρ, for one.
    """
    exact, rows = Fraction(part).limit_denominator(10_000), budget.max_rows
    if budget.is_pure:
        return {"epsilon": (budget.amount if budget.epsilon is None else budget.epsilon) * exact / rows}
    if budget.epsilon is None or rows > 1:
        return {"rho": budget.amount * exact / rows**2}
    # The noise of k answers grows with √k where a δ is given.
    scale = Fraction(math.sqrt(exact)).limit_denominator(10_000)
    return {"epsilon": budget.epsilon * scale, "delta": budget.delta}


def _errors(release: Release, played: Played) -> dict[Clique, float]:
    """How far off the columns and the pairs of a release are."""
    domain = played.schema.domain
    cliques: list[Clique] = [(name,) for name in domain] + compared_pairs(domain)
    answers = release.model.answers([Query.marginal(domain, clique) for clique in cliques])
    truths = played.source.count(cliques)
    distances = [total_variation(a, t.values) for a, t in zip(answers, truths, strict=True)]
    return dict(zip(cliques, distances, strict=True))


def compared_pairs(domain: Domain) -> list[Clique]:
    """All pairs of columns, or some of them, evenly, where there are very many."""
    every: list[Clique] = [pair for pair in itertools.combinations(domain, 2) if domain.size_of(pair) <= MOST_CELLS]
    return every if len(every) <= MOST_PAIRS else every[:: -(-len(every) // MOST_PAIRS)]
