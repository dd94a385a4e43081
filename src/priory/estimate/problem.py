"""Problem: what a solver minimises, the contract of a solver, and the one loop that drives them all."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, Protocol

import numpy as np

from priory.errors import OptionError
from priory.estimate.evidence import Evidence
from priory.estimate.loss import Loss
from priory.model.tilted import Oracle
from priory.queries.factor import Array


@dataclass(frozen=True)
class Status:
    """Whether to take another step, and if not, why."""

    kind: Literal["going", "converged", "gave up"]
    reason: str  # a sentence for people

    @property
    def is_going(self) -> bool:
        """Whether another step should be taken."""
        return self.kind == "going"


# A loss in units of the noise that is nothing.
MET = 1e-8
GOING = Status("going", "The loss still falls.")


@dataclass(frozen=True, eq=False)
class Problem:
    """Find potentials whose marginals have the least loss."""

    oracle: Oracle  # potentials to log Z and marginals, in the layout of the loss
    loss: Loss  # what is minimised; it reads counts
    total: float  # how many records the marginals stand for

    def marginals(self, theta: Array) -> Array:
        """The marginals at potentials `theta`, as counts."""
        return self.total * self.oracle(theta)[1]

    def zero(self) -> Array:
        """The potentials of the base itself."""
        return np.zeros(self.loss.layout.size)

    @property
    def evidence(self) -> Evidence:
        """The evidence of a loss that is made from measurements; an `OptionError` where it is a custom one."""
        if self.loss.evidence is None:
            raise OptionError("solver", "this solver needs the L2 or L1 loss; use MirrorDescent for a custom loss")
        return self.loss.evidence


@dataclass(frozen=True, eq=False)
class Start:
    """Where an earlier estimate ended. A solver takes from it what it can use."""

    theta: Array | None = None  # potentials in the layout of the problem's loss; None for those of the base
    multipliers: Array | None = None  # one for each answer; None for zeros
    pace: float = 0.0  # `State.pace` of the same solver then; 0 where there is none


BASE = Start()


@dataclass(frozen=True, eq=False)
class State:
    """Where a solver stands."""

    theta: Array  # the potentials
    marginals: Array  # what they give, as counts
    value: float  # the loss there
    iteration: int = 0  # how many steps were taken
    calls: int = 1  # how many times the oracle was called
    falls: tuple[float, ...] = ()  # by how much, relative to its size, the loss fell in the latest steps
    carry: Any = None  # whatever else the solver carries between steps; nobody else reads it
    multipliers: Array | None = None  # α with θ = Qᵀα, of solvers whose traits say that they have them
    temperature: float = math.nan  # λ of the last step of such solvers; NaN for others
    pace: float = 0.0  # the length of the last step, in a measure of the solver, for a later estimate

    @classmethod
    def at(cls, problem: Problem, theta: Array | None = None) -> "State":
        """The first state, at potentials `theta` or at the base; one call of the oracle."""
        theta = problem.zero() if theta is None else theta
        marginals = problem.marginals(theta)
        return cls(theta, marginals, problem.loss(marginals)[0])

    def moved(self, problem: Problem, theta: Array, marginals: Array, *, calls: int, **changes: Any) -> "State":  # noqa: ANN401
        """The state one step on, which took so many calls; `changes` are those of other fields."""
        value = problem.loss(marginals)[0]
        changes |= {"iteration": self.iteration + 1, "falls": fall(self.value, value, self.falls)}
        return replace(self, theta=theta, marginals=marginals, value=value, calls=self.calls + calls, **changes)

    @property
    def alpha(self) -> Array:
        """The multipliers of a solver that has them."""
        if self.multipliers is None:
            raise TypeError("this solver has no multipliers")
        return self.multipliers


@dataclass(frozen=True)
class Traits:
    """What a solver can do. Callers and the contract tests ask this, never its class."""

    losses: frozenset[Literal["l2", "l1", "custom"]] = frozenset({"l2"})  # the losses that it can minimise
    reaches_least_loss: bool = True  # whether it ends at the least loss when it is run to the end
    # Whether its states have multipliers and temperatures, so that evidence can enter level by level, steps can be
    # taken in part, and a perturbed fit follows from the fit itself.
    has_multipliers: bool = False
    accuracy: float = 1e-4  # how close, relative to the least loss, it then comes


class Solver(Protocol):
    """An iterative estimator: frozen settings and three methods. `states` drives it; a solver never loops over itself.

    A class that inherits from this has `finish` and `follow` for nothing.
    """

    traits: ClassVar[Traits] = Traits()

    def init(self, problem: Problem, start: Start = BASE) -> State:
        """The first guess, from `start`, and what steps carry; an `OptionError` if it cannot minimise this loss."""

    def step(self, problem: Problem, state: State) -> State:
        """One iteration. Pure: same state in, same state out."""

    def status(self, problem: Problem, state: State) -> Status:
        """Keep going, converged, or why we gave up."""

    def finish(self, problem: Problem, state: State) -> State:
        """The state with potentials whose marginals are its own; most solvers have no others."""
        return state

    def follow(self, problem: Problem, state: State, before: State, after: State) -> State:
        """One step on a perturbed problem, where the unperturbed one went from `before` to `after`."""
        return self.step(problem, state)


def states(solver: Solver, problem: Problem, start: Start = BASE) -> Iterator[State]:
    """The states of a solver, from its first guess until it is done."""
    state = solver.init(problem, start)
    yield state
    while solver.status(problem, state).is_going:
        state = solver.step(problem, state)
        yield state


def fall(before: float, after: float, latest: tuple[float, ...], keep: int = 5) -> tuple[float, ...]:
    """The latest relative falls of the loss, with one more."""
    return (*latest[-keep + 1 :], (before - after) / max(abs(before), 1e-12))


def settled(state: State, tolerance: float, iterations: int) -> Status:
    """The common rule: converged when the loss has stopped falling for five steps, given up after `iterations`."""
    if len(state.falls) >= 5 and max(state.falls) < tolerance:
        return Status("converged", f"The loss fell by less than {tolerance:g} of itself in each of five steps.")
    if state.value < MET:
        return Status("converged", "The measurements are met exactly.")
    if state.iteration >= iterations:
        return Status("gave up", f"The loss was still falling after {iterations} steps.")
    return GOING
