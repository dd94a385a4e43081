"""Lines: tables as lines of CSV and of JSON."""

import datetime as dt
import json
from collections.abc import Iterable, Iterator
from typing import IO, Any

from priory.data.table import Table


def write_csv(batches: Iterable[Table], file: IO[str]) -> int:
    """Write batches of rows as CSV, with one header."""
    rows = 0
    for i, batch in enumerate(batches):
        if i == 0:
            file.write(batch.csv_header())
        file.writelines(batch.csv_lines())
        rows += len(batch)
    return rows


def json_lines(table: Table) -> Iterator[str]:
    """A line with a JSON object for each row."""
    return (json.dumps(row, ensure_ascii=False) + "\n" for row in plain_rows(table))


def plain_rows(table: Table) -> list[dict[str, Any]]:
    """A mapping for each row that JSON can hold; dates as ISO 8601."""
    columns = {
        name: [value.isoformat() if isinstance(value, dt.date) else value for value in values]
        for name, values in table.to_dict().items()
    }
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
