"""Posterior: the most likely model where the base is a sample of so many records, and how far that is to be believed.

A sample b of m records of the population says of a model q what m records say, m·KL(q ‖ b) to second order. With the
noise of the measurements the most likely model therefore solves

    minimise  ½ Σ((Qμ − y)/σ)² + m·KL(q ‖ b),

one step of `Dual` from the base at the temperature m/N. Where the sample is of another population it is worth fewer
records: m falls while Stein's estimate of the error falls by more than its own error. The one-way marginals have an m
of their own, and the model they give is what the rest starts from, because populations differ in them most.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from priory.estimate.dual import Dual, Multipliers, evidence_of, solved
from priory.estimate.evidence import Evidence, Implied
from priory.estimate.path import Setting
from priory.estimate.problem import Problem, State
from priory.estimate.risk import SPLIT, Pair, Race
from priory.factor import Array
from priory.model.bases import Base, PublicRows
from priory.model.diagnostics import Diagnostics, Round
from priory.model.model import Model
from priory.privacy.measurement import Measurement

# What a sample is thought to be worth is divided by this, and by its square where the fit is far from the answers.
STEP = 10**0.5
# A mean squared misfit, in units of the noise, above which a sample is far off.
FAR = 4.0
# No sample is worth less than this many records, or this part of what it has: below, noise larger than all is fitted.
LEAST_WORTH, LEAST_PART = 10.0, 0.01
MOST_STEPS = 6
# Standard errors of gain it takes to believe many small samples less: where answers are many, some noise is large.
CAUTION = 2.0
# Rows that hardly fit the answers take long to weigh, and no later step makes good what this one leaves.
SETTINGS = Dual(accuracy=0.005, inner=1000)
# What the diagnostics of such a model say of how it stopped.
STOP = "posterior"
# Any fixed number will do: the signs must only be independent of the noise, which comes from the operating system.
SEED = 20


def posterior(measurements: Iterable[Measurement], base: Base, total: float, records: float) -> Model:
    """The most likely model of `total` records, where the base is a sample of `records`.

    Args:
        measurements: what was measured, with its noise.
        base: the sample.
        total: how many records there are.
        records: how many the base is worth at most; it is believed less where the measurements say so.
    """
    setting = _setting(measurements, base, total)
    evidence, normals = setting.evidence, setting.normals
    if not evidence.size:
        return Model.of(base, {}, total)
    start = _Start(np.zeros(evidence.size), np.zeros(evidence.size))
    implied = Implied.of(evidence)
    if implied is not None:
        start = _from_single_attributes(setting, implied, records)
    race = _race(setting, evidence.values + SPLIT * evidence.stddevs * normals)
    chosen = believed(race, race.start(start.mine, start.other), records / total, _least(records) / total)
    model = Model.of(base, race.mine.loss.layout.unpack(chosen.mine.theta), total)
    return replace(model, diagnostics=_told(chosen, evidence))


def _told(chosen: Pair, evidence: Evidence) -> Diagnostics:
    """How the model was found, by which its intervals can be drawn."""
    temperature = chosen.mine.carry.temperature
    # Where the base itself is best, no step was taken.
    step = Round(tuple(range(len(evidence.queries))), (temperature,) if math.isfinite(temperature) else ())
    return Diagnostics(
        solver="Dual",
        stop=STOP,
        reason="The public rows are believed as far as the noisy answers bear them out.",
        has_converged=True,
        path=(),
        estimated_error=math.sqrt(max(chosen.error, 0.0) / evidence.size),
        oracle_calls=chosen.calls,
        schedule=(step,),
        freedom=chosen.freedom,
    )


@dataclass(frozen=True, eq=False)
class Sample:
    """Rows that are a sample, what was measured, and how many records there are.

    Attributes:
        base: the sample.
        measurements: what was measured of the records.
        total: how many there are.
    """

    base: PublicRows
    measurements: Sequence[Measurement]
    total: float

    def model(self, records: float) -> Model:
        """The most likely model where the base is worth so many records; the base itself where infinitely many."""
        setting = _setting(self.measurements, self.base, self.total)
        if math.isinf(records) or not setting.evidence.size:
            return Model.of(self.base, {}, self.total)
        problem = setting.problem(range(len(setting.evidence.queries)), setting.evidence.values)
        start = Dual().init(problem)
        found = _solved(problem, start, start, start.carry.alpha, records / self.total)
        return Model.of(self.base, problem.loss.layout.unpack(found.theta), self.total)


def common_worth(samples: Sequence[Sample], records: float) -> float:
    """How many records the bases of many small estimates are worth, one number for all: what one tells is too noisy.

    At most `records`, or infinitely many where no estimate is better than its base.
    """
    races, totals = [], []
    for sample in samples:
        setting = _setting(sample.measurements, sample.base, sample.total)
        evidence = setting.evidence
        if evidence.size:
            races.append(_race(setting, evidence.values + SPLIT * evidence.stddevs * setting.normals))
            totals.append(sample.total)
    bases = [race.start() for race in races]

    def at(worth: float, near: list[Pair]) -> list[Pair]:
        each = zip(races, bases, near, totals, strict=True)
        return [_fitted(race, base, pair, worth / total) for race, base, pair, total in each]

    best = last = at(records, bases)
    best_worth = records
    least = _least(records)
    while records > least:
        records /= STEP
        last = at(records, last)
        if _are_better(last, best):
            best, best_worth = last, records
        elif sum(pair.error for pair in last) > sum(pair.error for pair in best):
            break
    return math.inf if _are_better(bases, best) else best_worth


def _are_better(these: Sequence[Pair], those: Sequence[Pair]) -> bool:
    """`Pair.is_better_than` for the sums of many."""
    gain = sum(other.error - one.error for one, other in zip(these, those, strict=True))
    moved = sum(float(np.sum((a.fitted - b.fitted) ** 2)) for a, b in zip(these, those, strict=True))
    freedom = sum(max(0.0, a.freedom - b.freedom) for a, b in zip(these, those, strict=True))
    return gain > CAUTION * math.sqrt(1 + 4 * moved + 8 * freedom)


def _setting(measurements: Iterable[Measurement], base: Base, total: float) -> Setting:
    evidence = Evidence.of(base.domain, measurements)
    normals = np.random.default_rng(SEED).choice([-1.0, 1.0], evidence.size)
    return Setting(base, evidence, total, "l2", Dual(), normals=normals)


def believed(race: Race, base: Pair, temperature: float, least: float) -> Pair:
    """The fit at the temperature that a base deserves, from this one down to the least, or the base itself."""
    fits = _approached(race, base, temperature)
    fits.append(_fitted(race, base, fits[-1], temperature))
    last = fits[-1]
    best = min(fits[1:], key=lambda pair: pair.error)
    while temperature > least:
        is_far = last.mine.value > FAR / 2 * evidence_of(race.mine).size
        temperature = max(temperature / (STEP**2 if is_far else STEP), least)
        last = _fitted(race, base, last, temperature)
        if last.is_better_than(best):
            best = last
        elif last.error > best.error:
            break
    return base if base.is_better_than(best) else best


def _approached(race: Race, base: Pair, temperature: float) -> list[Pair]:
    """The base, and where answers are far off for their noise, fits at higher temperatures on the way from there."""
    evidence = evidence_of(race.mine)
    misfit = np.abs(evidence.predicted(base.mine.marginals) - evidence.values)
    # The first step moves no multiplier by much more than 1.
    steps = math.floor(math.log10(max(float(np.max(misfit / evidence.stddevs**2)) / temperature, 1.0)))
    fits = [base]
    for step in range(min(steps, MOST_STEPS), 0, -1):
        fits.append(_fitted(race, base, fits[-1], temperature * 10**step))
    return fits


def _least(records: float) -> float:
    return min(LEAST_WORTH, LEAST_PART * records)


@dataclass(frozen=True, eq=False)
class _Start:
    """Multipliers to start from, for the answers and for their noisier twin."""

    mine: Array
    other: Array


def _from_single_attributes(setting: Setting, implied: Implied, records: float) -> _Start:
    """Multipliers of the measured answers that fit the one-way marginals which they imply."""
    noisier = setting.evidence.values + SPLIT * setting.evidence.stddevs * setting.normals
    moved = implied.answers(noisier)
    normals = (moved - implied.evidence.values) / (SPLIT * implied.evidence.stddevs)
    race = _race(replace(setting, evidence=implied.evidence, normals=normals), moved)
    total = setting.records
    chosen = believed(race, race.start(), records / total, _least(records) / total)
    size = setting.evidence.size
    return _Start(*(implied.multipliers(state.carry.alpha, size) for state in (chosen.mine, chosen.other)))


def _race(setting: Setting, noisier: Array) -> Race:
    members = range(len(setting.evidence.queries))
    mine, other = (setting.problem(members, values) for values in (setting.evidence.values, noisier))
    return Race(setting.solver, mine, other, setting.normals, has_total=False)


def _fitted(race: Race, base: Pair, near: Pair, temperature: float) -> Pair:
    """Both fits from the base at one temperature, searched for from nearby ones."""
    mine = _solved(race.mine, base.mine, near.mine, near.mine.carry.alpha, temperature)
    start = near.other.carry.alpha + mine.carry.alpha - near.mine.carry.alpha
    return race.pair(mine, _solved(race.other, base.other, mine, start, temperature))


def _solved(problem: Problem, base: State, near: State, start: Array, temperature: float) -> State:
    evidence = evidence_of(problem)
    alpha, marginals, calls = solved(
        problem, base.carry.alpha, near=near.marginals, temperature=temperature, settings=SETTINGS, start=start
    )
    theta = evidence.adjoint(alpha)
    carry = Multipliers(alpha, temperature, calls)
    return State(theta, marginals, problem.loss(marginals)[0], 1, calls, (), carry)
