"""Estimated: the model that a release's measurements lead to, without the structural zeros of its schema."""

import warnings
from collections.abc import Sequence
from dataclasses import replace

from priory.data.schema import Schema
from priory.errors import DataError, DomainError
from priory.estimate.dirichlet import single_attributes
from priory.estimate.estimator import estimate
from priory.estimate.measured import evidence, public_total
from priory.estimate.prior_strength import POSTERIOR
from priory.estimate.weighed_rows import WEIGHED
from priory.model.bases import Base, Uniform
from priory.model.model import Model
from priory.model.structural_zeros import rules_out, structural_zeros, without_zeros
from priory.privacy.measurement import Measurement
from priory.queries.domain import Domain


def estimated(measurements: Sequence[Measurement], base: Base) -> Model:
    """The estimate from a release's measurements."""
    # Whether the solver ran to its end is in the model's diagnostics; a release is not lost for it.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return estimate(evidence(measurements), base.domain, base=base, total=public_total(measurements))


def of_single_attributes(measurements: Sequence[Measurement], base: Base) -> Model:
    """The model of independent attributes from measurements of each by itself, however noisy they are."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return single_attributes(evidence(measurements), base, public_total(measurements))


def constrained(model: Model, measurements: Sequence[Measurement], schema: Schema) -> Model:
    """The model without the cells that the schema rules out, estimated anew where its estimate can be repeated."""
    zeros = structural_zeros(schema.domain, schema.impossible())
    if not zeros or rules_out(model, zeros):
        return model
    diagnostics = model.diagnostics
    # Weighted rows are their own base: estimated from them again, the answers would count twice.
    is_posterior = diagnostics is not None and diagnostics.stop in (POSTERIOR, WEIGHED)
    can_repeat = diagnostics is not None and diagnostics.schedule and not is_posterior
    try:
        base = without_zeros(model.base, schema.impossible())
        if can_repeat:
            return estimated(measurements, base)
        return replace(Model.of(base, model.potentials, model.total), diagnostics=diagnostics)
    except (DataError, DomainError):
        # Nothing of a few rows may be left; what was measured is still worth something.
        return estimated(measurements, uniform(schema.domain, schema))


def uniform(domain: Domain, schema: Schema | None) -> Base:
    """Every cell alike but structural zeros."""
    return Uniform(domain) if schema is None else without_zeros(Uniform(domain), schema.impossible())


def starts_from_public_data(base: Base) -> bool:
    """Whether a base, or what a model was tilted from, is anything else than every cell alike."""
    while isinstance(base, Model):
        base = base.base
    return base.is_informative
