"""Problem: what a solver minimises, what it carries from step to step, and the one loop that drives them all."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeVar

import numpy as np

from priory.estimate.loss import Loss
from priory.factor import Array
from priory.model.tilted import Oracle

C = TypeVar("C")


@dataclass(frozen=True)
class Status:
    """Whether to take another step, and if not, why.

    Attributes:
        kind: going, converged, or gave up.
        reason: a sentence for people.
    """

    kind: Literal["going", "converged", "gave up"]
    reason: str

    @property
    def is_going(self) -> bool:
        """Whether another step should be taken."""
        return self.kind == "going"


# A loss in units of the noise that is nothing.
MET = 1e-8
GOING = Status("going", "The loss still falls.")


@dataclass(frozen=True, eq=False)
class Problem:
    """Find potentials whose marginals have the least loss.

    Attributes:
        oracle: potentials to log Z and marginals, in the layout of the loss.
        loss: what is minimised; it reads counts.
        total: how many records the marginals stand for.
    """

    oracle: Oracle
    loss: Loss
    total: float

    def marginals(self, theta: Array) -> Array:
        """The marginals at potentials `theta`, as counts."""
        return self.total * self.oracle(theta)[1]

    def zero(self) -> Array:
        """The potentials of the base itself."""
        return np.zeros(self.loss.layout.size)


@dataclass(frozen=True, eq=False)
class State:
    """Where a solver stands.

    Attributes:
        theta: the potentials.
        marginals: what they give, as counts.
        value: the loss there.
        iteration: how many steps were taken.
        calls: how many times the oracle was called.
        falls: by how much, relative to its size, the loss fell in the latest steps.
        carry: whatever else the solver carries between steps.
    """

    theta: Array
    marginals: Array
    value: float
    iteration: int
    calls: int
    falls: tuple[float, ...]
    carry: Any


class Solver(Protocol):
    """An iterative estimator. `path` drives it; a solver never loops over itself."""

    def init(self, problem: Problem, start: Array | None = None) -> State:
        """The first guess, at potentials `start` or at the base, and whatever must be carried between steps."""

    def step(self, problem: Problem, state: State) -> State:
        """One iteration. Pure: same state in, same state out."""

    def status(self, problem: Problem, state: State) -> Status:
        """Keep going, converged, or why we gave up."""


def path(solver: Solver, problem: Problem, start: Array | None = None) -> Iterator[State]:
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
