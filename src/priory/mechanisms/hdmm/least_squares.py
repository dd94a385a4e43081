"""Least squares: HDMM's estimates as published, of the full vector or of one measurement at a time."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from priory.errors import SizeError
from priory.privacy.measurement import Measurement
from priory.queries.domain import Domain
from priory.queries.factor import Array, Factor
from priory.queries.parts import Identity, Part
from priory.queries.query import Query

# A full vector of this many cells takes seconds to fit and 100 MB to hold.
MOST_CELLS = 10**6


@dataclass(frozen=True, eq=False)
class LeastSquares:
    """The full vector x that fits all measurements best, weighted by their precision; no cell is kept above 0.

    Attributes:
        domain: the attributes.
        measurements: the noisy answers; those without noise are left out.
    """

    domain: Domain
    measurements: tuple[Measurement, ...]

    @classmethod
    def of(cls, domain: Domain, measurements: tuple[Measurement, ...], most_cells: int = MOST_CELLS) -> "LeastSquares":
        """Refuse what does not fit, before anything is allocated.

        Raises:
            SizeError: the full vector has more than `most_cells`.
        """
        if domain.size > most_cells:
            raise SizeError(
                f"least squares on the full vector needs {domain.size:.3g} cells; the limit is {most_cells:.3g}; "
                "use local least squares or a graphical model",
                cells=domain.size,
                limit=most_cells,
            )
        return cls(domain, tuple(m for m in measurements if not m.is_public))

    @cached_property
    def vector(self) -> Factor:
        """x, of the shape of the domain."""
        from scipy.sparse.linalg import LinearOperator, lsmr

        rows = sum(m.query.rows for m in self.measurements)
        operator = LinearOperator((rows, self.domain.size), matvec=self.forward, rmatvec=self.adjoint, dtype=float)
        weighted = [np.ravel(np.asarray(m.values, dtype=np.float64) / m.stddev) for m in self.measurements]
        x = lsmr(operator, np.concatenate(weighted), atol=1e-10, btol=1e-10, maxiter=1000)[0]
        return Factor(self.domain, np.asarray(x).reshape(self.domain.shape))

    def answer(self, query: Query) -> Array:
        """The answers to a query."""
        return np.asarray(query(self.vector.project(query.clique).values))

    def forward(self, x: Array) -> Array:
        """Every answer on a full vector, divided by its standard deviation."""
        table = Factor(self.domain, x.reshape(self.domain.shape))
        answers = [m.query(table.project(m.query.clique).values) / m.stddev for m in self.measurements]
        return np.concatenate([np.ravel(answer) for answer in answers])

    def adjoint(self, y: Array) -> Array:
        """The transpose of `forward`."""
        x = np.zeros(self.domain.shape)
        ends = np.cumsum([m.query.rows for m in self.measurements])
        for m, piece in zip(self.measurements, np.split(y, ends[:-1]), strict=True):
            table = m.query.adjoint(piece.reshape(m.query.shape) / m.stddev)
            x += Factor(m.query.domain, table).expand(self.domain).values
        return np.asarray(x.ravel())


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
