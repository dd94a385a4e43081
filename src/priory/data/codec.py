"""Codec: from cells to codes and back, by the schema alone."""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from priory.data.cells import Cells
from priory.data.kinds import ModelledColumn
from priory.data.reading import read_cells
from priory.data.schema import Schema
from priory.data.schema.constraints import Order
from priory.data.table import Table
from priory.errors import DataError

Codes = NDArray[np.unsignedinteger[Any]]
Mask = NDArray[np.bool_]


def encode(schema: Schema, columns: Mapping[str, Cells]) -> dict[str, Codes]:
    """The codes of every modelled column, in the schema's order, from the cells of at least these columns.

    Total: no value raises. A bad cell goes to the column's `other_code`, a missing one to its `missing_code`, a number
    or moment out of bounds to the nearest bin.
    """
    return {column.name: encode_column(column, columns[column.name]) for column in schema.modelled}


def encode_column(column: ModelledColumn, cells: Cells) -> Codes:
    """The codes of one column."""
    readings = read_cells(column, cells)
    places = np.where(readings.bad, column.other_code, column.places_of(readings.values))
    return np.where(readings.missing, column.missing_code, places).astype(code_type(column.size))


def code_type(size: int) -> np.dtype[np.unsignedinteger[Any]]:
    """The smallest unsigned type that holds codes below `size`."""
    return np.dtype(np.min_scalar_type(size - 1))


def decode(schema: Schema, codes: Mapping[str, NDArray[np.integer[Any]]], rng: "np.random.Generator") -> Table:
    """A table that encodes to `codes`: levels, and numbers and moments drawn inside their bin.

    Inside a bin they are spread evenly, or as the columns are shaped (`ModelledColumn.shaped`).

    Integers stay integers, dates stay dates, nulls are nulls; names and order are the schema's. Columns that are not
    modelled (ids and texts) are left out: nothing is known of them. Where the schema says that columns do not fall,
    values from bins that overlap are drawn so that they do not.
    """
    columns = {}
    for column in schema.modelled:
        if column.name not in codes:
            raise DataError("there are no codes for this column", column=column.name)
        columns[column.name] = decode_column(column, np.asarray(codes[column.name]), rng)
    for constraint in schema.constraints:
        if isinstance(constraint, Order):
            chain = [column for column in schema.modelled if column.name in constraint.columns]
            chain.sort(key=lambda column: constraint.columns.index(column.name))
            _put_in_order(chain, codes, columns, rng)
    return Table.of(columns, schema.reading)


def decode_column(column: ModelledColumn, codes: NDArray[np.integer[Any]], rng: "np.random.Generator") -> Cells:
    """The cells of one column."""
    if codes.size and not 0 <= codes.min() <= codes.max() < column.size:
        raise DataError(f"codes must be 0 to {column.size - 1}", column=column.name)
    places, null = _places(column, codes)
    edges = np.asarray(column.edges)
    spans = edges[places], edges[places + 1]
    points = column.located(places, spans, rng.random(len(places))) if column.is_binned else places
    return Cells(column.values_at(points), null, spelling=column.spelling)


def cells_of(column: ModelledColumn, codes: NDArray[np.integer[Any]]) -> Cells:
    """What codes stand for: levels, true and false, whole numbers and days where a bin is one, else bins as texts."""
    places, null = _places(column, codes)
    return Cells(column.place_values[places], null)


def _places(column: ModelledColumn, codes: NDArray[np.integer[Any]]) -> tuple[NDArray[np.intp], Mask | None]:
    """The place of each code, and where it is null."""
    null = codes == column.places if column.nullable else None
    return np.minimum(codes, column.places - 1).astype(np.intp), null


def _put_in_order(
    chain: Sequence[ModelledColumn],
    codes: Mapping[str, NDArray[np.integer[Any]]],
    columns: dict[str, Cells],
    rng: "np.random.Generator",
) -> None:
    """Draw again, inside the same bins, the rows in which values fall along the chain."""
    if not chain[0].is_binned or len({column.kind for column in chain}) > 1:
        return  # levels are not drawn; integers and reals in one chain keep the order of their bins only
    values = [columns[column.name].values for column in chain]
    values = [value.astype(np.int64) if value.dtype.kind == "M" else value for value in values]  # moments as integers
    given = [columns[column.name].null for column in chain]
    nulls = [np.zeros(len(values[0]), dtype=bool) if null is None else null for null in given]
    rows = np.flatnonzero(_any_falls(values, nulls))
    places = [_places(column, codes[column.name])[0][rows] for column in chain]
    edges = [np.asarray(column.edges) for column in chain]
    # Below the end of every later bin, or nothing would be left for those.
    ends = [np.where(null[rows], e[-1], e[place + 1]) for e, place, null in zip(edges, places, nulls, strict=True)]
    ceilings = list(itertools.accumulate(reversed(ends), np.minimum))[::-1]
    floor = np.full(len(rows), min(edge[0] for edge in edges))
    for column, value, null, edge, place, ceiling in zip(chain, values, nulls, edges, places, ceilings, strict=True):
        low = np.maximum(edge[place], floor)
        can = np.flatnonzero(~null[rows] & _has_room(column, low, edge[place + 1], ceiling))
        floor[can] = column.located(place[can], (low[can], ceiling[can]), rng.random(len(can)))
        value[rows[can]] = floor[can]
        cells = columns[column.name]
        columns[column.name] = Cells(value.astype(cells.values.dtype), cells.null, spelling=cells.spelling)


def _has_room(column: ModelledColumn, low: NDArray[Any], end: NDArray[Any], ceiling: NDArray[Any]) -> Mask:
    """Where the bin has a value from `low` to `ceiling`; bins of reals may meet in one point, if it is in them."""
    if column.is_whole:
        return np.asarray(low < ceiling)
    return np.asarray((low < ceiling) | ((low == ceiling) & ((low < end) | (end == column.edges[-1]))))


def _any_falls(values: Sequence[NDArray[Any]], nulls: Sequence[NDArray[np.bool_]]) -> NDArray[np.bool_]:
    """Rows in which a value is below an earlier one; nulls are passed over."""
    falls = np.zeros(len(values[0]), dtype=bool)
    highest = values[0].copy()
    highest[nulls[0]] = min(value.min(initial=0) for value in values)
    for value, null in zip(values[1:], nulls[1:], strict=True):
        falls |= ~null & (value < highest)
        highest = np.where(null, highest, np.maximum(highest, value))
    return falls
