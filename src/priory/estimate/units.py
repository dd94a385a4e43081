"""Units: measurements with no entry of their queries above 1, so that answers of any kind are like counts."""

from dataclasses import replace

import numpy as np

from priory.factor import Array
from priory.privacy.measurement import Measurement
from priory.queries.parts import Identity, Matrix, Part
from priory.queries.query import Query


def in_counts(measurement: Measurement) -> Measurement:
    """The same evidence with every row of the query divided by its largest entry, the answers and their noise too.

    Strategies come with entries of any size, and on a lattice with huge ones. Their scale says nothing: a row, its
    answer and its noise can be multiplied by any number.
    """
    query = measurement.query
    scaled = [_unit(part, size) for part, size in zip(query.parts, query.domain.shape, strict=True)]
    parts = tuple(part for part, _ in scaled)
    if all(new is old for new, old in zip(parts, query.parts, strict=True)):
        return measurement
    tops: Array = np.ones(())
    for _, own in scaled:
        tops = np.multiply.outer(tops, own)
    return replace(
        measurement,
        query=Query(query.domain, parts),
        values=measurement.values / tops,
        stddev=measurement.stddev / tops,
    )


def _unit(part: Part, size: int) -> tuple[Part, Array]:
    """A part with rows divided by their largest entries, and those."""
    if part.is_counting:
        return part, np.ones(part.rows(size))
    entries = part.matrix(size).astype(np.float64)
    tops = np.abs(entries).max(axis=1)
    tops[tops == 0] = 1.0
    entries /= tops[:, None]
    if entries.shape == (size, size) and np.array_equal(entries, np.eye(size)):
        return Identity(), tops
    return (part if (tops == 1).all() else Matrix(entries)), tops
