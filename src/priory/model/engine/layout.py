"""Layout: numbers over several cliques as one vector, so that solvers step on all of them at once."""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from priory.errors import DomainError
from priory.queries.domain import Clique, Domain
from priory.queries.factor import Array, Factor

Values = Factor | ArrayLike


@dataclass(frozen=True)
class Layout:
    """Where the table of each clique lies in one long vector: one after the other, each in C order."""

    domain: Domain  # all attributes
    cliques: tuple[Clique, ...]  # the cliques, with their axes in the order given

    @classmethod
    def of(cls, domain: Domain, cliques: Iterable[str | Iterable[str]]) -> "Layout":
        """Build a layout, checking that the cliques are of the domain."""
        return cls(domain, tuple(domain.checked(clique) for clique in cliques))

    @cached_property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """The shape of each table."""
        size, axis = self.domain.shape, self.domain.axis
        return tuple(tuple([size[axis[name]] for name in clique]) for clique in self.cliques)

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """The cells of each table."""
        return tuple(int(np.prod(shape, dtype=np.int64)) for shape in self.shapes)

    @cached_property
    def offsets(self) -> tuple[int, ...]:
        """Where each table starts, and at the end where the last one stops."""
        return (0, *np.cumsum(self.sizes, dtype=np.int64).tolist()) if self.cliques else (0,)

    @cached_property
    def spans(self) -> tuple[slice, ...]:
        """Where each table lies."""
        return tuple(itertools.starmap(slice, itertools.pairwise(self.offsets)))

    @property
    def size(self) -> int:
        """The cells of all tables."""
        return self.offsets[-1]

    def pack(self, values: Mapping[Any, Values] | Sequence[Values]) -> Array:
        """The tables, one for each clique, as one vector; a sequence of them is in the order of the cliques."""
        if isinstance(values, Mapping):
            if missing := [list(clique) for clique in self.cliques if clique not in values]:
                raise DomainError(f"no values were given for the cliques {missing}")
            values = [values[clique] for clique in self.cliques]
        if len(values) != len(self.cliques):
            raise DomainError(f"{len(values)} tables were given for {len(self.cliques)} cliques")
        vector = np.empty(self.size)
        for clique, shape, span, table in zip(self.cliques, self.shapes, self.spans, values, strict=True):
            vector[span] = _checked(table, clique, shape).reshape(-1)
        return vector

    def unpack(self, vector: Array) -> dict[Clique, Factor]:
        """The tables of a vector, as views of it."""
        tables = zip(self.cliques, self.shapes, self.spans, strict=True)
        return {clique: Factor(Domain(clique, shape), vector[span].reshape(shape)) for clique, shape, span in tables}


def potentials_of(domain: Domain, potentials: Mapping[Any, Values]) -> dict[Clique, Factor]:
    """Potentials by clique; a `DomainError` unless all fit the domain and hold numbers or −∞."""
    checked: dict[Clique, Factor] = {}
    for key, table in potentials.items():
        clique = domain.checked(key)
        shape = domain.project(clique).shape
        values = _checked(table, clique, shape)
        if not (values < np.inf).all():
            raise DomainError(f"potentials of {list(clique)} must be numbers or −inf; they contain NaN or +inf")
        checked[clique] = Factor(Domain(clique, shape), values)
    return checked


def _checked(table: Values, clique: Clique, shape: tuple[int, ...]) -> Array:
    if isinstance(table, Factor):
        if table.domain.attributes != clique:
            raise DomainError(f"values over {list(table.domain)} were given for the clique {list(clique)}")
        table = table.values
    array = np.asarray(table)
    if array.dtype.kind not in "biuf":
        raise DomainError(f"values of {list(clique)} must be real numbers; got {array.dtype}")
    if array.shape != shape:
        raise DomainError(f"values of {list(clique)} have shape {array.shape}, the domain says {shape}")
    return np.asarray(array, dtype=np.float64)
