"""Survey: the distinct cells of a public table's columns, and how often each occurs. Never for private rows."""

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from priory.data.cells import Cells, Unread, is_null
from priory.data.dialect import Dialect
from priory.data.kinds.numbers import of_typed
from priory.data.moments import microseconds_of
from priory.data.sources import frames
from priory.data.sources.containers import PARQUET_SUFFIXES, plain_file
from priory.data.sources.files import OpenTable, connect, container_errors, open_file
from priory.data.sources.frame_files import is_frame_file, read_frame_file
from priory.data.sql import Cell

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

Counts = NDArray[np.int64]
NONE: Counts = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class Seen:
    """The distinct cells of one column, and how often each occurs."""

    name: str
    rows: int  # with cells that are missing
    texts: NDArray[np.object_]  # the most frequent first
    text_counts: Counts
    typed: NDArray[Any]  # numbers, booleans or datetimes; of type "V" where cells are of other types, or of several
    typed_counts: Counts

    @property
    def missing(self) -> int:
        """How many cells are missing."""
        return self.rows - int(self.text_counts.sum()) - int(self.typed_counts.sum())

    @property
    def parts(self) -> list[tuple[Cells, Counts]]:
        """The distinct cells as cells, and how often each occurs: texts, then others, then those that are missing."""
        null = Cells(np.array([None], dtype=object))
        parts = [(Cells(self.texts), self.text_counts), (Cells(self.typed), self.typed_counts)]
        return [*parts, (null, np.array([self.missing]))]


def survey_file(
    path: str | Path,
    reading: Dialect,
    columns: Sequence[str] | None = None,
    wanted: Collection[str] | None = None,
) -> list[Seen]:
    """The columns `wanted` of a public file, by default all.

    Without a header, `columns` are the names of all columns in order; by default they are numbered.
    """
    if is_frame_file(path):
        frame = read_frame_file(path, reading, None if reading.header else columns)
        return survey_frame(frame if wanted is None else {name: frame[name] for name in frame if name in wanted})
    with plain_file(path, reading.encoding) as file, connect() as connection, container_errors(file.shown):
        found = open_file(connection, file, wanted or (), reading, columns)
        if not file.is_any(PARQUET_SUFFIXES):
            # A text file is read once, whatever the number of its columns.
            connection.execute(f"CREATE TABLE cells AS FROM {found.table}")
            found = OpenTable("cells", found.cells)
        kept = {name: cell for name, cell in found.cells.items() if wanted is None or name in wanted}
        return survey_table(connection, OpenTable(found.table, kept))


def survey_table(connection: "DuckDBPyConnection", found: OpenTable) -> list[Seen]:
    """The columns of a table in DuckDB."""
    [(rows,)] = connection.execute(f"SELECT count(*) FROM {found.table}").fetchall()
    return [_of_query(connection, found.table, name, cell, rows) for name, cell in found.cells.items()]


def survey_frame(frame: object) -> list[Seen]:
    """The columns of a public data frame."""
    frame = frames.held(frame)
    names = frames.names_of(frame)
    return [_of_cells(name, cells) for name, cells in frames.cells_of(frame, names).items()]


def _of_query(connection: "DuckDBPyConnection", table: str, name: str, cell: Cell, rows: int) -> Seen:
    raw, family = cell.expression, cell.family
    expressions = {
        "text": f"CAST({raw} AS VARCHAR)",
        "float": f"CAST({raw} AS DOUBLE)",
        # By way of its digits: DuckDB's own cast divides by a power of ten, which rounds twice.
        "decimal": f"CAST(CAST({raw} AS VARCHAR) AS DOUBLE)",
        **dict.fromkeys(["integer", "boolean", "date", "timestamp"], raw),
    }
    value = expressions.get(family, "0")
    holds = {"float": f"NOT isnan({raw})", "date": f"isfinite({raw})", "timestamp": f"isfinite({raw})"}.get(family)
    where = f"{raw} IS NOT NULL" + (f" AND {holds}" if holds else "")
    if family == "text":
        arrays = connection.execute(
            f"SELECT {value} AS v, count(*) AS n FROM {table} WHERE {where} GROUP BY v ORDER BY n DESC, v"
        ).fetchnumpy()
        texts, counts = (np.ma.getdata(arrays[key]) for key in "vn")
        return Seen(name, rows, texts.astype(object), counts.astype(np.int64), NONE, NONE)
    arrays = connection.execute(f"SELECT {value} AS v FROM {table} WHERE {where}").fetchnumpy()
    # NumPy is quicker than a query where most values are different.
    distinct, counts = np.unique(np.ma.getdata(arrays["v"]), return_counts=True)
    typed = distinct if family in expressions else distinct.astype("V1")
    return Seen(name, rows, np.zeros(0, dtype=object), NONE, typed, counts.astype(np.int64))


def _of_cells(name: str, cells: Cells) -> Seen:
    values, counts = _counted(cells)
    if values.dtype.kind in "OUT":
        return _of_objects(name, len(cells), values.astype(object), counts)
    is_there = ~np.isnan(values) if values.dtype.kind in "fmM" else np.ones(len(values), dtype=bool)
    typed = values[is_there]
    typed = typed.astype("V1") if typed.dtype.kind not in "biufM" else typed
    return Seen(name, len(cells), np.zeros(0, dtype=object), NONE, typed, counts[is_there])


def _counted(cells: Cells) -> tuple[NDArray[Any], Counts]:
    """The cells that are not null, distinct where they are stored so or are no objects, and how often each occurs."""
    values, null = cells.values, cells.null
    if cells.index is not None:
        index = cells.index if null is None else cells.index[~null]
        return values, np.bincount(index, minlength=len(values)).astype(np.int64)
    values = values if null is None else values[~null]
    if values.dtype.kind in "OVmc":
        return values, np.ones(len(values), dtype=np.int64)
    distinct, counts = np.unique(values, return_counts=True)
    return distinct, counts.astype(np.int64)


def _of_objects(name: str, rows: int, values: NDArray[np.object_], counts: Counts) -> Seen:
    texts: Counter[str] = Counter()
    others: list[tuple[object, int]] = []
    for cell, count in zip(values, counts.tolist(), strict=True):
        if isinstance(cell, str):
            texts[str(cell)] += count
        elif count and not is_null(cell):
            others.append((cell, count))
    ordered = sorted(texts.items(), key=lambda item: (-item[1], item[0]))
    typed, typed_counts = _typed([cell for cell, _ in others], np.array([n for _, n in others], dtype=np.int64))
    listed = np.fromiter((text for text, _ in ordered), dtype=object, count=len(ordered))
    return Seen(name, rows, listed, np.array([n for _, n in ordered], dtype=np.int64), typed, typed_counts)


def _typed(cells: list[object], counts: Counts) -> tuple[NDArray[Any], Counts]:
    """Python objects as one array of distinct booleans, numbers or moments; of type "V" if they are none of these."""
    if cells and all(isinstance(cell, bool | np.bool_) for cell in cells):
        values: NDArray[Any] = np.array(cells, dtype=bool)
    elif not any(isinstance(of_typed(cell), Unread) for cell in cells):
        values = np.array([of_typed(cell) for cell in cells], dtype=np.float64)
    else:
        moments = [microseconds_of(cell) for cell in cells]
        if any(moment is None for moment in moments):
            return np.zeros(len(cells), dtype="V1"), counts
        values = np.array(moments, dtype=np.int64).astype("datetime64[us]")
    distinct, places = np.unique(values, return_inverse=True)
    return distinct, np.bincount(places, weights=counts, minlength=len(distinct)).astype(np.int64)
