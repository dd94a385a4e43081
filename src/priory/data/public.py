"""Public rows: the check that they fit a schema, and their codes. Their cells may be quoted."""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from priory.data.cells import Cells
from priory.data.codec import encode
from priory.data.dialect import USUAL, Dialect
from priory.data.reading import read_cells
from priory.data.schema import Schema
from priory.data.sources import frames
from priory.data.sources.containers import plain_file
from priory.data.sources.files import connect, container_errors, open_file
from priory.data.sources.frame_files import is_frame_file, read_frame_file
from priory.errors import DataError

VALUES_SHOWN = 5


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


def read_public_file(
    path: str | Path, wanted: Collection[str], reading: Dialect = USUAL, columns: Sequence[str] = ()
) -> Mapping[str, Any]:
    """The columns `wanted` of a public file that it has: texts where it is CSV; the arguments are `open_file`'s."""
    if is_frame_file(path):
        return read_frame_file(path, reading, None if reading.header else columns)
    with plain_file(path, reading.encoding) as file, connect() as connection, container_errors(file.shown):
        found = open_file(connection, file, wanted, reading, columns)
        names = [name for name in found.cells if name in wanted]
        selected = [f"{found.cells[name].expression} AS c{i}" for i, name in enumerate(names)]
        arrays = connection.execute(f"SELECT {', '.join(selected) or '1'} FROM {found.table}").fetchnumpy()
    return {name: arrays[f"c{i}"] for i, name in enumerate(names)}


def _checked_cells(schema: Schema, frame: object) -> dict[str, Cells]:
    wanted = [column.name for column in schema.modelled]
    # As text, not by types found from the cells: "007" is a level that a number would lose.
    if isinstance(frame, str | Path):
        frame = read_public_file(frame, wanted, schema.reading, [column.name for column in schema.columns])
    columns = frames.cells_of(frame, wanted)
    for column in schema.modelled:
        name, cells = column.name, columns[column.name]
        readings = read_cells(column, cells)
        is_lost = readings.missing & (not column.nullable)
        wrong = readings.bad | (column.outside(readings.values) & ~readings.missing) | is_lost
        if wrong.any():
            shown = _shown(cells, np.flatnonzero(wrong))
            raise DataError(
                f"{int(wrong.sum()):,} of {len(cells):,} public cells do not fit the schema: {shown}; "
                "correct them, or declare them in the schema",
                column=name,
            )
    return columns


def _shown(cells: Cells, rows: NDArray[np.intp]) -> str:
    """The distinct values at `rows`, a few of them."""
    index = rows if cells.index is None else cells.index[rows]
    is_null = np.zeros(len(rows), dtype=bool) if cells.null is None else cells.null[rows]
    texts = [
        "null" if null else repr(cells.values[i : i + 1].tolist()[0]) for i, null in zip(index, is_null, strict=True)
    ]
    distinct = list(dict.fromkeys(texts))
    return ", ".join(distinct[:VALUES_SHOWN]) + (", …" if len(distinct) > VALUES_SHOWN else "")
