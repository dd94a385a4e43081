"""Multiplicative weights: the update of MWEM, as one formula and as a solver."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from priory.estimate.problem import BASE, Problem, Solver, Start, State, Status, Traits, settled
from priory.queries.factor import Array


def exponents(measured: ArrayLike, answers: ArrayLike, total: float, largest_entry: float = 1.0) -> Array:
    """What each query is multiplied by in the exponent of p ← p·exp(Qᵀe): e = (m − Qp)/2n [Hardt et al. 2012].

    The step is proven for entries up to 1, so it is that of the query divided by its largest entry. m are the noisy
    answers, Qp those of the model in the same units, n is how many records both stand for.
    """
    return np.subtract(measured, answers, dtype=np.float64) / (2 * total * largest_entry**2)


def stepped(logs: Array, exponent: Array | float, where: Any = ...) -> Array:  # noqa: ANN401  what NumPy indexes with
    """log(p·exp(e)/Σ p·exp(e)) from log p, where e is 0 outside of `where`; a step of any length."""
    logs = logs.copy()
    logs[where] += exponent
    top = logs.max()
    logs -= top + np.log(np.exp(logs - top).sum())
    return logs


@dataclass(frozen=True, kw_only=True)
class MultiplicativeSweeps(Solver):
    """Multiplicative weights, one query after the other [Private-PGM, McKenna et al. 2019, Eq. 2; MWEM].

    A step is one sweep over the queries.
    """

    traits = Traits(losses=frozenset({"l2", "l1"}), reaches_least_loss=False)
    iterations: int = 100  # how many sweeps it may make
    tolerance: float = 1e-6  # the relative fall of the loss below which it has converged

    def init(self, problem: Problem, start: Start = BASE) -> State:
        _ = problem.evidence
        return State.at(problem, start.theta)

    def step(self, problem: Problem, state: State) -> State:
        evidence = problem.evidence
        theta, marginals = state.theta, state.marginals
        for span in evidence.spans:
            moved = np.zeros(evidence.size)
            moved[span] = exponents(evidence.values, evidence.predicted(marginals), problem.total)[span]
            theta = theta + evidence.adjoint(moved)
            marginals = problem.marginals(theta)
        return state.moved(problem, theta, marginals, calls=len(evidence.spans))

    def status(self, problem: Problem, state: State) -> Status:
        if state.falls and max(state.falls) < self.tolerance:
            return Status("converged", "A sweep over the queries no longer lowers the loss.")
        return settled(state, self.tolerance, self.iterations)
