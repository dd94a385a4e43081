"""Dual: the move of least relative entropy that explains the evidence at a falling temperature.

At temperature λ and from a centre α₀ it solves, for multipliers α with one number for each answer,

    minimise  N log Z(Qᵀα) − ⟨α, y⟩ + (λ/2) Σ σ²(α − α₀)²,

the convex dual of ½ Σ((Qμ − y)/σ)² + λ N·KL(q ‖ q₀), where q₀ has potentials Qᵀα₀. Each step divides λ and starts
from where the last one ended (Bregman iterations [Osher et al. 2005]): strong directions are met fully long before
noisy ones are, and in the end the loss itself is minimised.
"""

from dataclasses import dataclass, replace

import numpy as np

from priory.errors import OptionError
from priory.estimate.evidence import Evidence
from priory.estimate.lbfgs import minimised
from priory.estimate.loss import L1, L2
from priory.estimate.problem import GOING, MET, Problem, State, Status, fall
from priory.factor import Array

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
class Multipliers:
    """What `Dual` carries between steps.

    Attributes:
        alpha: one number for each answer; the potentials are Qᵀα.
        temperature: λ of the last step, ∞ at the start.
        calls: how many calls of the oracle that step took.
        coldest: λ does not go below this.
        move: by how much the last step changed α; the next one is searched for as far on.
    """

    alpha: Array
    temperature: float
    calls: int = 0
    coldest: float = 0.0
    move: Array | None = None


@dataclass(frozen=True, kw_only=True)
class Dual:
    """Bregman iterations in the multipliers, each solved by preconditioned L-BFGS through the oracle.

    Attributes:
        cooling: by how much each step divides the temperature.
        accuracy: how exactly a step is solved: the squared norm of its gradient, in standard deviations of the noise,
            relative to the degrees of freedom that the fit takes up.
        iterations: how many steps it may take.
        inner: how many iterations of L-BFGS a step may take; one that needs more goes on at the same temperature.
        tolerance: the relative fall of the loss still to come below which it has converged.
        is_exact: whether a step that raises the loss, because it was too cold to be solved, is taken back.
    """

    cooling: float = 10**0.125
    accuracy: float = 0.05
    iterations: int = 240
    inner: int = 100
    tolerance: float = 4e-5
    is_exact: bool = False

    @classmethod
    def exact(cls, accuracy: float = 1e-6) -> "Dual":
        """Settings for the least loss itself, where every step must be solved well."""
        return cls(cooling=10**0.5, accuracy=accuracy, iterations=60, inner=300, is_exact=True)

    def init(self, problem: Problem, start: Array | None = None) -> State:
        """The first guess; `start` holds multipliers, not potentials."""
        evidence = evidence_of(problem)
        alpha = np.zeros(evidence.size) if start is None else start
        theta = evidence.adjoint(alpha)
        marginals = problem.marginals(theta)
        return State(theta, marginals, problem.loss(marginals)[0], 0, 1, (), Multipliers(alpha, np.inf))

    def step(self, problem: Problem, state: State) -> State:
        temperature = self.next_temperature(problem, state)
        after = self.step_at(problem, state, temperature)
        if not self.is_exact or after.value <= state.value or np.isinf(state.carry.temperature):
            return after
        # Where not even the last temperature helps any more, the loss has stopped falling.
        falls = state.falls if temperature < state.carry.temperature else (*state.falls, 0.0)
        carry = replace(state.carry, coldest=state.carry.temperature)
        return replace(state, iteration=after.iteration, calls=after.calls, falls=falls, carry=carry)

    def step_at(self, problem: Problem, state: State, temperature: float) -> State:
        """One step at a given temperature."""
        carry: Multipliers = state.carry
        start = None if carry.move is None else carry.alpha + carry.move
        alpha, marginals, calls = solved(
            problem, carry.alpha, near=state.marginals, temperature=temperature, settings=self, start=start
        )
        value = problem.loss(marginals)[0]
        return State(
            evidence_of(problem).adjoint(alpha),
            marginals,
            value,
            state.iteration + 1,
            state.calls + calls,
            fall(state.value, value, state.falls),
            replace(carry, alpha=alpha, temperature=temperature, calls=calls, move=alpha - carry.alpha),
        )

    def next_temperature(self, problem: Problem, state: State) -> float:
        """λ of the next step: the first moves no multiplier by much more than 1, and λ falls fast while it is hot."""
        carry: Multipliers = state.carry
        if np.isinf(carry.temperature):
            evidence = evidence_of(problem)
            return float(np.max(np.abs(evidence.excess(state.marginals)) / evidence.stddevs, initial=1e-12))
        if carry.calls > self.inner and state.falls[-1] > _WORTH_REPEATING:
            return carry.temperature
        is_hot = carry.temperature * evidence_of(problem).stddevs.min() > _HOT
        return max(carry.coldest, carry.temperature / (max(self.cooling, _FAST) if is_hot else self.cooling))

    def status(self, problem: Problem, state: State) -> Status:
        if state.value < MET:
            return Status("converged", "The measurements are met exactly.")
        if self.cooling**-state.iteration <= _WARMING and _fall_to_come(state.falls) < self.tolerance:
            return Status("converged", f"The loss will not fall by more than {self.tolerance:g} of itself.")
        if state.iteration >= self.iterations:
            return Status("gave up", f"The loss was still falling after {self.iterations} steps.")
        return GOING


def interpolated(problem: Problem, start: State, end: State, share: float) -> State:
    """The state at multipliers a share of the way from `start` to `end`."""
    first, last = (state.carry.alpha for state in (start, end))
    alpha = first + share * (last - first)
    theta = evidence_of(problem).adjoint(alpha)
    marginals = problem.marginals(theta)
    return replace(
        end,
        theta=theta,
        marginals=marginals,
        value=problem.loss(marginals)[0],
        calls=end.calls + 1,
        carry=replace(end.carry, alpha=alpha),
    )


def _fall_to_come(falls: tuple[float, ...]) -> float:
    """What the next steps will lower the loss by, each by the same share of the last; 0 where it does not fall."""
    before, last = falls[-2:]
    if last <= 0:
        return 0.0
    share = min(last / before, _SLOWEST) if before > 0 else _SLOWEST
    return last * share / (1 - share)


def evidence_of(problem: Problem) -> Evidence:
    """The evidence of a problem whose loss is L2 or L1.

    Raises:
        OptionError: the loss is another one.
    """
    if not isinstance(problem.loss, L1 | L2):
        raise OptionError("solver", "this solver needs the L2 or L1 loss; use MirrorDescent for a loss of one's own")
    return problem.loss.evidence


def solved(
    problem: Problem, center: Array, *, near: Array, temperature: float, settings: Dual, start: Array | None = None
) -> tuple[Array, Array, int]:
    """The multipliers at one temperature, their marginals as counts, and how many calls that took.

    Args:
        problem: the evidence and the oracle.
        center: α₀.
        near: marginals close to the solution's, for the preconditioner.
        temperature: λ.
        settings: how exactly, and how long.
        start: where to begin, if not at the centre.
    """
    alpha, marginals, calls = center if start is None else start, near, 0
    for first in range(0, settings.inner, _BURST):
        # Cells that fill up or empty on the way change how much they vary: every burst looks anew.
        unit = _Unit.of(problem, center, marginals, temperature)
        goal = settings.accuracy * unit.freedom
        iterations = min(_BURST, settings.inner - first)
        found = minimised(
            unit.objective, unit.scale * alpha, goal=goal, iterations=iterations, limit=unit.limit, weights=unit.weights
        )
        alpha, calls = found.x * unit.inverse, calls + found.calls
        marginals = problem.total * unit.last[1]
        if unit.last[0] is not found.x:
            # The last point tried was not taken.
            marginals, calls = problem.marginals(evidence_of(problem).adjoint(alpha)), calls + 1
        if found.steepness <= goal:
            break
    return alpha, marginals, calls


@dataclass(frozen=True, eq=False)
class _Unit:
    """The objective of one step in unknowns x = scale·α, in which its second derivatives are about 1.

    Attributes:
        problem: the evidence and the oracle.
        scale: the square root of the diagonal of the Hessian, N·Var + λσ² for each answer.
        inverse: 1/scale.
        gain: N/scale.
        ridge: λσ²/scale², and 0 for L1.
        target: what the gradient is 0 against: y/scale + ridge·scale·α₀.
        limit: the box that x stays in, or None.
        weights: scale/σ, which turns the gradient in x to standard deviations of the noise.
        freedom: what the error of a step is held against.
        last: the last x asked for, and its marginals as shares.
    """

    problem: Problem
    scale: Array
    inverse: Array
    gain: Array
    ridge: Array
    target: Array
    limit: Array | None
    weights: Array
    freedom: float
    last: list[Array]

    @classmethod
    def of(cls, problem: Problem, center: Array, near: Array, temperature: float) -> "_Unit":
        """The step at a temperature, from a centre α₀; `near` are marginals close to the solution's."""
        evidence = evidence_of(problem)
        stiffness = temperature * evidence.stddevs**2
        scale = np.sqrt(evidence.variances(near, problem.total) + stiffness)
        inverse = 1 / scale
        ridge = stiffness * inverse**2
        misfit = evidence.excess(near)
        if isinstance(problem.loss, L1):
            # For L1 the penalty's dual is a box, |α| ≤ 1/(λσ), instead of a parabola.
            pull, limit = np.zeros_like(scale), scale / (temperature * evidence.stddevs)
        else:
            pull, limit = ridge, None
        return cls(
            problem,
            scale,
            inverse,
            problem.total * inverse,
            pull,
            evidence.values * inverse + pull * (scale * center),
            limit,
            scale / evidence.stddevs,
            _freedom(ridge, misfit),
            [near] * 2,
        )

    def objective(self, x: Array) -> tuple[float, Array]:
        """N log Z − ⟨α, y⟩ + (λ/2) Σ σ²(α − α₀)² but for a constant, and its gradient in x."""
        evidence = evidence_of(self.problem)
        log_z, shares = self.problem.oracle(evidence.adjoint(x * self.inverse))
        self.last[:] = x, shares
        pull = self.ridge * x
        value = self.problem.total * log_z + 0.5 * float(pull @ x) - float(self.target @ x)
        gradient = evidence.predicted(shares) * self.gain
        gradient += pull
        gradient -= self.target
        return value, gradient


def _freedom(ridge: Array, misfit: Array) -> float:
    """About how many degrees of freedom a fit takes up, and a share of what is left to explain.

    Each answer takes up N·Var/(N·Var + λσ²). An error far below their sum is lost in the noise of the answers, and one
    far below what is left to explain is made good by the next step.
    """
    return float(np.sum(1 - ridge)) + _UNEXPLAINED * max(0.0, float(misfit @ misfit) - len(misfit))
