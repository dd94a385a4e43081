"""L-BFGS: the limited-memory quasi-Newton method within a box, lean enough that the oracle is what costs.

SciPy's L-BFGS-B spends several times the oracle's time on its own bookkeeping for the tens of thousands of unknowns met
here, and cannot be told when the squared gradient is small enough.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from priory.factor import Array

_MEMORY = 8
_TRIALS = 30
_ARMIJO = 1e-4

Objective = Callable[[Array], tuple[float, Array]]


@dataclass(frozen=True, eq=False)
class Minimum:
    """Where the search ended.

    Attributes:
        x: the point.
        steepness: the squared norm of the gradient there, without what pushes against the box.
        calls: how often the objective was called.
    """

    x: Array
    steepness: float
    calls: int


def minimised(
    objective: Objective, start: Array, *, goal: float, iterations: int, limit: Array | float = np.inf
) -> Minimum:
    """Minimise a smooth convex function over |x| ≤ limit, until its squared gradient is at most `goal`.

    Args:
        objective: x to (value, gradient).
        start: where to begin.
        goal: the squared norm of the gradient that is small enough.
        iterations: how many steps may be taken.
        limit: the half-width of the box for each unknown.
    """
    x = np.clip(start, -limit, limit)
    value, gradient = objective(x)
    memory: deque[tuple[Array, Array, float]] = deque(maxlen=_MEMORY)
    calls = 1
    for _ in range(iterations):
        free = _free(x, gradient, limit)
        if float(free @ free) <= goal:
            break
        direction = np.where(free == 0, 0.0, _direction(free, memory))
        trial = _searched(objective, _Point(x, value, gradient), direction, limit)
        calls += trial.calls
        if trial.point is None:
            # Rounding hides any further fall along a direction from memory; the gradient itself may still give one.
            if not memory:
                break
            memory.clear()
            continue
        move, turn = trial.point.x - x, trial.point.gradient - gradient
        curvature = float(move @ turn)
        if curvature > 1e-12 * float(turn @ turn):
            memory.append((move, turn, curvature))
        x, value, gradient = trial.point.x, trial.point.value, trial.point.gradient
    free = _free(x, gradient, limit)
    return Minimum(x, float(free @ free), calls)


@dataclass(frozen=True, eq=False)
class _Point:
    x: Array
    value: float
    gradient: Array


@dataclass(frozen=True, eq=False)
class _Trial:
    point: _Point | None
    calls: int


def _free(x: Array, gradient: Array, limit: Array | float) -> Array:
    """The gradient, without the entries that push against the box."""
    if np.ndim(limit) == 0 and np.isinf(limit):
        return gradient
    return np.where((np.abs(x) >= limit) & (x * gradient < 0), 0.0, gradient)


def _direction(gradient: Array, memory: deque[tuple[Array, Array, float]]) -> Array:
    """Minus the inverse Hessian of memory times the gradient: the two-loop recursion [Nocedal 1980]."""
    direction = -gradient
    weights = []
    for move, turn, curvature in reversed(memory):
        weights.append(float(move @ direction) / curvature)
        direction -= weights[-1] * turn
    if memory:
        _, turn, curvature = memory[-1]
        direction *= curvature / float(turn @ turn)
    for (move, turn, curvature), weight in zip(memory, reversed(weights), strict=True):
        direction += (weight - float(turn @ direction) / curvature) * move
    return direction if float(direction @ gradient) < 0 else -gradient


def _searched(objective: Objective, here: _Point, direction: Array, limit: Array | float) -> _Trial:
    """The first point along `direction`, shortened as often as it takes, where the value falls enough."""
    length = 1.0
    for calls in range(1, _TRIALS + 1):
        x = np.clip(here.x + length * direction, -limit, limit)
        promised = float(here.gradient @ (x - here.x))
        if promised >= 0:
            return _Trial(None, calls - 1)
        there = _Point(x, *objective(x))
        if np.isfinite(there.value) and there.value <= here.value + _ARMIJO * promised:
            return _Trial(there, calls)
        # The parabola through the two values and the slope says where to look next.
        excess = there.value - here.value - promised
        length *= min(0.5, max(0.1, -0.5 * promised / excess)) if np.isfinite(excess) and excess > 0 else 0.1
    return _Trial(None, _TRIALS)
