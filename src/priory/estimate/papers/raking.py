"""Raking: iterative proportional fitting from a prior, one marginal's log ratio at a time [IDE]."""

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from priory.errors import OptionError
from priory.estimate.problem import BASE, GOING, Problem, Solver, Start, State, Status, Traits, fall
from priory.queries.factor import Array
from priory.queries.query import Query

Projection = Literal["euclidean", "scaled", "towards the model"]
# An answer of 0 would empty its records for good: a tiny share of what the model says lets later marginals revive them.
_FLOOR = 1e-9
# Shares below this are none: the floor under them would be too small for a double.
_NONE = 1e-290


def projected(answers: Array, model: Array, projection: Projection = "euclidean", *, covers: bool = True) -> Array:
    """A point of {y ≥ 0, Σy = 1} nearest to `answers` in L1 (Σy ≤ 1 where the query does not cover the domain).

    It is not unique: "euclidean" subtracts one number from all (where shares are missing, it scales); "scaled" divides
    by the sum; "towards the model" cuts or fills each answer at one multiple of the model's. All are equally near.
    """
    clipped = np.maximum(answers, 0.0)
    total = float(clipped.sum())
    if not covers and total <= 1:
        return np.asarray(clipped)
    if total == 0:
        return np.full(len(clipped), 1 / len(clipped)) if model.sum() == 0 else np.asarray(model / model.sum())
    if projection == "towards the model" and model.sum() > 0:
        return _water_filled(clipped, model, total)
    if projection == "euclidean" and total > 1:
        return onto_simplex(clipped)
    return np.asarray(clipped / total)


def onto_simplex(values: Array) -> Array:
    """The Euclidean projection onto the simplex."""
    ordered = np.sort(values)[::-1]
    levels = (np.cumsum(ordered) - 1) / np.arange(1, len(values) + 1)
    level = levels[np.flatnonzero(ordered > levels)[-1]]
    return np.asarray(np.maximum(values - level, 0.0))


def _water_filled(values: Array, model: Array, total: float) -> Array:
    """min(c, λm) or max(c, λm), with λ such that the sum is 1."""
    joined = np.minimum if total > 1 else np.maximum
    with np.errstate(divide="ignore", invalid="ignore"):
        marks = np.unique(values[model > 0] / model[model > 0])
    if total > 1 and float(joined(values, marks[-1] * model).sum()) < 1:
        # Answers where the model has nothing are cut to nothing: what is left is too little.
        return values / total
    low, high = 0.0, float(marks[-1]) + 1 / float(model.sum())
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if joined(values, middle * model).sum() < 1 else (low, middle)
    filled = joined(values, high * model)
    return np.asarray(filled / filled.sum())


@dataclass(frozen=True, eq=False)
class Epochs:
    """What `Raking` carries between steps."""

    change: float  # the largest change of a marginal in the last epoch, as a share
    missed: tuple[float, ...]  # for each query, the share of its answers that no record of the base could receive


@dataclass(frozen=True, kw_only=True)
class Raking(Solver):
    """Algorithm 1 of IDE, in random order once per epoch, for any base [Tao, Bater & Machanavajjhala 2021].

    Queries need rows with disjoint supports: products of identities, sets, ranges, points, totals and recodings. Noise
    is not weighed: every marginal is met in full.
    """

    traits = Traits(losses=frozenset({"l2", "l1"}), reaches_least_loss=False)
    projection: Projection = "euclidean"  # how noisy answers are made shares
    damping: float = 1.0  # the exponent γ of q·(y/m)^γ; below 1 it calms the cycling that inconsistent answers cause
    iterations: int = 10  # how many epochs it may make
    tolerance: float = 1e-6  # the largest change of a marginal, as a share, below which it has converged
    seed: int = 0  # of the orders

    def init(self, problem: Problem, start: Start = BASE) -> State:
        for query in problem.evidence.queries:
            _check_disjoint(query)
        misses = (0.0,) * len(problem.evidence.queries)
        return replace(State.at(problem, start.theta), carry=Epochs(np.inf, misses))

    def step(self, problem: Problem, state: State) -> State:
        """One epoch: every query once."""
        evidence = problem.evidence
        misses = list(state.carry.missed)
        current = state
        order = np.random.default_rng([self.seed, state.iteration]).permutation(len(evidence.queries))
        for number in order:
            current, misses[number] = self._raked(problem, current, int(number))
        change = float(np.abs(current.marginals - state.marginals).max(initial=0.0)) / problem.total
        falls = fall(state.value, current.value, state.falls)
        return replace(current, iteration=state.iteration + 1, falls=falls, carry=Epochs(change, tuple(misses)))

    def _raked(self, problem: Problem, state: State, number: int) -> tuple[State, float]:
        """One update: the log ratio of one query's answers is added to its potentials."""
        evidence = problem.evidence
        span = evidence.spans[number]
        ratio = np.zeros(evidence.size)
        model = evidence.predicted(state.marginals)[span] / problem.total
        covered = float(model.sum())
        covers = covered > 1 - 1e-9
        wanted = projected(evidence.values[span] / problem.total, model, self.projection, covers=covers)
        has_mass = model > _NONE
        missed = float(wanted[~has_mass].sum())
        wanted = np.where(has_mass, np.maximum(wanted, _FLOOR * model), 0.0)
        if covers:
            wanted /= wanted.sum()
        rest = 0.0 if covers else np.log(max(1 - float(wanted.sum()), _FLOOR) / max(1 - covered, _FLOOR))
        # Cells of no row are scaled too; only ratios matter, so their factor is taken from the others instead.
        ratio[span][has_mass] = self.damping * (np.log(wanted[has_mass] / model[has_mass]) - rest)
        theta = state.theta + evidence.adjoint(ratio)
        marginals = problem.marginals(theta)
        value = problem.loss(marginals)[0]
        return replace(state, theta=theta, marginals=marginals, value=value, calls=state.calls + 1), missed

    def status(self, problem: Problem, state: State) -> Status:
        if state.carry.change < self.tolerance:
            return Status("converged", f"No marginal changed by more than {self.tolerance:g} in the last epoch.")
        if state.iteration >= self.iterations:
            # Inconsistent answers make raking cycle: ending after a number of epochs is how it is meant to end.
            return Status("converged", f"All {self.iterations} epochs were made.")
        return GOING


def _check_disjoint(query: Query) -> None:
    for part, size in zip(query.parts, query.domain.shape, strict=True):
        matrix = part.matrix(size)
        if not (np.isin(matrix, (0, 1)).all() and (matrix.sum(axis=0) <= 1).all()):
            raise OptionError("solver", f"Raking needs queries with disjoint rows; {part!r} has overlapping ones")
