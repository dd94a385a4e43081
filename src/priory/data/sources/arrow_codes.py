"""Arrow codes: a stream encoded as it arrives, into a table of codes; it is never held whole."""

from __future__ import annotations

from typing import TYPE_CHECKING

from priory.data.codec import encode
from priory.data.sources.adbc_cells import field_cells
from priory.data.sources.arrow import stream_of
from priory.data.sources.encoding import bounded, code_type
from priory.data.sources.private import position
from priory.data.spelling import person_texts

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from priory.data.persons import PersonRule
    from priory.data.schema import Schema


def keep_codes(connection: DuckDBPyConnection, data: object, schema: Schema, rule: PersonRule | None) -> None:
    """Create the table `codes` of a stream: one row for each record that counts."""
    names = [f"c{i}" for i in range(len(schema.modelled))]
    columns = [f"{name} {code_type(column.size)}" for name, column in zip(names, schema.modelled, strict=True)]
    if rule is None:
        connection.execute(f"CREATE TABLE codes ({', '.join(columns)})")
        _fill(connection, "codes", data, schema, None)
        return
    connection.execute(f"CREATE TABLE records ({', '.join([*columns, 'person VARCHAR'])})")
    _fill(connection, "records", data, schema, rule.column)
    query = bounded("FROM records", names, rule.max_rows)
    connection.execute(f"CREATE TABLE codes AS {query}", {"key": rule.key.hex()})
    connection.execute("DROP TABLE records")


def _fill(connection: DuckDBPyConnection, table: str, data: object, schema: Schema, person: str | None) -> None:
    """Put the codes of every row into the table, and after them who it is about; rows of nobody are left out."""
    import pyarrow as pa

    wanted = [column.name for column in schema.modelled] + ([person] if person else [])
    stream = stream_of(data, wanted)
    try:
        places = {name: position(stream.names, name) for name in wanted}
        for block in stream.blocks():
            cells = {name: field_cells(stream.schema.field(i), block.column(i)) for name, i in places.items()}
            arrays = {f"c{i}": pa.array(codes) for i, codes in enumerate(encode(schema, cells).values())}
            if person is not None:
                arrays["person"] = pa.array(person_texts(cells[person]), pa.string())
            connection.register("block", pa.table(arrays))
            connection.execute(f"INSERT INTO {table} FROM block" + (" WHERE person IS NOT NULL" if person else ""))
            connection.unregister("block")
    finally:
        stream.close()
