"""Opening: any table a person may bring, as a source."""

from pathlib import Path
from typing import cast

from priory.data.kinds.kind import ModelledColumn
from priory.data.persons import PersonRule, kept_records
from priory.data.schema import Schema
from priory.data.sources.frame_files import is_frame_file, read_frame_file
from priory.data.sources.source import Source, checked_row_limit
from priory.data.sources.spark import is_spark_frame, open_spark
from priory.errors import OptionError
from priory.queries.domain import Domain


def open_source(
    data: object,
    schema: Schema,
    *,
    unit: str | None = None,
    max_rows: int = 1,
    key: bytes | None = None,
    memory: int | None = None,
    row_limit: int | None = None,
) -> Source:
    """Make a source of a path, a frame (pandas, polars, pyarrow, …), a DuckDB relation, or a source.

    Args:
        data: what holds the records. A source is given back as it is.
        schema: what the columns are; nothing about it is read from the records.
        unit: the column that says which person a record is about; None protects single records.
        max_rows: with `unit`, how many records of one person count.
        key: with `unit`, 32 secret bytes that decide which ones.
        memory: how many bytes a file or relation may take; beyond that it stays in a temporary folder.
        row_limit: how many rows may count at most, as is publicly known; 2^32 by default. Where there are more,
            answers are cut off. A source declares its own.

    Raises:
        OptionError: an argument cannot be what it is.
        DataError: the container cannot be read, or lacks a column. Never because of a cell.
    """
    # Of a data frame, `domain` may be a column.
    if hasattr(data, "count") and isinstance(getattr(data, "domain", None), Domain):
        checked_row_limit(getattr(data, "row_limit", None))
        if row_limit is not None:
            raise OptionError("row_limit", "a source declares its own; leave it out")
        return cast(Source, data)
    row_limit = checked_row_limit(row_limit)
    rule = _person_rule(schema, unit, max_rows, key)
    if is_spark_frame(data):
        return open_spark(data, schema, rule, row_limit)
    if isinstance(data, str | Path) and is_frame_file(data):
        data = read_frame_file(data, schema.reading, [column.name for column in schema.columns])
    if isinstance(data, str | Path) or type(data).__name__ == "DuckDBPyRelation":
        from priory.data.sources.duckdb import DEFAULT_MEMORY, open_large

        memory = DEFAULT_MEMORY if memory is None else memory
        return open_large(data, schema, rule, memory=memory, row_limit=row_limit)  # type: ignore[arg-type]
    return _open_frame(data, schema, rule, row_limit)


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
