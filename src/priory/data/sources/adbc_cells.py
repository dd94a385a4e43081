"""ADBC cells: what a database's driver gives for a column, as the cells that the database holds."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal, InvalidOperation
from typing import Any

import numpy as np

from priory.data.cells import Cells
from priory.data.sources.arrow_cells import arrow_cells
from priory.data.sql import identifier

# The mark of a column whose cells are texts that begin with the letter of their type.
SQLITE = {b"priory": b"tagged"}
TYPES = (b"POSTGRESQL:type", b"ADBC:postgresql:typname")
# PostgreSQL counts from 2000, and its driver moves the largest number, which is its infinity, past the end.
WRAPPED = {
    np.dtype("datetime64[D]"): (-(2**31) + 10_956, 2**31 - 1),
    np.dtype("datetime64[us]"): (-(2**63) + 946_684_800_000_000 - 1, 2**63 - 1),
}


def tagged(names: Iterable[str], query: str) -> str:
    """The query for SQLite that gives each cell as a text that begins with the letter of its type.

    In SQLite every cell has its own type, whatever the column says. The driver would take a column's type from its
    first rows, and fail at a later one that has another.
    """
    return f"SELECT {', '.join(_tagged(identifier(name)) for name in names)} FROM ({query})"


def _tagged(name: str) -> str:
    ways = {"null": "'n'", "integer": f"'i' || {name}", "real": f"'r' || printf('%!.17g', {name})"}
    ways["text"] = f"'t' || {name}"
    cases = " ".join(f"WHEN '{kind}' THEN {text}" for kind, text in ways.items())
    return f"CASE typeof({name}) {cases} ELSE 'b' || hex({name}) END"


def field_cells(field: Any, column: Any) -> Cells:  # noqa: ANN401 - pyarrow is optional
    """The cells of an Arrow column, as the database holds them where its driver says that it comes from one."""
    marks = field.metadata or {}
    if marks.get(b"priory") == SQLITE[b"priory"]:
        return _converted(arrow_cells(column), _untagged)
    kind = next((marks[mark] for mark in TYPES if mark in marks), None)
    return arrow_cells(column) if kind is None else _postgres_cells(kind.decode(errors="replace"), column)


def _postgres_cells(kind: str, column: Any) -> Cells:  # noqa: ANN401 - pyarrow is optional
    import pyarrow as pa

    column = column if isinstance(column, pa.ChunkedArray) else pa.chunked_array([column])
    if kind == "numeric":
        return _converted(arrow_cells(column), _decimal)
    if kind == "bpchar":
        # Blanks at the end of a char(n) mean nothing there.
        return _converted(arrow_cells(column), lambda text: text.rstrip(" "))
    storage = column.type.storage_type if isinstance(column.type, pa.BaseExtensionType) else column.type
    if storage == pa.binary() and column.type != storage and kind not in NO_TEXTS:
        # An enumeration, or another type that the driver does not know: its bytes are its text.
        texts = pa.chunked_array([chunk.storage for chunk in column.chunks], storage)
        return arrow_cells(texts.cast(pa.string(), safe=False))
    return _unwrapped(arrow_cells(column))


# Types whose bytes are no texts.
NO_TEXTS = frozenset(["inet", "cidr", "macaddr", "bit", "varbit", "point", "box", "path", "polygon", "circle", "line"])


def _unwrapped(cells: Cells) -> Cells:
    """Infinite moments at the end of time that they are at."""
    if cells.values.dtype not in WRAPPED:
        return cells
    wrapped, last = WRAPPED[cells.values.dtype]
    stored = cells.values.astype(np.int64)
    return Cells(np.where(stored == wrapped, last, stored).astype(cells.values.dtype), cells.null)


def _converted(cells: Cells, convert: Any) -> Cells:  # noqa: ANN401 - a function
    """Texts as what they stand for, each distinct one once."""
    values = [None if text is None else convert(text) for text in cells.values]
    return Cells(np.fromiter(values, dtype=object, count=len(values)), cells.null, cells.index)


def _untagged(text: str) -> object:
    """The cell of SQLite that a text stands for."""
    tag, rest = text[:1], text[1:]
    if tag == "i":
        return int(rest)
    if tag == "r":
        return float(rest)
    return rest if tag == "t" else bytes.fromhex(rest) if tag == "b" else None


def _decimal(text: str) -> object:
    try:
        return Decimal(text)
    except InvalidOperation:
        return text
