"""Risk: the error of a fit, estimated without knowing the truth.

With z a fresh standard normal vector, y + γσz and y − σz/γ are independent if the noise is Gaussian (fission
[Leiner, Duan, Wasserman & Ramdas 2025]), so a fit to the first can be checked on the second. Taking from that check
what does not depend on the fit, and using the fit F(y) as a control variate, leaves Stein's estimate of
Σ((F(y) − truth)/σ)² with its divergence taken along one random direction:

    Σ ((y − F(y))/σ)² − 1 + (2/γ) z·(F(y + γσz) − F(y))/σ.

It speaks of the fit to y, not of a fit to noisier data, so the point it prefers needs no carrying over. For solvers
with multipliers and a smooth loss γ tends to 0: the perturbed fit is the fit with its tangent along z. z is taken as
random signs, which leave the least variance. Where the total N = w·y is estimated too, it adds Σ w·F/N = 1 to the
divergence of any fit with that total; so both fits share one N, and the 1 is added. All this is post-processing and
costs no privacy.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from priory.estimate.dual import interpolated, placed
from priory.estimate.problem import BASE, Problem, Solver, Start, State
from priory.estimate.products import dot
from priory.estimate.setting import Setting
from priory.estimate.tangent import Tangent, marginals_along, tangent
from priory.queries.factor import Array

# γ where two fits are compared: they differ by more than the solver's accuracy, and are nearly linear in it.
SPLIT = 0.5
# What may be left over of the tangent, squared, for each degree of freedom: at first, and where it decides.
_ROUGH, _SHARP = 0.2, 0.005
# Calls of the oracle that finding the tangent may take.
_MOST = 100


@dataclass(frozen=True, eq=False)
class CoupledState:
    """A fit to y and the same solver's fit to y + γσz, after as many steps."""

    fit: State  # the state on y
    perturbed: State  # the state on y + γσz
    fitted: Array  # the answers of the fit, in standard deviations
    error: float  # the estimated sum of their squared errors, in units of the noise variance
    degrees_of_freedom: float  # the estimated divergence, the degrees of freedom that the fit has used

    @property
    def calls(self) -> int:
        """Oracle calls of both."""
        return self.fit.calls + self.perturbed.calls

    @property
    def perturbation(self) -> Array:
        """The multipliers of the perturbed fit less those of the fit."""
        return self.perturbed.alpha - self.fit.alpha

    def is_better_than(self, start: "CoupledState", caution: float = 1.0) -> bool:
        """Whether the estimated gain over `start` exceeds its own standard error, `caution` times."""
        return start.error - self.error > caution * gain_deviation([(self, start)])

    def share_from(self, start: "CoupledState", caution: float = 1.0) -> float:
        """How much of the way from `start` to here to go: 1 or more for all of it, 0 or less for none."""
        # Along F₀ + t(F − F₀) the estimated error is a parabola, least at t = ½(gain/‖F − F₀‖² + 1), as in Stein's own
        # shrinking; half the standard error of the gain, `caution` times, is taken off first.
        gain = start.error - self.error - caution * gain_deviation([(self, start)])
        return 0.5 * (gain / max(self.squared_move(start), 1e-12) + 1)

    def squared_move(self, start: "CoupledState") -> float:
        """‖F − F₀‖², with F the fit here and F₀ the one at `start`."""
        return float(np.sum((self.fitted - start.fitted) ** 2))


def gain_deviation(pairs: list[tuple[CoupledState, CoupledState]]) -> float:
    """The standard error of the gain, in estimated error, of each pair's first over its second, all together."""
    # With F the fit of the first and F₀ that of the second, the gain contains 2⟨F − F₀, noise⟩, of deviation 2‖F − F₀‖,
    # and a divergence taken along one direction, of variance no more than about eight times itself. Gains below one
    # unit of noise do not make up for the emptier cells of a colder point.
    moved = sum(end.squared_move(start) for end, start in pairs)
    divergence = sum(max(0.0, end.degrees_of_freedom - start.degrees_of_freedom) for end, start in pairs)
    return float(np.sqrt(1 + 4 * moved + 8 * divergence))


@dataclass(frozen=True, eq=False)
class CoupledFits:
    """A solver on the problem with y and on the problem with y + γσz."""

    solver: Solver  # the solver
    problem: Problem  # the problem with y
    perturbed: Problem  # the problem with y + γσz
    signs: Array  # z
    has_estimated_total: bool  # whether the total was estimated from y

    @classmethod
    def of(
        cls, setting: Setting, members: Sequence[int], perturbed: Array, *, has_estimated_total: bool
    ) -> "CoupledFits":
        """The fits to the queries with these numbers, when the answers to all are those of `setting` or `perturbed`."""
        fit, other = (setting.problem(members, values) for values in (setting.evidence.values, perturbed))
        signs = setting.signs[setting.evidence.indices_of(members)]
        return cls(setting.solver, fit, other, signs, has_estimated_total)

    def coupled(self, fit: State, perturbed: State) -> CoupledState:
        """Both states, with the estimated error of the first."""
        evidence = self.problem.evidence
        fitted = evidence.predicted(fit.marginals) / evidence.stddevs
        moved = evidence.predicted(perturbed.marginals) / evidence.stddevs - fitted
        misfit = evidence.values / evidence.stddevs - fitted
        divergence = dot(self.signs, moved) / SPLIT + self.has_estimated_total
        return CoupledState(fit, perturbed, fitted, dot(misfit, misfit) - evidence.size + 2 * divergence, divergence)

    def start(self, fit: Start = BASE, perturbed: Start = BASE) -> CoupledState:
        """Both solvers at their first guess."""
        first = self.solver.init(self.problem, fit)
        if not self._has_tangent or fit.multipliers is None or perturbed.multipliers is None:
            return self.coupled(first, self.solver.init(self.perturbed, perturbed))
        return self.coupled(first, self._beside(first, perturbed.multipliers - fit.multipliers, calls=0))

    def step(self, state: CoupledState) -> CoupledState:
        """Both solvers one step on."""
        after = self.solver.step(self.problem, state.fit)
        if self._has_tangent:
            return self.followed(state, after)
        return self.coupled(after, self.solver.follow(self.perturbed, state.perturbed, state.fit, after))

    def followed(self, before: CoupledState, fit: State, near: CoupledState | None = None) -> CoupledState:
        """A fit that one step from `before` led to, and how it moves with its answers; sharply, from that of `near`."""
        start, accuracy = (None, _ROUGH) if near is None else (near.perturbation / SPLIT, _SHARP)
        return self._along(before, fit, before.perturbed.calls, accuracy=accuracy, start=start)

    def between(self, start: CoupledState, end: CoupledState, share: float) -> CoupledState:
        """Both states at multipliers a share of the way from `start` to `end`."""
        fit = interpolated(self.problem, start.fit, end.fit, share)
        if not self._has_tangent:
            return self.coupled(fit, interpolated(self.perturbed, start.perturbed, end.perturbed, share))
        perturbation = start.perturbation + share * (end.perturbation - start.perturbation)
        return self.coupled(fit, self._beside(fit, perturbation, end.perturbed.calls))

    def sharpened(self, before: CoupledState, state: CoupledState) -> CoupledState:
        """The state after `before` with its error estimated as well as it can be."""
        if not self._has_tangent:
            return state
        start = state.perturbation / SPLIT
        return self._along(before, state.fit, state.perturbed.calls, accuracy=_SHARP, start=start)

    @property
    def _has_tangent(self) -> bool:
        """Whether a step's solution moves smoothly with its answers, so that the perturbed one follows from it."""
        return self.solver.traits.has_multipliers and self.problem.loss.is_smooth

    def _beside(self, fit: State, perturbation: Array, calls: int) -> State:
        """The perturbed state at multipliers so far from those of the fit, its marginals to first order."""
        moved = marginals_along(self.problem, fit.alpha, fit.marginals, perturbation)
        return self._moved(fit, Tangent(perturbation, moved, calls + 1))

    def _along(
        self, before: CoupledState, fit: State, calls: int, *, accuracy: float, start: Array | None = None
    ) -> CoupledState:
        """The fit, and what its step becomes where the answers move along z, to first order."""
        moved = tangent(
            self.problem,
            fit.alpha,
            fit.marginals,
            right_hand_side=self.signs * self.problem.evidence.stddevs,
            center=before.perturbation / SPLIT,
            temperature=fit.temperature,
            accuracy=accuracy,
            most=_MOST,
            start=start,
        )
        scaled = Tangent(SPLIT * moved.alpha, SPLIT * moved.marginals, calls + moved.calls)
        return self.coupled(fit, self._moved(fit, scaled))

    def _moved(self, fit: State, by: Tangent) -> State:
        return placed(self.perturbed, fit, fit.alpha + by.alpha, fit.marginals + by.marginals, calls=by.calls)
