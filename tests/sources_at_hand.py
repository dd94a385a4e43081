"""Sources at hand: every kind of source that the contract of sources runs on, one small function each.

To put another under the contract, write `open_x(request, table, schema, rule)`, which stores the Arrow table where such
tables live and opens it there, and add its line to SOURCES. What it needs (a server, a session) is a fixture that it
asks `request` for; where that cannot be had, it skips with the reason.
"""

import gzip
import io
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import sparks
from priory.data.persons import PersonRule
from priory.data.schema import Schema
from priory.data.sources.adbc import Database
from priory.data.sources.duckdb import open_in_duckdb
from priory.data.sources.opening import open_source
from priory.data.sources.source import Source

NUMBERS = itertools.count()
Opener = Callable[[pytest.FixtureRequest, Any, Schema, PersonRule | None], Source]


def opened(data: object, schema: Schema, rule: PersonRule | None, **options: Any) -> Source:
    """Open anything that `open_source` takes, with the rule as its arguments."""
    if rule is not None:
        options |= {"unit": rule.column, "max_rows": rule.max_rows, "key": rule.key}
    return open_source(data, schema, **options)


def parts(table: Any, count: int = 4) -> list[Any]:
    """The table in slices: as many with rows as there can be, of uneven lengths, and an empty one before each."""
    ends = [len(table) * i * i // (count * count) for i in range(count + 1)]
    slices = [table.slice(start, end - start) for start, end in itertools.pairwise(ends)]
    return [part for each in slices for part in (table.slice(0, 0), each)]


def folder_of(request: pytest.FixtureRequest) -> Path:
    """A new folder."""
    factory: pytest.TempPathFactory = request.getfixturevalue("tmp_path_factory")
    return factory.mktemp("table")


def parquet(request: pytest.FixtureRequest, table: Any) -> Path:
    """The table as a Parquet file."""
    from pyarrow import parquet as files

    path = folder_of(request) / "table.parquet"
    files.write_table(table, path)
    return path


def write_csv(path: Path, names: list[str], rows: list[list[str | None]], end: str = "\n") -> Path:
    """A CSV file in which nulls are empty cells and every text is quoted."""
    out = io.StringIO()
    lines: list[list[str | None]] = [[*names], *rows]
    for row in lines:
        out.write(",".join("" if cell is None else '"' + cell.replace('"', '""') + '"' for cell in row) + end)
    data = out.getvalue().encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def open_arrow(request: pytest.FixtureRequest, table: Any, schema: Schema, rule: PersonRule | None) -> Source:
    return opened(table, schema, rule)


def open_pandas(request: pytest.FixtureRequest, table: Any, schema: Schema, rule: PersonRule | None) -> Source:
    return opened(table.to_pandas(), schema, rule)


def open_polars(request: pytest.FixtureRequest, table: Any, schema: Schema, rule: PersonRule | None) -> Source:
    import polars as pl

    return opened(pl.from_arrow(table), schema, rule)


def open_file(request: pytest.FixtureRequest, table: Any, schema: Schema, rule: PersonRule | None) -> Source:
    return opened(parquet(request, table), schema, rule)


def open_duckdb(request: pytest.FixtureRequest, table: Any, schema: Schema, rule: PersonRule | None) -> Source:
    return open_in_duckdb(parquet(request, table), schema, rule)


def open_folder(request: pytest.FixtureRequest, table: Any, schema: Schema, rule: PersonRule | None) -> Source:
    from pyarrow import parquet as files

    folder = folder_of(request)
    for i, part in enumerate(parts(table)):
        files.write_table(part, folder / f"{i}.parquet")
    return opened(folder, schema, rule)


def open_relation(request: pytest.FixtureRequest, table: Any, schema: Schema, rule: PersonRule | None) -> Source:
    import duckdb

    return opened(duckdb.connect().from_arrow(table), schema, rule)


def open_stream(request: pytest.FixtureRequest, table: Any, schema: Schema, rule: PersonRule | None) -> Source:
    import pyarrow as pa

    batches = [pa.RecordBatch.from_struct_array(part.to_struct_array().combine_chunks()) for part in parts(table)]
    return opened(pa.RecordBatchReader.from_batches(table.schema, batches), schema, rule)


def stored(connection: Any, table: Any) -> str:
    """The query of a new table in a database that has these rows, put there in several transactions."""
    name = f"people_{next(NUMBERS)}"
    with connection, connection.cursor() as cursor:
        for i, part in enumerate(parts(table)):
            cursor.adbc_ingest(name, part, mode="append" if i else "create")
        connection.commit()
    return f'SELECT * FROM "{name}";'


def open_postgres(request: pytest.FixtureRequest, table: Any, schema: Schema, rule: PersonRule | None) -> Source:
    address = request.getfixturevalue("postgres")
    from adbc_driver_postgresql import dbapi

    return opened(Database(address, stored(dbapi.connect(address), table)), schema, rule)


def open_sqlite(request: pytest.FixtureRequest, table: Any, schema: Schema, rule: PersonRule | None) -> Source:
    import pyarrow as pa
    from adbc_driver_sqlite import dbapi

    path = folder_of(request) / "people.db"
    # SQLite has neither moments nor truth values: people keep them as texts.
    texts = [pa.types.is_temporal(each.type) or each.type == pa.bool_() for each in table.schema]
    types = [pa.string() if text else each.type for text, each in zip(texts, table.schema, strict=True)]
    plain = table.cast(pa.schema(zip(table.column_names, types, strict=True)))
    return opened(Database(f"sqlite:{path}", stored(dbapi.connect(str(path)), plain)), schema, rule)


def spark_frame(request: pytest.FixtureRequest, table: Any, master: str) -> Any:
    """The table as a frame of Spark, each of its parts in a partition."""
    from functools import reduce

    from pyarrow import parquet as files

    session, folder = sparks.session(master), folder_of(request)
    frames = []
    # Few: each partition is a task or two in every request.
    for i, part in enumerate(parts(table, 2)):
        files.write_table(part, folder / f"{i}.parquet")
        frames.append(session.read.parquet(str(folder / f"{i}.parquet")))
    return reduce(lambda frame, other: frame.union(other), frames)


def open_spark(request: pytest.FixtureRequest, table: Any, schema: Schema, rule: PersonRule | None) -> Source:
    return opened(spark_frame(request, table, sparks.LOCAL), schema, rule)


def open_spark_cluster(request: pytest.FixtureRequest, table: Any, schema: Schema, rule: PersonRule | None) -> Source:
    return opened(spark_frame(request, table, sparks.CLUSTER), schema, rule)


IN_PROCESSES = "Spark in two worker processes"
# The name of each kind, and how it is opened.
SOURCES: dict[str, Opener] = {
    "pyarrow": open_arrow,
    "pandas": open_pandas,
    "polars": open_polars,
    "a file": open_file,
    "a file that stays in DuckDB": open_duckdb,
    "a folder of files": open_folder,
    "a DuckDB relation": open_relation,
    "an Arrow stream": open_stream,
    "Spark": open_spark,
    IN_PROCESSES: open_spark_cluster,
    "PostgreSQL": open_postgres,
    "SQLite": open_sqlite,
}
