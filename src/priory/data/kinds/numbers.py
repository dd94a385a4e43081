"""Numbers: how cells spell them, in memory and in SQL."""

import re
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property

import numpy as np

from priory.data.cells import Reading, Unread
from priory.data.dialect import check_marks
from priory.data.kinds.declared import MOST_WHOLE, checked_texts
from priory.data.sql import Cell, as_text, literal
from priory.errors import SchemaError

NUMBER = re.compile(r" *([+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?) *")
SQL_NUMBER = " *[+-]?([0-9]+([.][0-9]*)?|[.][0-9]+)([eE][+-]?[0-9]+)? *"


@dataclass(frozen=True, kw_only=True)
class NumberFormat:
    """How the texts of a column spell numbers."""

    decimal: str = "."
    thousands: str | None = None  # what may stand between thousands
    parentheses: bool = False  # whether a number in parentheses is a negative one
    symbol: str | None = None  # may stand before or after the number, such as % or $

    @classmethod
    def of(
        cls,
        name: str,
        *,
        decimal: str = ".",
        thousands: str | None = None,
        parentheses: bool = False,
        symbol: str | None = None,
    ) -> "NumberFormat":
        """Build the format of the column `name`, checking it."""
        check_marks(decimal, thousands, name)
        if not isinstance(parentheses, bool):
            raise SchemaError(f"parentheses is true or false; got {parentheses!r}", column=name)
        if symbol is not None:
            checked_texts(name, "symbol", [symbol])
            if re.fullmatch(r"|[eE]|\s.*|.*\s|.*[0-9()+.,'_\u2019-].*", symbol, re.DOTALL):
                raise SchemaError(f"symbol is a text without digits and marks, such as %; got {symbol!r}", column=name)
        return cls(decimal=decimal, thousands=thousands, parentheses=parentheses, symbol=symbol)

    @cached_property
    def pattern(self) -> str:
        """The regular expression of a whole text that spells a number."""
        point = re.escape(self.decimal)
        group = f"|[0-9]{{1,3}}(?:{re.escape(self.thousands)}[0-9]{{3}})+" if self.thousands else ""
        number = f"(?:(?:[0-9]+{group})(?:{point}[0-9]*)?|{point}[0-9]+)(?:[eE][+-]?[0-9]+)?"
        mark = f"(?:{re.escape(self.symbol)} *)?" if self.symbol else ""
        number = f"{mark}{number} *{mark}"
        signed = f" *{mark}[+-]? *{number}" if mark else f" *[+-]?{number}"
        return f"{signed}|{mark} *[(] *{number}[)] *" if self.parentheses else signed

    def of_text(self, text: str) -> Reading:
        """The double nearest to the number that a text spells."""
        if self == PLAIN:
            return of_text(text)
        if not re.fullmatch(self.pattern, text):
            return Unread.BAD
        plain = text.replace(self.symbol, "") if self.symbol else text
        plain = plain.replace(self.thousands, "") if self.thousands else plain
        plain = plain.replace(" ", "").replace(self.decimal, ".")
        return float(f"-{plain.strip('()')}" if "(" in plain else plain)

    def in_sql(self, cell: Cell) -> str | None:
        """A cell as the nearest double; None if this type of cell is never a number."""
        if self == PLAIN or cell.family != "text":
            return in_sql(cell)
        text = plain = as_text(cell.expression)
        for removed in filter(None, (self.symbol, self.thousands, " ", ")")):
            plain = f"replace({plain}, {literal(removed)}, '')"
        plain = f"replace(replace({plain}, {literal(self.decimal)}, '.'), '(', '-')"
        return f"CASE WHEN regexp_full_match({text}, {literal(self.pattern)}) THEN TRY_CAST({plain} AS DOUBLE) END"


PLAIN = NumberFormat()


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
