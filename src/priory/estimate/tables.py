"""Tables: measured tables that share columns, and how they move together when noise is added to them.

Of each table in which every row is counted once along each attribute, `Columns` ties the sums over all but one
attribute to those of other tables. Other queries, of prefixes or strategies, move by themselves.
"""

import itertools
import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from priory.estimate.evidence import Evidence
from priory.queries.domain import Domain
from priory.queries.factor import Array
from priory.queries.parts import Identity, Part
from priory.queries.query import Query

Rows = NDArray[np.intp]
# Columns with more values are not tied: their matrices would take longer than what they tell is worth.
_MOST_VALUES = 200
# Fewer records than this in a cell count as this many: nothing is divided by zero.
_LEAST = 1e-3
# How much more certain than any table it is that a column's values add up to all records.
_CERTAIN = 1e3
_TINY = 1e-6
# Steps of conjugate gradients for a query that is no table, and what may be left over.
_STEPS, _LEFT = 60, 1e-4


@dataclass(frozen=True, eq=False)
class Table:
    """A measured query; all measurements of it count as one, weighted by their precision."""

    query: Query  # the query
    numbers: tuple[int, ...]  # the measurements of it
    shares: tuple[Array, ...]  # the weight of each in their average
    stddevs: Array  # the standard deviation of the noise of the average
    fitted: Array  # the model's answers
    marginal: Array  # the model's marginal on the query's clique
    # for each attribute, the answer's place that each value is counted in; None where that is not one place
    rows: tuple[Rows, ...] | None
    stiffness: float = 1.0  # how many times warmer than others it was fitted

    def lifted(self, table: Array) -> Array:
        """Numbers for the answers as numbers for the cells they count, the last axis left alone."""
        for axis, rows in enumerate(self.rows or ()):
            table = table if self._is_plain(axis) else table.take(rows, axis=axis)
        return table

    def _is_plain(self, axis: int) -> bool:
        return isinstance(self.query.parts[axis], Identity)


def tables_of(evidence: Evidence, marginals: Array, stiffness: Array) -> tuple[Table, ...]:
    """The tables of all measurements; `marginals` are the model's, and `evidence` has its answers.

    `stiffness` says of each measurement how many times warmer than others it was fitted.
    """
    numbers: dict[Query, list[int]] = {}
    for number, query in enumerate(evidence.queries):
        numbers.setdefault(query, []).append(number)
    places = dict(
        zip(evidence.layout.cliques, zip(evidence.layout.offsets, evidence.layout.shapes, strict=False), strict=True)
    )
    tables = []
    for query, same in numbers.items():
        precisions = [evidence.stddevs[evidence.spans[n]].reshape(query.shape) ** -2.0 for n in same]
        together = np.sum(precisions, axis=0)
        start, shape = places[query.clique]
        tables.append(
            Table(
                query,
                tuple(same),
                tuple(precision / together for precision in precisions),
                together**-0.5,
                evidence.values[evidence.spans[same[0]]].reshape(query.shape),
                marginals[start : start + math.prod(shape)].reshape(shape),
                _rows(query),
                # The coldest of them is the one that the fit follows furthest.
                float(min(stiffness[n] for n in same)),
            )
        )
    return tuple(tables)


def _rows(query: Query) -> tuple[Rows, ...] | None:
    found = [_places(part, size) for part, size in zip(query.parts, query.domain.shape, strict=True)]
    return None if any(rows is None for rows in found) else tuple(rows for rows in found if rows is not None)


def _places(part: Part, size: int) -> Rows | None:
    if isinstance(part, Identity):
        return np.arange(size)
    if size > _MOST_VALUES**2:
        return None
    matrix = part.matrix(size)
    is_once = ((matrix == 0) | (matrix == 1)).all() and (matrix.sum(axis=0) == 1).all()
    return np.asarray(matrix.argmax(axis=0), dtype=np.intp) if is_once else None


@dataclass(frozen=True, eq=False)
class _Tied:
    """A table at a temperature, with what its columns must agree with."""

    table: Table  # the table
    axes: tuple[int, ...]  # those whose sums are tied
    kept: Array  # the share w of the noise that each answer follows, by itself
    loose: Array  # wσ², how far each answer moves for what its columns ask of it
    maps: tuple[Array, ...]  # for each tied axis, which values of the column each of its places counts
    spans: tuple[slice, ...]  # for each tied axis, where the column's values lie

    @property
    def names(self) -> tuple[str, ...]:
        """The tied columns."""
        return tuple(self.table.query.clique[axis] for axis in self.axes)

    @cached_property
    def parts(self) -> tuple[slice, ...]:
        """Where each of them lies among the tied sums."""
        ends = np.cumsum([0, *(len(m) for m in self.maps)]).tolist()
        return tuple(slice(a, b) for a, b in itertools.pairwise(ends))

    @cached_property
    def inverse(self) -> Array:
        """From sums to what must be added along the columns to have them."""
        return self._inverse(self.loose)

    def charged(self, temperature: float) -> Array:
        """What relative entropy alone charges for moving the sums."""
        stiffness = temperature * self.table.stiffness
        return self._inverse(np.maximum(self.table.fitted, _LEAST) / stiffness)

    def _inverse(self, loose: Array) -> Array:
        sums = {}
        for (i, a), (j, b) in itertools.product(enumerate(self.axes), repeat=2):
            table = loose.sum(axis=tuple(k for k in range(loose.ndim) if k not in (a, b)))
            sums[i, j] = table * (1 + _TINY) if i == j else table if a < b else table.T
        if len(self.axes) == 2:
            return _inverse_of_two(sums[0, 0], sums[0, 1], sums[1, 1])
        blocks = [
            [np.diag(sums[i, j]) if i == j else sums[i, j] for j in range(len(self.axes))]
            for i in range(len(self.axes))
        ]
        return np.linalg.inv(np.block(blocks))

    def sums(self, table: Array) -> Array:
        """The tied sums, one after the other; the last axis is left alone."""
        axes = range(table.ndim - 1)
        return np.concatenate([table.sum(axis=tuple(k for k in axes if k != axis)) for axis in self.axes])

    def spread(self, along: Array) -> Array:
        """Numbers along the tied axes, added up for each answer."""
        found = np.zeros((*self.table.query.shape, along.shape[1]))
        for axis, part in zip(self.axes, self.parts, strict=True):
            shape = [-1 if k == axis else 1 for k in range(found.ndim - 1)]
            found += along[part].reshape(*shape, along.shape[1])
        return found

    def wanted(self, counts: Array) -> Array:
        """The sums that the columns' counts ask for."""
        return np.concatenate([m @ counts[span] for m, span in zip(self.maps, self.spans, strict=True)])

    def moved(self, added: Array, counts: Array) -> Array:
        """How the table moves with noise, where its columns move by `counts`."""
        own = self.kept[..., None] * added
        along = self.inverse @ (self.wanted(counts) - self.sums(own))
        return own + self.loose[..., None] * self.spread(along)


@dataclass(frozen=True, eq=False)
class Columns:
    """The columns of tables at a temperature, and what the tables ask of them."""

    tables: tuple[Table, ...]  # the tables
    spans: dict[str, slice]  # where the values of each tied column lie among all
    tied: tuple[_Tied | None, ...]  # each table with its tied columns; None for queries that move by themselves
    shares: Array  # for each tied value, how many records the model says have it
    temperature: float  # λ

    @classmethod
    def of(cls, tables: tuple[Table, ...], domain: Domain, temperature: float) -> "Columns":
        """Tie the columns of `tables`."""
        names = {n for t in tables if t.rows is not None for n in t.query.clique if domain[n] <= _MOST_VALUES}
        spans, size = {}, 0
        for name in (name for name in domain if name in names):
            spans[name] = slice(size, size + domain[name])
            size += domain[name]
        tied = tuple(_tied(table, spans, temperature) for table in tables)
        shares = np.zeros(size)
        for table in tables:
            for axis, name in enumerate(table.query.clique):
                if name in spans:
                    others = tuple(k for k in range(table.marginal.ndim) if k != axis)
                    shares[spans[name]] = table.marginal.sum(axis=others)
        return cls(tables, spans, tied, shares, temperature)

    def moved(self, noise: Iterable[Array], records: Array) -> Array:
        """How far the counts of all values move, where noise is added to each table and `records` to their number."""
        # Relative entropy is that of the tree; of a table that closes a loop only what its noisy answers tell is added.
        in_tree = {id(tied) for tied in self.tree}
        blocks: dict[tuple[str, str], Array] = {}
        goals = {name: np.zeros((span.stop - span.start, len(records))) for name, span in self.spans.items()}
        for tied, added in zip(self.tied, noise, strict=True):
            if tied is None:
                continue
            asked = tied.inverse @ tied.sums(tied.kept[..., None] * added)
            charged = tied.inverse if id(tied) in in_tree else tied.inverse - tied.charged(self.temperature)
            for name, m, rows in zip(tied.names, tied.maps, tied.parts, strict=True):
                goals[name] += m.T @ asked[rows]
                for other, across, columns in zip(tied.names, tied.maps, tied.parts, strict=True):
                    block = m.T @ charged[rows, columns] @ across
                    blocks[name, other] = blocks[name, other] + block if (name, other) in blocks else block
        for name, repeated in self.repeated.items():
            blocks[name, name] = blocks[name, name] - repeated
        for name, goal in goals.items():
            certain = _CERTAIN * float(np.mean(np.diag(blocks[name, name])))
            blocks[name, name] = blocks[name, name] + certain
            goals[name] = goal + certain * records
        found = _solved(blocks, goals)
        return np.concatenate([found[name] for name in self.spans]) if found else np.zeros((0, len(records)))

    @cached_property
    def tree(self) -> tuple[_Tied, ...]:
        """Tables that close no loop, largest first: each shares one column with those before it at most."""
        groups = {name: {name} for name in self.spans}
        chosen = []
        for tied in sorted((t for t in self.tied if t is not None), key=lambda t: -len(t.names)):
            joined = {id(groups[name]): groups[name] for name in tied.names}
            if len(joined) == len(tied.names):
                chosen.append(tied)
                together = set().union(*joined.values())
                groups |= dict.fromkeys(together, together)
        return tuple(chosen)

    @property
    def is_tree(self) -> bool:
        """Whether no table closes a loop."""
        return len(self.tree) == sum(tied is not None for tied in self.tied)

    @cached_property
    def repeated(self) -> dict[str, Array]:
        """What the tables of the tree together charge too much for moving the counts of each column's values.

        Relative entropy charges for a column once: on a tree of tables it is the sum over the tables, less that of each
        column in all tables but the finest that have it. A column measured by itself and in a table is such a tree.
        """
        maps: dict[str, list[tuple[Array, float]]] = {name: [] for name in self.spans}
        for tied in self.tree:
            for name, m in zip(tied.names, tied.maps, strict=True):
                maps[name].append((m, tied.table.stiffness))
        found: dict[str, Array] = {}
        for name, every in maps.items():
            shares = self.shares[self.spans[name]]
            finer = 0.0
            for m, stiffness in sorted(every, key=lambda each: -len(each[0])):
                # No more is taken off than a finer table charges, which may be fitted colder.
                repeated = self.temperature * min(stiffness, finer)
                finer = max(finer, stiffness)
                charged = repeated * m.T @ (m / np.maximum(m @ shares, _LEAST)[:, None])
                found[name] = found[name] + charged if name in found else charged
        return found

    def table(self, index: int, added: Array, counts: Array, grown: Array) -> Array:
        """How a table moves with the noise added to it, where the columns' counts move by `counts`.

        What is tied to no column moves from `grown`, where the number of records alone would take it.
        """
        tied, table = self.tied[index], self.tables[index]
        if tied is not None:
            return tied.moved(added, counts)
        if table.rows is not None:
            return np.asarray(grown + _kept(table, self.temperature)[..., None] * (added - grown))
        return grown + _answered(table, self._multipliers(table, added - grown))

    def said(self, index: int, added: Array, moved: Array) -> Array:
        """How the logarithm of each cell's count moves, as far as a table that moves so tells."""
        table = self.tables[index]
        if table.rows is None:
            alpha = (added - moved) / (self.temperature * table.stiffness * table.stddevs[..., None] ** 2)
            return _adjoint(table.query, alpha)
        return table.lifted(moved / np.maximum(table.fitted, _LEAST)[..., None])

    def along(self, name: str, counts: Array, rows: Rows | None = None) -> Array:
        """How the logarithms of the counts of a tied column's values move; of all that share a place, where given."""
        span = self.spans[name]
        moved, shares = counts[span], self.shares[span]
        if rows is not None and rows.max() + 1 < len(rows):
            together, alike = np.zeros((int(rows.max()) + 1, moved.shape[1])), np.zeros(int(rows.max()) + 1)
            np.add.at(together, rows, moved)
            np.add.at(alike, rows, shares)
            moved, shares = together[rows], alike[rows]
        return np.asarray(moved / np.maximum(shares, _LEAST)[:, None])

    def _multipliers(self, table: Table, noise: Array) -> Array:
        """α with (Q Cov Qᵀ + λΣ)α = noise, of a query that is no table, by conjugate gradients."""
        stiff = (self.temperature * table.stiffness * table.stddevs**2)[..., None]
        spread = np.maximum(_answered(table, _ones(table), squared=True), 0.0) + stiff
        axes = tuple(range(noise.ndim - 1))
        alpha, residual, direction = np.zeros_like(noise), noise.copy(), np.zeros_like(noise)
        steep, first = np.full(noise.shape[-1], np.inf), np.sum(noise**2 / spread, axis=axes)
        for _ in range(_STEPS):
            scaled = residual / spread
            steep, before = np.sum(residual * scaled, axis=axes), steep
            if (steep <= _LEFT * first).all():
                break
            direction = scaled + (steep / before) * direction
            turned = stiff * direction + _answered(table, direction)
            length = steep / np.maximum(np.sum(direction * turned, axis=axes), 1e-300)
            alpha += length * direction
            residual -= length * turned
        return alpha


def _inverse_of_two(first: Array, between: Array, second: Array) -> Array:
    """The inverse of a matrix of two diagonals and what is between them: only the smaller one is inverted."""
    if len(first) < len(second):
        turned, n = _inverse_of_two(second, between.T, first), len(second)
        return np.block([[turned[n:, n:], turned[n:, :n]], [turned[:n, n:], turned[:n, :n]]])
    shares = between / first[:, None]
    inner = np.linalg.inv(np.diag(second) - between.T @ shares)
    across = -shares @ inner
    return np.block([[np.diag(1 / first) - across @ shares.T, across], [across.T, inner]])


def _kept(table: Table, temperature: float) -> Array:
    """The share of the noise that each answer follows by itself."""
    fitted = np.maximum(table.fitted, _LEAST)
    return np.asarray(fitted / (fitted + temperature * table.stiffness * table.stddevs**2))


def _tied(table: Table, spans: dict[str, slice], temperature: float) -> _Tied | None:
    if table.rows is None or not table.query.clique:
        return None
    axes = tuple(axis for axis, name in enumerate(table.query.clique) if name in spans)
    if not axes:
        return None
    kept = _kept(table, temperature)
    maps = [np.eye(table.query.shape[axis])[:, table.rows[axis]] for axis in axes]
    return _Tied(
        table, axes, kept, kept * table.stddevs**2, tuple(maps), tuple(spans[table.query.clique[a]] for a in axes)
    )


def _solved(blocks: dict[tuple[str, str], Array], goals: dict[str, Array]) -> dict[str, Array]:
    """The solution of a symmetric system of blocks: columns are eliminated one by one, those with few neighbours first.

    One large factorisation would wake the threads of the linear algebra library, which for matrices of this size cost
    ten times what they save; and most columns share tables with a few others only.
    """
    near: dict[str, set[str]] = {name: set() for name in goals}
    for a, b in blocks:
        near[a].update({b} - {a})
    steps: list[tuple[str, Array, dict[str, Array]]] = []
    while near:
        name = min(near, key=lambda each: (len(near[each]), each))
        inverse: Array = np.asarray(np.linalg.inv(blocks[name, name]), dtype=np.float64)
        others = near.pop(name)
        for a in others:
            near[a] = (near[a] | others) - {a, name}
            share = blocks[a, name] @ inverse
            goals[a] = goals[a] - share @ goals[name]
            for b in others:
                taken = share @ blocks[name, b]
                blocks[a, b] = blocks[a, b] - taken if (a, b) in blocks else -taken
        steps.append((name, inverse, {other: blocks[name, other] for other in others}))
    found: dict[str, Array] = {}
    for name, inverse, given in reversed(steps):
        found[name] = inverse @ (goals[name] - sum(block @ found[other] for other, block in given.items()))
    return found


def _ones(table: Table) -> Array:
    return np.ones((*table.query.shape, 1))


def _adjoint(query: Query, answers: Array) -> Array:
    for axis, (part, size) in enumerate(zip(query.parts, query.domain.shape, strict=True)):
        answers = part.adjoint(answers, axis, size)
    return np.asarray(answers, dtype=np.float64)


def _answered(table: Table, alpha: Array, *, squared: bool = False) -> Array:
    """Q Cov Qᵀ times α under the model; where it is `squared`, the diagonal, whatever α."""
    mass = table.marginal[..., None]
    if squared:
        answers = mass
        for axis, (part, size) in enumerate(zip(table.query.parts, table.query.domain.shape, strict=True)):
            matrix = np.square(part.matrix(size).astype(np.float64))
            answers = np.moveaxis(np.tensordot(matrix, answers, axes=(1, axis)), 0, axis)
        return np.asarray(answers)
    said = _adjoint(table.query, alpha)
    axes = tuple(range(said.ndim - 1))
    answers = mass * (said - np.sum(mass * said, axis=axes) / max(float(mass.sum()), _LEAST))
    for axis, part in enumerate(table.query.parts):
        answers = part.apply(answers, axis)
    return np.asarray(answers)
