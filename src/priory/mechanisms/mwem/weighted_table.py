"""Weighted table: an explicit table of weights that takes multiplicative steps, cell by cell that a query reads."""

from dataclasses import dataclass, field

import numpy as np

from priory.domain import Domain
from priory.estimate.papers.multiplicative_weights import exponents
from priory.factor import Array, Factor
from priory.privacy.measurement import Measurement
from priory.queries.query import Query
from priory.queries.sensitivity import entry_range

# The mass is followed from the cells that change; before rounding errors matter, all cells are added up.
_HEAVY = 2.0
# Where noise is many times the number of rows, a step can be too long for exponentials.
_FAR = 300.0


@dataclass(eq=False)
class WeightedTable:
    """Weights over the cells of a table; the only thing here that changes."""

    domain: Domain  # the table's attributes
    weights: Array  # one for each cell
    mass: float  # their sum, kept up to date from the cells that change
    _reads: dict[int, "_Read"] = field(default_factory=dict)

    @classmethod
    def of(cls, potentials: Factor) -> "WeightedTable":
        """The table with weights exp(potentials)."""
        weights = np.exp(potentials.values - potentials.values.max())
        return cls(potentials.domain, weights / weights.sum(), 1.0)

    def step(self, measurement: Measurement, total: float) -> Array:
        """A(x) ← A(x)·exp(q(x)(m − q(A))/2n), and what q was multiplied by in the exponent."""
        return self._one(measurement, total) if measurement.query.rows == 1 else self._several(measurement, total)

    def _one(self, measurement: Measurement, total: float) -> Array:
        read = self._read(measurement)
        block = self.weights[read.block]
        answer = total * float((block * read.entries).sum()) / self.mass
        step = float(exponents(measurement.values, answer, total, read.largest).item())
        if abs(step) * read.largest > _FAR:
            return self._leap(measurement.query, np.full(measurement.query.shape, step))
        before = float(block.sum())
        # Not by adding what changes: a weight that all but vanishes must not be rounded to nothing.
        block *= np.exp(step * read.entries)
        self.mass += float(block.sum()) - before
        if not 1 / _HEAVY < self.mass < _HEAVY:
            self.weights /= self.weights.sum()
            self.mass = 1.0
        return np.full(measurement.query.shape, step)

    def _several(self, measurement: Measurement, total: float) -> Array:
        query = measurement.query
        shares = Factor(self.domain, self.weights).project(query.clique).values / self.mass
        return self._leap(query, exponents(measurement.values, total * query(shares), total, _largest(query)))

    def _leap(self, query: Query, steps: Array) -> Array:
        """A step of any length, in logarithms."""
        with np.errstate(divide="ignore"):
            logs = np.log(self.weights) + Factor(query.domain, query.adjoint(steps)).expand(self.domain).values
        self.weights = np.exp(logs - logs.max())
        self.weights /= self.weights.sum()
        self.mass = 1.0
        return steps

    def _read(self, measurement: Measurement) -> "_Read":
        if id(measurement) not in self._reads:
            self._reads[id(measurement)] = _Read.of(self.domain, measurement.query)
        return self._reads[id(measurement)]


@dataclass(frozen=True, eq=False)
class _Read:
    """The cells that a query of one answer reads."""

    block: tuple[slice, ...]  # the slices of the table that hold them
    entries: Array  # the query's entries there, to be repeated over the other attributes
    largest: float  # the largest of them

    @classmethod
    def of(cls, domain: Domain, query: Query) -> "_Read":
        slices, entries = dict.fromkeys(domain, slice(None)), np.ones(())
        for name, part, size in zip(query.clique, query.parts, query.domain.shape, strict=True):
            row = np.asarray(part.matrix(size)[0], dtype=np.float64)
            read = np.flatnonzero(row)
            slices[name] = slice(int(read[0]), int(read[-1]) + 1) if len(read) else slice(0, 0)
            entries = np.multiply.outer(entries, row[slices[name]])
        order = [query.clique.index(name) for name in domain if name in query.clique]
        shape = [entries.shape[query.clique.index(name)] if name in query.clique else 1 for name in domain]
        return cls(tuple(slices[name] for name in domain), entries.transpose(order).reshape(shape), _largest(query))


def _largest(query: Query) -> float:
    return float(max(map(abs, entry_range(query)))) or 1.0
