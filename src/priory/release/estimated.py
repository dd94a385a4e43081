"""Estimated: the model that a release's measurements lead to, without what its schema says cannot be."""

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from priory.data.schema import Schema
from priory.domain import Clique, Domain
from priory.errors import DataError, DomainError
from priory.estimate.estimator import estimate
from priory.estimate.prior_strength import STOP
from priory.estimate.units import in_counts
from priory.factor import Factor
from priory.model.bases import Base, Uniform
from priory.model.model import Model
from priory.model.tilted import merged
from priory.privacy.measurement import Measurement

# Where a budget is so large that noise all but vanishes, a tenth of a count is still allowed for.
LEAST_STDDEV = 0.1
Impossible = Sequence[tuple[Clique, NDArray[np.bool_]]]


def evidence(measurements: Iterable[Measurement]) -> list[Measurement]:
    """What an estimate rests on: what noise was added to, in counts; the number of rows aside where that is public."""
    noisy = [in_counts(m) for m in measurements if m.query.clique or not m.is_public]
    return [m if np.min(m.stddev) >= LEAST_STDDEV else _blurred(m) for m in noisy]


def _blurred(measurement: Measurement) -> Measurement:
    stddev = np.maximum(measurement.stddev, LEAST_STDDEV)
    return replace(measurement, stddev=stddev if stddev.ndim else float(stddev))


def public_total(measurements: Iterable[Measurement]) -> float | None:
    """The number of rows, where it was measured without noise because it is public."""
    found = [float(m.values) for m in measurements if not m.query.clique and m.is_public]
    return max(1.0, found[0]) if found else None


def estimated(measurements: Sequence[Measurement], base: Base) -> Model:
    """The estimate from a release's measurements."""
    # Whether the solver ran to its end is in the model's diagnostics; a release is not lost for it.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return estimate(evidence(measurements), base.domain, base=base, total=public_total(measurements))


def possible(base: Base, impossible: Impossible) -> Base:
    """The base without cells that cannot be.

    Args:
        base: the base.
        impossible: what a schema or a curator says of some cliques.

    Raises:
        DataError: nothing would be left of it.
    """
    zeros = structural_zeros(base.domain, impossible)
    if not zeros or _has(base, zeros):
        return base
    try:
        return Model.of(base, zeros)
    except DomainError:
        raise DataError(
            "every row that could be is ruled out by the schema's constraints; correct one of them"
        ) from None


def structural_zeros(domain: Domain, impossible: Impossible) -> dict[Clique, Factor]:
    """Potentials of −∞ where a cell cannot be, and of 0 elsewhere."""
    zeros: dict[Clique, Factor] = {}
    for clique, mask in impossible:
        if mask.any():
            zeros = merged(zeros, {clique: Factor(domain.project(clique), np.where(mask, -np.inf, 0.0))})
    return zeros


def _has(base: Base, zeros: dict[Clique, Factor]) -> bool:
    """Whether a base rules these cells out already, in a layer of its own."""
    while isinstance(base, Model):
        if all(
            clique in base.potentials
            and (np.isneginf(base.potentials[clique].values) >= np.isneginf(zero.values)).all()
            for clique, zero in zeros.items()
        ):
            return True
        base = base.base
    return False


def constrained(model: Model, measurements: Sequence[Measurement], schema: Schema) -> Model:
    """The model without the cells that the schema rules out, estimated anew where its estimate can be repeated."""
    zeros = structural_zeros(schema.domain, schema.impossible())
    if not zeros or _has(model, zeros):
        return model
    told = model.diagnostics
    # Weighed public rows are their own base: estimated upon them again, the answers would count twice.
    can_repeat = told is not None and told.schedule and told.stop != STOP
    try:
        base = possible(model.base, schema.impossible())
        if can_repeat:
            return estimated(measurements, base)
        return replace(Model.of(base, model.potentials, model.total), diagnostics=told)
    except (DataError, DomainError):
        # Nothing of a few rows may be left; what was measured is still worth something.
        return estimated(measurements, uniform(schema.domain, schema))


def uniform(domain: Domain, schema: Schema | None) -> Base:
    """Every possible cell alike."""
    return Uniform(domain) if schema is None else possible(Uniform(domain), schema.impossible())
