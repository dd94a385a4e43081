"""Terms: codes, points and edges as the values that people wrote in their schema."""

import itertools
from typing import Any

import numpy as np
from numpy.typing import NDArray

from priory.data.cells import Cells
from priory.data.columns import Boolean, Category, ModelledColumn, Moment, Number
from priory.factor import Array


def cells_of(column: ModelledColumn, codes: NDArray[np.integer[Any]]) -> Cells:
    """What codes stand for: levels, true and false, whole numbers and days where a bin is one, else bins as texts."""
    null = codes == column.places if column.nullable else None
    places = np.minimum(codes, column.places - 1).astype(np.intp)
    match column:
        case Category():
            return Cells(np.array(column.values, dtype=np.int64 if column.whole else object)[places], null)
        case Boolean():
            return Cells(places == 1, null)
        case Number() if column.whole and _is_single(column):
            return Cells(np.asarray(column.edges[:-1], dtype=np.int64)[places], null)
        case Moment() if not column.clock and _is_single(column):
            return Cells(np.asarray(column.edges[:-1], dtype=np.int64).astype("datetime64[D]")[places], null)
    return Cells(np.array(column.place_labels, dtype=object)[places], null)


def upper_ends(column: ModelledColumn) -> Cells:
    """For each place, the largest value that it holds; levels are themselves."""
    if isinstance(column, Category | Boolean):
        return cells_of(column, np.arange(column.places))
    ends = np.asarray(column.edges[1:])
    return cells_at(column, ends - 1 if isinstance(column, Moment) or column.whole else ends)


def cells_at(column: ModelledColumn, points: NDArray[Any]) -> Cells:
    """Points of a column's line as values of its kind; NaN is missing. Whole kinds are rounded down."""
    null = np.isnan(points) if points.dtype.kind == "f" else np.zeros(len(points), dtype=bool)
    known = np.where(null, 0, points)
    match column:
        case Number() if not column.whole:
            values: NDArray[Any] = known.astype(np.float64)
        case Number():
            values = np.floor(known).astype(np.int64)
        case Moment():
            values = np.floor(known).astype(np.int64).astype("datetime64[us]" if column.clock else "datetime64[D]")
        case Category() if column.whole:
            values = np.asarray(column.values, dtype=np.int64)[_places(column, known)]
        case Category():
            values = np.array(column.values, dtype=object)[_places(column, known)]
        case Boolean():
            values = _places(column, known) == 1
    return Cells(values, null if null.any() else None)


def means_at(column: ModelledColumn, values: Array) -> Cells:
    """Averages of a column: moments for moments, real numbers for all others; NaN is missing."""
    null = np.isnan(values)
    if isinstance(column, Moment):
        return cells_at(column, values)
    return Cells(np.where(null, 0.0, values), null if null.any() else None)


def _places(column: ModelledColumn, points: NDArray[Any]) -> NDArray[np.intp]:
    return np.asarray(np.clip(np.floor(points), 0, column.places - 1), dtype=np.intp)


def _is_single(column: Number | Moment) -> bool:
    return all(after - before == 1 for before, after in itertools.pairwise(column.edges))
