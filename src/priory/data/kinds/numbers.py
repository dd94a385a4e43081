"""Numbers: how cells spell them, in memory and in SQL."""

import re
from decimal import Decimal

import numpy as np

from priory.data.cells import Reading, Unread
from priory.data.kinds.declared import MOST_WHOLE
from priory.data.sql import Cell, as_text, literal

NUMBER = re.compile(r" *([+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?) *")
SQL_NUMBER = " *[+-]?([0-9]+([.][0-9]*)?|[.][0-9]+)([eE][+-]?[0-9]+)? *"


def of_text(text: str) -> Reading:
    """The double nearest to the number that a text spells."""
    spelled = NUMBER.fullmatch(text)
    return float(spelled[1]) if spelled else Unread.BAD


def of_typed(cell: object) -> Reading:
    """The double nearest to a typed number; infinite beyond the largest."""
    # A duration is an integer to NumPy, but not a number.
    if isinstance(cell, bool | np.bool_ | np.timedelta64):
        return Unread.BAD
    if not isinstance(cell, int | float | np.integer | np.floating | Decimal):
        return Unread.BAD
    try:
        return float(cell)
    except OverflowError:
        return float("inf") if cell > 0 else float("-inf")


def in_sql(cell: Cell) -> str | None:
    """A cell as the nearest double; None if this type of cell is never a number."""
    if cell.family in {"integer", "float"}:
        return f"CAST({cell.expression} AS DOUBLE)"
    text = as_text(cell.expression)
    if cell.family == "decimal":
        # By way of its digits: DuckDB's own cast divides by a power of ten, which rounds twice.
        return f"CAST({text} AS DOUBLE)"
    if cell.family == "text":
        return f"CASE WHEN regexp_full_match({text}, {literal(SQL_NUMBER)}) THEN TRY_CAST({text} AS DOUBLE) END"
    return None


def short_text(value: float) -> str:
    """A number as short as it can be without losing anything.

    >>> short_text(250000.0), short_text(0.1)
    ('250000', '0.1')
    """
    return str(int(value)) if value == int(value) and abs(value) <= MOST_WHOLE else repr(value)


def with_thousands(value: float) -> str:
    """The same with commas between the thousands of a whole number.

    >>> with_thousands(250000.0), with_thousands(0.1)
    ('250,000', '0.1')
    """
    return f"{int(value):,}" if value == int(value) and abs(value) < 1e15 else short_text(value)
