"""Drawn rows: answers counted on rows drawn from a model, where working them out exactly would take too much memory."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from priory.model.model import Model
from priory.model.sampling import Codes
from priory.model.tilted import row_cells
from priory.queries.domain import Clique
from priory.queries.factor import Array
from priory.queries.query import Query

# How many rows are drawn: a share of a tenth is then known to a thousandth.
ROWS = 200_000
_SEED = 0


@dataclass(frozen=True, eq=False)
class DrawnRows:
    """Rows drawn from a model independently, the same each time."""

    model: Model

    @cached_property
    def codes(self) -> Codes:
        """The rows."""
        return self.model.sample(ROWS, seed=_SEED, method="independent")

    def answer(self, query: Query) -> Array:
        """The answers to a query, in records."""
        return self.model.total * self._mean(query, np.ones(ROWS))

    def stddev(self, query: Query, answer: Array) -> Array:
        """The standard deviation of those answers, as if one more row had been found of each."""
        squares = self._mean(query, np.ones(ROWS), squared=True) + 1 / ROWS
        mean = answer / max(self.model.total, 1.0)
        return self.model.total * np.sqrt(np.maximum(squares - mean**2, 1 / ROWS) / ROWS)

    def moved(self, query: Query, said: Mapping[Clique, Array], most: int) -> Array:
        """How far the answers move along at most so many directions of the potentials, one more axis in front."""
        return np.array([self.model.total * self._mean(query, each) for each in self._along(said)[:most]])

    def _along(self, said: Mapping[Clique, Array]) -> Array:
        if not self._kept:
            cells = ((row_cells(self.codes, self.model.domain, c), table) for c, table in said.items())
            along = np.asarray(sum(table.reshape(-1, table.shape[-1]).T[:, where] for where, table in cells))
            self._kept.append(along - along.mean(axis=1, keepdims=True))
        return self._kept[0]

    @cached_property
    def _kept(self) -> list[Array]:
        """What directions say of each row, for the next question."""
        return []

    def _mean(self, query: Query, weights: Array, *, squared: bool = False) -> Array:
        """The mean over all rows of the query's entries, or of their squares, times the rows' weights."""
        domain, names, parts = self.model.domain, [], []
        for name, part in zip(query.clique, query.parts, strict=True):
            if part.rows(domain[name]) > 1:
                names.append(name)
                parts.append(part)
            else:
                [entries] = part.matrix(domain[name]).astype(np.float64)
                weights = weights * (entries**2 if squared else entries)[self.codes[:, domain.axis[name]]]
        shape = tuple(domain[name] for name in names)
        cells = row_cells(self.codes, domain, tuple(names))
        answers = np.bincount(cells, weights, math.prod(shape)).reshape(shape) / ROWS
        for axis, part in enumerate(parts):
            if squared and not part.is_counting:
                matrix = part.matrix(shape[axis]).astype(np.float64) ** 2
                answers = np.moveaxis(np.tensordot(matrix, answers, axes=(1, axis)), 0, axis)
            else:
                answers = part.apply(answers, axis)
        return np.asarray(answers, dtype=np.float64).reshape(query.shape)
