"""Public data: a schema made from it, and the check that it fits one. Never for private rows."""

import calendar
import datetime as dt
import glob
import math
import sys
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from priory.data import bins, frames
from priory.data.cells import Cells, days_or_microseconds, is_null, out_of_bounds, read_cells
from priory.data.codec import encode
from priory.data.columns import Boolean, Category, Column, ModelledColumn, Moment, Number, Unmodelled
from priory.data.declared import MOST_WHOLE
from priory.data.files import PARQUET_SUFFIXES, check_readable, connect, container_errors, read_public_file
from priory.data.moments import DAY_ZERO, MICROSECONDS_A_DAY
from priory.data.schema import Schema
from priory.data.sql import literal
from priory.data.table import Table
from priory.errors import DataError

MOST_LEVELS = 100
MOST_SINGLE = 100
USUAL_BINS = 20
VALUES_SHOWN = 5
LARGEST = Fraction(sys.float_info.max)


def columns_of(data: object) -> list[Column]:
    """Columns that fit a public table, in its order.

    Texts become categories (with more than 100 distinct ones: free text); integers get a bin each up to 100 of them,
    else about 20 bins of equal width between round bounds, as reals do; dates get years, months or days. Every column
    gets a declared place for cells that later turn out not to fit.
    """
    frame = read_public(data) if isinstance(data, str | Path) else data
    names = frames.names_of(frame)
    if not names:
        raise DataError("the public table has no columns")
    return [_column(name, cells) for name, cells in frames.cells_of(frame, names).items()]


def check_public(schema: Schema, frame: object) -> None:
    """Refuse a public table that does not fit the schema. Its values may be quoted: they are public.

    Raises:
        DataError: a column is missing, or has cells that would go to `other` or be clamped.
    """
    _checked_cells(schema, frame)


def public_codes(schema: Schema, frame: object) -> NDArray[np.int64]:
    """The rows of a public table as codes, one column for each attribute, once it is found to fit the schema.

    Raises:
        DataError: as for `check_public`, or there are no rows.
    """
    codes = encode(schema, _checked_cells(schema, frame))
    table = np.stack(list(codes.values()), axis=1, dtype=np.int64)
    if not len(table):
        raise DataError("the public table has no rows; leave it out, or bring one that has")
    return table


def _checked_cells(schema: Schema, frame: object) -> dict[str, Cells]:
    wanted = [column.name for column in schema.modelled]
    # As text, not by types found from the cells: "007" is a level that a number would lose.
    frame = read_public_file(frame, wanted) if isinstance(frame, str | Path) else frame
    found = frames.cells_of(frame, wanted)
    for name, cells in found.items():
        column = cast(ModelledColumn, schema.column(name))
        readings = read_cells(column, cells)
        lost = readings.missing & (not column.nullable)
        wrong = readings.bad | out_of_bounds(column, readings) | lost
        if wrong.any():
            shown = _shown(cells, np.flatnonzero(wrong))
            raise DataError(
                f"{int(wrong.sum()):,} of {len(cells):,} public cells do not fit the schema: {shown}; "
                "correct them, or declare them in the schema",
                column=name,
            )
    return found


def read_public(path: str | Path) -> Table:
    """A public CSV or Parquet file as a table, with types found from its cells."""
    path = check_readable(path)
    with connect() as connection, container_errors(path):
        table = literal(glob.escape(str(path)))
        reader = "read_parquet" if path.name.lower().endswith(PARQUET_SUFFIXES) else "read_csv"
        relation = connection.sql(f"FROM {reader}({table}{'' if reader == 'read_parquet' else ', header = true'})")
        names, arrays = relation.columns, relation.fetchnumpy()
    return Table.of({name: frames.array_cells(arrays[name]) for name in names})


def _shown(cells: Cells, rows: NDArray[np.intp]) -> str:
    """The distinct values at `rows`, a few of them."""
    index = rows if cells.index is None else cells.index[rows]
    is_null = np.zeros(len(rows), dtype=bool) if cells.null is None else cells.null[rows]
    texts = [
        "null" if null else repr(cells.values[i : i + 1].tolist()[0]) for i, null in zip(index, is_null, strict=True)
    ]
    distinct = list(dict.fromkeys(texts))
    return ", ".join(distinct[:VALUES_SHOWN]) + (", …" if len(distinct) > VALUES_SHOWN else "")


def _column(name: str, cells: Cells) -> Column:
    values, is_nullable = _present(cells)
    kind = values.dtype.kind if len(values) else "V"
    if kind == "O":
        return _category(name, values, nullable=is_nullable)
    if kind == "b":
        return Boolean.of(name, nullable=True)
    if kind in "iuf" and (np.floor(values) == values).all() and (np.abs(values.astype(float)) <= MOST_WHOLE).all():
        return _whole(name, int(values.min()), int(values.max()))
    if kind in "iuf":
        return _real(name, float(values.min()), float(values.max()))
    if kind == "M":
        return _moment(name, values)
    return Unmodelled.of(name, kind="text")


def _present(cells: Cells) -> tuple[NDArray[Any], bool]:
    """The cells that are there, as an array of their common type ("V" if they have none), and whether some are not."""
    values = cells.values if cells.index is None else cells.values[cells.index]
    if cells.null is not None:
        values = values[~cells.null]
    if values.dtype.kind in "OUT":
        values = _typed([cell for cell in values.astype(object) if not is_null(cell)])
    elif values.dtype.kind in "fM":
        values = values[~np.isnan(values)]
    if values.dtype.kind == "f":
        values = values[np.isfinite(values)]
    return values, len(values) < len(cells)


def _typed(cells: Sequence[object]) -> NDArray[Any]:
    """Python objects as one array: of texts, of booleans, of numbers, of moments, or of nothing known."""

    def all_are(*types: type) -> bool:
        return all(isinstance(cell, types) for cell in cells)

    if all_are(str):
        return np.fromiter(cells, dtype=object, count=len(cells))
    if all_are(bool, np.bool_):
        return np.array(cells, dtype=bool)
    if all_are(int, float, Decimal, np.integer, np.floating) and not any(isinstance(cell, bool) for cell in cells):
        return np.array([float(cast(float, cell)) for cell in cells])
    if all_are(dt.date, np.datetime64) and not any(getattr(cell, "tzinfo", None) for cell in cells):
        return np.array(cells, dtype="datetime64[us]")
    return np.zeros(len(cells), dtype="V1")


def _category(name: str, values: NDArray[Any], *, nullable: bool) -> Column:
    levels = sorted(set(values))
    if len(levels) > MOST_LEVELS:
        return Unmodelled.of(name, kind="text")
    return Category.of(name, levels, other="other", nullable=nullable)


def _whole(name: str, low: int, high: int) -> Column:
    if high - low < MOST_SINGLE:
        return Number.of(name, whole=True, low=low, high=high, nullable=True)
    step = max(int(_round_step(low, high)), 1)
    first, last = low // step * step, (high // step + 1) * step
    last = min(last, MOST_WHOLE)
    edges = [*range(first, last, step), last]
    return Number.of(name, whole=True, low=first, high=last - 1, edges=edges, nullable=True)


def _real(name: str, low: float, high: float) -> Column:
    step = _round_step(low, high)
    first = math.floor(Fraction(low) / step)
    last = max(math.ceil(Fraction(high) / step), first + 1)
    # Beyond the largest float there is no round bound.
    rounded = (float(min(max(step * i, -LARGEST), LARGEST)) for i in range(first - 1, last + 1))
    edges = list(dict.fromkeys(rounded))
    edges = edges[1:] if len(edges) > 2 and edges[1] <= low else edges
    return Number.of(name, whole=False, low=edges[0], high=edges[-1], edges=edges, nullable=True)


def _round_step(low: float, high: float) -> Fraction:
    """The smallest of 1, 2, 5, 10, … (or 0.1, 0.2, …) that makes no more than the usual number of bins."""
    width = (Fraction(high) - Fraction(low)) / USUAL_BINS or Fraction(1, USUAL_BINS)
    # Wide enough for neighbouring edges to be different floats.
    width = max(width, 4 * Fraction(math.ulp(max(abs(low), abs(high)))))
    power = Fraction(10) ** math.floor(math.log10(width))
    return next(power * digit for digit in (1, 2, 5, 10, 20) if power * digit >= width)


def _moment(name: str, values: NDArray[Any]) -> Column:
    moments = days_or_microseconds(values, clock=True)
    is_clock = bool((moments % MICROSECONDS_A_DAY).any())
    first, last = (int(moment) // MICROSECONDS_A_DAY for moment in (moments.min(), moments.max()))
    days = last - first
    every: bins.Every = (
        "year" if days > 3650 else "month" if days > 62 else "day" if days > 2 or not is_clock else "hour"
    )
    dates = [dt.date.fromordinal(day + DAY_ZERO) for day in (first, last)]
    if every == "year":
        dates = [dates[0].replace(month=1, day=1), dates[1].replace(month=12, day=31)]
    elif every == "month":
        end = calendar.monthrange(dates[1].year, dates[1].month)[1]
        dates = [dates[0].replace(day=1), dates[1].replace(day=end)]
    low, end_day = (date.toordinal() - DAY_ZERO for date in dates)
    day = MICROSECONDS_A_DAY if is_clock else 1
    low, high = low * day, (end_day + 1) * day - 1
    edges = bins.calendar_units(name, low, high, every, clock=is_clock)
    return Moment.of(name, clock=is_clock, low=low, high=high, edges=edges, nullable=True)
