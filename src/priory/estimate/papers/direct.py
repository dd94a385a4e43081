"""Direct: the loss as a function of the potentials, minimised by L-BFGS through the oracle."""

from dataclasses import dataclass

import numpy as np

from priory.errors import OptionError
from priory.estimate.lbfgs import minimised
from priory.estimate.problem import BASE, MET, Problem, Solver, Start, State, Status, Traits, settled
from priory.queries.factor import Array


@dataclass(frozen=True, kw_only=True)
class LBFGS(Solver):
    """θ ↦ L(μ(θ)) minimised directly, with gradients through the oracle [Private-PGM, McKenna et al. 2019, App. A.3].

    The gradient is N·Cov(∇L), a directional derivative of the marginals, taken by central differences: two further
    calls. The function is not convex in θ; this is here to check the others by.
    """

    traits = Traits(losses=frozenset({"l2", "custom"}), accuracy=1e-3)
    burst: int = 100  # how many iterations one step makes
    iterations: int = 50  # how many steps it may take
    tolerance: float = 1e-5  # the relative fall of the loss below which it has converged

    def init(self, problem: Problem, start: Start = BASE) -> State:
        if not problem.loss.is_smooth:
            raise OptionError("solver", "LBFGS needs a smooth loss; use MirrorDescent or Dual for L1")
        return State.at(problem, start.theta)

    def step(self, problem: Problem, state: State) -> State:
        def objective(theta: Array) -> tuple[float, Array]:
            value, gradient = problem.loss(problem.marginals(theta))
            length = 1e-4 / max(float(np.abs(gradient).max(initial=0.0)), 1e-300)
            ahead, behind = (problem.marginals(theta + way * length * gradient) for way in (1, -1))
            return value / scale, (ahead - behind) / (2 * length * scale)

        scale = max(state.value, 1e-12)
        best = minimised(objective, state.theta, goal=1e-18, iterations=self.burst)
        return state.moved(problem, best.x, problem.marginals(best.x), calls=3 * best.calls + 1)

    def status(self, problem: Problem, state: State) -> Status:
        if state.falls and state.falls[-1] < self.tolerance and state.value >= MET:
            reason = f"The loss fell by less than {self.tolerance:g} of itself in {self.burst} steps."
            return Status("converged", reason)
        return settled(state, self.tolerance, self.iterations)
