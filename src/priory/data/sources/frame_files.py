"""Frame files: spreadsheets, JSON and Feather files, read into memory as a frame is."""

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
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

MOST_DIGITS = 1000


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
            return _of_rows(file, _sheet_rows(file, reading), reading, columns)
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
            found = json.loads(line, parse_int=_whole)
        except (ValueError, RecursionError):
            found = None
        for row in found if is_list and isinstance(found, list) else [found]:
            if not isinstance(row, dict):
                where = "" if is_list else f", line {number}"
                raise DataError(f"{file.shown}{where}: it needs a JSON object in each line, or one list of objects")
            yield row


def _whole(digits: str) -> int | float:
    # Python makes no integer of thousands of digits.
    return int(digits) if len(digits) < MOST_DIGITS else float(digits)


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


def _sheet_rows(file: PlainFile, reading: Dialect) -> list[list[Any]]:
    workbook, sheet = _workbook(file), reading.sheet
    names = workbook.sheet_names
    if sheet is None and len(names) > 1:
        raise file.error(f"it has {len(names)} sheets; say which in the schema, as in reading: {{sheet: Sheet1}}")
    if sheet is not None and sheet not in names:
        raise file.error(f"it has no sheet {sheet!r}")
    found = workbook.get_sheet_by_name(names[0] if sheet is None else sheet)
    with _quietly():
        rows = list(_converted(found.iter_rows(), found.width))
    # A row without cells is no row: at the end of a sheet nobody could tell whether there is one.
    rows = [row for row in rows if any(cell != "" for cell in row)]
    # Without names, what is left of the first cell that is there are columns in which all cells are missing.
    left = 0 if reading.header or found.start is None else found.start[1]
    return [[*[""] * left, *row] for row in rows] if left else rows


def _converted(rows: Iterator[list[Any]], width: int) -> Iterator[list[Any]]:
    """The rows of a sheet; one with a date that no calendar has holds nothing that can be read."""
    while True:
        try:
            yield next(rows)
        except StopIteration:
            return
        except BaseException as error:
            # A panic in Rust is no exception to Python.
            if not isinstance(error, OverflowError) and type(error).__name__ != "PanicException":
                raise
            yield [NotImplemented] * width


@contextmanager
def _quietly() -> Iterator[None]:
    """Let nobody hear of a panic, which Rust tells stderr of: it would tell of a cell."""
    kept = os.dup(2)
    try:
        with open(os.devnull, "wb") as nowhere:  # noqa: PTH123 - a device
            os.dup2(nowhere.fileno(), 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def _of_rows(
    file: PlainFile, rows: list[list[Any]], reading: Dialect, columns: Sequence[str] | None
) -> dict[str, Cells]:
    if not rows and (reading.header or columns is None):
        raise DataError(f"{file.shown} is empty; its first row must name the columns")
    if reading.header:
        header = [_name(cell) for cell in rows.pop(0)]
        names = unique_names([name.strip() for name in header] if reading.trim else header)
    else:
        width = max(map(len, rows), default=0)
        names = unique_names([""] * width) if columns is None else list(columns)
        if len(names) < width:
            raise file.error(f"it has {width} columns; without a header, the schema must declare as many")
        # Where a column holds nothing in any row, a sheet does not have it.
        rows = [[*row, *[""] * (len(names) - len(row))] for row in rows]
    return {name: Cells.objects([_cell(row[i], reading) for row in rows]) for i, name in enumerate(names)}


def _name(cell: object) -> str:
    """A cell of the row of names; a year is a whole number, which a sheet holds as a float."""
    return str(int(cell)) if isinstance(cell, float) and cell.is_integer() else str(cell)


def _cell(cell: object, reading: Dialect) -> object:
    """A cell of a sheet; an empty one is missing."""
    if not isinstance(cell, str):
        return cell
    return (cell.strip() if reading.trim else cell) or None
