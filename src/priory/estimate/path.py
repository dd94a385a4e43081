"""Path: follow a solver from the base only as far as its estimated error falls, from coarse evidence to fine."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from priory.estimate.evidence import Evidence, Implied
from priory.estimate.problem import Problem, Start, State, Status, states
from priory.estimate.risk import SPLIT, CoupledFits, CoupledState
from priory.estimate.setting import Fit, Setting
from priory.estimate.total import TotalEstimate
from priory.model.diagnostics import PathPoint, ScheduledLevel
from priory.queries.factor import Array
from priory.work import at_hand, tracked

# Evidence of one level is alike in strength, cells times noise, within this factor. With 3 or 30 the error on Adult and
# Titanic is ½ and 2 % larger (docs/studies/estimation.md).
SPREAD = 10.0
# Standard errors of gain it takes to leave a prior: where noise drowns the total, one false move costs all that the
# prior tells. What it gives on the public splits is in docs/studies/estimation.md.
PRIOR = 2.0
# A step is taken on a rough estimate of its error where the share of it to go is larger than this.
_CLEAR = 1.5
# A mean squared misfit, in units of the noise, from which a step that gains is taken whole: the way from so far is not
# straight, and the best part of it by a parabola is no reason to stop. A warm start can be that far.
_FAR = 4.0
# A smaller part of a step than this does not pay for its calls.
_LEAST = 0.05
# Small steps without a gain before the search is given up.
_PATIENCE = 20


def levels(evidence: Evidence, known: Sequence[int] = ()) -> list[list[int]]:
    """The numbers of the queries, strongest first, each level adding those up to ten times weaker."""
    # Strength is lost with the number of cells a query spreads the records over, and with its noise. Queries that are
    # `known`, because the estimate starts from them, belong to every level.
    precisions = [np.mean(evidence.stddevs[span] ** -2.0) for span in evidence.spans]
    pairs = enumerate(zip(evidence.queries, precisions, strict=True))
    weakness = {i: math.log(query.rows) - 0.5 * math.log(mean) for i, (query, mean) in pairs if i not in set(known)}
    if not weakness:
        return [list(known)]
    strongest = min(weakness.values())
    depth = {i: math.floor((w - strongest) / math.log(SPREAD)) for i, w in weakness.items()}
    return [sorted([*known, *(i for i in depth if depth[i] <= level)]) for level in sorted(set(depth.values()))]


def fitted_to_the_noise(setting: Setting) -> Fit:
    """Go through the levels, each from where the last one ended; what fine evidence implies of coarse comes first."""
    evidence, warm = setting.evidence, setting.warm
    by_levels = setting.solver.traits.has_multipliers
    perturbed = evidence.values + SPLIT * evidence.stddevs * setting.signs
    path = _Path(setting, list(warm.vectors(evidence)) if by_levels else [])
    known = warm.numbers(evidence)
    if known:
        path.schedule += warm.schedule
    elif by_levels:
        path.follow_implied(perturbed)
    coupling, chosen, status = path.follow(
        setting, perturbed, path.multipliers, levels(evidence, known) if by_levels else [setting.every_query]
    )
    state = setting.solver.finish(coupling.problem, chosen.fit)
    calls, schedule = path.calls + state.calls - chosen.fit.calls, tuple(path.schedule) if by_levels else ()
    multipliers, freedom = tuple(path.multipliers), chosen.degrees_of_freedom
    layout, points = coupling.problem.loss.layout, tuple(path.points)
    return Fit(layout, state, points, chosen.error, status, calls, multipliers, schedule, freedom)


@dataclass(eq=False)
class _Path:
    """The path so far: the only thing here that changes."""

    setting: Setting
    multipliers: list[Array]
    points: list[PathPoint] = field(default_factory=list)
    schedule: list[ScheduledLevel] = field(default_factory=list)
    calls: int = 0

    def follow(
        self,
        setting: Setting,
        perturbed: Array,
        multipliers: Sequence[Array],
        every_level: Sequence[Sequence[int]],
        *,
        is_implied: bool = False,
    ) -> tuple[CoupledFits, CoupledState, Status]:
        """Go through some levels; `multipliers`, of the fit and of the perturbed one, change in place."""
        evidence, pace = setting.evidence, setting.warm.pace
        # A fit reports its rounds itself, and nobody listens to this.
        for members in every_level if at_hand.get() is None else tracked(every_level, "estimating"):
            indices = evidence.indices_of(members)
            coupling = CoupledFits.of(setting, members, perturbed, has_estimated_total=self.setting.total.is_estimated)
            starts = [Start(multipliers=alpha[indices], pace=pace) for alpha in multipliers] or [Start(pace=pace)] * 2
            # The start is left only if the estimated error falls by so many of its own errors.
            caution = setting.caution or (PRIOR if setting.base.is_informative else 1.0)
            steps = _large_steps if coupling.solver.traits.has_multipliers else _small_steps
            descent = steps(coupling, coupling.start(*starts), caution)
            self._add(descent, ScheduledLevel(tuple(members), (), is_implied, descent.share))
            for alpha, state in zip(multipliers, (descent.chosen.fit, descent.chosen.perturbed), strict=False):
                alpha[indices] = state.alpha
        return coupling, descent.chosen, descent.status

    def _add(self, descent: "_Descent", level: ScheduledLevel) -> None:
        number = 1 + max((point.level for point in self.points), default=-1)
        self.points += [replace(point, level=number, calls=point.calls + self.calls) for point in descent.points]
        self.calls = self.points[-1].calls
        last = next(i for i, point in enumerate(descent.points) if point.is_chosen)
        steps = tuple(point.temperature for point in descent.points[1 : last + 1])
        self.schedule.append(replace(level, temperatures=steps))

    def follow_implied(self, perturbed: Array) -> None:
        """Start from the one-way marginals that the measured ones imply, where they were not measured themselves."""
        setting = self.setting
        implied = Implied.of(setting.evidence)
        if implied is None:
            return
        inner, moved = of_implied(setting, implied, perturbed)
        multipliers = [np.zeros(implied.evidence.size), np.zeros(implied.evidence.size)]
        self.follow(inner, moved, multipliers, levels(implied.evidence), is_implied=True)
        self.multipliers[:] = [implied.multipliers(alpha, setting.evidence.size) for alpha in multipliers]


def of_implied(setting: Setting, implied: Implied, perturbed: Array) -> tuple[Setting, Array]:
    """The setting of implied marginals with the same total, and their answers where the measured are `perturbed`."""
    moved = implied.answers(perturbed)
    signs = (moved - implied.evidence.values) / (SPLIT * implied.evidence.stddevs)
    total = TotalEstimate.known(setting.records)
    return replace(setting, evidence=implied.evidence, signs=signs, total=total), moved


def fitted_fully(setting: Setting) -> Fit:
    """Run the solver until it has converged, and choose the point of least loss."""
    evidence, solver, warm = setting.evidence, setting.solver, setting.warm
    problem = setting.problem(setting.every_query, evidence.values)
    alpha = warm.vectors(evidence)[0] if solver.traits.has_multipliers else None
    start = Start(warm.theta(problem.loss.layout), alpha, warm.pace)
    points: list[PathPoint] = []
    best: State | None = None
    for last in states(solver, problem, start):
        points.append(_point(problem, last, math.nan, last.calls))
        best = last if best is None or last.value < best.value else best
    assert best is not None  # noqa: S101  a path has a first state
    points = [replace(point, is_chosen=point.step == best.iteration) for point in points]
    alphas = () if best.multipliers is None else (best.multipliers,)
    state = solver.finish(problem, best)
    calls = last.calls + state.calls - best.calls
    return Fit(problem.loss.layout, state, tuple(points), math.nan, solver.status(problem, last), calls, alphas)


@dataclass(frozen=True, eq=False)
class _Descent:
    """The path through one level."""

    chosen: CoupledState  # where it ends
    share: float  # how much of the last step was taken to get there
    points: list[PathPoint]  # the points passed, the chosen one marked
    status: Status  # why it ended


def _large_steps(coupling: CoupledFits, start: CoupledState, caution: float) -> _Descent:
    """Take whole steps while each gains, and of the first that does not only the part that does."""
    last, share, points = start, 1.0, [_coupled_point(coupling, start)]
    status = coupling.solver.status(coupling.problem, start.fit)
    while status.is_going and share >= 1:
        # Only two states are in memory: on large evidence each is many megabytes.
        before, last = last, coupling.step(last)
        care = caution if len(points) == 1 else 1.0
        if last.share_from(before, care) < _CLEAR:
            last = coupling.sharpened(before, last)
        share = share_to_go(before, last, care, points[-1].discrepancy)
        points.append(_coupled_point(coupling, last))
        status = coupling.solver.status(coupling.problem, last.fit)
    if share >= 1:
        return _ended(points, last, len(points) - 1, 1.0, status)
    if share < _LEAST:
        return _ended(points, before, len(points) - 2, 1.0, status)
    part = coupling.between(before, last, share)
    points.insert(-1, _coupled_point(coupling, part))
    if part.error >= before.error:
        # The way between two points far apart is not straight: a part of it can be worse than either end.
        return _ended(points, before, len(points) - 3, 1.0, status)
    return _ended(points, part, len(points) - 2, share, status)


def share_to_go(before: CoupledState, last: CoupledState, caution: float, discrepancy: float) -> float:
    """How much of a step to take, from a fit whose answers are off by this mean square: 1 or more for all of it."""
    share = last.share_from(before, caution)
    is_sure = discrepancy > _FAR and last.error < before.error and share >= _LEAST
    return max(share, 1.0) if is_sure else share


def _small_steps(coupling: CoupledFits, start: CoupledState, caution: float) -> _Descent:
    """Choose the last point whose estimated error is below the last chosen one's by more than its own error."""
    passed, best = [start], 0
    status = coupling.solver.status(coupling.problem, start.fit)
    while status.is_going and len(passed) - 1 - best < _PATIENCE:
        passed.append(coupling.step(passed[-1]))
        status = coupling.solver.status(coupling.problem, passed[-1].fit)
        best = len(passed) - 1 if passed[-1].is_better_than(passed[best]) else best
    best = best if passed[best].is_better_than(start, caution) else 0
    return _ended([_coupled_point(coupling, state) for state in passed], passed[best], best, 1.0, status)


def _ended(points: Sequence[PathPoint], chosen: CoupledState, best: int, share: float, status: Status) -> _Descent:
    calls = np.maximum.accumulate([point.calls for point in points])
    numbered = enumerate(zip(points, calls, strict=True))
    marked = [replace(point, calls=int(n), is_chosen=number == best) for number, (point, n) in numbered]
    if status.is_going:
        status = Status("converged", "The estimated error stopped falling.")
    return _Descent(chosen, share, marked, status)


def _coupled_point(coupling: CoupledFits, state: CoupledState) -> PathPoint:
    problem = coupling.problem
    return _point(problem, state.fit, state.error / max(1, problem.evidence.size), state.calls)


def _point(problem: Problem, state: State, error: float, calls: int) -> PathPoint:
    discrepancy = _discrepancy(problem, state)
    return PathPoint(0, state.iteration, calls, state.value, discrepancy, error, state.temperature)


def _discrepancy(problem: Problem, state: State) -> float:
    evidence = problem.loss.evidence
    return math.nan if evidence is None else float(np.mean(evidence.excess(state.marginals) ** 2))
