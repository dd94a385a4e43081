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

_WARMING = 8
# A mean squared misfit, in units of the noise, above which fine steps would be wasted.
_FAR = 4.0


@dataclass(frozen=True, eq=False)
class Multipliers:
    """What `Dual` carries between steps.

    Attributes:
        alpha: one number for each answer; the potentials are Qᵀα.
        temperature: λ of the last step, ∞ at the start.
        calls: how many calls of the oracle that step took.
    """

    alpha: Array
    temperature: float
    calls: int = 0


@dataclass(frozen=True, kw_only=True)
class Dual:
    """Bregman iterations in the multipliers, each solved by preconditioned L-BFGS through the oracle.

    Attributes:
        cooling: by how much each step divides the temperature.
        accuracy: how exactly a step is solved: the squared norm of its gradient, in preconditioned units, relative to
            the square root of the number of answers.
        iterations: how many steps it may take.
        inner: how many iterations of L-BFGS a step may take.
        hard: a step that took more calls than this is not followed by a colder one.
        tolerance: the relative fall of the loss below which it has converged.
    """

    cooling: float = 10**0.5
    accuracy: float = 0.02
    iterations: int = 60
    inner: int = 200
    hard: int = 60
    tolerance: float = 1e-6

    def init(self, problem: Problem, start: Array | None = None) -> State:
        """The first guess; `start` holds multipliers, not potentials."""
        evidence = evidence_of(problem)
        alpha = np.zeros(evidence.size) if start is None else start
        theta = evidence.adjoint(alpha)
        marginals = problem.marginals(theta)
        return State(theta, marginals, problem.loss(marginals)[0], 0, 1, (), Multipliers(alpha, np.inf))

    def step(self, problem: Problem, state: State) -> State:
        return self.step_at(problem, state, self.next_temperature(problem, state))

    def step_at(self, problem: Problem, state: State, temperature: float) -> State:
        """One step at a given temperature."""
        carry: Multipliers = state.carry
        alpha, marginals, calls = solved(
            problem, carry.alpha, near=state.marginals, temperature=temperature, settings=self
        )
        value = problem.loss(marginals)[0]
        return State(
            evidence_of(problem).adjoint(alpha),
            marginals,
            value,
            state.iteration + 1,
            state.calls + calls,
            fall(state.value, value, state.falls),
            Multipliers(alpha, temperature, calls),
        )

    def next_temperature(self, problem: Problem, state: State) -> float:
        """λ of the next step: the first moves no multiplier by much more than 1, and far off λ falls faster."""
        carry: Multipliers = state.carry
        evidence = evidence_of(problem)
        misfit = (evidence.predicted(state.marginals) - evidence.values) / evidence.stddevs
        if np.isinf(carry.temperature):
            return float(np.max(np.abs(misfit) / evidence.stddevs, initial=1e-12))
        if carry.calls > self.hard:
            # What was hard to solve is repeated from where it ended, which needs no lower temperature.
            return carry.temperature
        return carry.temperature / (self.cooling if np.mean(misfit**2) < _FAR else self.cooling**2)

    def status(self, problem: Problem, state: State) -> Status:
        if state.value < MET:
            return Status("converged", "The measurements are met exactly.")
        # The first steps from a warm start are taken at temperatures too high to move: they say nothing.
        if state.iteration >= _WARMING and max(state.falls[-2:]) < self.tolerance:
            return Status("converged", f"The loss fell by less than {self.tolerance:g} of itself in two steps.")
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
    evidence = evidence_of(problem)
    is_l1 = isinstance(problem.loss, L1)
    # For L1 the penalty's dual is a box, |α| ≤ 1/(λσ), instead of a parabola.
    ridge = np.zeros(evidence.size) if is_l1 else temperature * evidence.stddevs**2
    # Counts vary by about themselves, so this is the diagonal of the Hessian but for its smaller terms.
    scale = np.sqrt(np.maximum(evidence.predicted(near), 0.0) + temperature * evidence.stddevs**2)
    last: list[Array] = [near, near]

    def objective(scaled: Array) -> tuple[float, Array]:
        alpha = scaled / scale
        log_z, shares = problem.oracle(evidence.adjoint(alpha))
        last[:] = scaled, problem.total * shares
        moved = alpha - center
        push = ridge * moved
        gradient = evidence.predicted(last[1]) - evidence.values + push
        return problem.total * log_z - float(evidence.values @ alpha) + 0.5 * float(push @ moved), gradient / scale

    found = minimised(
        objective,
        (center if start is None else start) * scale,
        goal=settings.accuracy * float(np.sqrt(evidence.size)),
        iterations=settings.inner,
        limit=scale / (temperature * evidence.stddevs) if is_l1 else np.inf,
    )
    alpha = found.x / scale
    if last[0] is not found.x:
        # The last point tried was not taken.
        return alpha, problem.marginals(evidence.adjoint(alpha)), found.calls + 1
    return alpha, last[1], found.calls
