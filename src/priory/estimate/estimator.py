"""Estimator: the verb `estimate`, from measurements to a model with its diagnostics."""

import warnings
from collections.abc import Iterable, Sequence
from typing import Literal

import numpy as np

from priory.errors import DomainError, OptionError
from priory.estimate.dual import Dual
from priory.estimate.evidence import Evidence
from priory.estimate.loss import Loss
from priory.estimate.papers.mirror_descent import MirrorDescent
from priory.estimate.path import fitted_fully, fitted_to_the_noise
from priory.estimate.problem import Solver
from priory.estimate.setting import Setting, Warm, signs_of
from priory.estimate.total import TotalEstimate, checked_total, total_of
from priory.model.bases import Base, Uniform
from priory.model.diagnostics import Diagnostics
from priory.model.model import Model
from priory.privacy.measurement import Measurement
from priory.queries.domain import Domain

# Discrete noise of at least so many lattice units is as good as continuous.
_FINE = 2.0


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
        total: how many records there are, where that is public; it is estimated by default.
        loss: "l2", "l1", or a custom loss.
        solver: how the loss is minimised; `Dual` by default, `MirrorDescent` for a custom loss.
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
        unmoved = Diagnostics("none", "none", "There was nothing to fit: this is the base.")
        return Model(base, {}, given or (base.total if isinstance(base, Model) else 1.0), unmoved)
    counted = total_of(evidence) if given is None else TotalEstimate.known(given)
    if solver is None:
        solver = MirrorDescent() if not isinstance(loss, str) else Dual() if stop == "fission" else Dual.exact()
    setting = Setting(base, evidence, counted, loss, solver, Warm.of(warm, solver), signs_of(evidence))
    can_check = stop == "fission" and isinstance(loss, str)
    fit = fitted_to_the_noise(setting) if can_check else fitted_fully(setting)
    if fit.status.kind == "gave up":
        warnings.warn(f"the estimate stopped early: {fit.status.reason}", stacklevel=2)
    return fit.model(setting, "fission" if can_check else "converged", _notes(measurements) if can_check else ())


def _notes(measurements: Sequence[Measurement]) -> tuple[str, ...]:
    notes = []
    if any(m.noise is not None and m.noise.family != "gaussian" for m in measurements):
        notes.append("Some noise is not Gaussian: its error is estimated as if it were, with the same variance.")
    if any(np.min(m.stddev) < _FINE * (1.0 if m.noise is None else float(m.noise.step)) for m in measurements):
        notes.append("Some noise is under two lattice units: its error is estimated as if it were continuous.")
    return tuple(notes)
