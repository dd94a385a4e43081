"""Codec: from cells to codes and back, by the schema alone."""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from priory.data.cells import Cells, places_of, read_cells
from priory.data.columns import Boolean, Category, ModelledColumn, Moment, Number
from priory.data.constraints import Order
from priory.data.schema import Schema
from priory.data.table import Table
from priory.errors import DataError

Codes = NDArray[np.unsignedinteger[Any]]


def encode(schema: Schema, columns: Mapping[str, Cells]) -> dict[str, Codes]:
    """The codes of every modelled column, in the schema's order.

    Total: no value raises. A bad cell goes to the column's `other_code`, a missing one to its `missing_code`, a number
    or moment out of bounds to the nearest bin.

    Args:
        schema: what the cells mean.
        columns: the cells of at least every modelled column.
    """
    return {column.name: encode_column(column, columns[column.name]) for column in schema.modelled}


def encode_column(column: ModelledColumn, cells: Cells) -> Codes:
    """The codes of one column."""
    readings = read_cells(column, cells)
    places = np.where(readings.bad, column.other_code, places_of(column, readings))
    return np.where(readings.missing, column.missing_code, places).astype(code_type(column.size))


def code_type(size: int) -> np.dtype[np.unsignedinteger[Any]]:
    """The smallest unsigned type that holds codes below `size`."""
    return np.dtype(np.min_scalar_type(size - 1))


def decode(schema: Schema, codes: Mapping[str, NDArray[np.integer[Any]]], rng: np.random.Generator) -> Table:
    """A table that encodes to `codes`: levels, and numbers and moments drawn uniformly inside their bin.

    Integers stay integers, dates stay dates, nulls are nulls; names and order are the schema's. Columns that are not
    modelled (ids and texts) are left out: nothing is known of them. Where the schema says that columns do not fall,
    values from bins that overlap are drawn so that they do not.

    Args:
        schema: what the codes mean.
        codes: the codes of every modelled column.
        rng: draws the values inside their bins; this protects nobody.
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
    return Table.of(columns)


def decode_column(column: ModelledColumn, codes: NDArray[np.integer[Any]], rng: np.random.Generator) -> Cells:
    """The cells of one column."""
    if codes.size and not 0 <= codes.min() <= codes.max() < column.size:
        raise DataError(f"codes must be 0 to {column.size - 1}", column=column.name)
    null = codes == column.places if column.nullable else None
    places = np.minimum(codes, column.places - 1).astype(np.intp)
    match column:
        case Category():
            return Cells(np.array(column.values, dtype=np.int64 if column.whole else object)[places], null)
        case Boolean():
            is_usual = "true" in column.true and "false" in column.false
            return Cells(places == 1, null, spelling=None if is_usual else (column.false[0], column.true[0]))
        case Number():
            edges = np.asarray(column.edges)
            return Cells(_drawn(column, edges[places], edges[places + 1], rng), null)
        case Moment():
            edges = np.asarray(column.edges)
            return Cells(_drawn(column, edges[places], edges[places + 1], rng), null, spelling=column.format)


def _drawn(column: Number | Moment, low: NDArray[Any], high: NDArray[Any], rng: np.random.Generator) -> NDArray[Any]:
    """One value in each [low, high); for reals that end at the upper bound, the bound too."""
    if isinstance(column, Number) and not column.whole:
        share = rng.random(len(low))
        # Not low + share·(high − low): the difference of two finite bounds can be infinite.
        values = low * (1 - share) + high * share
        top = np.where(high == column.high, high, np.nextafter(high, -np.inf))
        return np.asarray(np.clip(values, low, np.maximum(low, top)))
    whole = rng.integers(low, high, dtype=np.int64)
    if isinstance(column, Number):
        return whole
    return whole.astype("datetime64[us]" if column.clock else "datetime64[D]")


def _put_in_order(
    chain: Sequence[ModelledColumn],
    codes: Mapping[str, NDArray[np.integer[Any]]],
    columns: dict[str, Cells],
    rng: np.random.Generator,
) -> None:
    """Draw again, inside the same bins, the rows in which values fall along the chain."""
    binned = [column for column in chain if isinstance(column, Number | Moment)]
    if len(binned) < len(chain) or len({column.kind for column in chain}) > 1:
        return  # levels are not drawn; integers and reals in one chain keep the order of their bins only
    values = [_plain(columns[column.name].values) for column in binned]
    nulls = [
        np.zeros(len(v), dtype=bool) if (n := columns[c.name].null) is None else n
        for c, v in zip(binned, values, strict=True)
    ]
    rows = np.flatnonzero(_any_falls(values, nulls))
    places = [np.minimum(codes[column.name], column.places - 1).astype(np.intp)[rows] for column in binned]
    edges = [np.asarray(column.edges) for column in binned]
    # Below the end of every later bin, or nothing would be left for those.
    ends = [
        np.where(null[rows], edge[-1], edge[place + 1]) for edge, place, null in zip(edges, places, nulls, strict=True)
    ]
    ceilings = list(itertools.accumulate(reversed(ends), np.minimum))[::-1]
    floor = np.full(len(rows), min(edge[0] for edge in edges))
    for column, value, null, edge, place, ceiling in zip(binned, values, nulls, edges, places, ceilings, strict=True):
        low = np.maximum(edge[place], floor)
        can = np.flatnonzero(~null[rows] & _has_room(column, low, edge[place + 1], ceiling))
        floor[can] = _plain(_drawn(column, low[can], ceiling[can], rng))
        value[rows[can]] = floor[can]
        cells = columns[column.name]
        columns[column.name] = Cells(value.astype(cells.values.dtype), cells.null, spelling=cells.spelling)


def _has_room(
    column: Number | Moment, low: NDArray[Any], end: NDArray[Any], ceiling: NDArray[Any]
) -> NDArray[np.bool_]:
    """Where the bin has a value from `low` to `ceiling`; bins of reals may meet in one point, if it is in them."""
    if isinstance(column, Moment) or column.whole:
        return low < ceiling
    return np.asarray((low < ceiling) | ((low == ceiling) & ((low < end) | (end == column.high))))


def _plain(values: NDArray[Any]) -> NDArray[Any]:
    """Moments as integers, numbers as they are."""
    return values.astype(np.int64) if values.dtype.kind == "M" else values


def _any_falls(values: Sequence[NDArray[Any]], nulls: Sequence[NDArray[np.bool_]]) -> NDArray[np.bool_]:
    """Rows in which a value is below an earlier one; nulls are passed over."""
    falls = np.zeros(len(values[0]), dtype=bool)
    highest = values[0].copy()
    highest[nulls[0]] = min(value.min(initial=0) for value in values)
    for value, null in zip(values[1:], nulls[1:], strict=True):
        falls |= ~null & (value < highest)
        highest = np.where(null, highest, np.maximum(highest, value))
    return falls
