"""Stopping: follow a solver only as far as its estimated error falls, from coarse evidence to fine."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from priory.estimate.dual import Dual, Multipliers, evidence_of
from priory.estimate.evidence import Evidence
from priory.estimate.loss import Loss, loss_of
from priory.estimate.problem import Problem, Solver, State, Status, path
from priory.estimate.risk import SPLIT, Pair, Race
from priory.estimate.solvers import DualAveraging
from priory.estimate.total import TotalEstimate
from priory.factor import Array
from priory.model.bases import Base, Uniform
from priory.model.diagnostics import PathPoint, Round
from priory.model.layout import Layout
from priory.queries.query import Query

# Evidence of one level is alike in strength, cells times noise, within this factor.
SPREAD = 10.0
# Standard errors of gain it takes to leave a prior: where noise drowns the total, one false move costs all it is worth.
PRIOR = 2.0


@dataclass(frozen=True, eq=False)
class Warm:
    """Multipliers of an earlier estimate, to start from.

    Attributes:
        multipliers: for each query it had, those of the fit and those of its noisier twin.
        schedule: the steps by which it was found.
    """

    multipliers: tuple[tuple[Query, Array, Array], ...] = ()
    schedule: tuple[Round, ...] = ()

    def numbers(self, evidence: Evidence) -> list[int]:
        """Which queries of `evidence` are known from before: the first ones, as measurements are only added."""
        known = [query for query, _, _ in self.multipliers]
        same = len(known) <= len(evidence.queries) and list(evidence.queries[: len(known)]) == known
        return list(range(len(known))) if same else []

    def vector(self, evidence: Evidence, which: int) -> Array:
        """The multipliers of all answers: 0 for those of new queries; `which` is 0 for the fit, 1 for its twin."""
        alpha = np.zeros(evidence.size)
        for number in self.numbers(evidence):
            _, *twins = self.multipliers[number]
            alpha[evidence.places[number]] = twins[which]
        return alpha


@dataclass(frozen=True, eq=False)
class Setting:
    """Everything an estimate is made from.

    Attributes:
        base: where it starts.
        evidence: the measurements, laid out.
        total: how the total follows from the answers, or the total itself.
        loss: "l2", "l1" or a loss of one's own.
        solver: the solver.
        warm: an earlier estimate to start from.
        normals: z, one for each answer.
    """

    base: Base
    evidence: Evidence
    total: TotalEstimate | float
    loss: str | Loss
    solver: Solver
    warm: Warm = field(default_factory=Warm)
    normals: Array = field(default_factory=lambda: np.empty(0))

    def problem(self, members: Sequence[int], values: Array) -> Problem:
        """The problem of the queries with these numbers, when the answers to all are `values`."""
        part = self.evidence.with_values(values)
        loss = loss_of(self.loss, part if len(members) == len(part.queries) else part.only(members))
        return Problem(self.base.bind(loss.layout.cliques), loss, self.records)

    @property
    def caution(self) -> float:
        """How many standard errors of gain it takes to leave the base: more where the base is knowledge."""
        return 1.0 if isinstance(self.base, Uniform) else PRIOR

    @property
    def records(self) -> float:
        """The total."""
        return self.total(self.evidence.values) if isinstance(self.total, TotalEstimate) else self.total


@dataclass(frozen=True, eq=False)
class Fit:
    """An estimate.

    Attributes:
        layout: the layout of the state.
        state: the chosen state.
        path: the points passed.
        error: the estimated sum of squared errors of all answers; NaN where it was not estimated.
        status: why it stopped.
        calls: oracle calls in all.
        multipliers: those of the fit and of its twin, over all answers; empty where the solver has none.
        schedule: the steps that were taken, where the solver can repeat them.
    """

    layout: Layout
    state: State
    path: tuple[PathPoint, ...]
    error: float
    status: Status
    calls: int
    multipliers: tuple[Array, ...] = ()
    schedule: tuple[Round, ...] = ()


def levels(evidence: Evidence, known: Sequence[int] = ()) -> list[list[int]]:
    """The numbers of the queries, strongest first, each level adding those up to ten times weaker.

    Strength is lost with the number of cells a query spreads the records over, and with its noise. Queries that are
    `known`, because the estimate starts from them, belong to every level.
    """
    weakness = {
        i: math.log(query.rows * evidence.stddevs[place].mean())
        for i, (query, place) in enumerate(zip(evidence.queries, evidence.places, strict=True))
        if i not in set(known)
    }
    if not weakness:
        return [list(known)]
    strongest = min(weakness.values())
    depth = {i: math.floor((w - strongest) / math.log(SPREAD)) for i, w in weakness.items()}
    return [sorted([*known, *(i for i in depth if depth[i] <= level)]) for level in sorted(set(depth.values()))]


def fitted_to_the_noise(setting: Setting) -> Fit:
    """Go through the levels, each from where the last one ended."""
    evidence = setting.evidence
    noisier = evidence.values + SPLIT * evidence.stddevs * setting.normals
    is_dual = isinstance(setting.solver, Dual)
    starts = [setting.warm.vector(evidence, which) for which in (0, 1)] if is_dual else []
    schedule = list(setting.warm.schedule) if setting.warm.numbers(evidence) else []
    points: list[PathPoint] = []
    calls = 0
    for number, members in enumerate(levels(evidence, setting.warm.numbers(evidence)) if is_dual else [_all(evidence)]):
        places = np.concatenate([np.arange(evidence.size)[evidence.places[i]] for i in members])
        mine, other = (setting.problem(members, values) for values in (evidence.values, noisier))
        race = Race(setting.solver, mine, other, setting.normals[places], isinstance(setting.total, TotalEstimate))
        chosen, passed, status = _descent(race, race.start(*(start[places] for start in starts)), setting.caution)
        points += [replace(point, level=number, calls=point.calls + calls) for point in passed]
        calls = points[-1].calls
        for start, state in zip(starts, (chosen.mine, chosen.other), strict=False):
            start[places] = state.carry.alpha
        schedule.append(Round(tuple(members), tuple(p.temperature for p in passed[1 : chosen.mine.iteration + 1])))
    state = _finished(setting.solver, race.mine, chosen.mine)
    calls += state.calls - chosen.mine.calls
    rounds = tuple(schedule) if is_dual else ()
    return Fit(race.mine.loss.layout, state, tuple(points), chosen.error, status, calls, tuple(starts), rounds)


def fitted_by_schedule(setting: Setting, solver: Dual, schedule: Sequence[Round]) -> Fit:
    """Repeat the steps of an earlier estimate on other answers to the same queries."""
    evidence = setting.evidence
    alpha = np.zeros(evidence.size)
    calls = 0
    for members in schedule:
        places = np.concatenate([np.arange(evidence.size)[evidence.places[i]] for i in members.members])
        problem = setting.problem(members.members, evidence.values)
        state = solver.init(problem, alpha[places])
        for temperature in members.temperatures:
            state = solver.step_at(problem, state, temperature)
        alpha[places] = state.carry.alpha
        calls += state.calls
    status = Status("converged", "The steps of an earlier estimate were repeated.")
    return Fit(problem.loss.layout, state, (), math.nan, status, calls, (alpha,), tuple(schedule))


def fitted_fully(setting: Setting) -> Fit:
    """Run the solver until it has converged, and keep the point of least loss."""
    evidence = setting.evidence
    problem = setting.problem(_all(evidence), evidence.values)
    start = setting.warm.vector(evidence, 0) if isinstance(setting.solver, Dual) else None
    points: list[PathPoint] = []
    best = last = setting.solver.init(problem, start)
    for last in path(setting.solver, problem, start):
        points.append(_point(problem, last, math.nan, last.calls))
        best = last if last.value < best.value else best
    points = [replace(point, is_chosen=point.step == best.iteration) for point in points]
    alphas = (best.carry.alpha,) if isinstance(best.carry, Multipliers) else ()
    status = setting.solver.status(problem, last)
    state = _finished(setting.solver, problem, best)
    calls = last.calls + state.calls - best.calls
    return Fit(problem.loss.layout, state, tuple(points), math.nan, status, calls, alphas)


def _finished(solver: Solver, problem: Problem, state: State) -> State:
    """The state with potentials that belong to its marginals, for solvers that do not keep the two together."""
    return solver.finish(problem, state) if isinstance(solver, DualAveraging) else state


def _all(evidence: Evidence) -> list[int]:
    return list(range(len(evidence.queries)))


def _descent(race: Race, start: Pair, caution: float) -> tuple[Pair, list[PathPoint], Status]:
    """Follow the path while the estimated error falls by more than its own error, and choose the last such point.

    The start itself is left only if that gain is `caution` times its error.
    """
    patience = 1 if isinstance(race.solver, Dual) else 20
    pairs = [start]
    best = 0
    status = race.solver.status(race.mine, start.mine)
    while status.is_going and len(pairs) - 1 - best < patience:
        pairs.append(race.step(pairs[-1]))
        status = race.solver.status(race.mine, pairs[-1].mine)
        best = len(pairs) - 1 if pairs[-1].is_better_than(pairs[best]) else best
    best = best if pairs[best].is_better_than(start, caution) else 0
    size = max(1, evidence_of(race.mine).size)
    points = [_point(race.mine, pair.mine, pair.error / size, pair.calls) for pair in pairs]
    points[best] = replace(points[best], is_chosen=True)
    if status.is_going:
        status = Status("converged", "The estimated error stopped falling.")
    return pairs[best], points, status


def _point(problem: Problem, state: State, error: float, calls: int) -> PathPoint:
    return PathPoint(
        level=0,
        step=state.iteration,
        calls=calls,
        loss=state.value,
        discrepancy=_discrepancy(problem, state),
        error=error,
        temperature=state.carry.temperature if isinstance(state.carry, Multipliers) else math.nan,
    )


def _discrepancy(problem: Problem, state: State) -> float:
    evidence = getattr(problem.loss, "evidence", None)
    if evidence is None:
        return math.nan
    return float(np.mean(((evidence.predicted(state.marginals) - evidence.values) / evidence.stddevs) ** 2))
