"""Raw: the cells of a table as texts, before there is a schema that says what they mean.

Nothing about the columns is read from the rows: a column is a name, and a cell the text that it is written as. Persons
are bounded here, by the same rule as in `priory.data.persons`, with the texts of a row in the place of its codes.
"""

from __future__ import annotations

import secrets
import shutil
import tempfile
import weakref
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from priory.data.cells import Cells, is_null
from priory.data.dialect import USUAL, Dialect
from priory.data.kinds.numbers import PLAIN, NumberFormat
from priory.data.probes import LONGEST, PROBES, Probe
from priory.data.sources import frames
from priory.data.sources.containers import plain_file
from priory.data.sources.duckdb import DEFAULT_MEMORY, is_relation, spelling
from priory.data.sources.encoding import person_cell
from priory.data.sources.files import OpenTable, connect, container_errors, open_file, open_relation
from priory.data.sources.frame_files import is_frame_file, read_frame_file
from priory.data.sources.parquet_files import arrow_moments
from priory.data.sources.private import guarded, position
from priory.data.sources.source import ROW_LIMIT
from priory.data.spelling import person_texts
from priory.data.sql import Cell, literal
from priory.errors import OptionError
from priory.queries.domain import Domain, checked_cliques
from priory.queries.factor import Factor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from duckdb import DuckDBPyConnection, DuckDBPyRelation
    from numpy.typing import NDArray

    from priory.data.persons import PersonRule
    from priory.queries.domain import Clique

# Distinct texts that are in memory at a time.
CHUNK = 2**16
# How values are told apart: as texts, or as the numbers that they spell.
Reading = Literal["text", "number"]


@dataclass(frozen=True, eq=False)
class Values:
    """Some distinct values of a column."""

    values: list[Any]  # texts, or numbers
    persons: NDArray[np.int64]  # how many persons have each in a row that counts; rows, where no column names a person


@dataclass(frozen=True, eq=False, repr=False)
class RawTable:
    """The rows that count, with every cell as a text, in a database of our own."""

    columns: tuple[str, ...]  # the names
    connection: DuckDBPyConnection  # the database, with the table `raw`
    has_persons: bool  # whether rows are told apart by a person
    row_limit: int = ROW_LIMIT  # how many rows are declared
    format: NumberFormat = PLAIN  # how texts spell numbers

    def __repr__(self) -> str:
        return f"RawTable({len(self.columns)} columns)"

    def texts(self, column: str) -> Iterator[tuple[list[str | None], NDArray[np.int64]]]:
        """The distinct texts of a column and how many rows have each, some at a time; long ones are cut."""
        name = f"left(f{self.columns.index(column)}, {LONGEST + 1})"
        return self._chunks(f"SELECT {name} AS v, count(*) AS n FROM raw GROUP BY 1")

    def values(self, column: str, reading: Reading) -> Iterator[Values]:
        """The distinct values of a column and how many persons have each; missing and long ones are left out."""
        name = f"f{self.columns.index(column)}"
        value = self.format.in_sql(Cell(name, "VARCHAR")) if reading == "number" else name
        persons = "count(DISTINCT person)" if self.has_persons else "count(*)"
        is_value = f"length({name}) <= {LONGEST} AND trim({name}) <> '' AND {value} IS NOT NULL"
        query = f"SELECT {value} AS v, {persons} AS n FROM raw WHERE {is_value} GROUP BY 1"
        return (Values(values, counts) for values, counts in self._chunks(query))

    def _chunks(self, query: str) -> Iterator[tuple[list[Any], NDArray[np.int64]]]:
        found = self.connection.cursor().execute(query)
        while rows := _fetched(found):
            values, counts = zip(*rows, strict=True)
            yield list(values), np.array(counts, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class Probed:
    """Raw columns as a source: each is an attribute whose codes are the cells of a probe."""

    table: RawTable  # the raw rows
    probes: Mapping[str, Probe]  # how each column is counted
    domain: Domain = field(init=False)

    def __post_init__(self) -> None:
        if any(type(probe) not in PROBES for probe in self.probes.values()):
            raise OptionError("probes", f"the list is closed: {', '.join(kind.__name__ for kind in PROBES)}")
        object.__setattr__(self, "domain", Domain.of({name: probe.size for name, probe in self.probes.items()}))

    def __repr__(self) -> str:
        return f"Probed({len(self.probes)} columns)"

    @property
    def row_limit(self) -> int:
        """How many rows are declared."""
        return self.table.row_limit

    def count(self, cliques: Sequence[Clique]) -> list[Factor]:
        """The counts of single columns; raw columns are not counted together."""
        if any(len(clique) != 1 for clique in cliques):
            raise OptionError("cliques", "raw columns are counted one at a time")
        return [self._counted(domain) for domain in checked_cliques(self.domain, cliques)]

    def _counted(self, domain: Domain) -> Factor:
        [name] = domain
        probe = self.probes[name]
        counts = np.zeros(probe.size, dtype=np.int64)
        for texts, rows in self.table.texts(name):
            np.add.at(counts, [probe.place(text) for text in texts], rows)
        return Factor(domain, counts)


@guarded()
def _fetched(found: DuckDBPyConnection) -> list[Any]:
    return found.fetchmany(CHUNK)


@guarded()
def open_raw(
    data: object,
    columns: Sequence[str],
    rule: PersonRule | None,
    *,
    names: Sequence[str] | None = None,
    reading: Dialect = USUAL,
    memory: int = DEFAULT_MEMORY,
    row_limit: int = ROW_LIMIT,
) -> RawTable:
    """Open a path, a frame or a DuckDB relation as raw cells, and keep the rows of each person that count.

    Args:
        data: what holds the rows.
        columns: the columns that are wanted.
        rule: which rows of a person count, where rows are told apart by a person.
        names: all columns in order, for a file whose first line does not name them.
        reading: how a file spells its cells.
        memory: how many bytes it may take; beyond that it stays in a temporary folder.
        row_limit: how many rows are declared.

    Raises:
        DataError: the container cannot be read, or lacks a column. Never because of a cell.
    """
    folder = tempfile.mkdtemp(prefix="priory-")
    connection = connect(memory_limit=f"{memory}B", temp_directory=folder)
    try:
        if isinstance(data, str | Path) and is_frame_file(data):
            data = read_frame_file(data, reading, names)
        if isinstance(data, str | Path):
            with plain_file(data, reading.encoding) as file, container_errors(file.shown):
                wanted = list(columns) + ([rule.column] if rule else [])
                moments = arrow_moments(file.parquet, wanted)
                if moments is None:
                    found = open_file(connection, file, wanted, reading, names)
                else:
                    found = _registered(connection, moments, list(columns), rule)
                _fill(connection, found, columns, rule)
        elif is_relation(data):
            view = f"priory_{secrets.token_hex(8)}"
            with container_errors("the relation"):
                # A relation lives in its owner's database, where we leave nothing: its texts come over in a file.
                _fill(connection, open_relation(data, view), columns, rule, partial(_copied, data, view, Path(folder)))
        else:
            with container_errors("the table"):
                _fill(connection, _registered(connection, data, list(columns), rule), columns, rule)
    except BaseException:
        _forget(connection, folder)
        raise
    table = RawTable(tuple(columns), connection, rule is not None, row_limit, number_format(reading))
    weakref.finalize(table, _forget, connection, folder)
    return table


def _forget(connection: DuckDBPyConnection, folder: str) -> None:
    connection.close()
    shutil.rmtree(folder, ignore_errors=True)


def number_format(reading: Dialect) -> NumberFormat:
    """How the numbers of a file are spelled, as far as it says so for all its columns."""
    return NumberFormat(decimal=reading.decimal, thousands=reading.thousands, parentheses=reading.parentheses)


def _fill(
    connection: DuckDBPyConnection,
    found: OpenTable,
    columns: Sequence[str],
    rule: PersonRule | None,
    moved: Callable[[str], str] = "({})".format,
) -> None:
    """Create the table `raw`: f0, f1, … and, with a rule, `person`. `moved` makes a table of ours of a query there."""
    wanted = [*columns, *([rule.column] if rule else [])]
    for name in wanted:
        position(list(found.cells), name)
    texts = [f"{_as_text(found.cells[name])} AS f{i}" for i, name in enumerate(columns)]
    if rule is None:
        query = f"SELECT {', '.join(texts) or '1 AS one'} FROM {found.table}"
        connection.execute(f"CREATE TABLE raw AS FROM {moved(query)}")
        return
    kind, person = person_cell(found.cells[rule.column])
    table = moved(f"SELECT {', '.join([*texts, f'{person} AS who'])} FROM {found.table}")
    with spelling(connection, kind) as spell:
        names = [f"f{i}" for i in range(len(columns))]
        query = f"SELECT {', '.join([*names, f'{spell}(who) AS person'])} FROM {table}"
        connection.execute(f"CREATE TABLE raw AS {bounded_cells(query, names, rule.max_rows)}", {"key": rule.key.hex()})


def bounded_cells(query: str, names: Sequence[str], max_rows: int) -> str:
    """Keep the `max_rows` rows of each person that come first by a keyed hash of person, texts and copy number."""
    # The length before each text makes rows with different cells different; a missing cell has none.
    cells = " || ".join([f"coalesce(CAST(length({name}) AS VARCHAR) || ':' || {name}, 'n')" for name in names]) or "''"
    rows = f"SELECT *, {cells} AS cells FROM ({query}) WHERE person IS NOT NULL"
    copies = f"SELECT *, row_number() OVER (PARTITION BY person, cells) AS copy FROM ({rows})"
    text = "CAST($key AS VARCHAR) || chr(31) || person || chr(31) || cells || chr(31) || CAST(copy AS VARCHAR)"
    order = f"row_number() OVER (PARTITION BY person ORDER BY sha256({text})) <= {int(max_rows)}"
    return f"SELECT {', '.join([*names, 'person'])} FROM ({copies}) QUALIFY {order}"


def _as_text(cell: Cell) -> str:
    """A cell as the text that a CSV file would have."""
    # Of far moments in seconds or milliseconds, DuckDB makes an error that nothing catches.
    is_far = cell.sql_type in ("TIMESTAMP_S", "TIMESTAMP_MS")
    text = f"TRY_CAST({f'TRY_CAST({cell.expression} AS TIMESTAMP)' if is_far else cell.expression} AS VARCHAR)"
    return f"CASE WHEN NOT isnan({cell.expression}) THEN {text} END" if cell.family == "float" else text


def _copied(data: DuckDBPyRelation, view: str, folder: Path, query: str) -> str:
    """What a query gives of a relation, as a table that our own database can read."""
    file = literal(str(folder / "cells.parquet"))
    data.query(view, f"COPY ({query}) TO {file} (FORMAT parquet)")
    return f"read_parquet({file})"


def _registered(connection: DuckDBPyConnection, data: object, columns: list[str], rule: PersonRule | None) -> OpenTable:
    """A frame in memory, as texts; who a row is about is spelled here, by the same function as everywhere."""
    cells = frames.cells_of(data, columns + ([rule.column] if rule else []))
    arrays = {f"f{i}": _texts(cells[name]) for i, name in enumerate(columns)}
    found = {name: Cell(f"CAST(f{i} AS VARCHAR)", "VARCHAR") for i, name in enumerate(columns)}
    if rule is not None:
        arrays["who"] = np.array(person_texts(cells[rule.column]), dtype=object)
        found[rule.column] = Cell("CAST(who AS VARCHAR)", "VARCHAR")
    if not arrays or not len(next(iter(arrays.values()))):
        # An empty array has no type that a database could know.
        empty = ", ".join(f"CAST(NULL AS VARCHAR) AS {name}" for name in arrays) or "1"
        return OpenTable(f"(SELECT {empty} LIMIT 0)", found)
    connection.register("priory_raw", arrays)
    return OpenTable("priory_raw", found)


def _texts(cells: Cells) -> NDArray[Any]:
    """Cells of any types as texts; None is missing, and so is what has no text."""
    values = cells.values if cells.index is None else cells.values[cells.index]
    if values.dtype.kind == "M":
        texts = [None if text == "NaT" else text for text in np.datetime_as_string(values).tolist()]
    else:
        texts = [_text(cell) for cell in values.tolist()]
    if cells.null is not None:
        texts = [None if gone else text for text, gone in zip(texts, cells.null.tolist(), strict=True)]
    return np.fromiter(texts, dtype=object, count=len(texts))


def _text(cell: object) -> str | None:
    try:
        if is_null(cell):
            return None
        text = ("true" if cell else "false") if isinstance(cell, bool | np.bool_) else str(cell)
        # What is not Unicode has to be a text all the same.
        return text.encode(errors="backslashreplace").decode()
    except Exception:  # noqa: BLE001 - a cell's own code may raise anything, and no row may ever raise
        return None
