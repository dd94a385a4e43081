"""Row weights: the weights of rows that fit noisy answers and stay as close as they can to those the rows came with.

Of rows with shares b that are worth m records, the most likely weights q of n records solve

    minimise  ½ Σ((n·Tq − y)/σ)² + m·KL(q ‖ b),

with T the answers of each row. The search goes over the logarithms of q/b, a number for each row, however many cells
the answers have. Divided by q, the gradient is m·log(q/b) + n·Tᵀ(n·Tq − y)/σ², but for a constant: at the minimum every
row is pulled up by the answers as far as its own weight pulls it back. By these natural gradients L-BFGS needs a few
dozen calls, each a sum over rows and one over cells for every answer.

How the weights move with the answers follows from the same products, by conjugate gradients: the degrees of freedom of
the fit, and with them Stein's estimate of its error, which chooses m.
"""

import math
from dataclasses import dataclass
from functools import partial
from typing import Any

from priory.estimate.lbfgs import Memory, searched
from priory.estimate.rows.answers import Answers

# Pairs of moves and turns that shape a direction: with ten a fit takes half as many calls again.
_MEMORY = 30
_TRIALS = 12
# The weight of a row that is taken for none.
_NOTHING = 1e-30
# A fit has converged where this many steps lowered the objective by less than this part of the whole fall.
_STEPS, _FLAT = 6, 0.002
# Calls that the degrees of freedom may take, and the part of themselves below which what a call adds is nothing. With
# five times as much they are short by a tenth where weights hardly hold back, which are then taken for the best.
_PROBES, _SETTLED = 80, 0.0005


@dataclass(frozen=True, eq=False)
class Weights:
    """Weights of rows, and how well they fit."""

    logs: Any  # of each row's weight over the one it came with, but for a constant
    shares: Any  # the weights, adding up to 1
    records: float  # m, how many records the rows as they came are worth
    value: float  # the objective
    misfit: float  # Σ((n·Tq − y)/σ)² over all answers
    pull: Any  # the natural gradient

    @property
    def x(self) -> Any:  # noqa: ANN401
        """The unknowns of the search."""
        return self.logs

    @property
    def gradient(self) -> Any:  # noqa: ANN401
        """The gradient of the objective along them."""
        return self.shares * self.pull


@dataclass(frozen=True, eq=False)
class RowFits:
    """Fits of the weights of rows, at any m."""

    answers: Answers  # what they are fitted to
    base_logs: Any  # the logarithms of the shares that the rows came with

    def start(self, records: float) -> Weights:
        """The rows as they came."""
        return self.at(0.0 * self.base_logs, records)

    def fitted(self, start: Weights, most: int) -> Weights:
        """The weights of least objective, in at most so many calls, searched for from these on."""
        here, memory, calls = start, Memory(_MEMORY, self.answers.dot), 0
        values = [start.value]

        def at(logs: Any) -> Weights:  # noqa: ANN401
            return self.at(logs, here.records)

        while calls < most:
            direction = memory.direction(here.gradient, partial(self._first, here, memory))
            found = searched(at, here, direction, dot=self.answers.dot, most=min(_TRIALS, most - calls))
            calls += max(1, found.calls)
            if found.point is None:
                if not memory.pairs:
                    break
                memory.pairs.clear()
                continue
            memory.learn(found.point.x - here.x, found.point.gradient - here.gradient)
            here = found.point
            values.append(here.value)
            if len(values) > _STEPS and values[-1 - _STEPS] - values[-1] < _FLAT * (values[0] - values[-1]):
                break
        return here

    def _first(self, here: Weights, memory: Memory, left: Any) -> Any:  # noqa: ANN401
        """What the weights alone say of the inverse Hessian: as long as the last pair says."""
        stiffness = here.records * (here.shares + _NOTHING)
        if not memory.pairs:
            # At first no logarithm moves by over 1.
            length = min(1.0, here.records / max(float(abs(here.pull).max()), 1e-300))
        else:
            _, turn, scale = memory.pairs[-1]
            length = 1 / (scale * max(float(self.answers.dot(turn / stiffness, turn)), 1e-300))
        return length * (left / stiffness)

    def degrees_of_freedom(self, fit: Weights, signs: Any) -> float:  # noqa: ANN401
        """How much answers of the fit follow the noisy ones, by how they move along random signs of noise."""
        answers = self.answers
        sought = self._centred(fit, answers.total * answers.pulled(signs * answers.precision**0.5))
        residual, direction = sought, 0.0 * sought
        steepness, degrees = math.inf, 0.0
        for _ in range(_PROBES):
            before, steepness = steepness, float(answers.dot(fit.shares * residual, residual))
            if not steepness > 0:
                break
            direction = residual + (steepness / before) * direction
            turned = self._turned(fit, direction)
            curvature = float(answers.dot(fit.shares * direction, turned))
            # Numbers so small that their squares are nothing add nothing.
            if not curvature > 0:
                break
            length = steepness / curvature
            # Along conjugate directions what each adds to the product of the solution with the right-hand side is
            # known at once.
            added = length * steepness
            degrees += added
            residual = residual - length * turned
            if added < _SETTLED * degrees:
                break
        return degrees

    def _turned(self, fit: Weights, direction: Any) -> Any:  # noqa: ANN401
        """The second derivative of the objective along a direction, divided by the weights."""
        answers = self.answers
        moved = answers.predicted(fit.shares * direction) * answers.precision
        return fit.records * direction + self._centred(fit, answers.total * answers.pulled(moved))

    def _centred(self, fit: Weights, rows: Any) -> Any:  # noqa: ANN401
        return rows - self.answers.dot(fit.shares, rows)

    def at(self, logs: Any, records: float) -> Weights:  # noqa: ANN401
        """Given weights, as a fit at this m would see them."""
        answers = self.answers
        weighted = self.base_logs + logs
        top = float(weighted.max())
        shares = answers.exp(weighted - top)
        mass = float(shares.sum())
        shares = shares / mass
        beyond = answers.predicted(shares) - answers.values
        scaled = beyond * answers.precision
        misfit = float(answers.dot(beyond, scaled))
        gained = logs - (top + math.log(mass))
        value = misfit / 2 + records * float(answers.dot(shares, gained))
        pull = answers.total * answers.pulled(scaled) + records * gained
        pull = pull - answers.dot(shares, pull)
        return Weights(logs, shares, records, value, misfit + answers.outside, pull)
