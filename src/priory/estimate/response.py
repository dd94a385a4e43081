"""Response: how an estimate moves when its answers do, by one step from where it ended.

At temperature λ and centred on the model, a step on its own answers stays where it is, and a step on others moves by
C(C + λΣ)⁻¹ times what was added to them, with C the covariance of the answers under the model. λ is chosen such that
the trace of that, the degrees of freedom, is the one of the estimate: as many directions follow the answers as did when
they were first fitted. Nothing else need be known of how the model was found.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from priory.errors import OptionError
from priory.estimate.dual import Dual, solved
from priory.estimate.estimator import estimate
from priory.estimate.evidence import Evidence
from priory.estimate.loss import L2
from priory.estimate.problem import Problem
from priory.estimate.setting import signs_of
from priory.estimate.tangent import tangent
from priory.estimate.total import TotalEstimate, total_of
from priory.model.model import Model
from priory.model.tilted import Oracle, merged
from priory.privacy.measurement import Measurement
from priory.queries.factor import Array
from priory.queries.query import Query

# The degrees of freedom are met within this share.
_CLOSE = 0.05
_TRIALS = 12
# A step may take long: it must be solved, and not only be on the way.
_SETTINGS = Dual(inner=200)
# What may be left over of how answers move, squared, for each degree of freedom.
_ALONG = 0.01
# What is left of the first temperature where an estimate was run to the end.
_CONVERGED = 1e-3
# Fewer degrees of freedom than this are none.
_NONE = 0.5


@dataclass(frozen=True, eq=False)
class Response:
    """A model that is ready to be moved."""

    model: Model
    evidence: Evidence  # its measurements, with the model's own answers in place of the noisy ones
    measured: Array  # the noisy ones
    total: TotalEstimate  # how the total follows from the answers
    temperature: float  # λ; ∞ where nothing moves the model
    marginals: Array  # the model's marginals on the measured cliques, in records

    @classmethod
    def of(cls, model: Model, measurements: Sequence[Measurement]) -> "Response":
        """How an estimate responds to its measurements.

        Where the model does not say how many degrees of freedom it has, it is estimated anew to see.
        """
        evidence = Evidence.of(model.domain, measurements)
        oracle = model.bind(evidence.layout.cliques)
        marginals = model.total * oracle(np.zeros(evidence.layout.size))[1]
        own = evidence.with_values(evidence.predicted(marginals))
        still = cls(model, own, evidence.values, _total(model, evidence), math.inf, marginals)
        diagnostics = model.diagnostics
        if diagnostics is not None and diagnostics.stop == "converged":
            return replace(still, temperature=_CONVERGED * still._usual_temperature())
        wanted = _degrees_of_freedom(model, measurements)
        return still if wanted < _NONE else replace(still, temperature=still._temperature(oracle, wanted))

    def oracle(self) -> Oracle:
        """One for each thread."""
        return self.model.bind(self.evidence.layout.cliques)

    def moved(self, oracle: Oracle, added: Array) -> tuple[Model, Array]:
        """The model had `added` been added to its answers, and its answers then."""
        values = self.evidence.values + added
        records = self.total(values)
        if math.isinf(self.temperature):
            unmoved = replace(self.model, total=records, diagnostics=None)
            return unmoved, self.evidence.values * records / self.model.total
        alpha, marginals = self._step(oracle, values, records, self.temperature)
        potentials = merged(self.model.potentials, self.evidence.layout.unpack(self.evidence.adjoint(alpha)))
        return Model(self.model.base, potentials, records), self.evidence.predicted(marginals)

    def _step(self, oracle: Oracle, values: Array, records: float, temperature: float) -> tuple[Array, Array]:
        problem = Problem(oracle, L2(self.evidence.with_values(values)), records)
        alpha, marginals, _ = solved(
            problem, np.zeros(self.evidence.size), near=self.marginals, temperature=temperature, settings=_SETTINGS
        )
        return alpha, marginals

    def _temperature(self, oracle: Oracle, wanted: float) -> float:
        """By steps of four until the degrees of freedom lie between two temperatures, then by halves.

        An estimate that took its last step at some temperature follows its answers no less than that step alone would,
        so it is the hottest that is tried. Where colder steps find hardly any more degrees of freedom, there are none.
        """
        last = self._last_temperature()
        temperature = self._usual_temperature() if math.isinf(last) else last
        low, high, before = 0.0, math.inf, -math.inf
        for _ in range(_TRIALS):
            degrees = self._degrees_of_freedom(oracle, temperature)
            is_coldest = low == 0 and degrees - before <= _CLOSE * wanted
            is_hottest = temperature == last and degrees >= wanted
            if is_coldest or is_hottest or abs(degrees - wanted) <= _CLOSE * wanted:
                break
            before = degrees if low == 0 else before
            low, high = (temperature, high) if degrees > wanted else (low, temperature)
            temperature = 4 * low if math.isinf(high) else high / 4 if low == 0 else math.sqrt(low * high)
        return temperature

    def _last_temperature(self) -> float:
        diagnostics = self.model.diagnostics
        steps = [t for level in diagnostics.schedule for t in level.temperatures] if diagnostics else []
        return steps[-1] if steps else math.inf

    def _usual_temperature(self) -> float:
        """One that moves a multiplier by about 1 for an answer that is off by its noise."""
        return 1 / float(np.median(self.evidence.stddevs))

    def _degrees_of_freedom(self, oracle: Oracle, temperature: float) -> float:
        # The signs are those of the estimate itself, so that chance enters both numbers alike.
        signs = signs_of(self.evidence)
        problem = Problem(oracle, L2(self.evidence), self.model.total)
        still = np.zeros(self.evidence.size)
        moved = tangent(
            problem,
            still,
            self.marginals,
            right_hand_side=signs * self.evidence.stddevs,
            center=still,
            temperature=temperature,
            accuracy=_ALONG,
            most=_SETTINGS.inner,
        )
        answers = self.evidence.predicted(moved.marginals) / self.evidence.stddevs
        return float(signs @ answers) + self.total.is_estimated


def without(model: Model, remaining: Sequence[Measurement], query: Query, temperature: float) -> Array:
    """What the model would answer had it been estimated from the `remaining` measurements alone.

    The potentials of the others are taken away, and one step on what remains repairs what else they had explained.
    """
    evidence = Evidence.of(model.domain, remaining)
    known = set(evidence.layout.cliques)
    bare = Model(model.base, {c: factor for c, factor in model.potentials.items() if c in known}, model.total)
    if math.isinf(temperature):
        return bare.answer(query)
    oracle = bare.bind(evidence.layout.cliques)
    start = bare.total * oracle(np.zeros(evidence.layout.size))[1]
    own = evidence.with_values(evidence.predicted(start))
    response = Response(bare, own, evidence.values, TotalEstimate.known(bare.total), temperature, start)
    return response.moved(oracle, evidence.values - own.values)[0].answer(query)


def _degrees_of_freedom(model: Model, measurements: Sequence[Measurement]) -> float:
    if not measurements:
        return 0.0
    known = model.diagnostics.degrees_of_freedom if model.diagnostics else math.nan
    if not math.isnan(known):
        return known
    again = estimate(measurements, model.domain, base=model.base, total=model.total).diagnostics
    return again.degrees_of_freedom if again else 0.0


def _total(model: Model, evidence: Evidence) -> TotalEstimate:
    """How the model's total follows from its answers: not at all if it is not what they give."""
    given = TotalEstimate.known(model.total)
    try:
        counted = total_of(evidence)
    except OptionError:
        return given
    return counted if math.isclose(counted(evidence.values), model.total, rel_tol=1e-9) else given
