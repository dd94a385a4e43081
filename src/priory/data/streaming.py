"""Streaming: tables that arrive in batches, written to one file without holding them all."""

import itertools
import tempfile
from collections.abc import Iterable
from pathlib import Path

from priory.data.lines import write_csv
from priory.data.sheets import write_sheet
from priory.data.sources.containers import PARQUET_SUFFIXES
from priory.data.sources.files import connect, container_errors
from priory.data.sql import literal
from priory.data.table import Table
from priory.data.writing import text_file, written_whole
from priory.errors import OptionError

SUFFIXES = (".csv", ".csv.gz", ".xlsx", *PARQUET_SUFFIXES)


def check_suffix(path: Path) -> None:
    """Refuse a file whose name does not say how to write it."""
    if not path.name.lower().endswith(SUFFIXES):
        raise OptionError("output", f"{path} has none of the endings that can be written: {', '.join(SUFFIXES)}")


def write_batches(batches: Iterable[Table], path: str | Path) -> int:
    """Write batches of rows to a CSV, Parquet or xlsx file, which appears whole or not at all; how many there were.

    Raises:
        OptionError: the name has none of the endings that can be written.
        DataError: the file cannot be written.
    """
    path = Path(path)
    check_suffix(path)
    if path.name.lower().endswith(PARQUET_SUFFIXES):
        return _write_parquet(batches, path)
    with written_whole(path) as draft:
        if path.name.lower().endswith(".xlsx"):
            return write_sheet(batches, draft, path)
        batches = iter(batches)
        first = next(batches, None)
        if first is None:
            draft.touch()
            return 0
        with text_file(draft, path, first.reading) as file:
            return write_csv(itertools.chain([first], batches), file)


def _write_parquet(batches: Iterable[Table], path: Path) -> int:
    with written_whole(path) as draft, tempfile.TemporaryDirectory(dir=path.parent, prefix=".priory-") as folder:
        rows, parts = 0, []
        for i, batch in enumerate(batches):
            parts.append(Path(folder) / f"{i:09}.parquet")
            batch.write_parquet(parts[-1])
            rows += len(batch)
        names = ", ".join(literal(str(part)) for part in parts)
        with connect() as connection, container_errors(path):
            connection.execute(f"COPY (FROM read_parquet([{names}])) TO {literal(str(draft))} (FORMAT parquet)")
    return rows
