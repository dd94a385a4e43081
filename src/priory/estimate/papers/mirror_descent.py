"""Mirror descent: Algorithm 1 of Private-PGM, and the default for custom losses."""

from dataclasses import dataclass, replace

import numpy as np

from priory.estimate.problem import BASE, Problem, Solver, Start, State, Status, Traits, settled
from priory.estimate.products import dot


@dataclass(frozen=True, kw_only=True)
class MirrorDescent(Solver):
    """Algorithm 1 of Private-PGM: θ ← θ − η ∇L(μ), with μ the marginals at θ [McKenna et al. 2019].

    For a smooth loss η is found by Armijo's rule, and is the state's pace. For L1 it is η₀/√t, with η₀ a full first
    step.
    """

    traits = Traits(losses=frozenset({"l2", "l1", "custom"}))
    growth: float = 2.0  # by how much a step may exceed the last one that was taken
    trials: int = 25  # how often a step may be halved
    iterations: int = 2000  # how many steps it may take
    tolerance: float = 1e-7  # the relative fall of the loss below which it has converged

    def init(self, problem: Problem, start: Start = BASE) -> State:
        state = State.at(problem, start.theta)
        gradient = problem.loss(state.marginals)[1]
        # A step this long moves no potential by more than 1: more would leave the region where it is downhill.
        length = 1 / max(float(np.abs(gradient).max(initial=0.0)), 1e-300)
        # Only a line search can correct a pace that the new evidence makes too fast.
        return replace(state, pace=start.pace if start.pace and problem.loss.is_smooth else length)

    def step(self, problem: Problem, state: State) -> State:
        if problem.loss.is_smooth:
            return self._armijo(problem, state)
        gradient = problem.loss(state.marginals)[1]
        theta = state.theta - state.pace / np.sqrt(state.iteration + 1) * gradient
        return state.moved(problem, theta, problem.marginals(theta), calls=1)

    def _armijo(self, problem: Problem, state: State) -> State:
        gradient = problem.loss(state.marginals)[1]
        length = state.pace * self.growth
        for trial in range(1, self.trials + 1):
            theta = state.theta - length * gradient
            marginals = problem.marginals(theta)
            promised = dot(gradient, state.marginals - marginals)
            if state.value - problem.loss(marginals)[0] >= 0.5 * promised:
                return state.moved(problem, theta, marginals, calls=trial, pace=length)
            length /= 2
        return state.moved(problem, state.theta, state.marginals, calls=self.trials, pace=length)

    def status(self, problem: Problem, state: State) -> Status:
        if problem.loss.is_smooth:
            return settled(state, self.tolerance, self.iterations)
        # A subgradient step may raise the loss: only the number of steps says when to stop.
        if state.iteration < self.iterations:
            return Status("going", "The steps get shorter.")
        return Status("converged", f"All {self.iterations} steps were taken.")
