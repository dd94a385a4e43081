"""Posterior: the most likely model where the base is a sample of so many records, and how far that is to be believed.

A sample b of m records of the population says of a model q what m records say, m·KL(q ‖ b) to second order. With the
noise of the measurements the most likely model therefore solves

    minimise  ½ Σ((Qμ − y)/σ)² + m·KL(q ‖ b),

one step of `Dual` from the base at the temperature m/N. Where the sample is of another population it is worth fewer
records: m falls while Stein's estimate of the error falls by more than its own error. The one-way marginals have an m
of their own, and the model they give is what the rest starts from, because populations differ in them most.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from priory.estimate.dual import Dual, Multipliers, evidence_of, solved
from priory.estimate.evidence import Evidence, Implied
from priory.estimate.problem import Problem, State
from priory.estimate.risk import SPLIT, Pair, Race
from priory.estimate.stopping import Setting
from priory.factor import Array
from priory.model.bases import Base
from priory.model.diagnostics import Diagnostics, Round
from priory.model.model import Model
from priory.privacy.measurement import Measurement

# What a sample is thought to be worth is divided by this, and by its square where the fit is far from the answers.
STEP = 10**0.5
# A mean squared misfit, in units of the noise, above which a sample is far off.
FAR = 4.0
MOST_STEPS = 14
# Rows that hardly fit the answers take long to weigh, and no later step makes good what this one leaves.
MOST_INNER = 1000
# The mean square, in units of the noise, of what is left unsolved.
NEAR = 0.01
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
    evidence = Evidence.of(base.domain, measurements)
    if not evidence.size:
        return Model.of(base, {}, total)
    normals = np.random.default_rng(SEED).choice([-1.0, 1.0], evidence.size)
    setting = Setting(base, evidence, total, "l2", Dual(), normals=normals)
    start = _Start(np.zeros(evidence.size), np.zeros(evidence.size))
    implied = Implied.of(evidence)
    if implied is not None:
        start = _from_single_attributes(setting, implied, records / total)
    race = _race(setting, evidence.values + SPLIT * evidence.stddevs * normals)
    chosen = believed(race, race.start(start.mine, start.other), records / total)
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


def believed(race: Race, base: Pair, temperature: float) -> Pair:
    """The fit at the temperature that a base deserves: at most this one, or the base itself."""
    best = last = _fitted(race, base, base, temperature)
    for _ in range(MOST_STEPS):
        is_far = last.mine.value > FAR / 2 * evidence_of(race.mine).size
        temperature /= STEP**2 if is_far else STEP
        last = _fitted(race, base, last, temperature)
        if last.is_better_than(best):
            best = last
        elif last.error > best.error:
            break
    return base if base.is_better_than(best) else best


@dataclass(frozen=True, eq=False)
class _Start:
    """Multipliers to start from, for the answers and for their noisier twin."""

    mine: Array
    other: Array


def _from_single_attributes(setting: Setting, implied: Implied, temperature: float) -> _Start:
    """Multipliers of the measured answers that fit the one-way marginals which they imply."""
    noisier = setting.evidence.values + SPLIT * setting.evidence.stddevs * setting.normals
    moved = implied.answers(noisier)
    normals = (moved - implied.evidence.values) / (SPLIT * implied.evidence.stddevs)
    race = _race(replace(setting, evidence=implied.evidence, normals=normals), moved)
    chosen = believed(race, race.start(), temperature)
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
    settings = Dual(accuracy=NEAR, inner=MOST_INNER)
    alpha, marginals, calls = solved(
        problem, base.carry.alpha, near=near.marginals, temperature=temperature, settings=settings, start=start
    )
    theta = evidence.adjoint(alpha)
    carry = Multipliers(alpha, temperature, calls)
    return State(theta, marginals, problem.loss(marginals)[0], 1, calls, (), carry)
