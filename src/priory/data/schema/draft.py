"""Draft: columns that fit a public table. Never for private rows: levels and bounds are read from the cells."""

import datetime as dt
import glob
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from priory.data.cells import Cells, is_null
from priory.data.kinds import KINDS, Column, Unmodelled
from priory.data.sources import frames
from priory.data.sources.files import PARQUET_SUFFIXES, check_readable, connect, container_errors
from priory.data.sql import literal
from priory.data.table import Table
from priory.errors import DataError


def columns_of(data: object) -> list[Column]:
    """Columns that fit a public table, in its order.

    Texts become categories (with more than 100 distinct ones: free text); numbers get bins and spikes by a forecast of
    their means and quantiles (`kinds/drafting.py`); dates get years, months or days. Every column gets a declared place
    for cells that later turn out not to fit.
    """
    frame = read_public(data) if isinstance(data, str | Path) else data
    names = frames.names_of(frame)
    if not names:
        raise DataError("the public table has no columns")
    return [_column(name, cells) for name, cells in frames.cells_of(frame, names).items()]


def read_public(path: str | Path) -> Table:
    """A public CSV or Parquet file as a table, with types found from its cells."""
    path = check_readable(path)
    with connect() as connection, container_errors(path):
        table = literal(glob.escape(str(path)))
        reader = "read_parquet" if path.name.lower().endswith(PARQUET_SUFFIXES) else "read_csv"
        relation = connection.sql(f"FROM {reader}({table}{'' if reader == 'read_parquet' else ', header = true'})")
        names, arrays = relation.columns, relation.fetchnumpy()
    return Table.of({name: frames.array_cells(arrays[name]) for name in names})


def _column(name: str, cells: Cells) -> Column:
    values, is_nullable = _present(cells)
    drafts = (kind.draft(name, values, nullable=is_nullable) for kind in KINDS) if len(values) else iter(())
    return next((column for column in drafts if column is not None), Unmodelled.of(name, kind="text"))


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
