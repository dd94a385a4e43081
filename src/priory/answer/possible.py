"""Possible: what an answer can be at all where nothing measured speaks of some of its attributes."""

import itertools
from collections.abc import Set

import numpy as np

from priory.domain import Domain
from priory.factor import Array
from priory.queries.parts import Identity, Part
from priory.queries.query import Query


def known_part(query: Query, known: Set[str], domain: Domain) -> Query:
    """The query with the attributes that nothing is known of summed out; itself where there are none."""
    if set(query.clique) <= known:
        return query
    parts = {name: part for name, part in zip(query.clique, query.parts, strict=True) if name in known}
    return Query.product(domain, parts)


def possible(query: Query, low: Array, high: Array, known: Set[str]) -> tuple[Array, Array]:
    """The ends of a query's answers, from those of its known part: its records may lie anywhere along the others."""
    sizes = iter(low.shape)
    shape = [next(sizes) if name in known else 1 for name in query.clique]
    ends = (low.reshape(shape), high.reshape(shape))
    for axis, (name, part, size) in enumerate(zip(query.clique, query.parts, query.domain.shape, strict=True)):
        if name not in known:
            along = [-1 if i == axis else 1 for i in range(len(shape))]
            weights = [weight.reshape(along) for weight in _weights(part, size)]
            products = [end * weight for end, weight in itertools.product(ends, weights)]
            ends = np.minimum.reduce(products), np.maximum.reduce(products)
    return ends


def _weights(part: Part, size: int) -> tuple[Array, Array]:
    """The least and the most that one record can add to each row of a part."""
    if isinstance(part, Identity):
        return np.full(size, 1.0 if size == 1 else 0.0), np.ones(size)
    matrix = part.matrix(size).astype(np.float64)
    return matrix.min(axis=1), matrix.max(axis=1)
