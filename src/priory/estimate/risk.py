"""Risk: the error of a fit, estimated without knowing the truth.

With z a fresh standard normal vector, y + γσz and y − σz/γ are independent if the noise is Gaussian (fission
[Leiner et al. 2023]), so a fit to the first can be checked on the second. Taking from that check what does not depend
on the fit, and using the fit F(y) as a control variate, leaves Stein's estimate of Σ((F(y) − truth)/σ)² with its
divergence taken along one random direction:

    Σ ((y − F(y))/σ)² − 1 + (2/γ) z·(F(y + γσz) − F(y))/σ.

It speaks of the fit to y, not of a fit to noisier data, so the point it prefers needs no carrying over. For `Dual` and
the L2 loss γ tends to 0: the second fit is the first with its tangent along z. z is taken as random signs, which leave
the least variance. Where the total N = w·y is estimated too, it adds Σ w·F/N = 1 to the divergence of any fit with that
total; so both fits share one N, and the 1 is added. All this is post-processing and costs no privacy.
"""

from dataclasses import dataclass, replace

import numpy as np

from priory.estimate.dual import Dual, Multipliers, evidence_of, interpolated, solved
from priory.estimate.loss import L2
from priory.estimate.problem import Problem, Solver, State
from priory.estimate.tangent import Tangent, marginals_along, tangent
from priory.factor import Array

# γ where two fits are compared: they differ by more than the solver's accuracy, and are nearly linear in it.
SPLIT = 0.5
# What may be left over of the second fit's move, squared, for each degree of freedom: at first, and where it decides.
_ROUGH, _SHARP = 0.2, 0.005
# Calls of the oracle that finding that move may take.
_MOST = 100


@dataclass(frozen=True, eq=False)
class Pair:
    """The same solver on y and on y + γσz, in step.

    Attributes:
        mine: the state on y.
        other: the state on y + γσz.
        fitted: the answers of the first, in standard deviations.
        error: the estimated sum of their squared errors, in units of the noise variance.
        freedom: the estimated divergence, the degrees of freedom that the fit has used.
    """

    mine: State
    other: State
    fitted: Array
    error: float
    freedom: float

    @property
    def calls(self) -> int:
        """Oracle calls of both."""
        return self.mine.calls + self.other.calls

    @property
    def apart(self) -> Array:
        """How far the multipliers of the second lie from those of the first; for `Dual` only."""
        apart: Array = self.other.carry.alpha - self.mine.carry.alpha
        return apart

    def is_better_than(self, start: "Pair", caution: float = 1.0) -> bool:
        """Whether the estimated gain over `start` exceeds its own standard error, `caution` times.

        With F the fit here and F₀ the one there, the gain contains 2⟨F − F₀, noise⟩, of deviation 2‖F − F₀‖, and a
        divergence taken along one direction, of variance no more than about eight times itself. Gains below one unit of
        noise are not worth the emptier cells of a colder point.
        """
        return start.error - self.error > caution * self._deviation(start)

    def share_from(self, start: "Pair", caution: float = 1.0) -> float:
        """How much of the way from `start` to here is worth going: 1 or more for all of it, 0 or less for none.

        Along F₀ + t(F − F₀) the estimated error is a parabola, least at t = ½(gain/‖F − F₀‖² + 1), as in Stein's own
        shrinking; half the standard error of the gain, `caution` times, is taken off first.
        """
        moved = self._moved(start)
        gain = start.error - self.error - caution * self._deviation(start)
        return 0.5 * (gain / max(moved, 1e-12) + 1)

    def _moved(self, start: "Pair") -> float:
        return float(np.sum((self.fitted - start.fitted) ** 2))

    def _deviation(self, start: "Pair") -> float:
        freedom = max(0.0, self.freedom - start.freedom)
        return float(np.sqrt(1 + 4 * self._moved(start) + 8 * freedom))


@dataclass(frozen=True, eq=False)
class Race:
    """A solver, the problem with y, the problem with y + γσz, and z.

    Attributes:
        solver: the solver.
        mine: the problem with y.
        other: the problem with y + γσz.
        normals: z.
        has_total: whether the total was estimated from y.
    """

    solver: Solver
    mine: Problem
    other: Problem
    normals: Array
    has_total: bool

    def pair(self, mine: State, other: State) -> Pair:
        """Both states, with the estimated errors of the first."""
        evidence = evidence_of(self.mine)
        fitted = evidence.predicted(mine.marginals) / evidence.stddevs
        moved = evidence.predicted(other.marginals) / evidence.stddevs - fitted
        misfit = evidence.values / evidence.stddevs - fitted
        freedom = float(self.normals @ moved) / SPLIT + self.has_total
        return Pair(mine, other, fitted, float(misfit @ misfit) - evidence.size + 2 * freedom, freedom)

    def start(self, mine: Array | None = None, other: Array | None = None) -> Pair:
        """Both solvers at their first guess."""
        first = self.solver.init(self.mine, mine)
        if not self._is_smooth or mine is None or other is None:
            return self.pair(first, self.solver.init(self.other, other))
        return self.pair(first, self._beside(first, other - mine, calls=0))

    def step(self, pair: Pair) -> Pair:
        """Both solvers one step on."""
        if self._is_smooth:
            return self._along(pair, self.solver.step(self.mine, pair.mine), pair.other.calls, accuracy=_ROUGH)
        if isinstance(self.solver, Dual):
            return self._step_together(self.solver, pair)
        return self.pair(self.solver.step(self.mine, pair.mine), self.solver.step(self.other, pair.other))

    def between(self, start: Pair, end: Pair, share: float) -> Pair:
        """The pair at multipliers a share of the way from one to the other; for `Dual` only."""
        mine = interpolated(self.mine, start.mine, end.mine, share)
        if not self._is_smooth:
            return self.pair(mine, interpolated(self.other, start.other, end.other, share))
        return self.pair(mine, self._beside(mine, start.apart + share * (end.apart - start.apart), end.other.calls))

    @property
    def _is_smooth(self) -> bool:
        """Whether a step's solution moves smoothly with its answers, so that the second one follows from the first."""
        return isinstance(self.solver, Dual) and isinstance(self.mine.loss, L2)

    def _beside(self, mine: State, apart: Array, calls: int) -> State:
        """The second state at multipliers so far from those of the first, its marginals to first order."""
        moved = marginals_along(self.mine, mine.carry.alpha, mine.marginals, apart)
        return self._other(mine, Tangent(apart, moved, calls + 1))

    def sharpened(self, before: Pair, pair: Pair) -> Pair:
        """The pair after `before` with its error estimated as well as it can be."""
        if not self._is_smooth:
            return pair
        return self._along(before, pair.mine, pair.other.calls, accuracy=_SHARP, start=pair.apart / SPLIT)

    def _along(self, before: Pair, mine: State, calls: int, *, accuracy: float, start: Array | None = None) -> Pair:
        """The first state, and what its step becomes where the answers move along z, to first order."""
        moved = tangent(
            self.mine,
            mine.carry.alpha,
            mine.marginals,
            pull=self.normals * evidence_of(self.mine).stddevs,
            center=before.apart / SPLIT,
            temperature=mine.carry.temperature,
            accuracy=accuracy,
            most=_MOST,
            start=start,
        )
        second = Tangent(SPLIT * moved.alpha, SPLIT * moved.marginals, calls + moved.calls)
        return self.pair(mine, self._other(mine, second))

    def _other(self, mine: State, moved: Tangent) -> State:
        alpha, marginals = mine.carry.alpha + moved.alpha, mine.marginals + moved.marginals
        return replace(
            mine,
            theta=evidence_of(self.other).adjoint(alpha),
            marginals=marginals,
            value=self.other.loss(marginals)[0],
            calls=moved.calls,
            carry=replace(mine.carry, alpha=alpha),
        )

    def _step_together(self, solver: Dual, pair: Pair) -> Pair:
        """At one temperature; the second solution lies close to the first, and the search for it begins there."""
        mine = solver.step(self.mine, pair.mine)
        carry: Multipliers = mine.carry
        center: Array = pair.other.carry.alpha
        start = center + carry.alpha - pair.mine.carry.alpha
        alpha, marginals, calls = solved(
            self.other, center, near=mine.marginals, temperature=carry.temperature, settings=solver, start=start
        )
        return self.pair(
            mine,
            self._other(mine, Tangent(alpha - carry.alpha, marginals - mine.marginals, pair.other.calls + calls)),
        )
