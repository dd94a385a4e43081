"""Spelling: the one text that stands for a person, whatever container, type and spelling a cell has.

Two spellings that may well be one person are one. Merging is the safe direction: it can only make fewer rows count,
where a person in two spellings would have twice the rows that were paid for. docs/data.md has the rules in words.
"""

import datetime as dt
import re
import unicodedata
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

from priory.data.cells import Cells, is_null
from priory.data.moments import DAY_ZERO, FIRST_DAY, LAST_DAY

PLAIN = re.compile(r"([+-]?)([0-9]*)(?:\.([0-9]*))?")
# Only as programs write a double: hexadecimal identifiers such as 12e34567 are no numbers.
SCIENTIFIC = re.compile(r"[+-]?[0-9](?:\.[0-9]*)?[eE][+-]?[0-9]{1,3}")
UUID = re.compile(r"(?:urn:uuid:)?\{?([0-9a-f]{8})-?([0-9a-f]{4})-?([0-9a-f]{4})-?([0-9a-f]{4})-?([0-9a-f]{12})\}?")
MOMENT = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})"
    r"(?:[T ]([0-9]{2}):([0-9]{2})(?::([0-9]{2})(?:[.,]([0-9]{1,9}))?)?(?: ?(Z|[+-][0-9]{2}(?::?[0-9]{2})?))?)?"
)
NUMERIC = frozenset("+-.0123456789")
UUID_DIGITS = 32
LARGEST_PLAIN = 1e16
INVISIBLE = "\0\ufeff\u200b"
SECOND = 1_000_000_000
FARTHEST_MONTH = 10**7
DAY = 86_400 * SECOND
# The largest number of units since 1970, and of microseconds in any unit: beyond are "not a time" and infinities.
FARTHEST = 2**63 - 2


def person_texts(cells: Cells) -> list[str | None]:
    """The text that stands for the person of each record; None is nobody."""
    if cells.index is not None:
        distinct = np.array([*person_texts(Cells(cells.values)), None], dtype=object)
        texts: list[str | None] = distinct[cells.index].tolist()
    elif cells.values.dtype.kind == "M":
        texts = [_of_stored_moment(number, cells.values.dtype) for number in cells.values.astype(np.int64).tolist()]
    else:
        texts = [of_cell(cell) for cell in _listed(cells.values)]
    if cells.null is None:
        return texts
    return [None if gone else text for text, gone in zip(texts, cells.null.tolist(), strict=True)]


def of_cell(cell: object) -> str | None:
    """The text that stands for the person in a cell of any type; None where there is nobody. It never raises."""
    try:
        if type(cell) is str:
            return _of_text(cell)
        if type(cell) is float:
            return _of_double(cell)
        return None if is_null(cell) else _spelled(cell)
    except Exception:  # noqa: BLE001 - a cell's own code may raise anything, and who cannot be spelled is nobody
        return None


def of_microseconds(number: int) -> str | None:
    """The text for a person known by a moment, in microseconds since 1970 in UTC; None beyond any calendar."""
    return of_nanoseconds(number * 1000) if abs(number) <= FARTHEST else None


def of_nanoseconds(number: int) -> str | None:
    """The text for a person known by a moment, in nanoseconds since 1970 in UTC; at midnight it is the day alone."""
    if abs(number // 1000) > FARTHEST:
        return None
    days, rest = divmod(number, DAY)
    date = dt.date.fromordinal(days + DAY_ZERO).isoformat() if FIRST_DAY <= days <= LAST_DAY else f"day {days}"
    if not rest:
        return date
    seconds, fraction = divmod(rest, SECOND)
    clock = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    return f"{date}T{clock}" + (f".{fraction:09}".rstrip("0") if fraction else "")


def _listed(values: NDArray[Any]) -> list[Any]:
    """The cells as Python's own numbers where they are numbers, else as they are."""
    # A wide float's list would hold wide floats.
    return list(values) if values.dtype.kind in "OVm" or values.dtype.itemsize > 8 else values.tolist()


def _spelled(cell: object) -> str | None:
    spell = next((spell for kinds, spell in BY_TYPE if isinstance(cell, kinds)), None)
    if spell is not None:
        return spell(cell)
    # A pandas timestamp, with its nanoseconds.
    return _of_datetime64(cell.to_datetime64()) if hasattr(cell, "to_datetime64") else _of_object(cell)


def _of_object(cell: object) -> str | None:
    if isinstance(cell, dt.date):
        return _of_date(cell)
    text = str(cell)
    return text.rstrip("0") if isinstance(cell, dt.time) and cell.microsecond else _of_text(text)


def _of_bytes(cell: bytes | bytearray | memoryview) -> str | None:
    return _of_text(bytes(cell).decode(errors="surrogateescape"))


def _of_datetime64(cell: np.datetime64) -> str | None:
    return _of_stored_moment(int(cell.astype(np.int64)), cell.dtype)


def _of_float(cell: float | np.floating[Any]) -> str | None:
    # A warning that a wide float becomes infinite would tell of a value.
    with np.errstate(over="ignore"):
        return _of_double(float(cell))


def _of_text(text: str) -> str | None:
    if text.isascii() and text.isdigit():
        return text.lstrip("0") or "0"
    text = " ".join(text.strip(INVISIBLE).split()).strip(INVISIBLE)
    found = (_number(text) or _moment(text)) if text[:1] in NUMERIC else _boolean(text)
    found = found or (_uuid(text) if len(text) >= UUID_DIGITS else None)
    if found or text.isascii():
        return found or text or None
    # What is not Unicode has to be a text all the same.
    return unicodedata.normalize("NFC", text).encode(errors="backslashreplace").decode()


def _of_double(double: float) -> str | None:
    # Larger ones are spelled with an exponent.
    if abs(double) < LARGEST_PLAIN and double.is_integer():
        return str(int(double))
    return None if double != double else _of_text(repr(double))  # noqa: PLR0124 - only a NaN is not itself


def _number(text: str) -> str | None:
    """Digits without the zeros and signs that change nothing, if the text is a number."""
    if SCIENTIFIC.fullmatch(text):
        double = float(text)
        # A double stands for all that is rounded to it, and is spelled by its own digits.
        exact = int(double) if double.is_integer() else Decimal(repr(double))
        return _number(f"{exact:f}" if isinstance(exact, Decimal) else str(exact))
    found = PLAIN.fullmatch(text)
    if not found or not (found[2] or found[3]):
        return None
    whole, fraction = found[2].lstrip("0") or "0", (found[3] or "").rstrip("0")
    digits = f"{whole}.{fraction}" if fraction else whole
    return f"-{digits}" if found[1] == "-" and digits != "0" else digits


def _moment(text: str) -> str | None:
    found = MOMENT.fullmatch(text)
    if not found:
        return None
    year, month, day, hour, minute, second = (int(part or 0) for part in found.groups()[:6])
    try:
        date, clock = dt.date(year, month, day), dt.time(hour, minute, second)
    except ValueError:
        return None
    seconds = clock.hour * 3600 + clock.minute * 60 + clock.second - _offset(found[8])
    days = date.toordinal() - DAY_ZERO
    return of_nanoseconds(days * DAY + seconds * SECOND + int((found[7] or "").ljust(9, "0")))


def _offset(zone: str | None) -> int:
    """How many seconds a time zone is ahead of UTC."""
    if zone is None or zone == "Z":
        return 0
    seconds = int(zone[1:3]) * 3600 + int(zone[-2:] if len(zone) > 3 else 0) * 60
    return -seconds if zone[0] == "-" else seconds


def _uuid(text: str) -> str | None:
    found = UUID.fullmatch(text.lower())
    if not found:
        return None
    digits = "".join(found.groups())
    # Without hyphens such a one is a number, and nobody can tell the two apart.
    return digits.lstrip("0") or "0" if digits.isdigit() else "-".join(found.groups())


def _boolean(text: str) -> str | None:
    return text.lower() if text in ("True", "TRUE", "true", "False", "FALSE", "false") else None


def _of_date(cell: dt.date) -> str | None:
    days = cell.toordinal() - DAY_ZERO
    if not isinstance(cell, dt.datetime):
        return of_nanoseconds(days * DAY)
    clock = dt.timedelta(hours=cell.hour, minutes=cell.minute, seconds=cell.second, microseconds=cell.microsecond)
    return of_nanoseconds(days * DAY + (clock - (cell.utcoffset() or dt.timedelta())) // dt.timedelta.resolution * 1000)


def _of_stored_moment(number: int, dtype: np.dtype[Any]) -> str | None:
    """The text for a moment as NumPy stores it: a number of its units."""
    if abs(number) > FARTHEST:
        return None
    unit, step = np.datetime_data(dtype)
    if unit in ("Y", "M"):
        # Years and months have no length of their own. Far ones have no number of days.
        if abs(number * step) > FARTHEST_MONTH:
            return None
        first = np.array(number * step, dtype=f"datetime64[{unit}]").astype("datetime64[D]")
        return of_nanoseconds(int(first.astype(np.int64)) * DAY)
    scale = NANOSECONDS.get(unit)
    return None if scale is None else of_nanoseconds(number * step * scale)


NANOSECONDS = {"W": 7 * DAY, "D": DAY, "h": 3600 * SECOND, "m": 60 * SECOND, "s": SECOND}
NANOSECONDS |= {"ms": SECOND // 10**3, "us": SECOND // 10**6, "ns": 1}
# The first that fits. A duration is an integer to NumPy, but not a number.
BY_TYPE: tuple[tuple[type | tuple[type, ...], Callable[[Any], str | None]], ...] = (
    (str, lambda cell: _of_text(str.__str__(cell))),
    ((bool, np.bool_), lambda cell: "true" if cell else "false"),
    (np.timedelta64, _of_object),
    ((int, np.integer), lambda cell: str(int(cell))),
    ((float, np.floating), _of_float),
    ((bytes, bytearray, memoryview), _of_bytes),
    (np.datetime64, _of_datetime64),
)
# What a query calls the rules, by the type in which it gives them a person's cell.
FUNCTIONS: dict[str, tuple[str, Callable[[Any], str | None]]] = {
    "text": ("VARCHAR", of_cell),
    "float": ("DOUBLE", of_cell),
    "bytes": ("BLOB", of_cell),
    "microseconds": ("BIGINT", lambda number: None if number is None else of_microseconds(number)),
    "nanoseconds": ("BIGINT", lambda number: None if number is None else of_nanoseconds(number)),
}
