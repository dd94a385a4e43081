"""Mixture: how well reweighed rows can answer a workload at best, as a linear programme with a certificate.

f = min over weights μ of rows of max over cells q of |q(μ) − q(D)|. No μ reaches a cell without rows, so that f is at
least the largest q(D) of those. Often it is no more, and weights with no larger error are found by a smooth descent.
Otherwise only cells that matter become constraints: solve with some, add the ones that the solution misses most, again.
Every solution gives an upper bound, its largest error. Its dual gives a lower one that owes nothing to the solver: for
multipliers λ ≥ 0 that add up to 1 and signs s, f ≥ min over rows x of Σ λ_i s_i [x in cell i] − Σ λ_i s_i q_i(D), which
is evaluated as it stands.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Places = NDArray[np.intp]

# How many constraints are added after each solution, and how many solutions there are at most.
ADDED, MOST_SOLUTIONS = 400, 200
# Steps of the smooth descent.
STEPS = 300
# All constraints are the first ones where there are no more than this, else cells near the largest error.
FEW, NEARLY = 20_000, 0.98


@dataclass(frozen=True, eq=False)
class Bounds:
    """What is known of f."""

    lower: float  # f is at least this
    upper: float  # f is at most this: the largest error of `weights`
    weights: Array  # of the rows


def best_mixture(cells: Sequence[Places], truths: Sequence[Array], start: Array, tolerance: float) -> Bounds:
    """Bounds no further apart than `tolerance`, or the closest that the solver's own accuracy allows: it never raises.

    For each query, `cells` has the cell that each row is in, and `truths` the share of each of its cells, flat; these
    need not be those of any rows. `start` has weights of the rows to begin from.
    """
    problem = _Problem(cells, np.concatenate(truths), np.cumsum([0, *(len(truth) for truth in truths)]))
    lower = problem.floor()
    best = problem.bounds(lower, problem.descended(start, lower + tolerance / 2))
    if not best.upper - lower <= tolerance:
        best = _closer(best, problem.bounds(lower, problem.descended(best.weights, (lower + best.upper) / 2)))
    active = problem.first(best.weights)
    for _ in range(MOST_SOLUTIONS):
        if best.upper - best.lower <= tolerance:
            break
        solution = problem.solved(active, best.lower)
        if solution is None:
            break
        weights, multipliers = solution
        best = _closer(best, problem.bounds(problem.bound(active, multipliers), weights))
        # Between the solution and the best weights so far: vertices alone would jump back and forth.
        between = (weights + best.weights) / 2
        added = problem.missed(weights, active, best.lower) + problem.missed(between, active, best.lower)
        if not added:
            break
        active = list(dict.fromkeys([*active, *added]))
    return best


def _closer(one: Bounds, other: Bounds) -> Bounds:
    """What both know together."""
    least = one if one.upper <= other.upper else other
    return Bounds(max(one.lower, other.lower), least.upper, least.weights)


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

    def rows_in(self, cell: int) -> Places:
        query = int(np.searchsorted(self.starts, cell, side="right")) - 1
        return np.flatnonzero(self.cells[query] == cell - self.starts[query])

    def bounds(self, lower: float, weights: Array) -> Bounds:
        return Bounds(lower, float(np.abs(self.errors(weights)).max()), weights)

    def floor(self) -> float:
        """The largest share of a cell without rows."""
        return float(self.truth[~self.held()].max(initial=0.0))

    def held(self) -> NDArray[np.bool_]:
        """Which cells have rows."""
        return np.asarray(self.errors(np.ones(len(self.cells[0]))) + self.truth > 0.5)

    def descended(self, weights: Array, level: float) -> Array:
        """Weights with errors of at most `level` where a descent of Σ(|error| − level)₊² finds them."""
        from scipy.optimize import minimize

        unit = max(level, 1e-9)

        def objective(logs: Array) -> tuple[float, Array]:
            shares = np.exp(logs - logs.max())
            shares /= shares.sum()
            errors = self.errors(shares) / unit
            excess = np.sign(errors) * np.maximum(np.abs(errors) - level / unit, 0.0)
            slope = self.per_row(excess)
            return 0.5 * float(excess @ excess), shares * (slope - shares @ slope) / unit

        start = np.log(np.maximum(weights, 1e-12))
        found = minimize(objective, start, jac=True, method="L-BFGS-B", options={"maxiter": STEPS, "ftol": 1e-15})
        shares = np.exp(found.x - found.x.max())
        return np.asarray(shares / shares.sum())

    def per_row(self, values: Array) -> Array:
        """For each row, the sum of the values of the cells it is in."""
        sums = np.zeros(len(self.cells[0]))
        for cells, begin in zip(self.cells, self.starts, strict=False):
            sums += values[begin:].take(cells)
        return sums

    def first(self, weights: Array) -> list[int]:
        """All constraints that rows can break where these are few, else those that the weights nearly break."""
        errors = self.errors(weights)
        held = np.flatnonzero(self.held())
        if 2 * len(held) <= FEW:
            return [2 * int(cell) + over for cell in held for over in (0, 1)]
        off = np.abs(errors)
        near = np.flatnonzero(off >= NEARLY * off.max())
        near = near[np.argsort(-off[near])][:FEW]
        return [2 * int(cell) + int(errors[cell] > 0) for cell in near]

    def missed(self, weights: Array, active: Sequence[int], allowed: float) -> list[int]:
        """Constraints that are not active and broken by more than is allowed, the worst of each query."""
        errors = self.errors(weights)
        off = np.abs(errors)
        off[[constraint // 2 for constraint in active if (errors[constraint // 2] > 0) == constraint % 2]] = 0.0
        worst = np.array([off[a:b].argmax() + a for a, b in zip(self.starts, self.starts[1:], strict=False)])
        worst = worst[off[worst] > allowed]
        worst = worst[np.argsort(-off[worst])][:ADDED]
        return [2 * int(cell) + int(errors[cell] > 0) for cell in worst]

    def solved(self, active: Sequence[int], least: float) -> tuple[Array, Array] | None:
        """The best weights for the active constraints and a multiplier for each; None where the solver fails."""
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
            bounds=[*[(0, None)] * rows, (least, None)],
            method="highs-ipm" if len(active) > ADDED else "highs-ds",
            options={"primal_feasibility_tolerance": 1e-9, "dual_feasibility_tolerance": 1e-9},
        )
        if solution.x is None or not np.isfinite(solution.x).all() or not solution.x[:rows].sum() > 0:
            return None
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
