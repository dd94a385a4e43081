"""Tangent: how the solution of a step of `Dual` moves with its answers, to first order.

Where answers move by dy and the centre by dα₀, the multipliers move by the dα that solves

    (C + λΣ) dα = dy + λΣ dα₀,

with C the covariance of the answers under the model, N times that of one record. A product with C is a difference of
two calls of the oracle, and the system is solved by conjugate gradients. A second fit to answers moved by a noticeable
step would not do: it is bent by the exponential family, and whatever its solver leaves undone is missing from its move.
"""

import math
from dataclasses import dataclass

import numpy as np

from priory.estimate.problem import Problem
from priory.estimate.products import dot
from priory.queries.factor import Array

# How far, in all multipliers together, the marginals are taken as straight.
_STRIDE = 1e-4


@dataclass(frozen=True, eq=False)
class Tangent:
    """A direction in which a fit moves."""

    alpha: Array  # the change of the multipliers
    marginals: Array  # the change of the marginals, as counts
    calls: int  # how many calls of the oracle it took


def marginals_along(problem: Problem, alpha: Array, marginals: Array, direction: Array) -> Array:
    """The change of the marginals along a direction of the multipliers, from `alpha`, where they are `marginals`."""
    length = math.sqrt(dot(direction, direction))
    if length == 0:
        return np.zeros_like(marginals)
    ahead = (_STRIDE / length) * direction
    ahead += alpha
    moved = problem.marginals(problem.evidence.adjoint(ahead))
    moved -= marginals
    moved *= length / _STRIDE
    return moved


def tangent(
    problem: Problem,
    alpha: Array,
    marginals: Array,
    *,
    right_hand_side: Array,
    center: Array,
    temperature: float,
    accuracy: float,
    most: int,
    start: Array | None = None,
) -> Tangent:
    """How a step's solution moves when the answers move by `right_hand_side` and its centre by `center`: dy and dα₀.

    `accuracy` is what may be left over for each degree of freedom, squared, in standard deviations of the noise; `most`
    how many calls it may take; `start` where the search begins, if not at `center`.
    """
    evidence = problem.evidence
    precision = evidence.stddevs**-2.0
    stiffness = temperature * evidence.stddevs**2
    inverse = 1 / (evidence.variances(marginals, problem.total) + stiffness)
    goal = accuracy * (evidence.size - dot(stiffness, inverse))
    solution = (center if start is None else start).copy()
    moved = marginals_along(problem, alpha, marginals, solution)
    residual = right_hand_side - evidence.predicted(moved)
    if start is not None:
        residual += stiffness * (center - start)
    direction, steepness, calls = np.zeros_like(solution), np.inf, 1
    while calls < most and dot(residual, residual * precision) > goal:
        scaled = residual * inverse
        steepness, before = dot(residual, scaled), steepness
        direction *= steepness / before
        direction += scaled
        change = marginals_along(problem, alpha, marginals, direction)
        calls += 1
        turned = stiffness * direction
        turned += evidence.predicted(change)
        curvature = dot(direction, turned)
        if not curvature > 0:
            break
        length = steepness / curvature
        solution += length * direction
        turned *= length
        residual -= turned
        change *= length
        moved += change
    return Tangent(solution, moved, calls)
