"""Prior strength: how many records a public sample counts for, and the most likely model given that.

A sample b of m records of the population says of a model q what m records say, m·KL(q ‖ b) to second order. With the
noise of the measurements the most likely model therefore solves

    minimise  ½ Σ((Qμ − y)/σ)² + m·KL(q ‖ b),

one step of `Dual` from the base at the temperature m/N. Where the sample is of another population it counts for fewer
records: m, the prior sample size, falls while Stein's estimate of the error falls by more than its own error. The
one-way marginals have an m of their own, and the model they give is what the rest starts from, because populations
differ in them most.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from priory.estimate.dual import Cooling, Dual, placed, solved
from priory.estimate.evidence import Evidence, Implied
from priory.estimate.path import of_implied
from priory.estimate.problem import Problem, Start, State
from priory.estimate.risk import SPLIT, CoupledFits, CoupledState, gain_deviation
from priory.estimate.setting import Setting, signs_of
from priory.estimate.total import TotalEstimate
from priory.model.bases import Base, PublicRows
from priory.model.diagnostics import Diagnostics, ScheduledLevel
from priory.model.model import Model
from priory.model.rows import RowsTilted
from priory.privacy.measurement import Measurement
from priory.queries.factor import Array

# The prior sample size is divided by this, and by its square where the fit is far from the answers.
STEP = 10**0.5
# A mean squared misfit, in units of the noise, above which a sample is far off.
FAR = 4.0
# No sample counts for less than this many records, or this part of what it has: below, noise larger than all is fitted.
LEAST_SIZE, LEAST_PART = 10.0, 0.01
MOST_STEPS = 6
# Standard errors of gain it takes to lower the weight of many small samples: among many answers some noise is large.
CAUTION = 2.0
# Rows that hardly fit the answers take long to weigh, and no later step makes good what this one leaves.
SETTINGS = Dual(accuracy=0.005)
# How many places, rows times queries, the search for the prior sample size goes over; more rows are thinned for it.
SEARCHED = 6_000_000
# A step on all rows, from where the search on fewer of them ended, has not far to go; with precise answers it may have:
# the census at ε = 10 errs by 0.0070 on pairs after 40 iterations, by 0.0050 after 120.
REFINED = Dual(accuracy=0.02, inner=120)
# Oracle calls of one step, where they are small, and how many places all of its calls may go over.
_MOST_CALLS, _LEAST_CALLS, _PLACES = 1000, 100, 1_000_000_000
# How such a model says that it stopped, and why.
POSTERIOR = "posterior"
AS_BORNE_OUT = "weigh as much as the noisy answers bear them out."


def posterior(
    measurements: Iterable[Measurement],
    base: Base,
    total: float,
    records: float,
    *,
    searched: int = SEARCHED,
    least: float = 0.0,
) -> Model:
    """The most likely model of `total` records; the base is a sample of `records`, or of fewer where answers say so.

    How many that are, at least the part `least` of them, is searched for on as many rows as make `searched` places,
    rows times queries.
    """
    setting = _setting(measurements, base, total)
    evidence = setting.evidence
    if not evidence.size:
        return Model.of(base, {}, total)
    perturbed = evidence.values + SPLIT * evidence.stddevs * setting.signs
    rows = max(1, searched // len(evidence.queries))
    if not isinstance(base, PublicRows) or len(base.codes) <= rows:
        found = _searched(setting, perturbed, records, least)
    else:
        part = rows / len(base.codes)
        rough = _searched(replace(setting, base=base.thinned(rows)), perturbed, part * records, least)
        found = _refined(setting, perturbed, rough, records, part)
    model = Model.of(base, evidence.layout.unpack(found.answers.fit.theta), total)
    return replace(model, diagnostics=_diagnostics(found.answers, evidence))


@dataclass(frozen=True, eq=False)
class _Found:
    """Fits at the best prior sample sizes."""

    singles: CoupledState | None  # that of the implied one-way marginals; None where they were measured themselves
    answers: CoupledState  # that of all answers


def _searched(setting: Setting, perturbed: Array, records: float, least: float) -> _Found:
    """Look for the prior sample size of single attributes, then for that of all answers, from there."""
    total, implied = setting.records, Implied.of(setting.evidence, beside_measured=True)
    most, lowest = records / total, max(_least(records), least * records) / total
    singles = None
    if implied is not None:
        inner = _coupling(*of_implied(setting, implied, perturbed))
        singles = at_best_temperature(inner, inner.start(), most, lowest)
    coupling = _coupling(setting, perturbed)
    base = coupling.start(*_starts(setting, implied, singles))
    return _Found(singles, at_best_temperature(coupling, base, most, lowest))


def _refined(setting: Setting, perturbed: Array, rough: _Found, records: float, part: float) -> _Found:
    """What was found on a part of the rows, on all of them: a step each, which begins where that one ended."""
    implied = Implied.of(setting.evidence, beside_measured=True)
    singles = None
    if implied is not None and rough.singles is not None:
        inner = _coupling(*of_implied(setting, implied, perturbed))
        singles = _step(inner, inner.start(), rough.singles, records, part)
    coupling = _coupling(setting, perturbed)
    base = coupling.start(*_starts(setting, implied, singles))
    return _Found(singles, _step(coupling, base, rough.answers, records, part))


def _step(coupling: CoupledFits, base: CoupledState, rough: CoupledState, records: float, part: float) -> CoupledState:
    """One step on all rows where one on a part of them was found to be best, or none."""
    problem = coupling.problem
    if math.isinf(rough.fit.temperature):
        return base
    # A sample of r records of another population counts for m, 1/m = 1/r + d: the difference d is that of the part.
    found = rough.fit.temperature * problem.total
    size = 1 / (1 / records + max(0.0, 1 / found - 1 / (part * records)))
    near = problem.marginals(problem.evidence.adjoint(rough.fit.alpha))
    temperature = size / problem.total
    # Where precise answers hardly fit so few rows, what fits these does not fit all: then the base is closer.
    start, near = min(
        ((rough.fit.alpha, near), (base.fit.alpha, base.fit.marginals)), key=lambda each: problem.loss(each[1])[0]
    )
    alpha, marginals, calls = solved(
        problem, base.fit.alpha, near=near, temperature=temperature, settings=REFINED, start=start
    )
    state = replace(base.fit, iteration=1, carry=Cooling(calls), temperature=temperature)
    return coupling.followed(base, placed(problem, state, alpha, marginals, calls=calls))


def _starts(setting: Setting, implied: Implied | None, singles: CoupledState | None) -> list[Start]:
    """Where to start: at multipliers of the measured answers that fit the one-way marginals which they imply."""
    size = setting.evidence.size
    if implied is None or singles is None:
        return [Start(multipliers=np.zeros(size))] * 2
    return [Start(multipliers=implied.multipliers(state.alpha, size)) for state in (singles.fit, singles.perturbed)]


def reweighed(model: Model) -> PublicRows:
    """The rows of a model's base with the weights that the model gives them."""
    tilted = model.base.tilt(model.potentials)
    if not isinstance(tilted, RowsTilted):
        raise TypeError(f"a model of weighted rows is needed, not one of {model.base!r}")
    return PublicRows(tilted.codes, model.domain, tilted.shares)


def _diagnostics(chosen: CoupledState, evidence: Evidence) -> Diagnostics:
    """How the model was found, by which its intervals can be drawn."""
    temperature = chosen.fit.temperature
    # Where the base itself is best, no step was taken.
    step = ScheduledLevel(tuple(range(len(evidence.queries))), (temperature,) if math.isfinite(temperature) else ())
    return Diagnostics(
        solver="Dual",
        stop=POSTERIOR,
        reason=f"The public rows {AS_BORNE_OUT}",
        estimated_error=math.sqrt(max(chosen.error, 0.0) / evidence.size),
        oracle_calls=chosen.calls,
        schedule=(step,),
        degrees_of_freedom=chosen.degrees_of_freedom,
    )


@dataclass(frozen=True, eq=False)
class Sample:
    """Rows that are a sample, what was measured, and how many records there are."""

    base: PublicRows  # the sample
    measurements: Sequence[Measurement]  # what was measured of the records
    total: float  # how many there are

    def model(self, records: float) -> Model:
        """The most likely model at this prior sample size; the base itself where it is infinite."""
        setting = _setting(self.measurements, self.base, self.total)
        if math.isinf(records) or not setting.evidence.size:
            return Model.of(self.base, {}, self.total)
        problem = setting.problem(setting.every_query, setting.evidence.values)
        start = setting.solver.init(problem)
        state = _solved(problem, start, start, start.alpha, records / self.total)
        return Model.of(self.base, problem.loss.layout.unpack(state.theta), self.total)


def common_prior_size(samples: Sequence[Sample], records: float) -> float:
    """One prior sample size for many small estimates, as each one alone is too noisy for one of its own.

    At most `records`, or infinite where no estimate is better than its base.
    """
    couplings, totals = [], []
    for sample in samples:
        setting = _setting(sample.measurements, sample.base, sample.total)
        evidence = setting.evidence
        if evidence.size:
            couplings.append(_coupling(setting, evidence.values + SPLIT * evidence.stddevs * setting.signs))
            totals.append(sample.total)
    bases = [coupling.start() for coupling in couplings]

    def at(size: float, near: list[CoupledState]) -> list[CoupledState]:
        each = zip(couplings, bases, near, totals, strict=True)
        return [_fitted(coupling, base, state, size / total) for coupling, base, state, total in each]

    best = last = at(records, bases)
    best_size = records
    least = _least(records)
    while records > least:
        records /= STEP
        last = at(records, last)
        if _are_better(last, best):
            best, best_size = last, records
        elif sum(state.error for state in last) > sum(state.error for state in best):
            break
    return math.inf if _are_better(bases, best) else best_size


def _are_better(these: Sequence[CoupledState], those: Sequence[CoupledState]) -> bool:
    """`CoupledState.is_better_than` for the sums of many."""
    pairs = list(zip(these, those, strict=True))
    return sum(other.error - one.error for one, other in pairs) > CAUTION * gain_deviation(pairs)


def _setting(measurements: Iterable[Measurement], base: Base, total: float) -> Setting:
    evidence = Evidence.of(base.domain, measurements)
    return Setting(base, evidence, TotalEstimate.known(total), "l2", Dual(), signs=signs_of(evidence))


def at_best_temperature(coupling: CoupledFits, base: CoupledState, temperature: float, least: float) -> CoupledState:
    """The fit at the temperature of least estimated error, from this one down to the least, or the base itself."""
    fits = _approached(coupling, base, temperature)
    fits.append(_fitted(coupling, base, fits[-1], temperature))
    last = fits[-1]
    best = min(fits[1:], key=lambda state: state.error)
    while temperature > least:
        is_far = last.fit.value > FAR / 2 * coupling.problem.evidence.size
        temperature = max(temperature / (STEP**2 if is_far else STEP), least)
        last = _fitted(coupling, base, last, temperature)
        if last.is_better_than(best):
            best = last
        elif last.error > best.error:
            break
    return base if base.is_better_than(best) else best


def _approached(coupling: CoupledFits, base: CoupledState, temperature: float) -> list[CoupledState]:
    """The base, and where answers are far off for their noise, fits at higher temperatures on the way from there."""
    evidence = coupling.problem.evidence
    misfit = np.abs(evidence.predicted(base.fit.marginals) - evidence.values)
    # The first step moves no multiplier by much more than 1.
    steps = math.floor(math.log10(max(float(np.max(misfit / evidence.stddevs**2)) / temperature, 1.0)))
    fits = [base]
    for step in range(min(steps, MOST_STEPS), 0, -1):
        fits.append(_fitted(coupling, base, fits[-1], temperature * 10**step))
    return fits


def _least(records: float) -> float:
    return min(LEAST_SIZE, LEAST_PART * records)


def _coupling(setting: Setting, perturbed: Array) -> CoupledFits:
    return CoupledFits.of(setting, setting.every_query, perturbed, has_estimated_total=False)


def _fitted(coupling: CoupledFits, base: CoupledState, near: CoupledState, temperature: float) -> CoupledState:
    """The fit from the base at one temperature, searched for from a nearby one, and the perturbed fit beside it.

    The perturbed one is not solved for by itself: what either search leaves undone, which rounding decides, would be
    mistaken for degrees of freedom.
    """
    fit = _solved(coupling.problem, base.fit, near.fit, near.fit.alpha, temperature)
    return coupling.followed(base, fit, near)


def _settings(problem: Problem) -> Dual:
    """How long a step may take: as many calls as go over a public number of places."""
    rows = getattr(problem.oracle, "rows", 0)
    calls = _PLACES // max(1, rows * len(problem.evidence.queries))
    return replace(SETTINGS, inner=min(_MOST_CALLS, max(_LEAST_CALLS, calls)))


def _solved(problem: Problem, base: State, near: State, start: Array, temperature: float) -> State:
    alpha, marginals, calls = solved(
        problem, base.alpha, near=near.marginals, temperature=temperature, settings=_settings(problem), start=start
    )
    state = replace(base, iteration=1, carry=Cooling(calls), temperature=temperature)
    return placed(problem, state, alpha, marginals, calls=calls)
