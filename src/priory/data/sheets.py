"""Sheets: tables that arrive in batches, written to a spreadsheet."""

import datetime as dt
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from priory.data.table import Table
from priory.errors import DataError, MissingExtra

# What a sheet holds.
MOST_ROWS = 2**20
MOST_COLUMNS = 2**14
# Row by row, so that memory does not grow; texts stay texts, whatever they look like.
OPTIONS = {
    "constant_memory": True,
    "strings_to_formulas": False,
    "strings_to_urls": False,
    "strings_to_numbers": False,
}
SHOWN = {"date": "yyyy-mm-dd", "datetime": "yyyy-mm-dd hh:mm:ss"}


def write_sheet(batches: Iterable[Table], draft: Path, path: Path) -> int:
    """Write batches of rows to a file of one sheet, under one row of names; how many rows there were."""
    try:
        import xlsxwriter
    except ImportError:
        raise MissingExtra("xlsxwriter", "priory[xlsx]") from None
    book = xlsxwriter.Workbook(str(draft), OPTIONS)
    sheet = book.add_worksheet("table")
    formats = {kind: book.add_format({"num_format": text}) for kind, text in SHOWN.items()}
    rows = 0
    try:
        for i, batch in enumerate(batches):
            if rows + len(batch) >= MOST_ROWS or len(batch.names) > MOST_COLUMNS:
                most = f"{MOST_ROWS - 1:,} rows of {MOST_COLUMNS:,} columns"
                raise DataError(f"{path}: a sheet holds {most}; write .csv or .parquet")
            if i == 0:
                _write_row(sheet, 0, batch.names, [None] * len(batch.names))
            shown = [formats.get(batch.kind(name)) for name in batch.names]
            for row in zip(*batch.to_dict().values(), strict=True):
                rows += 1
                _write_row(sheet, rows, row, shown)
    finally:
        book.close()
    return rows


def _write_row(sheet: Any, number: int, cells: Iterable[object], shown: Iterable[object]) -> None:  # noqa: ANN401 - optional
    for place, (cell, form) in enumerate(zip(cells, shown, strict=True)):
        # A sheet's calendar begins in 1900, and it has no infinite numbers: such cells are texts.
        is_early = isinstance(cell, dt.date) and cell.year < 1900
        is_infinite = isinstance(cell, float) and not math.isfinite(cell)
        if cell is not None:
            sheet.write(number, place, str(cell) if is_early or is_infinite else cell, form)
