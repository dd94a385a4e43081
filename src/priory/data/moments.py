"""Moments: days and microseconds since 1970 as the codes of dates, and how they are spelled."""

import calendar
import datetime as dt
from collections.abc import Sequence

DAY_ZERO = dt.date(1970, 1, 1).toordinal()
MICROSECONDS_A_DAY = 86_400_000_000
FIRST_DAY = dt.date.min.toordinal() - DAY_ZERO
LAST_DAY = dt.date.max.toordinal() - DAY_ZERO

FORMAT_FIELDS = {"Y": "([0-9]{4})"} | dict.fromkeys("mdHMS", "([0-9]{1,2})")
ISO_DATE = "([0-9]{4})-([0-9]{2})-([0-9]{2})"
ISO_DATETIME = ISO_DATE + r"[T ]([0-9]{2}):([0-9]{2})(?::([0-9]{2})(?:\.([0-9]{1,6}))?)?"


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
    return calendar.monthrange(date.year, date.month)[1]
