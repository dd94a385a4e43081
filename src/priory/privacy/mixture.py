"""Mixture: how well reweighed rows can answer a workload at best, as a linear programme with a certificate.

f = min over weights μ of rows of max over cells q of |q(μ) − q(D)|. Only cells that matter become constraints: solve
with some, add the ones that the solution misses most, again. Every solution gives an upper bound, its largest error.
Its dual gives a lower one that owes nothing to the solver: for multipliers λ ≥ 0 that add up to 1 and signs s,
f ≥ min over rows x of Σ λ_i s_i [x in cell i] − Σ λ_i s_i q_i(D), which is evaluated as it stands.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Places = NDArray[np.intp]

# Steps of multiplicative weights that find the first constraints, and how many are added after each solution.
FIRST_STEPS, ADDED = 100, 400


@dataclass(frozen=True, eq=False)
class Bounds:
    """What is known of f.

    Attributes:
        lower: f is at least this.
        upper: f is at most this: the largest error of `weights`.
        weights: of the rows.
    """

    lower: float
    upper: float
    weights: Array


def best_mixture(cells: Sequence[Places], truths: Sequence[Array], start: Array, tolerance: float) -> Bounds:
    """Bounds no further apart than `tolerance`.

    Args:
        cells: for each query, the cell that each row is in.
        truths: for each query, the share of each of its cells, flat; they need not be those of any rows.
        start: weights of the rows to begin from.
        tolerance: how far apart the bounds may be.
    """
    problem = _Problem(cells, np.concatenate(truths), np.cumsum([0, *(len(truth) for truth in truths)]))
    active, weights = problem.first(start)
    best = Bounds(0.0, problem.largest(weights), weights)
    while best.upper - best.lower > tolerance:
        weights, multipliers = problem.solved(active)
        lower = max(best.lower, problem.bound(active, multipliers))
        upper = problem.largest(weights)
        best = Bounds(lower, upper, weights) if upper < best.upper else Bounds(lower, best.upper, best.weights)
        # Between the solution and the best weights so far: vertices alone would jump back and forth.
        added = problem.missed(weights, active, lower) + problem.missed((weights + best.weights) / 2, active, lower)
        if not added and best.upper - best.lower > tolerance:
            raise AssertionError("the linear programme was solved less exactly than its certificate needs")
        active = list(dict.fromkeys([*active, *added]))
    return best


@dataclass(frozen=True, eq=False)
class _Problem:
    """Cells are numbered across queries; a constraint is 2·cell, and 1 more where the answer is not to be too large."""

    cells: Sequence[Places]
    truth: Array
    starts: NDArray[np.int64]

    def errors(self, weights: Array) -> Array:
        """q(μ) − q(D) for every cell."""
        sizes = np.diff(self.starts)
        answers = [np.bincount(c, weights=weights, minlength=n) for c, n in zip(self.cells, sizes, strict=True)]
        return np.asarray(np.concatenate(answers) - self.truth)

    def largest(self, weights: Array) -> float:
        return float(np.abs(self.errors(weights)).max())

    def rows_in(self, cell: int) -> Places:
        query = int(np.searchsorted(self.starts, cell, side="right")) - 1
        return np.flatnonzero(self.cells[query] == cell - self.starts[query])

    def first(self, weights: Array) -> tuple[list[int], Array]:
        """Constraints that multiplicative weights meets on its way, and the best weights it has."""
        active: dict[int, None] = {}
        best, least = weights, np.inf
        for _ in range(FIRST_STEPS):
            errors = self.errors(weights)
            worst = int(np.abs(errors).argmax())
            if abs(errors[worst]) < least:
                best, least = weights, abs(errors[worst])
            if (rows := self.rows_in(worst)).size == 0:
                # Nothing can change the worst cell: it is the answer.
                return [2 * worst], best
            active[2 * worst + int(errors[worst] > 0)] = None
            weights = weights.copy()
            weights[rows] *= np.exp(-errors[worst])
            weights /= weights.sum()
        return list(active), best

    def missed(self, weights: Array, active: Sequence[int], allowed: float) -> list[int]:
        """Constraints that are not active and broken by more than is allowed, the worst of each query."""
        errors = self.errors(weights)
        off = np.abs(errors)
        off[[constraint // 2 for constraint in active if (errors[constraint // 2] > 0) == constraint % 2]] = 0.0
        worst = np.array([off[a:b].argmax() + a for a, b in zip(self.starts, self.starts[1:], strict=False)])
        worst = worst[off[worst] > allowed]
        worst = worst[np.argsort(-off[worst])][:ADDED]
        return [2 * int(cell) + int(errors[cell] > 0) for cell in worst]

    def solved(self, active: Sequence[int]) -> tuple[Array, Array]:
        """The best weights for the active constraints, and a multiplier for each of them."""
        from scipy.optimize import linprog

        rows = len(self.cells[0])
        signs = np.array([2 * (constraint % 2) - 1 for constraint in active])
        limits = signs * self.truth[[constraint // 2 for constraint in active]]
        solution: Any = linprog(
            np.append(np.zeros(rows), 1.0),
            A_ub=self._matrix(active, signs),
            b_ub=limits,
            A_eq=np.append(np.ones(rows), 0.0)[None, :],
            b_eq=[1.0],
            method="highs-ds",
            options={"primal_feasibility_tolerance": 1e-9, "dual_feasibility_tolerance": 1e-9},
        )
        weights = np.maximum(solution.x[:rows], 0.0)
        return weights / weights.sum(), np.maximum(-solution.ineqlin.marginals, 0.0)

    def _matrix(self, active: Sequence[int], signs: NDArray[np.int64]) -> Any:  # noqa: ANN401 - scipy is imported late
        from scipy.sparse import csr_array

        members = [self.rows_in(constraint // 2) for constraint in active]
        rows = len(self.cells[0])
        # The last column is f: s·q(μ) − f ≤ s·q(D).
        indices = np.concatenate([np.append(rows_in, rows) for rows_in in members])
        values = np.concatenate([np.append(np.full(len(m), s), -1.0) for m, s in zip(members, signs, strict=True)])
        pointers = np.cumsum([0, *(len(rows_in) + 1 for rows_in in members)])
        return csr_array((values, indices, pointers), shape=(len(active), rows + 1))

    def bound(self, active: Sequence[int], multipliers: Array) -> float:
        """The lower bound of the module's head, at these multipliers."""
        if not multipliers.sum() > 0:
            return 0.0
        shares = multipliers / multipliers.sum()
        totals = np.zeros(len(self.cells[0]))
        offset = 0.0
        for constraint, share in zip(active, shares, strict=True):
            sign = 2 * (constraint % 2) - 1
            totals[self.rows_in(constraint // 2)] += sign * share
            offset += sign * share * self.truth[constraint // 2]
        return float(totals.min() - offset)
