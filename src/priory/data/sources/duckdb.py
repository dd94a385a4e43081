"""DuckDB: a source over files and relations that may be larger than memory."""

from __future__ import annotations

import secrets
import shutil
import tempfile
import weakref
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeGuard

import numpy as np

from priory.data.sources.arrow_codes import keep_codes
from priory.data.sources.containers import plain_file
from priory.data.sources.encoding import bounded, encoding, person_cell
from priory.data.sources.files import OpenTable, connect, container_errors, open_file, open_relation
from priory.data.sources.memory import MemorySource
from priory.data.sources.parquet_files import arrow_moments
from priory.data.sources.private import guarded, position
from priory.data.sources.source import ROW_LIMIT, Source
from priory.data.spelling import FUNCTIONS
from priory.data.sql import literal
from priory.errors import OptionError
from priory.queries.domain import checked_cliques
from priory.queries.factor import Factor

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from duckdb import DuckDBPyConnection, DuckDBPyRelation

    from priory.data.persons import PersonRule
    from priory.data.schema import Schema
    from priory.queries.domain import Clique, Domain

DEFAULT_MEMORY = 2**31
# DuckDB itself does not start with much less.
LEAST_MEMORY = 2**27


@dataclass(frozen=True, eq=False, repr=False)
class DuckDBSource:
    """Records held as a table of codes by DuckDB, which moves it to a folder of its own when memory runs short."""

    domain: Domain  # the attributes and their sizes
    connection: DuckDBPyConnection  # the private database with the table
    folder: str  # where it may write; removed with the source
    row_limit: int = ROW_LIMIT  # how many rows are declared

    def close(self) -> None:
        """Forget the records and remove the folder; also done when the source is no longer used."""
        _forget(self.connection, self.folder)

    def __repr__(self) -> str:
        return f"DuckDBSource({len(self.domain)} attributes)"

    @guarded()
    def count(self, cliques: Sequence[Clique]) -> list[Factor]:
        return [self._counted(clique) for clique in checked_cliques(self.domain, cliques)]

    def _counted(self, clique: Domain) -> Factor:
        names = [f"c{self.domain.axis[name]}" for name in clique]
        selected = ", ".join([*names, "count(*) AS n"])
        found = self.connection.execute(f"SELECT {selected} FROM codes GROUP BY ALL").fetchnumpy()
        counts = np.zeros(clique.shape, dtype=np.int64)
        cells = tuple(found[name] for name in names)
        counts[cells] = found["n"].reshape(counts[cells].shape)
        return Factor(clique, counts)


def open_large(
    data: object, schema: Schema, rule: PersonRule | None, *, memory: int = DEFAULT_MEMORY, row_limit: int = ROW_LIMIT
) -> Source:
    """A source over a file, a relation or a stream: in memory if its codes fit half of `memory`, else in DuckDB."""
    source = open_in_duckdb(data, schema, rule, memory=memory, row_limit=row_limit)
    return source if _bytes_of_codes(source.connection) * 2 > memory else moved_to_memory(source)


def moved_to_memory(source: DuckDBSource) -> MemorySource:
    """The same records in memory; the source is closed."""
    try:
        arrays = source.connection.execute("FROM codes").fetchnumpy()
        codes = tuple(np.ascontiguousarray(arrays[f"c{i}"]) for i in range(len(source.domain.attributes)))
        return MemorySource(source.domain, codes, _records(source.connection), source.row_limit)
    finally:
        source.close()


def open_in_duckdb(
    data: object, schema: Schema, rule: PersonRule | None, *, memory: int = DEFAULT_MEMORY, row_limit: int = ROW_LIMIT
) -> DuckDBSource:
    """A source over a file, a relation or a stream that stays in DuckDB, whatever its size."""
    if memory < LEAST_MEMORY:
        raise OptionError("memory", f"at least {LEAST_MEMORY:,} bytes are needed; got {memory:,}")
    folder = tempfile.mkdtemp(prefix="priory-")
    # What does not fit memory goes to our own folder.
    connection = connect(memory_limit=f"{memory}B", temp_directory=folder)
    try:
        _make_codes(connection, data, schema, rule, Path(folder))
    except BaseException:
        _forget(connection, folder)
        raise
    source = DuckDBSource(schema.domain, connection, folder, row_limit)
    weakref.finalize(source, _forget, connection, folder)
    return source


def is_relation(data: object) -> TypeGuard[DuckDBPyRelation]:
    """Whether this is a DuckDB relation, of whatever copy of the library."""
    return type(data).__name__ == "DuckDBPyRelation"


def _forget(connection: DuckDBPyConnection, folder: str) -> None:
    connection.close()
    shutil.rmtree(folder, ignore_errors=True)


def _make_codes(
    connection: DuckDBPyConnection, data: object, schema: Schema, rule: PersonRule | None, folder: Path
) -> None:
    """Create the table `codes`: one row for each record that counts."""
    wanted = [column.name for column in schema.modelled] + ([rule.column] if rule else [])
    if isinstance(data, str | Path):
        reading, names = schema.reading, [column.name for column in schema.columns]
        with plain_file(data, reading.encoding) as plain:
            if (moments := arrow_moments(plain.parquet, wanted)) is not None:
                keep_codes(connection, moments, schema, rule)
                return
            found = open_file(connection, plain, wanted, reading, names)
            query = _query(found, schema, rule, wanted)
            with container_errors(plain.shown):
                _keep_codes(connection, query, found, schema, rule)
        return
    if not is_relation(data):
        with container_errors("the stream"):
            keep_codes(connection, data, schema, rule)
        return
    # A relation lives in its owner's database, where we leave nothing: its codes come over in a file of our own.
    view, file = f"priory_{secrets.token_hex(8)}", folder / "codes.parquet"
    found = open_relation(data, view)
    query = _query(found, schema, rule, wanted)
    with container_errors("the relation"):
        data.query(view, f"COPY ({query}) TO {literal(str(file))} (FORMAT parquet)")
        _keep_codes(connection, f"FROM read_parquet({literal(str(file))})", found, schema, rule)
    file.unlink()


def _query(found: OpenTable, schema: Schema, rule: PersonRule | None, wanted: Sequence[str]) -> str:
    for name in wanted:
        position(list(found.cells), name)
    return encoding(schema.modelled, found.cells, found.table, rule.column if rule else None)


def _keep_codes(
    connection: DuckDBPyConnection, query: str, found: OpenTable, schema: Schema, rule: PersonRule | None
) -> None:
    """Store what `query` gives, in our own database; with a rule, the records of each person that count."""
    if rule is None:
        connection.execute(f"CREATE TABLE codes AS {query}")
        return
    names = [f"c{i}" for i in range(len(schema.modelled))]
    with spelling(connection, person_cell(found.cells[rule.column])[0]) as spell:
        spelled = f"SELECT {', '.join(names)}, {spell}(person) AS person FROM ({query})"
        table = f"CREATE TABLE codes AS {bounded(spelled, names, rule.max_rows)}"
        connection.execute(table, {"key": rule.key.hex()})


@contextmanager
def spelling(connection: DuckDBPyConnection, kind: str) -> Iterator[str]:
    """The name of a function in `connection` that spells persons whose cells are of this kind; it never fails."""
    from duckdb.func import FunctionNullHandling

    sql_type, spell = FUNCTIONS[kind]
    # By default DuckDB raises where a function gives nobody for somebody's cell.
    special = FunctionNullHandling.SPECIAL
    connection.create_function("person_text", spell, [sql_type], "VARCHAR", null_handling=special)
    try:
        yield "person_text"
    finally:
        connection.remove_function("person_text")


def _bytes_of_codes(connection: DuckDBPyConnection) -> int:
    widths = {"UTINYINT": 1, "USMALLINT": 2, "UINTEGER": 4}
    return _records(connection) * sum(widths[str(each)] for each in connection.table("codes").types)


def _records(connection: DuckDBPyConnection) -> int:
    found = connection.execute("SELECT count(*) FROM codes").fetchone()
    return int(found[0]) if found else 0
