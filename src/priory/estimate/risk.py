"""Risk: the error of a fit, estimated without knowing the truth.

With z a fresh standard normal vector, y + γσz and y − σz/γ are independent if the noise is Gaussian (fission
[Leiner et al. 2023]), so a fit to the first can be checked on the second. Taking from that check what does not depend
on the fit, and using the fit F(y) as a control variate, leaves Stein's estimate of Σ((F(y) − truth)/σ)² with its
divergence taken along one random direction:

    Σ ((y − F(y))/σ)² − 1 + (2/γ) z·(F(y + γσz) − F(y))/σ.

It speaks of the fit to y, not of a fit to noisier data, so the point it prefers needs no carrying over; the total is
estimated anew for each set of answers. It is post-processing and costs no privacy.
"""

from dataclasses import dataclass, replace

import numpy as np

from priory.estimate.dual import Dual, Multipliers, evidence_of, solved
from priory.estimate.problem import Problem, Solver, State
from priory.factor import Array

# γ: large enough that fits differ by more than the solver's accuracy, small enough that they are nearly linear in it.
SPLIT = 0.5


@dataclass(frozen=True, eq=False)
class Pair:
    """The same solver on y and on y + γσz, in step.

    Attributes:
        mine: the state on y.
        other: the state on y + γσz.
        errors: the estimated squared error of each answer, in units of its noise variance.
    """

    mine: State
    other: State
    errors: Array

    @property
    def error(self) -> float:
        """The estimated sum of squared errors."""
        return float(self.errors.sum())

    @property
    def calls(self) -> int:
        """Oracle calls of both."""
        return self.mine.calls + self.other.calls

    def is_better_than(self, start: "Pair") -> bool:
        """Whether the estimated gain over `start` exceeds its own standard error."""
        gains = start.errors - self.errors
        return float(gains.sum()) > float(np.sqrt(np.sum((gains - gains.mean()) ** 2)))


@dataclass(frozen=True, eq=False)
class Race:
    """A solver, the problem with y, the problem with y + γσz, and z.

    Attributes:
        solver: the solver.
        mine: the problem with y.
        other: the problem with y + γσz.
        normals: z.
    """

    solver: Solver
    mine: Problem
    other: Problem
    normals: Array

    def pair(self, mine: State, other: State) -> Pair:
        """Both states, with the estimated errors of the first."""
        evidence = evidence_of(self.mine)
        here = evidence.predicted(mine.marginals)
        misfit = (evidence.values - here) / evidence.stddevs
        moved = (evidence.predicted(other.marginals) - here) / evidence.stddevs
        return Pair(mine, other, misfit**2 - 1 + 2 / SPLIT * self.normals * moved)

    def start(self, mine: Array | None = None, other: Array | None = None) -> Pair:
        """Both solvers at their first guess."""
        return self.pair(self.solver.init(self.mine, mine), self.solver.init(self.other, other))

    def step(self, pair: Pair) -> Pair:
        """Both solvers one step on."""
        if isinstance(self.solver, Dual):
            return self._step_together(self.solver, pair)
        return self.pair(self.solver.step(self.mine, pair.mine), self.solver.step(self.other, pair.other))

    def _step_together(self, solver: Dual, pair: Pair) -> Pair:
        """At one temperature; the second solution lies close to the first, and the search for it begins there."""
        mine = solver.step(self.mine, pair.mine)
        carry: Multipliers = mine.carry
        center: Array = pair.other.carry.alpha
        start = center + carry.alpha - pair.mine.carry.alpha
        alpha, marginals, calls = solved(
            self.other, center, near=mine.marginals, temperature=carry.temperature, settings=solver, start=start
        )
        other = replace(
            pair.other,
            theta=evidence_of(self.other).adjoint(alpha),
            marginals=marginals,
            value=self.other.loss(marginals)[0],
            iteration=mine.iteration,
            calls=pair.other.calls + calls,
            carry=replace(carry, alpha=alpha),
        )
        return self.pair(mine, other)
