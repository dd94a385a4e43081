"""Moments: days and microseconds since 1970 as the codes of dates, and how they are spelled."""

import datetime as dt
import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from priory.errors import SchemaError

DAY_ZERO = dt.date(1970, 1, 1).toordinal()
MICROSECONDS_A_DAY = 86_400_000_000
FIRST_DAY = dt.date.min.toordinal() - DAY_ZERO
LAST_DAY = dt.date.max.toordinal() - DAY_ZERO

ISO_DATE = "([0-9]{4})-([0-9]{2})-([0-9]{2})"
ISO_DATETIME = ISO_DATE + r"[T ]([0-9]{2}):([0-9]{2})(?::([0-9]{2})(?:\.([0-9]{1,6}))?)?"


def moment_of(name: str, value: object, *, clock: bool, is_end: bool = False) -> int:
    """A moment of column `name`, written in ISO 8601, as an integer.

    With a `clock`, a date alone means its midnight, or its last microsecond where it `is_end`.
    """
    is_date = isinstance(value, str) and re.fullmatch(ISO_DATE, value) is not None
    is_moment = is_date or (clock and isinstance(value, str) and re.fullmatch(ISO_DATETIME, value) is not None)
    try:
        moment = dt.datetime.fromisoformat(str(value) if is_moment else "")
    except ValueError:
        example = "2024-03-01T12:30" if clock else "2024-03-01"
        raise SchemaError(f"{value!r} is not a moment of this column; write it as {example}", column=name) from None
    days = moment.toordinal() - DAY_ZERO
    if not clock:
        return days
    start = days * MICROSECONDS_A_DAY
    if is_date:
        return start + MICROSECONDS_A_DAY - 1 if is_end else start
    return start + (moment - dt.datetime.combine(moment.date(), dt.time())) // dt.timedelta(microseconds=1)


def days_or_microseconds(moments: NDArray[np.datetime64], *, clock: bool) -> NDArray[np.int64]:
    """NumPy's datetimes as integers of the column's unit, without overflow: years stay within 1 to 9999."""
    unit = np.datetime_data(moments.dtype)[0]
    if unit == "generic":
        return np.zeros(len(moments), dtype=np.int64)
    if unit in ("Y", "M", "W", "D", "h", "m", "s", "ms"):
        first, last = (np.datetime64(day, "D").astype(moments.dtype) for day in (FIRST_DAY, LAST_DAY + 1))
        moments = np.where(moments < first, first, np.where(moments > last, last, moments))
    microseconds = moments.astype("datetime64[us]").astype(np.int64)
    return microseconds if clock else microseconds // MICROSECONDS_A_DAY


def microseconds_of(cell: object) -> int | None:
    """A typed moment in microseconds since 1970-01-01, in UTC; None if the cell is none."""
    if isinstance(cell, np.datetime64):
        return int(days_or_microseconds(np.array([cell]), clock=True)[0])
    if not isinstance(cell, dt.date):
        return None
    days = cell.toordinal() - DAY_ZERO
    if not isinstance(cell, dt.datetime):
        return days * MICROSECONDS_A_DAY
    offset = cell.utcoffset() or dt.timedelta()
    time = dt.timedelta(hours=cell.hour, minutes=cell.minute, seconds=cell.second, microseconds=cell.microsecond)
    return days * MICROSECONDS_A_DAY + (time - offset) // dt.timedelta(microseconds=1)


def moment_text(moment: int, *, clock: bool) -> str:
    """A moment in ISO 8601, as short as it can be without losing anything.

    >>> moment_text(19783, clock=False)
    '2024-03-01'
    """
    days, microseconds = divmod(moment, MICROSECONDS_A_DAY) if clock else (moment, 0)
    if days > LAST_DAY:
        return "end"
    date = dt.date.fromordinal(days + DAY_ZERO)
    if not clock:
        return date.isoformat()
    time = (dt.datetime.min + dt.timedelta(microseconds=microseconds)).time()
    return f"{date.isoformat()}T{time.isoformat('auto' if time.second or time.microsecond else 'minutes')}"


def calendar_label(edges: Sequence[int], i: int, day: int) -> str | None:
    """The name of the year, month or day that is exactly bin `i`, if one is."""
    first, last = edges[i], edges[i + 1]
    if first % day or last % day:
        return None
    start = dt.date.fromordinal(first // day + DAY_ZERO)
    length = (last - first) // day
    if length == 1:
        return start.isoformat()
    if start.day == 1 and length == _days_of_month(start):
        return start.isoformat()[:7]
    if (start.month, start.day) == (1, 1) and length == 365 + (_days_of_month(start.replace(month=2)) == 29):
        return start.isoformat()[:4]
    return None


def _days_of_month(date: dt.date) -> int:
    return days_in(date.year, date.month)


def days_in(year: int, month: int) -> int:
    """How many days a month has; a `ValueError` where there is no such month."""
    # Names of months in other languages come with it, and take as long to load as a question takes.
    import calendar

    return calendar.monthrange(year, month)[1]
