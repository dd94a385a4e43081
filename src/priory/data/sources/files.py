"""Files: CSV, Parquet and DuckDB relations as tables that a query can read, checked as containers only.

Nothing here quotes a cell: DuckDB's own messages do, so they are replaced by ours.
"""

from __future__ import annotations

import csv
import glob
import io
import re
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from priory.data.dialect import DELIMITERS, USUAL, Dialect, unique_names
from priory.data.sources.containers import GZIP_REASON, PARQUET_SUFFIXES, PlainFile, first_bytes
from priory.data.sources.parquet_files import ParquetFiles
from priory.data.sql import Cell, identifier, listed, literal
from priory.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from duckdb import DuckDBPyConnection, DuckDBPyRelation

# More than any header of ours; a table with more names than fit here is not one that people edit a schema for.
HEADER_BYTES = 2**22
BLANKS = " \t\u00a0"
# What DuckDB makes of a person's Ctrl-C, in a query and in a function of ours within one.
INTERRUPTIONS = (
    "Query interrupted",
    "Invalid Input Error: Python exception occurred while executing the UDF: KeyboardInterrupt",
)
UTF_8_REASON = "it is not UTF-8 text; name its encoding in the schema, as in reading: {encoding: latin-1}"
REASONS = {
    "utf-8": UTF_8_REASON,
    "unicode": UTF_8_REASON,
    "not valid UTF8": "a text in it is not UTF-8; write it again with valid texts",
    "Expected Number of Columns": "a line has more or fewer cells than there are columns",
    "unterminated quote": "a quote is opened and not closed",
    "state machine": "its quotes or line ends are irregular; save it again as plain CSV with one kind of line end",
    "Maximum line size": "a line is longer than 2 MB; is a quote left open?",
    "magic bytes": "it is not a Parquet file",
    "too small to be a Parquet": "it is not a Parquet file",
    "Hive partition mismatch": "its folders name different columns; give those that name the same",
    "HTTP": "it cannot be fetched; check the address, the network and DuckDB's secrets for that store",
    "Out of Memory": "it needs more memory than it was given; give it more, or free some disk space",
    "No space left": "the temporary folder's disk is full",
    "gzip": GZIP_REASON,
    "GZIP": GZIP_REASON,
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


def open_file(
    connection: DuckDBPyConnection,
    file: PlainFile,
    wanted: Collection[str],
    reading: Dialect = USUAL,
    columns: Sequence[str] | None = None,
) -> OpenTable:
    """Open a CSV or Parquet file in which the columns `wanted` are looked for.

    Where the first line does not name the columns, `columns` does, in order; those of a public file may be left out,
    and are numbered.
    """
    if file.is_any(PARQUET_SUFFIXES):
        return _open_parquet(connection, file)
    if reading.header:
        names, delimiter = _header(file, wanted, reading)
        return open_csv(file, names, delimiter, reading)
    delimiter = reading.delimiter or suffix_delimiter(file) or ","
    if columns is None:
        columns = unique_names([""] * len(header_names(first_text(file), delimiter, reading)))
    return open_csv(file, columns, delimiter, reading)


def open_csv(file: PlainFile, names: Sequence[str], delimiter: str, reading: Dialect) -> OpenTable:
    """A CSV file whose columns have these names; every cell is read as text and nothing is guessed."""
    columns = ", ".join(f"'f{i}': 'VARCHAR'" for i in range(len(names)))
    path, header = literal(glob.escape(str(file.path))), str(reading.header).lower()
    table = (
        f"read_csv({path}, auto_detect = false, header = {header}, "
        f"columns = {{{columns}}}, delim = {literal(delimiter)}, quote = '\"', escape = '\"', nullstr = '', "
        "allow_quoted_nulls = false)"
    )
    if reading.trim:
        cells = ", ".join(f"nullif(trim(f{i}, {literal(BLANKS)}), '') AS f{i}" for i in range(len(names)))
        table = f"(SELECT {cells} FROM {table})"
    return OpenTable(table, {name: Cell(f"f{i}", "VARCHAR") for i, name in enumerate(names)})


def open_relation(relation: DuckDBPyRelation, view: str) -> OpenTable:
    """A DuckDB relation under the name `view`."""
    types = [str(each) for each in relation.types]
    names = zip(relation.columns, types, strict=True)
    return OpenTable(view, {name: Cell(_safe(identifier(name), sql_type), sql_type) for name, sql_type in names})


def _safe(name: str, sql_type: str) -> str:
    """A cell that every function can read: of the earliest moment that can be stored, DuckDB makes a fatal error."""
    return f"CASE WHEN epoch_us({name}) <= {-(2**63)} THEN NULL ELSE {name} END" if sql_type == "TIMESTAMP" else name


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


def suffix_delimiter(file: PlainFile) -> str | None:
    """The delimiter that the file's name says it has."""
    return "\t" if file.is_any((".tsv", ".tsv.gz")) else None


def first_text(file: PlainFile) -> str:
    """The beginning of a CSV file, more than any header."""
    start = first_bytes(file, HEADER_BYTES)
    try:
        # The last character may be cut in two by the limit; a header never comes near it.
        return start.decode("utf-8-sig", errors="ignore" if len(start) == HEADER_BYTES else "strict")
    except UnicodeDecodeError:
        raise file.error(UTF_8_REASON) from None


def records(text: str, delimiter: str) -> Iterator[list[str]]:
    """The lines of a CSV text as cells, up to one that is none."""
    try:
        yield from csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=False)
    except csv.Error:
        return


def _open_parquet(connection: DuckDBPyConnection, file: PlainFile) -> OpenTable:
    table = f"read_parquet({literal(glob.escape(str(file.path)))})"
    if file.parts is not None:
        _load(connection, file.parts)
        # A column that some files lack is missing there; what folders are called are texts, and no type is guessed.
        options = "hive_partitioning = true, hive_types_autocast = false, union_by_name = true"
        table = f"read_parquet([{listed(file.parts.files)}], {options})"
    with container_errors(file.shown):
        return open_relation(connection.sql(f"SELECT * FROM {table}"), table)


def _load(connection: DuckDBPyConnection, parts: ParquetFiles) -> None:
    """Let DuckDB read from where the files are; nothing is fetched to make it able to."""
    import duckdb

    if parts.extension is None:
        return
    try:
        connection.load_extension(parts.extension)
    except duckdb.Error:
        name = parts.extension
        raise DataError(
            f"{parts.shown}: DuckDB reads from there with its extension {name}, which is not installed; install it "
            f"once with: python -c \"import duckdb; duckdb.sql('INSTALL {name}')\""
        ) from None


def _header(file: PlainFile, wanted: Collection[str], reading: Dialect) -> tuple[list[str], str]:
    """The names in the first line, and the delimiter: the declared one, or that which finds most of `wanted` there."""
    text = first_text(file)
    declared = reading.delimiter or suffix_delimiter(file)
    headers = [(header_names(text, delimiter, reading), delimiter) for delimiter in declared or DELIMITERS]
    header, delimiter = max(headers, key=lambda found: len(set(found[0]) & set(wanted)))
    if not header:
        raise DataError(f"{file.shown} is empty; its first line must name the columns")
    names = unique_names(header)
    for name, given in zip(names, header, strict=True):
        # Of two columns with one name, the schema has to name both by what they are called here.
        if name != given and given in wanted and name not in wanted:
            raise DataError(f"{file.shown} has two columns of this name; rename one", column=given)
    return names, delimiter


def header_names(text: str, delimiter: str, reading: Dialect) -> list[str]:
    """The cells of the first line."""
    header = next(records(text, delimiter), [])
    return [name.strip(BLANKS) for name in header] if reading.trim else header
