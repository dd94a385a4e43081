"""Solvers: the papers' ways to minimise a loss over the marginals of a tilted base, driven by one loop."""

from dataclasses import dataclass

import numpy as np

from priory.errors import OptionError
from priory.estimate.dual import evidence_of
from priory.estimate.lbfgs import minimised
from priory.estimate.papers.recovery import recovered
from priory.estimate.problem import GOING, MET, Problem, State, Status, fall, settled
from priory.factor import Array


@dataclass(frozen=True, kw_only=True)
class MirrorDescent:
    """Algorithm 1 of Private-PGM: θ ← θ − η ∇L(μ), with μ the marginals at θ [McKenna et al. 2019].

    For a smooth loss η is found by Armijo's rule. For L1 it is η₀/√t, with η₀ a full first step.

    Attributes:
        growth: by how much a step may exceed the last one that was taken.
        trials: how often a step may be halved.
        iterations: how many steps it may take.
        tolerance: the relative fall of the loss below which it has converged.
        pace: η of the first step, where an earlier estimate found one.
    """

    growth: float = 2.0
    trials: int = 25
    iterations: int = 2000
    tolerance: float = 1e-7
    pace: float | None = None

    def init(self, problem: Problem, start: Array | None = None) -> State:
        theta = problem.zero() if start is None else start
        marginals = problem.marginals(theta)
        value, gradient = problem.loss(marginals)
        # A step this long moves no potential by more than 1: more would leave the region where it is downhill.
        length = 1 / max(float(np.abs(gradient).max(initial=0.0)), 1e-300)
        # Only a line search can correct a pace that the new evidence makes too fast.
        is_known = self.pace is not None and problem.loss.is_smooth
        return State(theta, marginals, value, 0, 1, (), self.pace if is_known else length)

    def step(self, problem: Problem, state: State) -> State:
        if problem.loss.is_smooth:
            return self._armijo(problem, state)
        gradient = problem.loss(state.marginals)[1]
        theta = state.theta - state.carry / np.sqrt(state.iteration + 1) * gradient
        marginals = problem.marginals(theta)
        return _moved(problem, state, theta, marginals, calls=1, carry=state.carry)

    def _armijo(self, problem: Problem, state: State) -> State:
        gradient = problem.loss(state.marginals)[1]
        length = state.carry * self.growth
        for trial in range(1, self.trials + 1):
            theta = state.theta - length * gradient
            marginals = problem.marginals(theta)
            promised = float(gradient @ (state.marginals - marginals))
            if state.value - problem.loss(marginals)[0] >= 0.5 * promised:
                return _moved(problem, state, theta, marginals, calls=trial, carry=length)
            length /= 2
        return _moved(problem, state, state.theta, state.marginals, calls=self.trials, carry=length)

    def status(self, problem: Problem, state: State) -> Status:
        if not problem.loss.is_smooth and state.iteration < self.iterations:
            # A subgradient step may raise the loss: only the number of steps says when to stop.
            return Status("going", "The steps get shorter.")
        if not problem.loss.is_smooth:
            return Status("converged", f"All {self.iterations} steps were taken.")
        return settled(state, self.tolerance, self.iterations)


@dataclass(frozen=True, eq=False)
class Averages:
    """What `DualAveraging` carries between steps.

    Attributes:
        gradient: ḡ, the weighted average of gradients.
        mirror: ν, the marginals at the potentials −t(t+1)/(4KN)·ḡ.
        lipschitz: K.
        start: how many steps had been taken when K was last changed.
        lowest: the lowest loss since then.
        marks: that loss at every hundredth step since then; the ripples of acceleration are shorter.
    """

    gradient: Array
    mirror: Array
    lipschitz: float
    start: int = 0
    lowest: float = np.inf
    marks: tuple[float, ...] = ()


@dataclass(frozen=True, kw_only=True)
class DualAveraging:
    """Algorithm 2 of Private-PGM: accelerated steps on averaged gradients [McKenna et al. 2019].

    The averages μ it returns are not the marginals of its own potentials; those are recovered from μ when it is asked
    for its model. K starts below the safe sum over queries; when the loss rises to twice its lowest value, which is
    more than the ripples of acceleration, K is doubled and the averages start again.

    Attributes:
        iterations: how many steps it may take.
        tolerance: the relative fall of the loss below which it has converged.
        optimism: what share of the safe K to begin with; a warm start takes the one that the earlier estimate ended at.
    """

    iterations: int = 5000
    tolerance: float = 1e-6
    optimism: float = 0.1

    def init(self, problem: Problem, start: Array | None = None) -> State:
        """The first guess; of a warm start it takes only K, as the potentials are rebuilt from averages."""
        if not np.isfinite(problem.loss.lipschitz):
            raise OptionError("solver", "DualAveraging needs a smooth loss that knows its Lipschitz constant")
        marginals = problem.marginals(problem.zero())
        carry = Averages(problem.zero(), marginals, max(self.optimism * problem.loss.lipschitz, 1e-300))
        return State(problem.zero(), marginals, problem.loss(marginals)[0], 0, 1, (), carry)

    def step(self, problem: Problem, state: State) -> State:
        carry: Averages = state.carry
        t = state.iteration - carry.start + 1
        c = 2 / (t + 1)
        gradient = (1 - c) * carry.gradient + c * problem.loss((1 - c) * state.marginals + c * carry.mirror)[1]
        # In counts rather than shares: hence the 1/N.
        mirror = problem.marginals(-t * (t + 1) / (4 * carry.lipschitz * problem.total) * gradient)
        marginals = (1 - c) * state.marginals + c * mirror
        value = problem.loss(marginals)[0]
        if value > 2 * carry.lowest + 1e-9 * problem.loss.lipschitz:
            again = problem.marginals(problem.zero())
            carry = Averages(problem.zero(), again, 2 * carry.lipschitz, state.iteration + 1)
            return State(state.theta, again, problem.loss(again)[0], state.iteration + 1, state.calls + 2, (), carry)
        lowest = min(value, carry.lowest)
        marks = (*carry.marks, lowest) if t % 100 == 0 else carry.marks
        carry = Averages(gradient, mirror, carry.lipschitz, carry.start, lowest, marks)
        falls = fall(state.value, value, state.falls)
        return State(state.theta, marginals, value, state.iteration + 1, state.calls + 1, falls, carry)

    def status(self, problem: Problem, state: State) -> Status:
        marks: tuple[float, ...] = state.carry.marks
        if len(marks) > 1 and marks[-2] - marks[-1] <= self.tolerance * marks[-2]:
            return Status("converged", f"The loss fell by less than {self.tolerance:g} of itself in 100 steps.")
        if state.iteration >= self.iterations:
            return Status("gave up", f"The loss was still falling after {self.iterations} steps.")
        return GOING

    def finish(self, problem: Problem, state: State) -> State:
        """The state with the potentials whose marginals are μ."""
        found = recovered(problem, state.marginals)
        marginals = problem.marginals(found.theta)
        return State(
            found.theta,
            marginals,
            problem.loss(marginals)[0],
            state.iteration,
            state.calls + found.calls + 1,
            state.falls,
            state.carry,
        )


@dataclass(frozen=True, kw_only=True)
class LBFGS:
    """θ ↦ L(μ(θ)) minimised directly, with gradients through the oracle [Private-PGM, McKenna et al. 2019, App. A.3].

    The gradient is N·Cov(∇L), a directional derivative of the marginals, taken by central differences: two further
    calls. The function is not convex in θ; this is kept to check the others by.

    Attributes:
        burst: how many iterations one step makes.
        iterations: how many steps it may take.
        tolerance: the relative fall of the loss below which it has converged.
    """

    burst: int = 100
    iterations: int = 50
    tolerance: float = 1e-5

    def init(self, problem: Problem, start: Array | None = None) -> State:
        if not problem.loss.is_smooth:
            raise OptionError("solver", "LBFGS needs a smooth loss; use MirrorDescent or Dual for L1")
        theta = problem.zero() if start is None else start
        marginals = problem.marginals(theta)
        return State(theta, marginals, problem.loss(marginals)[0], 0, 1, (), None)

    def step(self, problem: Problem, state: State) -> State:
        def objective(theta: Array) -> tuple[float, Array]:
            value, gradient = problem.loss(problem.marginals(theta))
            length = 1e-4 / max(float(np.abs(gradient).max(initial=0.0)), 1e-300)
            ahead, behind = (problem.marginals(theta + way * length * gradient) for way in (1, -1))
            return value / scale, (ahead - behind) / (2 * length * scale)

        scale = max(state.value, 1e-12)
        found = minimised(objective, state.theta, goal=1e-18, iterations=self.burst)
        return _moved(problem, state, found.x, problem.marginals(found.x), calls=3 * found.calls + 1, carry=None)

    def status(self, problem: Problem, state: State) -> Status:
        if state.falls and state.falls[-1] < self.tolerance and state.value >= MET:
            return Status(
                "converged", f"The loss fell by less than {self.tolerance:g} of itself in {self.burst} steps."
            )
        return settled(state, self.tolerance, self.iterations)


@dataclass(frozen=True, kw_only=True)
class MultiplicativeWeights:
    """One query after the other: p ← p ⊙ exp(Qᵀ(y − Qp)/2N) [Private-PGM, McKenna et al. 2019, Eq. 2; MWEM].

    A step is one sweep over the queries.

    Attributes:
        iterations: how many sweeps it may make.
        tolerance: the relative fall of the loss below which it has converged.
    """

    iterations: int = 100
    tolerance: float = 1e-6

    def init(self, problem: Problem, start: Array | None = None) -> State:
        evidence_of(problem)
        theta = problem.zero() if start is None else start
        marginals = problem.marginals(theta)
        return State(theta, marginals, problem.loss(marginals)[0], 0, 1, (), None)

    def step(self, problem: Problem, state: State) -> State:
        evidence = evidence_of(problem)
        theta, marginals = state.theta, state.marginals
        for place in evidence.places:
            excess = np.zeros(evidence.size)
            excess[place] = (evidence.values - evidence.predicted(marginals))[place]
            theta = theta + evidence.adjoint(excess) / (2 * problem.total)
            marginals = problem.marginals(theta)
        return _moved(problem, state, theta, marginals, calls=len(evidence.places), carry=None)

    def status(self, problem: Problem, state: State) -> Status:
        if state.falls and max(state.falls) < self.tolerance:
            return Status("converged", "A sweep over the queries no longer lowers the loss.")
        return settled(state, self.tolerance, self.iterations)


def _moved(problem: Problem, state: State, theta: Array, marginals: Array, *, calls: int, carry: object) -> State:
    value = problem.loss(marginals)[0]
    falls = fall(state.value, value, state.falls)
    return State(theta, marginals, value, state.iteration + 1, state.calls + calls, falls, carry)
