"""Baselines: the papers' estimators that look at one measurement at a time, kept to compare with."""

import numpy as np

from priory.factor import Array, Factor
from priory.privacy.measurement import Measurement
from priory.queries.parts import Identity, Part


def local_least_squares(measurement: Measurement) -> Factor:
    """The table x that minimises ‖Qx − y‖₂, of least norm, for one measurement on its own.

    It may be negative and disagree with other measurements. The pseudo-inverse of a Kronecker product is the product
    of the parts' pseudo-inverses, so each is applied along its own axis [HDMM, McKenna et al. 2018].
    """
    query = measurement.query
    values = np.asarray(measurement.values, dtype=np.float64)
    for axis, (part, size) in enumerate(zip(query.parts, query.domain.shape, strict=True)):
        if not isinstance(part, Identity):
            values = np.moveaxis(np.tensordot(_inverse(part, size), values, axes=(1, axis)), 0, axis)
    return Factor(query.domain, values)


def clipped_and_normalised(measurement: Measurement, total: float | None = None) -> Factor:
    """The local least squares with negative cells set to 0 and the rest scaled to `total`, or to their own sum's."""
    table = local_least_squares(measurement).values
    wanted = float(table.sum()) if total is None else total
    clipped = np.maximum(table, 0.0)
    mass = float(clipped.sum())
    if mass == 0:
        clipped, mass = np.ones(table.shape), float(table.size)
    return Factor(measurement.query.domain, clipped * (max(wanted, 0.0) / mass))


def _inverse(part: Part, size: int) -> Array:
    return np.asarray(np.linalg.pinv(part.matrix(size).astype(np.float64)))
