"""Stopping: follow a solver only as far as its estimated error falls, from coarse evidence to fine."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from priory.estimate.dual import Dual, Multipliers, evidence_of, interpolated
from priory.estimate.evidence import Evidence, Implied
from priory.estimate.loss import Loss, loss_of
from priory.estimate.papers.solvers import DualAveraging
from priory.estimate.problem import Problem, Solver, State, Status, path
from priory.estimate.risk import SPLIT, Pair, Race
from priory.estimate.total import TotalEstimate
from priory.factor import Array
from priory.model.bases import Base, Uniform
from priory.model.diagnostics import PathPoint, Round
from priory.model.engine.layout import Layout
from priory.model.tilted import Potentials
from priory.queries.query import Query

# Evidence of one level is alike in strength, cells times noise, within this factor.
SPREAD = 10.0
# Standard errors of gain it takes to leave a prior: where noise drowns the total, one false move costs all it is worth.
PRIOR = 2.0
# A step of which more than this is worth going is taken on a rough estimate of its error.
_CLEAR = 1.5
# A smaller part of a step than this is not worth the calls.
_LEAST = 0.05
# Small steps without a gain before the search is given up.
_PATIENCE = 20


@dataclass(frozen=True, eq=False)
class Warm:
    """Multipliers of an earlier estimate, to start from.

    Attributes:
        multipliers: for each query it had, those of the fit and those of its noisier twin.
        schedule: the steps by which it was found.
        potentials: those of the estimate itself.
    """

    multipliers: tuple[tuple[Query, Array, Array], ...] = ()
    schedule: tuple[Round, ...] = ()
    potentials: Potentials = field(default_factory=dict)

    def theta(self, layout: Layout) -> Array | None:
        """The potentials on the cliques of `layout`, 0 on new ones; None where some have no place there."""
        if not self.potentials or not set(self.potentials) <= set(layout.cliques):
            return None
        held = zip(layout.cliques, layout.shapes, strict=True)
        return layout.pack(
            [self.potentials[c].values if c in self.potentials else np.zeros(shape) for c, shape in held]
        )

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
        freedom: the estimated degrees of freedom; NaN where they were not estimated.
    """

    layout: Layout
    state: State
    path: tuple[PathPoint, ...]
    error: float
    status: Status
    calls: int
    multipliers: tuple[Array, ...] = ()
    schedule: tuple[Round, ...] = ()
    freedom: float = math.nan


def levels(evidence: Evidence, known: Sequence[int] = ()) -> list[list[int]]:
    """The numbers of the queries, strongest first, each level adding those up to ten times weaker.

    Strength is lost with the number of cells a query spreads the records over, and with its noise. Queries that are
    `known`, because the estimate starts from them, belong to every level.
    """
    weakness = {
        i: math.log(query.rows) - 0.5 * math.log(np.mean(evidence.stddevs[place] ** -2.0))
        for i, (query, place) in enumerate(zip(evidence.queries, evidence.places, strict=True))
        if i not in set(known)
    }
    if not weakness:
        return [list(known)]
    strongest = min(weakness.values())
    depth = {i: math.floor((w - strongest) / math.log(SPREAD)) for i, w in weakness.items()}
    return [sorted([*known, *(i for i in depth if depth[i] <= level)]) for level in sorted(set(depth.values()))]


def fitted_to_the_noise(setting: Setting) -> Fit:
    """Go through the levels, each from where the last one ended; what fine evidence implies of coarse comes first."""
    evidence = setting.evidence
    noisier = evidence.values + SPLIT * evidence.stddevs * setting.normals
    is_dual = isinstance(setting.solver, Dual)
    known = setting.warm.numbers(evidence)
    walk = _Walk(setting, [setting.warm.vector(evidence, which) for which in (0, 1)] if is_dual else [])
    if known:
        walk.schedule += setting.warm.schedule
    elif is_dual:
        _walk_implied(walk, noisier)
    for members in levels(evidence, known) if is_dual else [_all(evidence)]:
        places = evidence.all_places(members)
        mine, other = (setting.problem(members, values) for values in (evidence.values, noisier))
        race = Race(setting.solver, mine, other, setting.normals[places], isinstance(setting.total, TotalEstimate))
        chosen, status = walk.go(race, [start[places] for start in walk.starts], Round(tuple(members), ()))
        for start, state in zip(walk.starts, (chosen.mine, chosen.other), strict=False):
            start[places] = state.carry.alpha
    state = _finished(setting.solver, race.mine, chosen.mine)
    return Fit(
        race.mine.loss.layout,
        state,
        tuple(walk.points),
        chosen.error,
        status,
        walk.calls + state.calls - chosen.mine.calls,
        tuple(walk.starts),
        tuple(walk.schedule) if is_dual else (),
        chosen.freedom,
    )


@dataclass(eq=False)
class _Walk:
    """The way so far: the only thing here that changes."""

    setting: Setting
    starts: list[Array]
    points: list[PathPoint] = field(default_factory=list)
    schedule: list[Round] = field(default_factory=list)
    calls: int = 0

    def go(self, race: Race, starts: Sequence[Array], level: Round) -> tuple[Pair, Status]:
        """One level more."""
        way = _descent(race, race.start(*starts), self.setting.caution)
        number = 1 + max((point.level for point in self.points), default=-1)
        self.points += [replace(point, level=number, calls=point.calls + self.calls) for point in way.points]
        self.calls = self.points[-1].calls
        last = next(i for i, point in enumerate(way.points) if point.is_chosen)
        steps = tuple(point.temperature for point in way.points[1 : last + 1])
        self.schedule.append(replace(level, temperatures=steps, share=way.share))
        return way.chosen, way.status


def _walk_implied(walk: _Walk, noisier: Array) -> None:
    """Start from the one-way marginals that the measured ones imply, where they were not measured themselves."""
    setting, evidence = walk.setting, walk.setting.evidence
    implied = Implied.of(evidence)
    if implied is None:
        return
    moved = implied.answers(noisier)
    normals = (moved - implied.evidence.values) / (SPLIT * implied.evidence.stddevs)
    inner = replace(setting, evidence=implied.evidence, normals=normals, total=setting.records)
    starts = [np.zeros(implied.evidence.size), np.zeros(implied.evidence.size)]
    for members in levels(implied.evidence):
        places = implied.evidence.all_places(members)
        mine, other = (inner.problem(members, values) for values in (implied.evidence.values, moved))
        race = Race(setting.solver, mine, other, normals[places], isinstance(setting.total, TotalEstimate))
        chosen, _ = walk.go(race, [start[places] for start in starts], Round(tuple(members), (), is_implied=True))
        for start, state in zip(starts, (chosen.mine, chosen.other), strict=True):
            start[places] = state.carry.alpha
    walk.starts[:] = [implied.multipliers(start, evidence.size) for start in starts]


def fitted_by_schedule(setting: Setting, solver: Dual, schedule: Sequence[Round]) -> Fit:
    """Repeat the steps of an earlier estimate on other answers to the same queries."""
    evidence = setting.evidence
    implied = Implied.of(evidence) if any(level.is_implied for level in schedule) else None
    alpha = np.zeros(evidence.size)
    calls = 0
    if implied is not None:
        inner = replace(setting, evidence=implied.evidence, total=setting.records)
        first = fitted_by_schedule(
            inner, solver, [replace(level, is_implied=False) for level in schedule if level.is_implied]
        )
        alpha, calls = implied.multipliers(first.multipliers[0], evidence.size), first.calls
    for level in (level for level in schedule if not level.is_implied):
        places = evidence.all_places(level.members)
        problem = setting.problem(level.members, evidence.values)
        state = solver.init(problem, alpha[places])
        for number, temperature in enumerate(level.temperatures, 1):
            before, state = state, solver.step_at(problem, state, temperature)
            if number == len(level.temperatures) and level.share < 1:
                state = interpolated(problem, before, state, level.share)
        alpha[places] = state.carry.alpha
        calls += state.calls
    status = Status("converged", "The steps of an earlier estimate were repeated.")
    return Fit(problem.loss.layout, state, (), math.nan, status, calls, (alpha,), tuple(schedule))


def fitted_fully(setting: Setting) -> Fit:
    """Run the solver until it has converged, and keep the point of least loss."""
    evidence = setting.evidence
    problem = setting.problem(_all(evidence), evidence.values)
    is_dual = isinstance(setting.solver, Dual)
    start = setting.warm.vector(evidence, 0) if is_dual else setting.warm.theta(problem.loss.layout)
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


@dataclass(frozen=True, eq=False)
class _Descent:
    """The way through one level.

    Attributes:
        chosen: where it ends.
        share: how much of the last step was taken to get there.
        points: the points passed, the chosen one marked.
        status: why it ended.
    """

    chosen: Pair
    share: float
    points: list[PathPoint]
    status: Status


def _descent(race: Race, start: Pair, caution: float) -> _Descent:
    """Follow the path while the estimated error falls; the start is left only if it falls `caution` times its error."""
    return (_large_steps if isinstance(race.solver, Dual) else _small_steps)(race, start, caution)


def _large_steps(race: Race, start: Pair, caution: float) -> _Descent:
    """Take whole steps while each is worth it, and of the first that is not only the part that is."""
    last, share, seen = start, 1.0, [_seen(race, start)]
    status = race.solver.status(race.mine, start.mine)
    while status.is_going and share >= 1:
        # Only two points are held: on large evidence each is many megabytes.
        before, last = last, race.step(last)
        care = caution if len(seen) == 1 else 1.0
        if last.share_from(before, care) < _CLEAR:
            last = race.sharpened(before, last)
        share = last.share_from(before, care)
        seen.append(_seen(race, last))
        status = race.solver.status(race.mine, last.mine)
    if share >= 1:
        return _ended(seen, last, len(seen) - 1, 1.0, status)
    if share < _LEAST:
        return _ended(seen, before, len(seen) - 2, 1.0, status)
    part = race.between(before, last, share)
    seen.insert(-1, _seen(race, part))
    if part.error >= before.error:
        # The way between two points far apart is not straight: a part of it can be worse than either end.
        return _ended(seen, before, len(seen) - 3, 1.0, status)
    return _ended(seen, part, len(seen) - 2, share, status)


def _small_steps(race: Race, start: Pair, caution: float) -> _Descent:
    """Choose the last point whose estimated error is below the last chosen one's by more than its own error."""
    pairs, best = [start], 0
    status = race.solver.status(race.mine, start.mine)
    while status.is_going and len(pairs) - 1 - best < _PATIENCE:
        pairs.append(race.step(pairs[-1]))
        status = race.solver.status(race.mine, pairs[-1].mine)
        best = len(pairs) - 1 if pairs[-1].is_better_than(pairs[best]) else best
    best = best if pairs[best].is_better_than(start, caution) else 0
    return _ended([_seen(race, pair) for pair in pairs], pairs[best], best, 1.0, status)


def _ended(seen: Sequence[PathPoint], chosen: Pair, best: int, share: float, status: Status) -> _Descent:
    calls = np.maximum.accumulate([point.calls for point in seen])
    points = [
        replace(point, calls=int(n), is_chosen=number == best)
        for number, (point, n) in enumerate(zip(seen, calls, strict=True))
    ]
    if status.is_going:
        status = Status("converged", "The estimated error stopped falling.")
    return _Descent(chosen, share, points, status)


def _seen(race: Race, pair: Pair) -> PathPoint:
    return _point(race.mine, pair.mine, pair.error / max(1, evidence_of(race.mine).size), pair.calls)


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
