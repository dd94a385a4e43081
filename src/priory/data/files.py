"""Files: CSV, Parquet and DuckDB relations as tables that a query can read, checked as containers only.

Nothing here quotes a cell: DuckDB's own messages do, so they are replaced by ours.
"""

from __future__ import annotations

import csv
import glob
import gzip
import io
import re
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from priory.data.sql import Cell, identifier, literal
from priory.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from duckdb import DuckDBPyConnection, DuckDBPyRelation
    from numpy.typing import NDArray

DELIMITERS = ",;\t|"
CSV_SUFFIXES = (".csv", ".tsv", ".txt", ".csv.gz", ".tsv.gz", ".txt.gz")
PARQUET_SUFFIXES = (".parquet", ".pq")
# More than any header of ours; a table with more names than fit here is not one that people edit a schema for.
HEADER_BYTES = 2**22
# What DuckDB makes of a person's Ctrl-C, in a query and in a function of ours within one.
INTERRUPTIONS = (
    "Query interrupted",
    "Invalid Input Error: Python exception occurred while executing the UDF: KeyboardInterrupt",
)
REASONS = {
    "utf-8": "it is not UTF-8 text; save it again as UTF-8",
    "unicode": "it is not UTF-8 text; save it again as UTF-8",
    "not valid UTF8": "a text in it is not UTF-8; write it again with valid texts",
    "Expected Number of Columns": "a line has more or fewer cells than the header",
    "unterminated quote": "a quote is opened and not closed",
    "state machine": "its quotes or line ends are irregular; save it again as plain CSV with one kind of line end",
    "Maximum line size": "a line is longer than 2 MB; is a quote left open?",
    "magic bytes": "it is not a Parquet file",
    "too small to be a Parquet": "it is not a Parquet file",
    "Out of Memory": "it needs more memory than it was given; give it more, or free some disk space",
    "No space left": "the temporary folder's disk is full",
    "gzip": "it is not a gzip file, or it is cut short",
    "GZIP": "it is not a gzip file, or it is cut short",
}


@dataclass(frozen=True)
class OpenTable:
    """A table that a query can read.

    Attributes:
        table: the SQL that stands after FROM.
        cells: where each column of it is found.
    """

    table: str
    cells: Mapping[str, Cell]


def connect(**settings: str) -> DuckDBPyConnection:
    """A database of our own, in memory: it fetches no extension from anywhere and draws no progress bar."""
    import duckdb

    quiet = {"autoinstall_known_extensions": "false", "autoload_known_extensions": "false"}
    connection = duckdb.connect(":memory:", config={**quiet, **settings})
    connection.execute("SET enable_progress_bar = false")
    return connection


def open_file(connection: DuckDBPyConnection, path: str | Path, wanted: Collection[str]) -> OpenTable:
    """Open a CSV or Parquet file in which the columns `wanted` are looked for."""
    path = check_readable(path)
    if path.name.lower().endswith(PARQUET_SUFFIXES):
        return _open_parquet(connection, path)
    return _open_csv(path, wanted)


def open_relation(relation: DuckDBPyRelation, view: str) -> OpenTable:
    """A DuckDB relation under the name `view`."""
    types = [str(each) for each in relation.types]
    names = zip(relation.columns, types, strict=True)
    return OpenTable(view, {name: Cell(identifier(name), sql_type) for name, sql_type in names})


def read_public_file(path: str | Path, wanted: Collection[str]) -> dict[str, NDArray[Any]]:
    """The columns `wanted` of a public file that it has, as masked arrays: texts where it is CSV."""
    with connect() as connection, container_errors(path):
        found = open_file(connection, path, wanted)
        names = [name for name in found.cells if name in wanted]
        columns = [f"{found.cells[name].expression} AS c{i}" for i, name in enumerate(names)]
        arrays = connection.execute(f"SELECT {', '.join(columns) or '1'} FROM {found.table}").fetchnumpy()
    return {name: arrays[f"c{i}"] for i, name in enumerate(names)}


@contextmanager
def container_errors(what: object) -> Iterator[None]:
    """Turn DuckDB's errors about `what` into ours, which say what is wrong and where, and quote no cell."""
    import duckdb

    try:
        yield
    except (duckdb.Error, RuntimeError) as error:
        message = str(error)
        if message.startswith(INTERRUPTIONS):
            raise KeyboardInterrupt from None
        if not isinstance(error, duckdb.Error):
            raise
        reason = next((why for sign, why in REASONS.items() if sign in message), "it cannot be read as a table")
        line = re.search(r"on Line: (\d+)", message)
        raise DataError(f"{what}{f', line {line[1]}' if line else ''}: {reason}") from None


def check_readable(path: str | Path) -> Path:
    """The path, if it is of a kind that can be read and is a file one may open."""
    path = Path(path)
    if not path.name.lower().endswith((*CSV_SUFFIXES, *PARQUET_SUFFIXES)):
        packed = path.name.lower().endswith((".xz", ".bz2", ".zip", ".zst", ".7z"))
        raise DataError(
            f"{path} is of a kind that cannot be read; give {', '.join((*CSV_SUFFIXES, *PARQUET_SUFFIXES))}"
            + (", unpacked or as .gz" if packed else "")
        )
    if path.is_dir():
        raise DataError(f"{path} is a folder; give a file")
    try:
        with path.open("rb"):
            return path
    except OSError as error:
        raise DataError(f"{path} cannot be opened: {error.strerror}") from None


def _open_parquet(connection: DuckDBPyConnection, path: Path) -> OpenTable:
    table = f"read_parquet({literal(glob.escape(str(path)))})"
    with container_errors(path):
        return open_relation(connection.sql(f"SELECT * FROM {table}"), table)


def _open_csv(path: Path, wanted: Collection[str]) -> OpenTable:
    header, delimiter = _header(path, wanted)
    columns = ", ".join(f"'f{i}': 'VARCHAR'" for i in range(len(header)))
    # Every cell is read as text and nothing is sniffed: what a cell means is the schema's word.
    table = (
        f"read_csv({literal(glob.escape(str(path)))}, auto_detect = false, header = true, columns = {{{columns}}}, "
        f"delim = {literal(delimiter)}, quote = '\"', escape = '\"', nullstr = '', allow_quoted_nulls = false)"
    )
    return OpenTable(table, {name: Cell(f"f{i}", "VARCHAR") for i, name in enumerate(header)})


def _header(path: Path, wanted: Collection[str]) -> tuple[list[str], str]:
    """The names in the first line, and the delimiter that finds most of the columns `wanted` there."""
    start = _first_bytes(path)
    try:
        # The last character may be cut in two by the limit; a header never comes near it.
        text = start.decode("utf-8-sig", errors="ignore" if len(start) == HEADER_BYTES else "strict")
    except UnicodeDecodeError:
        raise DataError(f"{path}: {REASONS['utf-8']}") from None
    headers = [(_first_record(text, delimiter), delimiter) for delimiter in DELIMITERS]
    header, delimiter = max(headers, key=lambda found: len(set(found[0]) & set(wanted)))
    if not header:
        raise DataError(f"{path} is empty; its first line must name the columns")
    twice = next((name for i, name in enumerate(header) if name in header[:i] and name in wanted), None)
    if twice is not None:
        raise DataError(f"{path} has two columns of this name; rename one", column=twice)
    return header, delimiter


def _first_bytes(path: Path) -> bytes:
    try:
        with gzip.open(path) if path.name.lower().endswith(".gz") else path.open("rb") as file:
            return file.read(HEADER_BYTES)
    except (gzip.BadGzipFile, EOFError):
        raise DataError(f"{path}: {REASONS['gzip']}") from None


def _first_record(text: str, delimiter: str) -> list[str]:
    try:
        return next(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=False), [])
    except csv.Error:
        return []
