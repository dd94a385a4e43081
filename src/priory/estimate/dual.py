"""Dual: the move of least relative entropy that explains the evidence at a falling temperature.

At temperature λ and from a centre α₀ it solves, for multipliers α with one number for each answer,

    minimise  N log Z(Qᵀα) − ⟨α, y⟩ + (λ/2) Σ σ²(α − α₀)²,

the convex dual of ½ Σ((Qμ − y)/σ)² + λ N·KL(q ‖ q₀), where q₀ has potentials Qᵀα₀. Each step divides λ and starts
from where the last one ended (Bregman iterations [Osher et al. 2005]): strong directions are met fully long before
noisy ones are, and in the end the loss itself is minimised.
"""

from dataclasses import dataclass, replace

import numpy as np

from priory.estimate.lbfgs import minimised
from priory.estimate.problem import BASE, GOING, MET, Problem, Solver, Start, State, Status, Traits
from priory.estimate.products import dot
from priory.queries.factor import Array

# The first steps from a warm start, down to this part of the first temperature, are too hot to say anything.
_WARMING = 0.01
# A loss that falls more slowly than by this share of the last step is taken to fall so.
_SLOWEST = 0.9
# A step that was cut short is repeated from where it ended if it lowered the loss by this share at least.
_WORTH_REPEATING = 0.02
# While an answer off by its noise moves its multiplier by less than one part in so many, steps need not be fine.
_HOT, _FAST = 50.0, 10**0.5
# What is left to explain is met to this share of what the fit's own degrees of freedom are.
_UNEXPLAINED = 0.05
# Iterations of L-BFGS before the preconditioner is made anew.
_BURST = 40


@dataclass(frozen=True, eq=False)
class Cooling:
    """What `Dual` carries between steps."""

    calls: int = 0  # how many calls of the oracle the last step took
    coldest: float = 0.0  # λ does not go below this
    move: Array | None = None  # by how much the last step changed α; the next one is searched for as far on


@dataclass(frozen=True, kw_only=True)
class Dual(Solver):
    """Bregman iterations in the multipliers, each solved by preconditioned L-BFGS through the oracle."""

    traits = Traits(losses=frozenset({"l2", "l1"}), has_multipliers=True)
    cooling: float = 10**0.125  # by how much each step divides the temperature
    # How exactly a step is solved: the squared norm of its gradient, in standard deviations of the noise, relative to
    # the degrees of freedom that the fit takes up.
    accuracy: float = 0.05
    iterations: int = 240  # how many steps it may take
    inner: int = 100  # iterations of L-BFGS a step may take; one that needs more goes on without cooling
    tolerance: float = 4e-5  # the relative fall of the loss still to come below which it has converged
    is_exact: bool = False  # whether a step that raises the loss, because it was too cold to be solved, is taken back

    @classmethod
    def exact(cls, accuracy: float = 1e-6) -> "Dual":
        """Settings for the least loss itself, where every step must be solved well."""
        return cls(cooling=10**0.5, accuracy=accuracy, iterations=60, inner=300, is_exact=True)

    def init(self, problem: Problem, start: Start = BASE) -> State:
        """The first guess; of a start it takes the multipliers."""
        alpha = np.zeros(problem.evidence.size) if start.multipliers is None else start.multipliers
        state = State.at(problem, problem.evidence.adjoint(alpha))
        return replace(state, carry=Cooling(), multipliers=alpha, temperature=np.inf)

    def step(self, problem: Problem, state: State) -> State:
        temperature = self.next_temperature(problem, state)
        after = self.step_at(problem, state, temperature)
        if not self.is_exact or after.value <= state.value or np.isinf(state.temperature):
            return after
        # Where not even the last temperature helps any more, the loss has stopped falling.
        falls = state.falls if temperature < state.temperature else (*state.falls, 0.0)
        carry = replace(state.carry, coldest=state.temperature)
        return replace(state, iteration=after.iteration, calls=after.calls, falls=falls, carry=carry)

    def step_at(self, problem: Problem, state: State, temperature: float) -> State:
        """One step at a given temperature."""
        carry: Cooling = state.carry
        start = None if carry.move is None else state.alpha + carry.move
        alpha, marginals, calls = solved(
            problem, state.alpha, near=state.marginals, temperature=temperature, settings=self, start=start
        )
        carry = replace(carry, calls=calls, move=alpha - state.alpha)
        theta = problem.evidence.adjoint(alpha)
        return state.moved(
            problem, theta, marginals, calls=calls, carry=carry, multipliers=alpha, temperature=temperature
        )

    def follow(self, problem: Problem, state: State, before: State, after: State) -> State:
        """One step at the same temperature; its solution lies close to `after`, and the search for it begins there."""
        start = state.alpha + after.alpha - before.alpha
        alpha, marginals, calls = solved(
            problem, state.alpha, near=after.marginals, temperature=after.temperature, settings=self, start=start
        )
        return placed(problem, after, alpha, marginals, calls=state.calls + calls)

    def next_temperature(self, problem: Problem, state: State) -> float:
        """λ of the next step: the first moves no multiplier by much more than 1, and λ falls fast while it is hot."""
        carry: Cooling = state.carry
        evidence = problem.evidence
        if np.isinf(state.temperature):
            return float(np.max(np.abs(evidence.excess(state.marginals)) / evidence.stddevs, initial=1e-12))
        if carry.calls > self.inner and state.falls[-1] > _WORTH_REPEATING:
            return state.temperature
        is_hot = state.temperature * evidence.stddevs.min() > _HOT
        return max(carry.coldest, state.temperature / (max(self.cooling, _FAST) if is_hot else self.cooling))

    def status(self, problem: Problem, state: State) -> Status:
        if state.value < MET:
            return Status("converged", "The measurements are met exactly.")
        if self.cooling**-state.iteration <= _WARMING and _fall_to_come(state.falls) < self.tolerance:
            return Status("converged", f"The loss will not fall by more than {self.tolerance:g} of itself.")
        if state.iteration >= self.iterations:
            return Status("gave up", f"The loss was still falling after {self.iterations} steps.")
        return GOING


def placed(problem: Problem, state: State, alpha: Array, marginals: Array, *, calls: int) -> State:
    """A state like `state` at other multipliers, whose marginals are these."""
    theta, value = problem.evidence.adjoint(alpha), problem.loss(marginals)[0]
    return replace(state, theta=theta, marginals=marginals, value=value, calls=calls, multipliers=alpha)


def interpolated(problem: Problem, start: State, end: State, share: float) -> State:
    """The state at multipliers a share of the way from `start` to `end`."""
    alpha = start.alpha + share * (end.alpha - start.alpha)
    marginals = problem.marginals(problem.evidence.adjoint(alpha))
    return placed(problem, end, alpha, marginals, calls=end.calls + 1)


def _fall_to_come(falls: tuple[float, ...]) -> float:
    """What the next steps will lower the loss by, each by the same share of the last; 0 where it does not fall."""
    before, last = falls[-2:]
    if last <= 0:
        return 0.0
    share = min(last / before, _SLOWEST) if before > 0 else _SLOWEST
    return last * share / (1 - share)


def solved(
    problem: Problem, center: Array, *, near: Array, temperature: float, settings: Dual, start: Array | None = None
) -> tuple[Array, Array, int]:
    """The multipliers at temperature λ and centre α₀, their marginals as counts, and how many calls that took.

    `near` are marginals close to the solution's, for the preconditioner; `start`, if not the centre, is where to begin.
    """
    alpha, marginals, calls = center if start is None else start, near, 0
    for first in range(0, settings.inner, _BURST):
        # Cells that fill up or empty on the way change how much they vary: every burst looks anew.
        unit = _Unit.of(problem, center, marginals, temperature)
        goal = settings.accuracy * unit.degrees_of_freedom
        iterations = min(_BURST, settings.inner - first)
        minimum = minimised(
            unit.objective, unit.scale * alpha, goal=goal, iterations=iterations, limit=unit.limit, weights=unit.weights
        )
        alpha, calls = minimum.x * unit.inverse, calls + minimum.calls
        marginals = problem.total * unit.last[1]
        if unit.last[0] is not minimum.x:
            # The last point tried was not taken.
            marginals, calls = problem.marginals(problem.evidence.adjoint(alpha)), calls + 1
        if minimum.steepness <= goal:
            break
    return alpha, marginals, calls


@dataclass(frozen=True, eq=False)
class _Unit:
    """The objective of one step in unknowns x = scale·α, in which its second derivatives are about 1."""

    problem: Problem  # the evidence and the oracle
    scale: Array  # the square root of the diagonal of the Hessian, N·Var + λσ² for each answer
    inverse: Array  # 1/scale
    gain: Array  # N/scale
    ridge: Array  # λσ²/scale², and 0 for L1
    target: Array  # what the gradient is 0 against: y/scale + ridge·scale·α₀
    limit: Array | None  # the box that x stays in, or None
    weights: Array  # scale/σ, which turns the gradient in x to standard deviations of the noise
    degrees_of_freedom: float  # what the error of a step is compared with
    last: list[Array]  # the last x asked for, and its marginals as shares

    @classmethod
    def of(cls, problem: Problem, center: Array, near: Array, temperature: float) -> "_Unit":
        """The step at a temperature, from a centre α₀; `near` are marginals close to the solution's."""
        evidence = problem.evidence
        stiffness = temperature * evidence.stddevs**2
        scale = np.sqrt(evidence.variances(near, problem.total) + stiffness)
        inverse = 1 / scale
        ridge = stiffness * inverse**2
        misfit = evidence.excess(near)
        if not problem.loss.is_smooth:
            # For L1 the penalty's dual is a box, |α| ≤ 1/(λσ), instead of a parabola.
            penalty, limit = np.zeros_like(scale), scale / (temperature * evidence.stddevs)
        else:
            penalty, limit = ridge, None
        linear, weights = evidence.values * inverse + penalty * (scale * center), scale / evidence.stddevs
        goal = _degrees_of_freedom(ridge, misfit)
        return cls(problem, scale, inverse, problem.total * inverse, penalty, linear, limit, weights, goal, [near] * 2)

    def objective(self, x: Array) -> tuple[float, Array]:
        """N log Z − ⟨α, y⟩ + (λ/2) Σ σ²(α − α₀)² but for a constant, and its gradient in x."""
        evidence = self.problem.evidence
        log_z, shares = self.problem.oracle(evidence.adjoint(x * self.inverse))
        self.last[:] = x, shares
        penalty = self.ridge * x
        value = self.problem.total * log_z + 0.5 * dot(penalty, x) - dot(self.target, x)
        gradient = evidence.predicted(shares) * self.gain
        gradient += penalty
        gradient -= self.target
        return value, gradient


def _degrees_of_freedom(ridge: Array, misfit: Array) -> float:
    """About how many degrees of freedom a fit takes up, and a share of what is left to explain."""
    # Each answer takes up N·Var/(N·Var + λσ²). An error far below their sum is lost in the noise of the answers, and
    # one far below what is left to explain is made good by the next step.
    return float(np.sum(1 - ridge)) + _UNEXPLAINED * max(0.0, dot(misfit, misfit) - len(misfit))
