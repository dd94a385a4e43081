"""L-BFGS: the limited-memory quasi-Newton method [Nocedal 1980], within a box where there is one.

Arrays are NumPy's, or tensors on a device. With SciPy's L-BFGS-B in its place an estimate takes 3 to 13 times as long.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import numpy as np

from priory.estimate.products import dot
from priory.queries.factor import Array

# On graphical models two pairs need as many calls as forty: what is slow is not in so few directions.
_MEMORY = 3
_TRIALS = 30
_ARMIJO = 1e-4

Objective = Callable[[Array], tuple[float, Array]]
Dot = Callable[[Any, Any], Any]


class Point(Protocol):
    """Where a search is."""

    @property
    def x(self) -> Any:  # noqa: ANN401
        """The unknowns."""

    @property
    def value(self) -> float:
        """The objective there."""

    @property
    def gradient(self) -> Any:  # noqa: ANN401
        """Its gradient there."""


P = TypeVar("P", bound=Point)


class Memory:
    """The latest moves and turns of the gradient."""

    def __init__(self, size: int, dot: Dot) -> None:
        self._size, self._dot = size, dot
        self.pairs: list[tuple[Any, Any, Any]] = []

    def learn(self, move: Any, turn: Any) -> None:  # noqa: ANN401
        """Take in a pair, unless the objective does not curve along it; the oldest one gives way."""
        curvature = self._dot(move, turn)
        if curvature > 0 and 1 / curvature < math.inf:
            self.pairs = [*self.pairs, (move, turn, 1 / curvature)][-self._size :]

    def direction(self, gradient: Any, first: Callable[[Any], Any]) -> Any:  # noqa: ANN401
        """Minus the inverse Hessian times the gradient, of which `first` is what is known without any pair."""
        left, steps = gradient, []
        for move, turn, scale in reversed(self.pairs):
            steps.append(scale * self._dot(move, left))
            left = left - steps[-1] * turn
        direction = first(left)
        for (move, turn, scale), step in zip(self.pairs, reversed(steps), strict=True):
            direction = direction + (step - scale * self._dot(turn, direction)) * move
        return -direction

    def scaled(self, left: Any) -> Any:  # noqa: ANN401
        """A vector as long as the last pair says; as it is before there is one."""
        if not self.pairs:
            return left
        _, turn, scale = self.pairs[-1]
        return left / (scale * self._dot(turn, turn))


@dataclass(frozen=True, eq=False)
class Searched(Generic[P]):
    """What a search along a direction found; no point where it does not fall."""

    point: P | None
    calls: int


def searched(
    at: Callable[[Any], P],
    here: P,
    direction: Any,  # noqa: ANN401
    *,
    dot: Dot,
    most: int,
    limit: Array | None = None,
) -> Searched[P]:
    """The first point along a direction, shortened as often as it takes, where the value falls enough."""
    slope, length = float(dot(here.gradient, direction)), 1.0
    for calls in range(1, most + 1):
        x = here.x + length * direction
        promised = length * slope
        if limit is not None:
            np.clip(x, -limit, limit, out=x)
            promised = float(dot(here.gradient, x - here.x))
        if not promised < 0:
            return Searched(None, calls - 1)
        there = at(x)
        if math.isfinite(there.value) and there.value <= here.value + _ARMIJO * promised:
            return Searched(there, calls)
        # The parabola through the two values and the slope says where to look next.
        excess = there.value - here.value - promised
        length *= min(0.5, max(0.1, -0.5 * promised / excess)) if math.isfinite(excess) and excess > 0 else 0.1
    return Searched(None, most)


@dataclass(frozen=True, eq=False)
class Minimum:
    """Where the search ended."""

    x: Array  # the point
    steepness: float  # the squared norm of the gradient there, without what pushes against the box
    calls: int  # how often the objective was called


@dataclass(frozen=True, eq=False)
class _Point:
    x: Array
    value: float
    gradient: Array


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

    The objective gives value and gradient, which is a new array. `limit` is the half-width of the box for each unknown,
    without a box where it is None. `weights` multiply the gradient's entries in its norm.
    """

    def at(x: Array) -> _Point:
        return _Point(x, *objective(x))

    here = at(start.copy() if limit is None else np.clip(start, -limit, limit))
    memory, calls = Memory(_MEMORY, dot), 1
    for _ in range(iterations):
        free = _free(here, limit)
        if _steepness(free, weights) <= goal:
            break
        direction = memory.direction(free, memory.scaled)
        if free is not here.gradient:
            direction[free == 0] = 0.0
        if not dot(direction, free) < 0:
            direction = -free
        found = searched(at, here, direction, dot=dot, most=_TRIALS, limit=limit)
        calls += found.calls
        if found.point is None:
            # Rounding hides any further fall along a direction from memory; the gradient itself may still give one.
            if not memory.pairs:
                break
            memory.pairs.clear()
            continue
        memory.learn(found.point.x - here.x, found.point.gradient - here.gradient)
        here = found.point
    return Minimum(here.x, _steepness(_free(here, limit), weights), calls)


def _free(here: _Point, limit: Array | None) -> Array:
    """The gradient, without the entries that push against the box."""
    if limit is None:
        return here.gradient
    pressed = (np.abs(here.x) >= limit) & (here.x * here.gradient < 0)
    return np.where(pressed, 0.0, here.gradient) if pressed.any() else here.gradient


def _steepness(gradient: Array, weights: Array | None) -> float:
    weighted = gradient if weights is None else gradient * weights
    return dot(weighted, weighted)
