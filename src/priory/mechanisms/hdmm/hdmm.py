"""HDMM: ask the queries that answer a workload with the least noise, then answer it from them."""

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import ClassVar, Literal

import numpy as np

from priory.errors import OptionError, SizeError
from priory.measure import measure
from priory.mechanisms.hdmm.strategies import Strategy, marginals_strategy, union_strategy
from priory.privacy.budget import Budget
from priory.privacy.measurement import Measurement
from priory.privacy.session import Session
from priory.queries.domain import Domain
from priory.queries.factor import Array, Factor
from priory.queries.parts import Identity
from priory.queries.query import Query
from priory.queries.workload import Workload
from priory.release import Release

# The paper answers its workload by least squares, which is no model of the table: a release is asked other things too,
# and answers them by a graphical model of the same noisy answers.
NAME = "hdmm, noisy answers for a graphical model"

Kind = Literal["best", "union", "equal", "marginals"]
# A full vector of this many cells takes seconds to fit and 100 MB to hold.
MOST_CELLS = 10**6


@dataclass(frozen=True)
class HDMM:
    """The high-dimensional matrix mechanism [McKenna, Miklau, Hay & Machanavajjhala 2018].

    The strategy is optimised for the workload without looking at data; what is released are its noisy answers. They
    can be turned into answers to the workload by local least squares, by least squares on the full vector, or by a
    graphical model: all three are free.

    Attributes:
        workload: what is to be answered.
        kind: which strategy: a product for each clique ("union", or with equal shares "equal"), weighted marginals
            ("marginals"), or the one with the smaller forecast error ("best").
    """

    workload: Workload
    kind: Kind = "best"
    choice_share: ClassVar[Fraction] = Fraction(0)

    def run(self, session: Session, budget: Budget) -> Release:
        """Measure the strategy."""
        self.workload.checked(session.domain)
        strategy, known = self.strategy(is_pure=budget.is_pure), session.public_count
        measurements = measure(session, strategy.queries, budget, shares=strategy.shares)
        return Release(session.domain, (*known, *measurements), session.statement(NAME))

    def strategy(self, *, is_pure: bool) -> Strategy:
        """What will be asked; it depends on the workload alone."""
        if self.kind in ("union", "equal"):
            return union_strategy(self.workload, is_pure=is_pure, is_equal=self.kind == "equal")
        if self.kind == "marginals":
            return marginals_strategy(self.workload, is_pure=is_pure)
        if self.kind != "best":
            raise OptionError("kind", f"one of best, union, equal and marginals; got {self.kind!r}")
        strategies = [union_strategy(self.workload, is_pure=is_pure)]
        if all(query.is_marginal for query in self.workload):
            strategies.append(marginals_strategy(self.workload, is_pure=is_pure))
        return min(strategies, key=lambda strategy: strategy.error)


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
        """Refuse what does not fit, before anything is allocated: a full vector of more than `most_cells`."""
        if domain.size > most_cells:
            said = f"least squares on the full vector needs {domain.size:.3g} cells; the limit is {most_cells:.3g}"
            hint = "use local least squares or a graphical model"
            raise SizeError(f"{said}; {hint}", cells=domain.size, limit=most_cells)
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
            inverse = np.linalg.pinv(part.matrix(size).astype(np.float64))
            values = np.moveaxis(np.tensordot(inverse, values, axes=(1, axis)), 0, axis)
    return Factor(query.domain, values)
