"""Grid: the combinations of values that get an answer each, and the terms that count them."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from priory.answer.basis import Basis, Drawn, ScaledQuery
from priory.answer.hidden import Noisy
from priory.answer.selection import Selection
from priory.answer.where import Box, Where, modelled
from priory.data.cells import Cells
from priory.data.codec import cells_of
from priory.data.kinds import ModelledColumn
from priory.data.schema import Schema
from priory.errors import OptionError
from priory.queries.factor import Array
from priory.queries.parts import Identity, Matrix, Part, Set
from priory.queries.query import Query

EVERYTHING = ~Selection()
Names = str | Iterable[str]


@dataclass(frozen=True, eq=False)
class Grid:
    """Combinations of values of some columns, of rows that a condition selects.

    Attributes:
        basis: what answers rest on.
        columns: the columns, in the order of the answer.
        where: the condition.
        codes: for each column, the codes that the condition leaves.
    """

    basis: Basis
    columns: tuple[ModelledColumn, ...]
    where: Where
    codes: tuple[NDArray[np.int64], ...]

    @classmethod
    def of(cls, basis: Basis, names: Names, where: Where, target: str | None = None) -> "Grid":
        """Build it from the columns' names, checking them."""
        columns = checked_columns(basis.schema, names)
        if target is not None and target in [column.name for column in columns]:
            raise OptionError("by", f"{target!r} is what is asked about; it cannot also make the groups")
        codes = []
        for column in columns:
            kept = sum(box.get(column.name, EVERYTHING).weights(column) for box in where.boxes)
            codes.append(np.flatnonzero(kept))
        return cls(basis, columns, where, tuple(codes))

    @property
    def names(self) -> tuple[str, ...]:
        """The columns' names."""
        return tuple(column.name for column in self.columns)

    @property
    def shape(self) -> tuple[int, ...]:
        """How many values each column has here."""
        return tuple(len(codes) for codes in self.codes)

    def cells(self, times: int = 1, rounds: int = 1) -> dict[str, Cells]:
        """The columns of the answer's table: each combination `times` times, and all of them again in each round."""
        places = np.indices(self.shape).reshape(len(self.shape), self.size)
        return {
            column.name: cells_of(column, codes[np.tile(np.repeat(place, times), rounds)])
            for column, codes, place in zip(self.columns, self.codes, places, strict=True)
        }

    def drawn(self, target: str | None = None) -> list[Drawn]:
        """How many rows there are of every combination, for each box; with `target`, also of each of its values.

        The last axis is that of the target's codes, whatever the condition says of it; it has one entry without one.
        """
        terms = [self._term(box, target) for box in self.where.boxes]
        return [self._kept(found) for found in self.basis.drawn(terms)]

    def measured(self, target: str) -> list[Noisy]:
        """The counts of `drawn` from measurements alone."""
        found = []
        for term in [self._term(box, target) for box in self.where.boxes]:
            noisy = Noisy.of(term.query, self.basis.ground.marginals(term.query.clique))
            found.append(Noisy(*(self._selected(term.laid(each)) for each in (noisy.values, noisy.stddev))))
        return found

    @property
    def size(self) -> int:
        """How many combinations there are."""
        return math.prod(self.shape)

    def _kept(self, found: Drawn) -> Drawn:
        """The combinations that the condition leaves, in one axis before that of the target."""
        estimate, hidden = self._selected(found.estimate), self._selected(found.hidden)
        repeats = np.array([self._selected(each) for each in found.repeats])
        return Drawn(estimate, repeats.reshape(len(found.repeats), *estimate.shape), hidden, found.source)

    def _selected(self, cells: Array) -> Array:
        return cells[np.ix_(*self.codes, np.arange(cells.shape[-1]))].reshape(self.size, cells.shape[-1])

    def _term(self, box: Box, target: str | None) -> ScaledQuery:
        schema = self.basis.schema
        parts: dict[str, Part] = dict.fromkeys((*self.names, *([] if target is None else [target])), Identity())
        for name, selection in box.items():
            if name not in parts:
                parts.update(part_of(name, selection.weights(modelled(schema, name))))
        query = Query.product(self.basis.ground.domain, parts)
        return ScaledQuery(query, self._scale(query, box), self.names)

    def _scale(self, query: Query, box: Box) -> Array | float:
        """How much of each combination's bins the box holds."""
        scale = np.ones(())
        for axis, name in enumerate(query.clique):
            if name in self.names and name in box:
                weights = box[name].weights(modelled(self.basis.schema, name))
                scale = scale * weights.reshape([-1 if i == axis else 1 for i in range(len(query.clique))])
        return scale


def checked_columns(schema: Schema, names: Names, argument: str = "columns") -> tuple[ModelledColumn, ...]:
    """The modelled columns of these names, each named once."""
    if not isinstance(names, Iterable):
        raise OptionError(argument, f"the name of a column, or a list of names; got {names!r}")
    names = (names,) if isinstance(names, str) else tuple(names)
    columns = tuple(modelled(schema, name, argument) for name in names)
    twice = [name for i, name in enumerate(names) if name in names[:i]]
    if twice:
        raise OptionError(argument, f"{twice[0]!r} is named twice")
    return columns


def part_of(name: str, weights: Array) -> dict[str, Part]:
    """How a condition reads a column: nothing at all where it selects everything."""
    if (weights == 1).all():
        return {}
    if ((weights == 0) | (weights == 1)).all():
        return {name: Set(np.flatnonzero(weights).tolist())}
    return {name: Matrix(weights[None, :])}
