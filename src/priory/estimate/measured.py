"""Measured: measurements as an estimate takes them: in counts, with some noise, the public number of rows aside."""

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from priory.privacy.measurement import Measurement
from priory.queries.factor import Array
from priory.queries.parts import Identity, Matrix, Part
from priory.queries.query import Query

# Where a budget is so large that noise all but vanishes, a tenth of a count is still allowed for.
LEAST_STDDEV = 0.1


def evidence(measurements: Iterable[Measurement]) -> list[Measurement]:
    """What an estimate rests on: what noise was added to, in counts; the number of rows aside where that is public."""
    return noisy([in_counts(m) for m in measurements if m.query.clique or not m.is_public], LEAST_STDDEV)


def noisy(measurements: Iterable[Measurement], least: float) -> list[Measurement]:
    """The measurements, none with less noise than a standard deviation of `least`: estimators divide by it."""
    return [m if np.min(m.stddev) >= least else _blurred(m, least) for m in measurements]


def _blurred(measurement: Measurement, least: float) -> Measurement:
    stddev = np.maximum(measurement.stddev, least)
    return replace(measurement, stddev=stddev if stddev.ndim else float(stddev))


def smallest(measurements: Sequence[Measurement], most_cells: int) -> list[Measurement]:
    """Those of the smallest tables, in their order, as many as have this many answers together.

    What the largest ones tell of any answer is little: their cells are the most, and the emptiest.
    """
    order = sorted(range(len(measurements)), key=lambda i: measurements[i].query.rows)
    cells = itertools.accumulate(measurements[i].query.rows for i in order)
    kept = {i for i, count in zip(order, cells, strict=True) if count <= most_cells}
    return [m for i, m in enumerate(measurements) if i in kept]


def public_total(measurements: Iterable[Measurement]) -> float | None:
    """The number of rows, where it was measured without noise because it is public."""
    totals = [float(m.values) for m in measurements if not m.query.clique and m.is_public]
    return max(1.0, totals[0]) if totals else None


def in_counts(measurement: Measurement) -> Measurement:
    """The same evidence with every row of the query divided by its largest entry, the answers and their noise too."""
    # Strategies come with entries of any size, and on a lattice with huge ones. Their scale says nothing: a row, its
    # answer and its noise can be multiplied by any number.
    query = measurement.query
    scaled = [_unit(part, size) for part, size in zip(query.parts, query.domain.shape, strict=True)]
    parts = tuple(part for part, _ in scaled)
    if all(new is old for new, old in zip(parts, query.parts, strict=True)):
        return measurement
    tops: Array = np.ones(())
    for _, own in scaled:
        tops = np.multiply.outer(tops, own)
    values, stddev = measurement.values / tops, measurement.stddev / tops
    return replace(measurement, query=Query(query.domain, parts), values=values, stddev=stddev)


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
