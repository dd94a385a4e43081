"""Dual averaging: Algorithm 2 of Private-PGM, accelerated steps on averaged gradients."""

from dataclasses import dataclass, replace

import numpy as np

from priory.errors import OptionError
from priory.estimate.lbfgs import minimised
from priory.estimate.problem import BASE, GOING, Problem, Solver, Start, State, Status, Traits
from priory.estimate.products import dot
from priory.model.engine.contract import Contraction
from priory.model.engine.layout import Layout
from priory.model.engine.plan import Plan
from priory.queries.factor import Array

# A potential this low stands for a cell without mass.
_EMPTY = -60.0


@dataclass(frozen=True, eq=False)
class Averages:
    """What `DualAveraging` carries between steps."""

    gradient: Array  # ḡ, the weighted average of gradients
    mirror: Array  # ν, the marginals at the potentials −t(t+1)/(4KN)·ḡ
    lipschitz: float  # K
    start: int = 0  # how many steps had been taken when K was last changed
    lowest: float = np.inf  # the lowest loss since then
    marks: tuple[float, ...] = ()  # that loss at every hundredth step since then; ripples of acceleration are shorter


@dataclass(frozen=True, kw_only=True)
class DualAveraging(Solver):
    """Algorithm 2 of Private-PGM: accelerated steps on averaged gradients [McKenna et al. 2019].

    The averages μ it returns are not the marginals of its own potentials; `finish` recovers those from μ. K starts
    below the safe sum over queries; when the loss rises to twice its lowest value, which is more than the ripples of
    acceleration, K is doubled and the averages start again.
    """

    traits = Traits(losses=frozenset({"l2", "custom"}))
    iterations: int = 5000  # how many steps it may take
    tolerance: float = 1e-6  # the relative fall of the loss below which it has converged
    optimism: float = 0.1  # the share of the safe K to begin with; a warm start takes the K of the earlier end

    def init(self, problem: Problem, start: Start = BASE) -> State:
        """The first guess; of a start it takes only K, as the potentials are rebuilt from averages."""
        if not np.isfinite(problem.loss.lipschitz):
            raise OptionError("solver", "DualAveraging needs a smooth loss that knows its Lipschitz constant")
        state = State.at(problem)
        lipschitz = max((start.pace or self.optimism) * problem.loss.lipschitz, 1e-300)
        return self._averaged(problem, state, Averages(problem.zero(), state.marginals, lipschitz))

    def _averaged(self, problem: Problem, state: State, carry: Averages) -> State:
        return replace(state, carry=carry, pace=carry.lipschitz / problem.loss.lipschitz)

    def step(self, problem: Problem, state: State) -> State:
        carry: Averages = state.carry
        t = state.iteration - carry.start + 1
        c = 2 / (t + 1)
        gradient = (1 - c) * carry.gradient + c * problem.loss((1 - c) * state.marginals + c * carry.mirror)[1]
        # In counts rather than shares: hence the 1/N.
        mirror = problem.marginals(-t * (t + 1) / (4 * carry.lipschitz * problem.total) * gradient)
        marginals = (1 - c) * state.marginals + c * mirror
        after = state.moved(problem, state.theta, marginals, calls=1)
        if after.value > 2 * carry.lowest + 1e-9 * problem.loss.lipschitz:
            again = State.at(problem)
            carry = Averages(problem.zero(), again.marginals, 2 * carry.lipschitz, after.iteration)
            again = replace(again, theta=state.theta, iteration=after.iteration, calls=after.calls + 1)
            return self._averaged(problem, again, carry)
        lowest = min(after.value, carry.lowest)
        marks = (*carry.marks, lowest) if t % 100 == 0 else carry.marks
        return replace(after, carry=Averages(gradient, mirror, carry.lipschitz, carry.start, lowest, marks))

    def status(self, problem: Problem, state: State) -> Status:
        marks: tuple[float, ...] = state.carry.marks
        if len(marks) > 1 and marks[-2] - marks[-1] <= self.tolerance * marks[-2]:
            return Status("converged", f"The loss fell by less than {self.tolerance:g} of itself in 100 steps.")
        if state.iteration >= self.iterations:
            return Status("gave up", f"The loss was still falling after {self.iterations} steps.")
        return GOING

    def finish(self, problem: Problem, state: State) -> State:
        theta, calls = recovered(problem, state.marginals)
        end = State.at(problem, theta)
        calls += state.calls + end.calls
        return replace(state, theta=end.theta, marginals=end.marginals, value=end.value, calls=calls)


def recovered(problem: Problem, marginals: Array) -> tuple[Array, int]:
    """The potentials of consistent `marginals`, in closed form or else fitted, and how often the oracle was called."""
    # A closed form exists for the uniform base when every bag of the plan is a measured clique: then
    # θ_C = log μ_C − log μ_S, with S what the bag shares with its parent.
    plan = problem.oracle.plan if isinstance(problem.oracle, Contraction) else None
    shares = marginals / problem.total
    theta = None if plan is None else _closed_form(problem.loss.layout, plan, shares)
    return _fitted(problem, shares) if theta is None else (theta, 0)


def _closed_form(layout: Layout, plan: Plan, shares: Array) -> Array | None:
    tables = layout.unpack(shares)
    whole = {frozenset(clique): clique for clique in layout.cliques}
    theta = {clique: np.zeros(shape) for clique, shape in zip(layout.cliques, layout.shapes, strict=True)}
    for bag in plan.bags:
        clique = whole.get(frozenset(plan.attributes_of(bag)))
        if clique is None:
            return None
        separator = tuple(plan.domain.attributes[i] for i in bag.separator)
        below = tables[clique].project(tuple(name for name in clique if name in separator))
        theta[clique] = _log(tables[clique].values) - _log(below.expand(tables[clique].domain).values)
    return layout.pack(list(theta.values()))


def _log(shares: Array) -> Array:
    with np.errstate(divide="ignore"):
        return np.maximum(np.log(shares), _EMPTY)


def _fitted(problem: Problem, shares: Array) -> tuple[Array, int]:
    """The maximum of ⟨θ, μ⟩ − log Z(θ), which is reached where the marginals are μ."""
    scale = np.sqrt(np.maximum(shares, 1e-12))

    def objective(scaled: Array) -> tuple[float, Array]:
        theta = scaled / scale
        log_z, own = problem.oracle(theta)
        return log_z - dot(theta, shares), (own - shares) / scale

    best = minimised(objective, np.zeros(len(shares)), goal=1e-16, iterations=2000, limit=-_EMPTY * scale)
    return best.x / scale, best.calls
