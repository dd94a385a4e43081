"""Setting: everything that one estimate is made from, and what comes out of it."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from priory.estimate.evidence import Evidence
from priory.estimate.loss import Loss, loss_of
from priory.estimate.problem import Problem, Solver, State, Status
from priory.estimate.total import TotalEstimate
from priory.model.bases import Base
from priory.model.diagnostics import Diagnostics, PathPoint, ScheduledLevel
from priory.model.engine.layout import Layout
from priory.model.model import Model
from priory.model.tilted import Potentials
from priory.queries.factor import Array
from priory.queries.query import Query

# Any fixed number will do: z must only be independent of the noise, which comes from the operating system.
_SEED = 20


@dataclass(frozen=True, eq=False)
class Warm:
    """What an earlier estimate leaves to one that continues it."""

    multipliers: tuple[tuple[Query, Array, Array], ...] = ()  # by query: of the fit and the perturbed fit
    schedule: tuple[ScheduledLevel, ...] = ()  # the steps by which it was found
    potentials: Potentials = field(default_factory=dict)  # those of the estimate itself
    pace: float = 0.0  # the last pace of its solver, where that was the same

    @classmethod
    def of(cls, model: Model | None, solver: Solver) -> "Warm":
        """What `model` leaves to an estimate by `solver`."""
        diagnostics = None if model is None else model.diagnostics
        if model is None or diagnostics is None:
            return cls()
        pace = diagnostics.pace if diagnostics.solver == type(solver).__name__ else 0.0
        return cls(diagnostics.multipliers, diagnostics.schedule, model.potentials, pace)

    def theta(self, layout: Layout) -> Array | None:
        """The potentials on the cliques of `layout`, 0 on new ones; None where it lacks some of them."""
        if not self.potentials or not set(self.potentials) <= set(layout.cliques):
            return None
        tables = zip(layout.cliques, layout.shapes, strict=True)
        return layout.pack(
            [self.potentials[c].values if c in self.potentials else np.zeros(shape) for c, shape in tables]
        )

    def numbers(self, evidence: Evidence) -> list[int]:
        """Which queries of `evidence` are known from before: the first ones, as measurements are only added."""
        known = [query for query, _, _ in self.multipliers]
        same = len(known) <= len(evidence.queries) and list(evidence.queries[: len(known)]) == known
        return list(range(len(known))) if same else []

    def vectors(self, evidence: Evidence) -> tuple[Array, Array]:
        """The multipliers of all answers, of the fit and of the perturbed one; 0 for those of new queries."""
        fit, perturbed = np.zeros(evidence.size), np.zeros(evidence.size)
        for number in self.numbers(evidence):
            span = evidence.spans[number]
            _, fit[span], perturbed[span] = self.multipliers[number]
        return fit, perturbed


@dataclass(frozen=True, eq=False)
class Setting:
    """Everything an estimate is made from."""

    base: Base  # where it starts
    evidence: Evidence  # the measurements, laid out
    total: TotalEstimate  # how the total follows from the answers
    loss: str | Loss  # "l2", "l1" or a custom loss
    solver: Solver  # the solver
    warm: Warm = field(default_factory=Warm)  # what an earlier estimate leaves
    signs: Array = field(default_factory=lambda: np.empty(0))  # z, one for each answer
    caution: float | None = None  # how much more evidence it takes to leave the base; None: by what the base says

    def problem(self, members: Sequence[int], values: Array) -> Problem:
        """The problem of the queries with these numbers, when the answers to all are `values`."""
        part = self.evidence.with_values(values)
        loss = loss_of(self.loss, part if len(members) == len(part.queries) else part.only(members))
        return Problem(self.base.bind(loss.layout.cliques), loss, self.records)

    @property
    def records(self) -> float:
        """The total."""
        return self.total(self.evidence.values)

    @property
    def every_query(self) -> list[int]:
        """The numbers of all queries."""
        return list(range(len(self.evidence.queries)))


@dataclass(frozen=True, eq=False)
class Fit:
    """An estimate."""

    layout: Layout  # the layout of the state
    state: State  # the chosen state
    path: tuple[PathPoint, ...]  # the points passed
    error: float  # the estimated sum of squared errors of all answers; NaN where it was not estimated
    status: Status  # why it stopped
    calls: int  # oracle calls in all
    multipliers: tuple[Array, ...] = ()  # of the fit and the perturbed fit, over all answers; or empty
    schedule: tuple[ScheduledLevel, ...] = ()  # the steps that were taken, where the solver can repeat them
    degrees_of_freedom: float = math.nan  # those that the fit has used; NaN where they were not estimated

    def model(self, setting: Setting, stop: str, notes: tuple[str, ...] = ()) -> Model:
        """The model of this fit, with its diagnostics."""
        evidence = setting.evidence
        alphas = self.multipliers if len(self.multipliers) == 2 else self.multipliers * 2
        diagnostics = Diagnostics(
            solver=type(setting.solver).__name__,
            stop=stop,
            reason=self.status.reason,
            has_converged=self.status.kind == "converged",
            path=self.path,
            estimated_error=math.sqrt(max(self.error, 0.0) / max(1, evidence.size)),
            oracle_calls=self.calls,
            total_stddev=setting.total.stddev,
            pace=self.state.pace,
            notes=notes,
            schedule=self.schedule,
            multipliers=tuple(
                (query, alphas[0][span], alphas[1][span])
                for query, span in zip(evidence.queries, evidence.spans, strict=True)
                if alphas
            ),
            degrees_of_freedom=self.degrees_of_freedom,
        )
        return Model(setting.base, self.layout.unpack(self.state.theta), setting.records, diagnostics)


def signs_of(evidence: Evidence) -> Array:
    """z, one random sign for each answer: the same for the same number of answers."""
    return signs_of_size(evidence.size)


def signs_of_size(size: int) -> Array:
    """So many random signs, always the same; more begin with the same ones."""
    return np.random.default_rng(_SEED).choice([-1.0, 1.0], size)
