"""L-BFGS: the limited-memory quasi-Newton method within a box, lean enough that the oracle is what costs.

With SciPy's L-BFGS-B in its span an estimate takes 3 to 13 times as long (docs/studies/libraries.md).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from priory.estimate.products import combined, dot, dots
from priory.queries.factor import Array

# On the problems met here, two pairs need as many calls as forty: what is slow is not in so few directions.
_MEMORY = 3
_TRIALS = 30
_ARMIJO = 1e-4
# The length of a gradient that is nothing.
_TINY = 1e-150

Objective = Callable[[Array], tuple[float, Array]]


@dataclass(frozen=True, eq=False)
class Minimum:
    """Where the search ended."""

    x: Array  # the point
    steepness: float  # the squared norm of the gradient there, without what pushes against the box
    calls: int  # how often the objective was called


def minimised(
    objective: Objective,
    start: Array,
    *,
    goal: float,
    iterations: int,
    limit: Array | None = None,
    weights: Array | None = None,
) -> Minimum:
    """Minimise a smooth convex function over |x| ≤ limit, until its squared gradient is at most `goal`.

    The objective gives value and gradient, which is a new array; x belongs to the search. `limit` is the half-width of
    the box for each unknown, without a box where it is None. `weights` multiply the gradient's entries in its norm.
    """
    x = start.copy() if limit is None else np.clip(start, -limit, limit)
    here = _Point(x, *objective(x))
    memory = _Memory(len(x))
    calls = 1
    for _ in range(iterations):
        free = _free(here, limit)
        if _steepness(free, weights) <= goal:
            break
        direction = memory.direction(free)
        if free is not here.gradient:
            direction[free == 0] = 0.0
        trial = _searched(objective, here, direction, limit)
        calls += trial.calls
        if trial.point is None:
            # Rounding hides any further fall along a direction from memory; the gradient itself may still give one.
            if not memory.size:
                break
            memory.clear()
            continue
        # The last point is not needed any more: its arrays take the differences.
        move = np.subtract(trial.point.x, here.x, out=here.x)
        memory.learn(move, np.subtract(trial.point.gradient, here.gradient, out=here.gradient))
        here = trial.point
    return Minimum(here.x, _steepness(_free(here, limit), weights), calls)


@dataclass(frozen=True, eq=False)
class _Point:
    x: Array
    value: float
    gradient: Array


@dataclass(frozen=True, eq=False)
class _Trial:
    point: _Point | None
    calls: int


def _free(here: _Point, limit: Array | None) -> Array:
    """The gradient, without the entries that push against the box."""
    if limit is None:
        return here.gradient
    pressed = (np.abs(here.x) >= limit) & (here.x * here.gradient < 0)
    return np.where(pressed, 0.0, here.gradient) if pressed.any() else here.gradient


def _steepness(gradient: Array, weights: Array | None) -> float:
    weighted = gradient if weights is None else gradient * weights
    return dot(weighted, weighted)


class _Memory:
    """The latest moves and turns of the gradient, in single precision: they shape a direction, not the answer."""

    def __init__(self, unknowns: int) -> None:
        self._rows = np.zeros((2 * _MEMORY, unknowns), dtype=np.float32)
        # Products of every row with every other; rows 2i and 2i + 1 are a move and its turn.
        self._products = np.zeros((2 * _MEMORY, 2 * _MEMORY))
        self._order: list[int] = []

    @property
    def size(self) -> int:
        return len(self._order)

    def clear(self) -> None:
        """Forget everything."""
        self._order = []

    def learn(self, move: Array, turn: Array) -> None:
        """Take in a pair, unless the function does not curve along it; the oldest one gives way."""
        curvature = dot(move, turn)
        # Pairs that curve next to nothing, or endlessly, would leave the range of single precision.
        if not curvature > 1e-12 * max(dot(turn, turn), dot(move, move)):
            return
        span = len(self._order) if len(self._order) < _MEMORY else self._order.pop(0)
        # So scaled, a move times its turn is 1, and nothing leaves the range of single precision.
        for row, vector in ((2 * span, move), (2 * span + 1, turn)):
            np.multiply(vector, curvature**-0.5, out=self._rows[row], casting="same_kind")
        self._order.append(span)
        used = 2 * len(self._order)
        for row in (2 * span, 2 * span + 1):
            self._products[row, :used] = dots(self._rows[:used], self._rows[row])
            self._products[:used, row] = self._products[row, :used]

    def direction(self, gradient: Array) -> Array:
        """Minus the inverse Hessian of memory times the gradient."""
        # The two-loop recursion [Nocedal 1980] on coefficients: a direction is c·gradient + Σ w_i row_i, and its
        # products with the rows follow from those of the rows with each other and with the gradient.
        norm = math.sqrt(dot(gradient, gradient))
        if not self._order or not _TINY < norm < math.inf:
            return -gradient
        used = 2 * len(self._order)
        # At a length near 1 the gradient and its products with the rows stay in the range of single precision; a power
        # of 2 takes it there without rounding.
        length = math.ldexp(1.0, math.frexp(norm)[1])
        short = (gradient * (1 / length)).astype(np.float32)
        slopes = dots(self._rows[:used], short).astype(np.float64)
        products = self._products[:used, :used]
        weights, c = np.zeros(used), -1.0
        coefficients = {}
        for pair in reversed(self._order):
            coefficients[pair] = c * slopes[2 * pair] + products[2 * pair] @ weights
            weights[2 * pair + 1] -= coefficients[pair]
        newest = 2 * self._order[-1] + 1
        shrinking = 1 / products[newest, newest]
        weights, c = weights * shrinking, c * shrinking
        for pair in self._order:
            turned = c * slopes[2 * pair + 1] + products[2 * pair + 1] @ weights
            weights[2 * pair] += coefficients[pair] - turned
        if not np.isfinite(weights).all():
            return -gradient
        direction = c * gradient
        direction += length * combined(weights.astype(np.float32), self._rows[:used]).astype(np.float64)
        return direction if dot(direction, gradient) < 0 else -gradient


def _searched(objective: Objective, here: _Point, direction: Array, limit: Array | None) -> _Trial:
    """The first point along `direction`, shortened as often as it takes, where the value falls enough."""
    length = 1.0
    slope = dot(here.gradient, direction)
    for calls in range(1, _TRIALS + 1):
        x = here.x + (direction if length == 1.0 else length * direction)
        promised = length * slope
        if limit is not None:
            np.clip(x, -limit, limit, out=x)
            promised = dot(here.gradient, x - here.x)
        if promised >= 0:
            return _Trial(None, calls - 1)
        there = _Point(x, *objective(x))
        if np.isfinite(there.value) and there.value <= here.value + _ARMIJO * promised:
            return _Trial(there, calls)
        # The parabola through the two values and the slope says where to look next.
        excess = there.value - here.value - promised
        length *= min(0.5, max(0.1, -0.5 * promised / excess)) if np.isfinite(excess) and excess > 0 else 0.1
    return _Trial(None, _TRIALS)
