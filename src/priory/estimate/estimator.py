"""Estimator: the verb `estimate`, from measurements to a model with its diagnostics."""

import math
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Literal

import numpy as np

from priory.domain import Domain
from priory.errors import DomainError, OptionError
from priory.estimate.dual import Dual
from priory.estimate.evidence import Evidence
from priory.estimate.loss import Loss, loss_of
from priory.estimate.papers.solvers import Averages, DualAveraging, MirrorDescent
from priory.estimate.path import Fit, Setting, Warm, fitted_by_schedule, fitted_fully, fitted_to_the_noise
from priory.estimate.problem import Solver
from priory.estimate.total import TotalEstimate, checked_total, total_of
from priory.factor import Array
from priory.model.bases import Base, Uniform
from priory.model.diagnostics import Diagnostics
from priory.model.model import Model
from priory.privacy.measurement import Measurement

# Discrete noise of at least so many lattice units is as good as continuous.
_FINE = 2.0
# Any fixed number will do: z must only be independent of the noise, which comes from the operating system.
_SEED = 20


def estimate(
    measurements: Iterable[Measurement],
    domain: Domain,
    *,
    base: Base | None = None,
    total: float | None = None,
    loss: str | Loss = "l2",
    solver: Solver | None = None,
    stop: Literal["fission", "converged"] = "fission",
    warm: Model | None = None,
) -> Model:
    """The model that explains noisy measurements and moves no further from its base than they say.

    Args:
        measurements: what was measured, with its noise.
        domain: the attributes.
        base: what is known before: public rows, another model, a mixture; every cell alike by default.
        total: how many records there are, where that is public; otherwise it is estimated.
        loss: "l2", "l1", or a loss of one's own.
        solver: how the loss is minimised; `Dual` by default, `MirrorDescent` for a loss of one's own.
        stop: at the noise, by "fission", or when the loss is least, "converged".
        warm: an earlier estimate from the same base, of which these measurements are a continuation.

    Returns:
        The model; `model.diagnostics` says how it was found. Without measurements it is the base itself.

    Raises:
        DomainError: measurements do not fit the domain, or are not finite.
        OptionError: noise is not positive, or no measurement determines the total.
    """
    if stop not in ("fission", "converged"):
        raise OptionError("stop", f"'fission' or 'converged'; got {stop!r}")
    measurements = tuple(measurements)
    base = Uniform(domain) if base is None else base
    if base.domain != domain:
        raise DomainError(f"the base is over {base.domain}, the measurements over {domain}")
    evidence = Evidence.of(domain, measurements)
    given = checked_total(total)
    if not measurements and isinstance(loss, str):
        return Model(base, {}, given or _own_total(base), _unmoved())
    counted: TotalEstimate | float = given if given is not None else total_of(evidence)
    chosen = _paced(solver or _default(stop, loss), warm)
    setting = Setting(base, evidence, counted, loss, chosen, _warmth(warm), signs_of(evidence))
    can_check = stop == "fission" and isinstance(loss, str)
    fit = fitted_to_the_noise(setting) if can_check else fitted_fully(setting)
    return _model(setting, fit, "fission" if can_check else "converged", _notes(measurements) if can_check else ())


def refitted(model: Model, measurements: Iterable[Measurement]) -> Model:
    """The estimate from other answers to the queries that `model` was estimated from, by the same steps.

    What `estimate` decided by looking at its answers, how far to go on each level, is taken over and not decided anew.

    Raises:
        OptionError: the model was not estimated by the default solver and stop.
    """
    told = model.diagnostics
    if told is None or not told.schedule:
        raise OptionError("model", "it was not estimated by the default solver with stop='fission'")
    evidence = Evidence.of(model.domain, measurements)
    counted: TotalEstimate | float = total_of(evidence) if told.total_stddev else model.total
    solver = Dual()
    setting = Setting(model.base, evidence, counted, "l2", solver)
    return _model(setting, fitted_by_schedule(setting, solver, told.schedule), "as before")


def _default(stop: str, loss: str | Loss) -> Solver:
    if not isinstance(loss, str):
        return MirrorDescent()
    return Dual() if stop == "fission" else Dual.exact()


def _paced(solver: Solver, warm: Model | None) -> Solver:
    """The solver, at the pace at which it ended an earlier estimate."""
    told = None if warm is None else warm.diagnostics
    if told is None or told.solver != type(solver).__name__ or not told.pace:
        return solver
    if isinstance(solver, DualAveraging):
        return replace(solver, optimism=told.pace)
    return replace(solver, pace=told.pace) if isinstance(solver, MirrorDescent) else solver


def _pace(setting: Setting, carry: object) -> float:
    """What a solver's last state says of the length of its steps."""
    if isinstance(carry, Averages):
        return carry.lipschitz / loss_of(setting.loss, setting.evidence).lipschitz
    return carry if isinstance(carry, float) else 0.0


def signs_of(evidence: Evidence) -> Array:
    """z, one random sign for each answer: the same for the same number of answers."""
    return np.random.default_rng(_SEED).choice([-1.0, 1.0], evidence.size)


def _own_total(base: Base) -> float:
    return base.total if isinstance(base, Model) else 1.0


def _unmoved() -> Diagnostics:
    return Diagnostics(
        solver="none",
        stop="none",
        reason="There was nothing to fit: this is the base.",
        has_converged=True,
        path=(),
        estimated_error=math.nan,
        oracle_calls=0,
    )


def _warmth(warm: Model | None) -> Warm:
    return (
        Warm()
        if warm is None or warm.diagnostics is None
        else Warm(warm.diagnostics.multipliers, warm.diagnostics.schedule, warm.potentials)
    )


def _model(setting: Setting, fit: Fit, stop: str, notes: tuple[str, ...] = ()) -> Model:
    evidence, counted = setting.evidence, setting.total
    if fit.status.kind == "gave up":
        warnings.warn(f"the estimate stopped early: {fit.status.reason}", stacklevel=3)
    error = math.sqrt(max(fit.error, 0.0) / max(1, evidence.size))
    twins = fit.multipliers if len(fit.multipliers) == 2 else fit.multipliers * 2
    diagnostics = Diagnostics(
        solver=type(setting.solver).__name__,
        stop=stop,
        reason=fit.status.reason,
        has_converged=fit.status.kind == "converged",
        path=fit.path,
        estimated_error=error,
        oracle_calls=fit.calls,
        total_stddev=counted.stddev if isinstance(counted, TotalEstimate) else 0.0,
        pace=_pace(setting, fit.state.carry),
        notes=notes,
        schedule=fit.schedule,
        multipliers=tuple(
            (query, twins[0][place], twins[1][place])
            for query, place in zip(evidence.queries, evidence.places, strict=True)
            if twins
        ),
        freedom=fit.freedom,
    )
    return Model(setting.base, fit.layout.unpack(fit.state.theta), setting.records, diagnostics)


def _notes(measurements: Sequence[Measurement]) -> tuple[str, ...]:
    notes = []
    if any(m.noise is not None and m.noise.kind != "gaussian" for m in measurements):
        notes.append("Some noise is not Gaussian: its error is estimated as if it were, with the same variance.")
    if any(np.min(m.stddev) < _FINE for m in measurements):
        notes.append("Some noise is under two lattice units: its error is estimated as if it were continuous.")
    return tuple(notes)
