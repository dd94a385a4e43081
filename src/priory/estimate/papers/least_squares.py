"""Least squares: HDMM's estimator, which looks at one measurement at a time."""

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


def _inverse(part: Part, size: int) -> Array:
    return np.asarray(np.linalg.pinv(part.matrix(size).astype(np.float64)))
