"""Same: whether what is given as public is the private table itself. Nothing of either is read."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from priory.data.sources.adbc import Database
from priory.data.sources.containers import STDIN
from priory.data.sources.duckdb import is_relation
from priory.data.sources.parquet_files import parquet_files
from priory.data.sources.spark import is_spark_frame
from priory.data.table import Table
from priory.errors import DataError, PrioryError


def refuse_same(private: object, public: object | None) -> None:
    """Refuse a public table that is the private one: the same file, by whatever name, query, frame or cells in memory.

    Raises:
        DataError: it is. A copy is not noticed.
    """
    if public is not None and private is not None and _is_same(private, public):
        raise DataError(
            "the public table is the private one: what was read from it would be private, and not paid for; give "
            "another, or none"
        )


def _is_same(private: Any, public: Any) -> bool:  # noqa: ANN401 - whatever a table may be
    if private is public or _files(private) & _files(public):
        return True
    if isinstance(private, Database) and isinstance(public, Database):
        return (private.uri, private.query.strip()) == (public.uri, public.query.strip())
    if is_relation(private) and is_relation(public):
        return _is_same_relation(private, public)
    if is_spark_frame(private) and is_spark_frame(public):
        return bool(private.sameSemantics(public))
    ours, theirs = _columns(private), _columns(public)
    return any(
        low < other_high and other_low < high
        for name in ours.keys() & theirs.keys()
        for low, high in _addresses(ours[name])
        for other_low, other_high in _addresses(theirs[name])
    )


def _files(data: Any) -> set[object]:  # noqa: ANN401
    """Which files a table is in, by device and number, so that links do not hide them; else what it is called."""
    names = getattr(data, "files", ()) if type(data).__module__.startswith("pyarrow") else ()
    if isinstance(data, str | Path):
        try:
            parts = None if str(data) == STDIN else parquet_files(data)
        except PrioryError:
            # That it is not there is said where it is opened.
            return {str(data)}
        names = [data] if parts is None else parts.plain
    return {_file(name) for name in names}


def _file(name: str | Path) -> object:
    try:
        found = os.stat(name)  # noqa: PTH116 - of texts too, which may be addresses
    except (OSError, ValueError):
        return str(name)
    return found.st_dev, found.st_ino


def _is_same_relation(private: Any, public: Any) -> bool:  # noqa: ANN401
    import duckdb

    if private.sql_query() != public.sql_query():
        return False
    try:
        # Relations of two connections cannot be put together.
        private.union(public)
    except duckdb.Error:
        return False
    return True


def _columns(frame: Any) -> Mapping[Any, Any]:  # noqa: ANN401
    """The columns of a frame in memory by name, as they lie there; none where that would cost a copy."""
    library = type(frame).__module__.partition(".")[0]
    if isinstance(frame, Table):
        return {name: cells.values for name, cells in frame.columns.items()}
    if isinstance(frame, Mapping):
        return frame
    if library == "pandas" and hasattr(frame, "iloc") and hasattr(frame, "columns"):
        return {name: frame.iloc[:, i].array for i, name in enumerate(frame.columns)}
    if library == "polars" and type(frame).__name__ == "DataFrame":
        return {series.name: series.to_arrow() for series in frame.get_columns() if series.dtype.is_numeric()}
    if library == "pyarrow" and hasattr(frame, "column_names"):
        return dict(zip(frame.column_names, frame.columns, strict=True))
    return {}


def _addresses(column: Any) -> Iterator[tuple[int, int]]:  # noqa: ANN401
    """Where in memory the cells of a column begin and end, one piece after the other."""
    column = getattr(column, "_pa_array", getattr(column, "_ndarray", getattr(column, "_data", column)))
    if isinstance(column, np.ndarray):
        if column.size:
            yield np.lib.array_utils.byte_bounds(column)
        return
    if isinstance(column, list):
        # Where a list lies says nothing of its cells, and says all where it is the same list.
        yield id(column), id(column) + 1
    for chunk in getattr(column, "chunks", [column] if hasattr(column, "buffers") else []):
        buffers = list(chunk.buffers())
        values = buffers[1] if len(buffers) > 1 else None
        if len(chunk) and values is not None:
            start, end = (
                values.address + row * _bits(chunk.type) // 8 for row in (chunk.offset, chunk.offset + len(chunk))
            )
            yield start, max(end, start + 1)


def _bits(kind: Any) -> int:  # noqa: ANN401
    """How many bits of a column's second buffer are of one cell: of its value, or of where its text begins."""
    try:
        return int(kind.bit_width)
    except ValueError:
        return 64 if str(kind).startswith("large") else 32
