"""Encoding: the codec's rules as queries that DuckDB runs over files larger than memory.

They say the same as `priory.data.codec` cell by cell; a law in the tests holds the two together.
"""

from collections.abc import Mapping, Sequence

from priory.data.kinds import ModelledColumn
from priory.data.sql import Cell, as_text, listed


def encoding(
    columns: Sequence[ModelledColumn], cells: Mapping[str, Cell], table: str, person: str | None = None
) -> str:
    """The query that turns `table` into codes, named c0, c1, … in the order of `columns`.

    It is total: no cell makes it fail or gives a null code. With `person`, it also gives a column of that name after
    the codes: that column's cell, as `person_cell` has it.
    """
    values, codes = [], []
    for i, column in enumerate(columns):
        cell = cells[column.name]
        values += [f"{_is_missing(column, cell)} AS m{i}", f"{column.sql_point(cell) or 'NULL'} AS v{i}"]
        place = f"coalesce({column.sql_place(f'v{i}')}, {column.other_code})"
        code = f"CASE WHEN m{i} THEN {column.missing_code} ELSE {place} END"
        codes.append(f"CAST({code} AS {code_type(column.size)}) AS c{i}")
    if person is not None:
        values.append(f"{person_cell(cells[person])[1]} AS person")
        codes.append("person")
    return f"SELECT {', '.join(codes)} FROM (SELECT {', '.join(values)} FROM {table})"


def bounded(query: str, names: Sequence[str], max_rows: int) -> str:
    """Keep the `max_rows` records of each person that come first by `priory.data.persons.record_hash`."""
    # The key is the query's parameter, written in hexadecimal, so that it stands in no text that a database may log.
    codes = " || ',' || ".join(f"CAST({name} AS VARCHAR)" for name in names)
    text = f"CAST($key AS VARCHAR) || chr(31) || person || chr(31) || {codes} || chr(31) || CAST(copy AS VARCHAR)"
    rows = ", ".join(["person", *names])
    copies = f"SELECT *, row_number() OVER (PARTITION BY {rows}) AS copy FROM ({query}) WHERE person IS NOT NULL"
    order = f"row_number() OVER (PARTITION BY person ORDER BY sha256({text})) <= {int(max_rows)}"
    return f"SELECT {', '.join(names)} FROM ({copies}) QUALIFY {order}"


def person_cell(cell: Cell) -> tuple[str, str]:
    """Which of `priory.data.spelling.FUNCTIONS` spells a person of this column, and the SQL that gives it the cell."""
    raw, family = cell.expression, cell.family
    if family == "float":
        return "float", f"CAST({raw} AS DOUBLE)"
    if cell.sql_type == "BLOB":
        return "bytes", raw
    if cell.sql_type == "TIMESTAMP_NS":
        return "nanoseconds", f"CASE WHEN isfinite({raw}) THEN epoch_ns({raw}) END"
    if family in {"date", "timestamp"}:
        moment = raw if cell.sql_type.endswith("ZONE") else f"TRY_CAST({raw} AS TIMESTAMP)"
        return "microseconds", f"CASE WHEN isfinite({moment}) THEN epoch_us({moment}) END"
    return "text", f"TRY_CAST({raw} AS VARCHAR)"


def code_type(size: int) -> str:
    """The smallest unsigned type that holds the codes of `size` places."""
    return "UTINYINT" if size <= 2**8 else "USMALLINT" if size <= 2**16 else "UINTEGER"


def _is_missing(column: ModelledColumn, cell: Cell) -> str:
    is_null = f"{cell.expression} IS NULL"
    if cell.family == "text" and column.nulls:
        return f"({is_null} OR {as_text(cell.expression)} IN ({listed(column.nulls)}))"
    return f"({is_null} OR isnan({cell.expression}))" if cell.family == "float" else f"({is_null})"
