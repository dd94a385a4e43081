"""Moment formats: how texts spell dates and times, in memory and in SQL."""

import datetime as dt
import re
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from priory.data.cells import Reading, Unread
from priory.data.kinds.declared import checked_texts
from priory.data.moments import DAY_ZERO, ISO_DATE, MICROSECONDS_A_DAY
from priory.data.sql import listed, literal
from priory.errors import SchemaError

MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
MONTH_NAMES = "january|february|march|april|may|june|july|august|september|october|november|december"
ZONE = "(Z|z|UTC|GMT|[+-][0-9]{2}(?::?[0-9]{2})?)"
FIELDS = {
    "Y": "([0-9]{4})",
    "y": "([0-9]{2})",
    "b": f"((?i:{MONTH_NAMES}|{'|'.join(MONTHS)}))",
    "p": "((?i:am|pm))",
    "z": ZONE,
    **dict.fromkeys("mdHIMS", "([0-9]{1,2})"),
}
# What is below a microsecond is left out.
CLOCK = r"([0-9]{2}):([0-9]{2})(?::([0-9]{2})(?:\.([0-9]{1,6})[0-9]{0,3})?)?"
ISO_CELL = f"{ISO_DATE}[T ]{CLOCK}(?: ?{ZONE})?"
KNOWN = "%Y %y %m %b %d %H %I %p %M %S %z"
# A two-digit year from here on is of the last century, as in POSIX.
CENTURY = 69
LIMITS = {"H": 24, "M": 60, "S": 60}


def check_format(name: str, spelling: str) -> None:
    """Refuse a format without year and month, or with a field that is not known or there twice."""
    fields = re.findall("%(.?)", spelling, re.DOTALL)
    unknown = [field for field in fields if field not in FIELDS]
    if unknown:
        raise SchemaError(f"format has %{unknown[0]}; it may have {KNOWN} and other text", column=name)
    once = [fields.count(one) + fields.count(other) for one, other in ("Yy", "mb", "HI")]
    if len(set(fields)) < len(fields) or once[0] != 1 or once[1] != 1 or once[2] > 1:
        raise SchemaError(f"format {spelling!r} needs a year (%Y), a month (%m), and nothing twice", column=name)
    if ("I" in fields) != ("p" in fields):
        raise SchemaError(f"format {spelling!r} needs both %I, an hour up to 12, and %p, AM or PM", column=name)
    checked_texts(name, "format", [spelling])


@dataclass(frozen=True)
class MomentFormat:
    """How texts spell the moments of a column.

    A format without a day means the first of the month. Times with an offset from UTC are taken in UTC.
    """

    spelling: str | None  # fields such as %Y and literal text; None is ISO 8601
    clock: bool  # whether there is a time of day

    @cached_property
    def pattern(self) -> str:
        """The regular expression that a whole text cell must match, with one group for each of `fields`."""
        if self.spelling is None:
            return ISO_CELL if self.clock else ISO_DATE
        texts = re.split(f"%([{''.join(FIELDS)}])", self.spelling)
        return "".join(FIELDS[text] if i % 2 else re.escape(text) for i, text in enumerate(texts))

    @cached_property
    def fields(self) -> str:
        """What the groups of `pattern` mean, a letter each, and f for the fraction of a second."""
        if self.spelling is None:
            return "YmdHMSfz" if self.clock else "Ymd"
        return "".join(re.findall(f"%([{''.join(FIELDS)}])", self.spelling))

    def of_text(self, text: str) -> Reading:
        """The point that a text spells; a day that does not exist raises."""
        groups = re.fullmatch(self.pattern, text)
        if not groups:
            return Unread.BAD
        texts = {field: part for field, part in zip(self.fields, groups.groups(), strict=True) if part}
        parts = dict.fromkeys("HMSI", 0) | {field: int(part) for field, part in texts.items() if part.isdigit()}
        if any(parts[field] >= limit for field, limit in LIMITS.items()) or not parts["I"] <= 12:
            return Unread.BAD
        year = parts["Y"] if "Y" in parts else parts["y"] + (1900 if parts["y"] >= CENTURY else 2000)
        month = parts["m"] if "m" in parts else MONTHS.index(texts["b"][:3].lower()) + 1
        days = dt.date(year, month, parts.get("d", 1)).toordinal() - DAY_ZERO
        if not self.clock:
            return days
        hour = parts["I"] % 12 + 12 * (texts["p"].lower() == "pm") if "p" in texts else parts["H"]
        seconds = (hour * 60 + parts["M"]) * 60 + parts["S"] - _offset(texts.get("z", ""))
        return days * MICROSECONDS_A_DAY + seconds * 1_000_000 + int(texts.get("f", "").ljust(6, "0"))

    def in_sql(self, text: str) -> str:
        """A cell that spells a moment as its point; null where it does not or no such day exists."""
        # DuckDB's names know no upper and lower case, so that M and m could not both be one.
        names = {letter: f"g{i}" for i, letter in enumerate(self.fields)}
        groups = f"regexp_extract({text}, {literal(f'^(?:{self.pattern})$')}, [{listed(names.values())}])"

        def raw(letter: str) -> str:
            return f"struct_extract({groups}, {literal(names[letter])})"

        def number(letter: str, otherwise: str = "0") -> str:
            if letter not in names:
                return otherwise
            digits = f"rpad({raw(letter)}, 6, '0')" if letter == "f" else raw(letter)
            return f"coalesce(TRY_CAST({digits} AS BIGINT), {otherwise})"

        year, month, day = number("Y", "NULL"), number("m", "NULL"), number("d", "NULL" if "d" in names else "1")
        if "y" in names:
            year = f"({number('y', 'NULL')} + CASE WHEN {number('y')} >= {CENTURY} THEN 1900 ELSE 2000 END)"
        if "b" in names:
            month = f"list_position([{listed(MONTHS)}], lower(left({raw('b')}, 3)))"
        date = f"TRY(make_date({year}, {month}, {day}))"
        days = f"CASE WHEN {year} >= 1 THEN date_diff('day', DATE '1970-01-01', {date}) END"
        hour, minute, second = number("H"), number("M"), number("S")
        is_real = f"{hour} < 24 AND {minute} < 60 AND {second} < 60 AND {number('I')} <= 12"
        if not self.clock:
            return f"CASE WHEN {is_real} THEN {days} END" if set("HIMS") & set(names) else days
        if "p" in names:
            hour = f"({number('I')} % 12 + CASE WHEN lower({raw('p')}) = 'pm' THEN 12 ELSE 0 END)"
        zone = _sql_offset(raw("z")) if "z" in names else "0"
        clock = f"(({hour} * 60 + {minute}) * 60 + {second} - {zone}) * 1000000 + {number('f')}"
        return f"CASE WHEN {is_real} THEN ({days}) * {MICROSECONDS_A_DAY} + {clock} END"

    def text_of(self, moment: Any) -> str:  # noqa: ANN401 - a date or a datetime
        """A date or datetime as a text of this format."""
        if self.spelling is None:
            return str(moment.isoformat())
        # Not strftime, which does not write early years with four digits everywhere.
        hour = getattr(moment, "hour", 0)
        parts = {
            "Y": f"{moment.year:04}",
            "y": f"{moment.year % 100:02}",
            "m": f"{moment.month:02}",
            "b": MONTHS[moment.month - 1].title(),
            "d": f"{moment.day:02}",
            "H": f"{hour:02}",
            "I": f"{(hour + 11) % 12 + 1:02}",
            "p": "PM" if hour >= 12 else "AM",
            "M": f"{getattr(moment, 'minute', 0):02}",
            "S": f"{getattr(moment, 'second', 0):02}",
            "z": "Z",
        }
        return re.sub(f"%([{''.join(FIELDS)}])", lambda field: parts[field[1]], self.spelling)


def _offset(zone: str) -> int:
    """How many seconds a time zone is ahead of UTC."""
    digits = int("".join(filter(str.isdigit, zone)).ljust(4, "0"))
    seconds = (digits // 100 * 60 + digits % 100) * 60
    return -seconds if zone.startswith("-") else seconds


def _sql_offset(zone: str) -> str:
    digits = f"CAST(rpad(regexp_replace({zone}, '[^0-9]', '', 'g'), 4, '0') AS BIGINT)"
    return f"coalesce(({digits} // 100 * 60 + {digits} % 100) * CASE WHEN {zone} LIKE '-%' THEN -60 ELSE 60 END, 0)"
