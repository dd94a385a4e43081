"""Values: what a person writes for a value of a column, as points on its line."""

import calendar
import datetime as dt
import math
import re
from typing import TypeAlias

from priory.data.cells import NUMBER
from priory.data.columns import Boolean, Category, ModelledColumn, Moment, Number
from priory.data.constraints import moment_of
from priory.data.moments import DAY_ZERO, MICROSECONDS_A_DAY
from priory.data.yaml_reader import suggestion
from priory.errors import OptionError, SchemaError

# The points that a value stands for: all from the first to before the second. Real numbers stand for none.
Period: TypeAlias = tuple[float, float]


def period_of(column: ModelledColumn, value: object) -> Period:
    """The points of `column` that `value` stands for.

    A level is one, and so is a whole number; a date stands for its day, 2024-03 for the month, 2024 for the year.

    Raises:
        OptionError: the column cannot have this value.
    """
    match column:
        case Category():
            return _level(column, value)
        case Boolean():
            return _truth(column, value)
        case Number():
            return _number(column, value)
        case Moment():
            return _moment(column, value)


def _error(column: ModelledColumn, message: str) -> OptionError:
    return OptionError("where", f"column {column.name!r}: {message}")


def _level(column: Category, value: object) -> Period:
    text = str(value)
    if column.whole and NUMBER.fullmatch(text) and float(text).is_integer():
        value = int(float(text))
    elif not column.whole:
        value = text
    if isinstance(value, bool) or value not in column.place_by_value:
        raise _error(column, f"{text!r} is not a level; {suggestion(text, map(str, column.values))}")
    place = column.place_by_value[value]  # type: ignore[index]  # it was found there
    return place, place + 1


def _truth(column: Boolean, value: object) -> Period:
    if isinstance(value, str):
        if value in column.true or value.lower() == "true":
            return 1, 2
        if value in column.false or value.lower() == "false":
            return 0, 1
    if isinstance(value, bool):
        return int(value), int(value) + 1
    raise _error(column, f"{value!r} is neither true nor false")


def _number(column: Number, value: object) -> Period:
    text = str(value)
    if isinstance(value, bool) or not NUMBER.fullmatch(text) or not math.isfinite(float(text)):
        raise _error(column, f"{text!r} is not a number")
    number = float(text)
    if not column.whole:
        return number, number
    if number != math.floor(number):
        return math.ceil(number), math.ceil(number)
    return int(number), int(number) + 1


def _moment(column: Moment, value: object) -> Period:
    text = value.isoformat() if isinstance(value, dt.date) else str(value)
    unit = MICROSECONDS_A_DAY if column.clock else 1
    if found := re.fullmatch(r"([0-9]{4})(?:-([0-9]{2}))?", text):
        return _calendar(column, int(found[1]), int(found[2]) if found[2] else None, unit)
    try:
        start = moment_of(column.name, text, clock=column.clock)
    except SchemaError as error:
        raise _error(column, error.reason) from None
    is_day = re.fullmatch("[0-9-]{10}", text) is not None
    return start, start + (unit if is_day else 1)


def _calendar(column: Moment, year: int, month: int | None, unit: int) -> Period:
    try:
        first = dt.date(year, month or 1, 1)
        last = dt.date(year, month or 12, calendar.monthrange(year, month or 12)[1])
    except (ValueError, calendar.IllegalMonthError):
        raise _error(column, f"{year:04}-{month:02} is no month" if month else f"{year} is no year") from None
    return (first.toordinal() - DAY_ZERO) * unit, (last.toordinal() + 1 - DAY_ZERO) * unit
