"""Opening: any table a person may bring, as a source."""

from pathlib import Path
from typing import cast

from priory.data.kinds.kind import ModelledColumn
from priory.data.persons import PersonRule, kept_records
from priory.data.schema import Schema
from priory.data.sources.arrow import is_stream
from priory.data.sources.duckdb import is_relation
from priory.data.sources.frame_files import is_frame_file, read_frame_file
from priory.data.sources.private import guarded
from priory.data.sources.source import Source, checked_row_limit
from priory.data.sources.spark import is_spark_frame, open_spark, read_spark
from priory.errors import OptionError
from priory.queries.domain import Domain

# Where codes can be counted.
ENGINES = ("memory", "duckdb", "spark")


@guarded()
def open_source(
    data: object,
    schema: Schema,
    *,
    unit: str | None = None,
    max_rows: int = 1,
    key: bytes | None = None,
    memory: int | None = None,
    row_limit: int | None = None,
    engine: str | None = None,
) -> Source:
    """Make a source of a path, a frame (pandas, polars, pyarrow, …), a relation, a stream, a database, or a source.

    Args:
        data: what holds the records: a file, a folder or a pattern of Parquet files; a frame; a DuckDB relation; a
            stream of Arrow batches, which is read once; a `Database`. A source is given back as it is.
        schema: what the columns are; nothing about it is read from the records.
        unit: the column that says which person a record is about; None protects single records.
        max_rows: with `unit`, how many records of one person count.
        key: with `unit`, 32 secret bytes that decide which ones.
        memory: how many bytes anything but a frame may take; beyond that it stays in a temporary folder.
        row_limit: how many rows may count at most, as is publicly known; 2^32 by default. Where there are more,
            answers are cut off. A source declares its own.
        engine: where the codes are counted: "memory", "duckdb", or "spark", which reads `data` as the name of a table
            or a path of its own. By default in memory where they fit it, else in DuckDB.

    Raises:
        OptionError: an argument cannot be what it is.
        DataError: the container cannot be read, or lacks a column. Never because of a cell.
        MissingExtra: it needs a library that is not installed.
    """
    check_engine(engine)
    # Of a data frame, `domain` may be a column.
    if hasattr(data, "count") and isinstance(getattr(data, "domain", None), Domain):
        checked_row_limit(getattr(data, "row_limit", None))
        for argument, given in (("row_limit", row_limit), ("engine", engine)):
            if given is not None:
                raise OptionError(argument, "a source has its own; leave it out")
        return cast(Source, data)
    row_limit = checked_row_limit(row_limit)
    rule = _person_rule(schema, unit, max_rows, key)
    if engine == "spark" and isinstance(data, str | Path):
        data = read_spark(str(data), schema)
    if is_spark_frame(data) and engine in (None, "spark"):
        return open_spark(data, schema, rule, row_limit)
    if isinstance(data, str | Path) and is_frame_file(data):
        data = read_frame_file(data, schema.reading, [column.name for column in schema.columns])
    if isinstance(data, str | Path) or is_relation(data) or is_stream(data):
        return _open_large(data, schema, rule, memory=memory, row_limit=row_limit, engine=engine)
    if engine not in (None, "memory"):
        raise OptionError("engine", f"{engine} cannot take over a table that is in memory already; leave it out")
    return _open_frame(data, schema, rule, row_limit)


def check_engine(engine: str | None) -> None:
    """Refuse an engine that there is not."""
    if engine not in (None, *ENGINES):
        raise OptionError("engine", f"one of {', '.join(ENGINES)}; got {engine!r}")


def _open_large(
    data: object, schema: Schema, rule: PersonRule | None, *, memory: int | None, row_limit: int, engine: str | None
) -> Source:
    from priory.data.sources.duckdb import DEFAULT_MEMORY, moved_to_memory, open_in_duckdb, open_large

    if engine == "spark":
        raise OptionError("engine", "spark reads tables and paths of its own; give one, or a Spark data frame")
    memory = DEFAULT_MEMORY if memory is None else memory
    if engine is None:
        return open_large(data, schema, rule, memory=memory, row_limit=row_limit)
    source = open_in_duckdb(data, schema, rule, memory=memory, row_limit=row_limit)
    return moved_to_memory(source) if engine == "memory" else source


def _person_rule(schema: Schema, unit: str | None, max_rows: int, key: bytes | None) -> PersonRule | None:
    if isinstance(max_rows, bool) or not isinstance(max_rows, int) or max_rows < 1:
        raise OptionError("max_rows", f"a whole number of records per person, at least 1; got {max_rows!r}")
    if unit is None:
        if max_rows != 1:
            raise OptionError("max_rows", "it bounds the records of a person: name the person column with unit, too")
        return None
    if isinstance(schema.column(unit), ModelledColumn):
        raise OptionError("unit", f"column {unit!r} must be declared with kind: id")
    if key is None or len(key) < 16:
        raise OptionError("key", "a unit needs at least 16 secret bytes, kept with the ledger")
    return PersonRule(unit, max_rows, key)


def _open_frame(data: object, schema: Schema, rule: PersonRule | None, row_limit: int) -> Source:
    from priory.data.codec import encode
    from priory.data.sources.frames import cells_of
    from priory.data.sources.memory import MemorySource
    from priory.data.spelling import person_texts

    wanted = [column.name for column in schema.modelled] + ([rule.column] if rule else [])
    cells = cells_of(data, wanted)
    codes = tuple(encode(schema, cells).values())
    records = len(next(iter(cells.values()))) if cells else 0
    if rule is not None:
        kept = kept_records(person_texts(cells[rule.column]), codes, rule.max_rows, rule.key)
        codes, records = tuple(column[kept] for column in codes), int(kept.sum())
    return MemorySource(schema.domain, codes, records, row_limit)
