"""Refitting: the steps of an estimate repeated on other answers to the same queries, or cut short."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from priory.errors import OptionError
from priory.estimate.dual import Dual, interpolated
from priory.estimate.evidence import Evidence, Implied
from priory.estimate.problem import Start
from priory.estimate.setting import Setting
from priory.estimate.total import TotalEstimate, total_of
from priory.model.diagnostics import ScheduledLevel
from priory.model.model import Model
from priory.privacy.measurement import Measurement
from priory.queries.factor import Array


def refitted(model: Model, measurements: Iterable[Measurement]) -> Model:
    """The estimate from other answers to the queries that `model` was estimated from, by the same steps.

    What `estimate` decided by looking at its answers, how far to go on each level, is taken over and not decided anew.

    Raises:
        OptionError: the model was not estimated by the default solver and stop.
    """
    diagnostics = model.diagnostics
    if diagnostics is None or not diagnostics.schedule:
        raise OptionError("model", "it was not estimated by the default solver with stop='fission'")
    evidence = Evidence.of(model.domain, measurements)
    total = total_of(evidence) if diagnostics.total_stddev else TotalEstimate.known(model.total)
    setting = Setting(model.base, evidence, total, "l2", Dual())
    theta = evidence.adjoint(_by_schedule(setting, diagnostics.schedule))
    return Model(model.base, evidence.layout.unpack(theta), setting.records)


def _by_schedule(setting: Setting, schedule: Sequence[ScheduledLevel]) -> Array:
    """The multipliers of all answers after the steps of a schedule."""
    solver, evidence = Dual(), setting.evidence
    implied = Implied.of(evidence) if any(level.is_implied for level in schedule) else None
    alpha = np.zeros(evidence.size)
    if implied is not None:
        inner = replace(setting, evidence=implied.evidence, total=TotalEstimate.known(setting.records))
        own = [replace(level, is_implied=False) for level in schedule if level.is_implied]
        alpha = implied.multipliers(_by_schedule(inner, own), evidence.size)
    for level in (level for level in schedule if not level.is_implied):
        indices = evidence.indices_of(level.members)
        problem = setting.problem(level.members, evidence.values)
        state = solver.init(problem, Start(multipliers=alpha[indices]))
        for number, temperature in enumerate(level.temperatures, 1):
            before, state = state, solver.step_at(problem, state, temperature)
            if number == len(level.temperatures) and level.share < 1:
                state = interpolated(problem, before, state, level.share)
        alpha[indices] = state.alpha
    return alpha
