"""Tables: what rehearsals are made on, in place of the private table: public rows drawn anew, or a stand-in."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from priory.app.forecast.stand_in import stand_in
from priory.data.codec import code_type
from priory.data.schema import Schema
from priory.data.sources.memory import MemorySource
from priory.errors import DataError
from priory.estimate.first_model import uniform
from priory.model.model import Model
from priory.queries.domain import Clique, Domain
from priory.queries.factor import Factor

# Larger tables are rehearsed with so many rows, each of which counts several times.
MOST_ROWS = 200_000
Codes = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Played:
    """A table that plays the private one, and the public rows that a fit of it starts from, as codes.

    Attributes:
        schema: their columns.
        private: one row a record.
        times: how often each of these counts.
        public: None where there are none.
    """

    schema: Schema
    private: Codes
    times: int
    public: Codes | None

    @classmethod
    def of(cls, schema: Schema, rows: int, known: Codes | None, rng: np.random.Generator) -> "Played":
        """About as many rows as are asked for: made up, or drawn from a population that is drawn from the public rows.

        Drawing twice makes the private table differ from the m public rows as one of n rows from the same population
        does: the variance of a share is in proportion to 1/m + 1/n.
        """
        times = -(-rows // MOST_ROWS)
        n = max(1, rows // times)
        if known is None:
            return cls(schema, _made_up(schema, n, rng), times, None)
        population = _allowed(schema, known)
        population = population[rng.integers(0, len(population), len(population))]
        return cls(schema, population[rng.integers(0, len(population), n)], times, known)

    def some(self, columns: int) -> "Played":
        """The same with so many of the columns, evenly: neighbouring columns are often alike."""
        every = len(self.schema.domain)
        if columns == every:
            return self
        places = [i * every // columns for i in range(columns)]
        public = None if self.public is None else self.public[:, places]
        return Played(_some(self.schema, places), self.private[:, places], self.times, public)

    def some_rows(self, rows: int) -> "Played":
        """The same with so many of the rows, which are in no order; with all of them where there are no more."""
        if rows >= len(self.private) * self.times:
            return self
        return replace(self, private=self.private[:rows], times=1)

    @property
    def source(self) -> "Repeated":
        """The private rows as something that a curator can count."""
        domain = self.schema.domain
        columns = tuple(self.private[:, i].astype(code_type(size)) for i, size in enumerate(domain.shape))
        return Repeated(MemorySource(domain, columns, len(self.private)), self.times)


@dataclass(frozen=True, eq=False)
class Repeated:
    """A source each of whose rows counts several times."""

    inner: MemorySource
    times: int

    @property
    def domain(self) -> Domain:
        return self.inner.domain

    @property
    def row_limit(self) -> int:
        return self.inner.row_limit

    def count(self, cliques: Sequence[Clique]) -> list[Factor]:
        return [Factor(counts.domain, counts.values * self.times) for counts in self.inner.count(cliques)]


def _made_up(schema: Schema, rows: int, rng: np.random.Generator) -> Codes:
    """A stand-in without the rows that cannot be; rows of independent columns where none of them can."""
    try:
        drawn = _allowed(schema, stand_in(schema.domain, rows, rng, impossible=list(schema.impossible())))
        return drawn if len(drawn) == rows else drawn[rng.integers(0, len(drawn), rows)]
    except DataError:
        return np.asarray(Model.of(uniform(schema.domain, schema), {}).sample(rows, seed=rng), dtype=np.int64)


def _allowed(schema: Schema, codes: Codes) -> Codes:
    """The rows that the schema's constraints allow; a `DataError` where there are none."""
    keep = np.ones(len(codes), dtype=bool)
    for clique, mask in schema.impossible():
        keep &= ~mask[tuple(codes[:, schema.domain.axis[name]] for name in clique)]
    if not keep.any():
        raise DataError("the schema's constraints allow none of the public rows; correct one of them")
    return codes[keep]


def _some(schema: Schema, places: Sequence[int]) -> Schema:
    """The schema of some columns alone."""
    names = {schema.domain.attributes[i] for i in places}
    columns = [column for column in schema.columns if column.name in names]
    constraints = [each for each in schema.constraints if all(set(clique) <= names for clique in each.cliques)]
    return Schema.of(columns, name=schema.name, constraints=constraints)
