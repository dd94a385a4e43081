"""Dialect: how a file spells its cells, declared in the schema under `reading:` and never taken from private rows."""

import codecs
import itertools
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

from priory.errors import SchemaError

DELIMITERS = ",;\t|"
# What may stand between thousands: blanks of three widths and the Swiss apostrophes too.
THOUSANDS = ",. '\u00a0\u202f\u2019_"


@dataclass(frozen=True, kw_only=True)
class Dialect:
    """How a file spells its cells. What is not said is the usual."""

    delimiter: str | None = None  # between cells; None is that of the file's suffix, or the one that its header has
    encoding: str = "utf-8"
    header: bool = True  # whether the first line names the columns; if not, they are the schema's, in order
    trim: bool = False  # whether blanks around a cell are no part of it
    sheet: str | None = None  # in a spreadsheet that has several
    decimal: str = "."
    thousands: str | None = None  # what may stand between thousands
    parentheses: bool = False  # whether a number in parentheses is a negative one

    @classmethod
    def of(cls, **options: Any) -> "Dialect":  # noqa: ANN401 - the fields, which are checked here
        """Build a dialect, checking that its parts fit together."""
        dialect = cls(**options)
        for word in ("header", "trim", "parentheses"):
            if not isinstance(getattr(dialect, word), bool):
                raise SchemaError(f"reading: {word} is true or false; got {getattr(dialect, word)!r}")
        if dialect.delimiter is not None and not _is_delimiter(dialect.delimiter):
            raise SchemaError(f'reading: delimiter is one character, as in ";" or "\\t"; got {dialect.delimiter!r}')
        if dialect.sheet is not None and not (isinstance(dialect.sheet, str) and dialect.sheet):
            raise SchemaError(f"reading: sheet is the name of a sheet; got {dialect.sheet!r}")
        check_marks(dialect.decimal, dialect.thousands)
        try:
            is_text = codecs.lookup(dialect.encoding).encode("a")[0]
        except (LookupError, TypeError, UnicodeError):
            is_text = None
        if not isinstance(is_text, bytes):
            raise SchemaError(f"reading: there is no encoding {dialect.encoding!r}; use utf-8, utf-16, latin-1, cp1252")
        return dialect

    def described(self) -> dict[str, Any]:
        """The options that are not the usual ones."""
        options = ((field.name, getattr(self, field.name)) for field in fields(self))
        return {word: value for word, value in options if value != getattr(USUAL, word)}


USUAL = Dialect()
WORDS = tuple(field.name for field in fields(Dialect))


def check_marks(decimal: str, thousands: str | None, column: str | None = None) -> None:
    """Refuse marks that numbers cannot have, or that are the same."""
    if decimal not in (".", ","):
        raise SchemaError(f'decimal is "." or ","; got {decimal!r}', column=column)
    if thousands is not None and (len(thousands) != 1 or thousands not in THOUSANDS):
        raise SchemaError(f"thousands is one of {', '.join(map(repr, THOUSANDS))}; got {thousands!r}", column=column)
    if thousands == decimal:
        raise SchemaError(f"decimal and thousands are both {decimal!r}; they must differ", column=column)


def unique_names(header: Sequence[str]) -> list[str]:
    """The names of columns, with one for each that has none and another for each that comes again.

    >>> unique_names(["a", "", "a"])
    ['a', 'column 2', 'a (2)']
    """
    names: dict[str, None] = {}
    declared = set(header)
    for i, name in enumerate(header, start=1):
        given = name or f"column {i}"
        others = itertools.chain([given], (f"{given} ({n})" for n in itertools.count(2)))
        names[next(other for other in others if other not in names and (other == name or other not in declared))] = None
    return list(names)


def _is_delimiter(text: object) -> bool:
    return isinstance(text, str) and len(text) == 1 and text not in '"\r\n\0' and not text.isalnum() and text < "\x7f"
