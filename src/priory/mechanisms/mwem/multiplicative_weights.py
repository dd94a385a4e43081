"""Multiplicative weights: the classical update of MWEM, on one table or on a table for each connected group."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from priory.errors import SizeError
from priory.estimate.papers.multiplicative_weights import exponents, stepped
from priory.model.bases import Mixture, Uniform
from priory.model.model import Model
from priory.privacy.measurement import Measurement
from priory.queries.domain import Clique, Domain
from priory.queries.factor import Array, Factor
from priory.queries.query import Query
from priory.queries.sensitivity import entry_range

# Tables of up to this many cells: 32 MiB, and a twentieth of a second for each of the hundreds of steps.
MOST_CELLS = 2**22
# The mass is followed from the cells that change; before rounding errors matter, all cells are added up.
_HEAVY = 2.0
# Where noise is many times the number of rows, a step can be too long for exponentials.
_FAR = 300.0


@dataclass(frozen=True, kw_only=True)
class MultiplicativeWeights:
    """A(x) ← A(x)·exp(q(x)(m − q(A))/2n) on explicit tables.

    Attributes:
        is_factored: whether there is a table for each group of attributes that measurements connect, rather than one
            over all attributes. Both give the same model.
        sweeps: how often all measurements are gone through again after each new one.
        is_average: whether the average of the rounds' models is handed out, as in the paper, rather than the last.
        most_cells: how large the tables may be.
    """

    is_factored: bool = True
    sweeps: int = 10
    is_average: bool = False
    most_cells: int = MOST_CELLS
    name: ClassVar[str] = "mwem"

    def allowed(self, domain: Domain, measured: Sequence[Clique], cliques: Sequence[Clique]) -> NDArray[np.bool_]:
        sizes = [self._size(domain, [*measured, clique]) for clique in cliques]
        if min(sizes) > self.most_cells:
            least, limit = min(sizes), self.most_cells
            said = f"multiplicative weights would need tables of {least:.3g} cells; the limit is {limit:.3g}"
            hint = "use tables for connected attributes only, fewer rounds, or a graphical model"
            raise SizeError(f"{said}; {hint}", cells=least, limit=limit, cliques=list(cliques[:1]))
        return np.array(sizes) <= self.most_cells

    def model(self, domain: Domain, measurements: Sequence[Measurement], total: float, before: Model | None) -> Model:
        model = Model(Uniform(domain), {}, total) if before is None else before
        tables = self._tables(domain, [m.query.clique for m in measurements])
        potentials = self._merged(model, tables)
        for table in tables:
            # Tables do not see each other's steps, so each takes its own in one go.
            own = [m for m in measurements if m.query.clique and set(m.query.clique) <= set(table)]
            turns = [*own[-1:], *own * self.sweeps] if measurements[-1] in own else own * self.sweeps
            potentials[table] = _corrected(potentials[table], turns, total)
        return Model(model.base, potentials, total)

    def final(self, models: Sequence[Model]) -> Model:
        if not self.is_average:
            return models[-1]
        return Model(Mixture([(1 / len(models), model) for model in models]), {}, models[-1].total)

    def _tables(self, domain: Domain, cliques: Sequence[Clique]) -> list[Clique]:
        return components(domain, cliques) if self.is_factored else [domain.attributes]

    def _size(self, domain: Domain, cliques: Sequence[Clique]) -> int:
        return sum(domain.size_of(table) for table in self._tables(domain, cliques))

    def _merged(self, model: Model, tables: Sequence[Clique]) -> dict[Clique, Factor]:
        """The model's potentials on `tables`, each of which holds whole ones of the former."""
        domains = {table: model.domain.project(table) for table in tables}
        potentials = {table: Factor(domain, np.zeros(domain.shape)) for table, domain in domains.items()}
        for clique, factor in model.potentials.items():
            table = next(table for table in tables if set(clique) <= set(table))
            potentials[table] = _sum(potentials[table], factor)
        return potentials


def _corrected(potentials: Factor, turns: Sequence[Measurement], total: float) -> Factor:
    """The potentials of a table after a multiplicative step for each of `turns`."""
    table = WeightedTable.of(potentials)
    moves: dict[int, tuple[Query, Array]] = {}
    for m in turns:
        query, moved = moves.get(id(m), (m.query, np.zeros(m.query.shape)))
        moves[id(m)] = query, moved + table.step(m, total)
    for query, moved in moves.values():
        potentials = _sum(potentials, Factor(query.domain, query.adjoint(moved)))
    return potentials


def _sum(table: Factor, factor: Factor) -> Factor:
    return Factor(table.domain, table.values + factor.expand(table.domain).values)


def components(domain: Domain, cliques: Sequence[Clique]) -> list[Clique]:
    """The groups of attributes that cliques connect, each in the domain's order.

    >>> components(Domain.of({"a": 2, "b": 2, "c": 2, "d": 2}), [("a", "c"), ("d",), ("c", "b")])
    [('a', 'b', 'c'), ('d',)]
    """
    groups: list[set[str]] = []
    for clique in filter(None, cliques):
        apart = [group for group in groups if group.isdisjoint(clique)]
        groups = [*apart, set(clique).union(*(group for group in groups if not group.isdisjoint(clique)))]
    return sorted((domain.clique(group) for group in groups), key=lambda group: domain.axis[group[0]])


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
        query = measurement.query
        if query.rows == 1:
            return self._one(measurement, total)
        shares = Factor(self.domain, self.weights).project(query.clique).values / self.mass
        return self._leap(query, exponents(measurement.values, total * query(shares), total, _largest(query)))

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

    def _leap(self, query: Query, steps: Array) -> Array:
        """A step of any length, in logarithms."""
        exponent = Factor(query.domain, query.adjoint(steps)).expand(self.domain).values
        with np.errstate(divide="ignore"):
            self.weights = np.exp(stepped(np.log(self.weights), exponent))
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
