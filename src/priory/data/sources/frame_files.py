"""Frame files: spreadsheets, JSON and Feather files, read into memory as a frame is."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from priory.data.cells import Cells
from priory.data.dialect import USUAL, Dialect, unique_names
from priory.data.sources.arrow_cells import arrow_cells
from priory.data.sources.containers import (
    ARROW_SUFFIXES,
    FRAME_SUFFIXES,
    SHEET_SUFFIXES,
    PlainFile,
    plain_file,
    suffix_of,
)
from priory.errors import DataError, MissingExtra


def is_frame_file(path: str | Path) -> bool:
    """Whether the file, or the one in a zip, is of a kind that is read into memory."""
    return suffix_of(path) in FRAME_SUFFIXES


def read_frame_file(
    path: str | Path, reading: Dialect = USUAL, columns: Sequence[str] | None = None
) -> dict[str, Cells]:
    """The columns of a spreadsheet, a JSON or a Feather file; it never raises because of a cell.

    `columns` are the names of all columns in order, for a sheet without a row of names, and for JSON, where a name that
    a row lacks is missing there; by default they are those that are found.
    """
    with plain_file(path) as file:
        if file.is_any(ARROW_SUFFIXES):
            return _of_arrow(file)
        if file.is_any(SHEET_SUFFIXES):
            return _of_rows(file, _sheet_rows(file, reading.sheet), reading, columns)
        return _of_objects(list(_json_objects(file)), columns)


def sheet_names(path: str | Path) -> list[str]:
    """The names of the sheets of a spreadsheet."""
    with plain_file(path) as file:
        return _workbook(file).sheet_names if file.is_any(SHEET_SUFFIXES) else []


def _of_arrow(file: PlainFile) -> dict[str, Cells]:
    try:
        import pyarrow as pa
        from pyarrow import feather
    except ImportError:
        raise MissingExtra("pyarrow", "pyarrow") from None
    try:
        table = feather.read_table(file.path, memory_map=False)
    except (pa.ArrowException, OSError):
        raise file.error("it is not a Feather file, or it is damaged") from None
    names = unique_names(table.column_names)
    return {name: arrow_cells(table.column(i)) for i, name in enumerate(names)}


def _json_objects(file: PlainFile) -> Iterator[dict[str, Any]]:
    """The objects of a JSON file: a list of them, or one in each line."""
    try:
        text = file.path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise file.error("it is not UTF-8 text; save it again as UTF-8") from None
    is_list = text.lstrip()[:1] == "["
    for number, line in enumerate([text] if is_list else text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            found = json.loads(line)
        except (ValueError, RecursionError):
            found = None
        for row in found if is_list and isinstance(found, list) else [found]:
            if not isinstance(row, dict):
                where = "" if is_list else f", line {number}"
                raise DataError(f"{file.shown}{where}: it needs a JSON object in each line, or one list of objects")
            yield row


def _of_objects(rows: list[dict[str, Any]], columns: Sequence[str] | None) -> dict[str, Cells]:
    names = list(dict.fromkeys(name for row in rows for name in row)) if columns is None else columns
    return {name: Cells.objects([row.get(name) for row in rows]) for name in names}


def _workbook(file: PlainFile) -> Any:  # noqa: ANN401 - an optional library
    try:
        import python_calamine as calamine
    except ImportError:
        raise MissingExtra("python-calamine", "priory[xlsx]") from None
    try:
        return calamine.load_workbook(str(file.path))
    except (calamine.CalamineError, OSError, ValueError):
        raise file.error("it cannot be read as a spreadsheet; open it and save it again as .xlsx, or as .csv") from None


def _sheet_rows(file: PlainFile, sheet: str | None) -> list[list[Any]]:
    workbook = _workbook(file)
    names = workbook.sheet_names
    if sheet is None and len(names) > 1:
        raise file.error(f"it has {len(names)} sheets; say which in the schema, as in reading: {{sheet: Sheet1}}")
    if sheet is not None and sheet not in names:
        raise file.error(f"it has no sheet {sheet!r}")
    rows: list[list[Any]] = workbook.get_sheet_by_name(names[0] if sheet is None else sheet).to_python()
    return rows


def _of_rows(
    file: PlainFile, rows: list[list[Any]], reading: Dialect, columns: Sequence[str] | None
) -> dict[str, Cells]:
    if not rows or not rows[0]:
        raise DataError(f"{file.shown} is empty; its first row must name the columns")
    if reading.header:
        header = [_name(cell) for cell in rows.pop(0)]
        names = unique_names([name.strip() for name in header] if reading.trim else header)
    else:
        names = unique_names([""] * len(rows[0])) if columns is None else list(columns)
        if len(names) != len(rows[0]):
            raise file.error(f"it has {len(rows[0])} columns; without a header, the schema must declare as many")
    return {name: Cells.objects([_cell(row[i], reading) for row in rows]) for i, name in enumerate(names)}


def _name(cell: object) -> str:
    """A cell of the row of names; a year is a whole number, which a sheet holds as a float."""
    return str(int(cell)) if isinstance(cell, float) and cell.is_integer() else str(cell)


def _cell(cell: object, reading: Dialect) -> object:
    """A cell of a sheet; an empty one is missing."""
    if not isinstance(cell, str):
        return cell
    return (cell.strip() if reading.trim else cell) or None
