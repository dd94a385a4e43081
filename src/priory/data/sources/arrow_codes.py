"""Arrow codes: a stream encoded as it arrives, into a table of codes; it is never held whole."""

from __future__ import annotations

from typing import TYPE_CHECKING

from priory.data.codec import encode
from priory.data.sources.adbc_cells import field_cells
from priory.data.sources.arrow import stream_of
from priory.data.sources.encoding import bounded, code_type
from priory.data.sources.frames import position
from priory.data.spelling import person_texts

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from priory.data.persons import PersonRule
    from priory.data.schema import Schema


def keep_codes(connection: DuckDBPyConnection, data: object, schema: Schema, rule: PersonRule | None) -> None:
    """Create the table `codes` of a stream: one row for each record that counts."""
    import pyarrow as pa

    names = [column.name for column in schema.modelled]
    wanted = names + ([rule.column] if rule else [])
    stream = stream_of(data, wanted)
    columns = {f"c{i}": code_type(column.size) for i, column in enumerate(schema.modelled)}
    codes, columns = list(columns), columns | ({"person": "VARCHAR"} if rule else {})
    table = "records" if rule else "codes"
    connection.execute(f"CREATE TABLE {table} ({', '.join(f'{name} {kind}' for name, kind in columns.items())})")
    places = {name: position(stream.names, name) for name in wanted}
    for block in stream.blocks():
        cells = {name: field_cells(stream.schema.field(i), block.column(i)) for name, i in places.items()}
        arrays = {f"c{i}": pa.array(each) for i, each in enumerate(encode(schema, cells).values())}
        if rule is not None:
            arrays["person"] = pa.array(person_texts(cells[rule.column]), pa.string())
        connection.register("block", pa.table(arrays))
        connection.execute(f"INSERT INTO {table} FROM block" + (" WHERE person IS NOT NULL" if rule else ""))
        connection.unregister("block")
    if rule is not None:
        query = bounded(f"FROM {table}", codes, rule.max_rows)
        connection.execute(f"CREATE TABLE codes AS {query}", {"key": rule.key.hex()})
        connection.execute(f"DROP TABLE {table}")
