"""Cells: one column's values as they arrive, and the exact rule by which a schema reads them."""

import datetime as dt
import re
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from typing import Any, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from priory.data.columns import Boolean, Category, ModelledColumn, Moment, Number
from priory.data.moments import DAY_ZERO, FIRST_DAY, LAST_DAY, MICROSECONDS_A_DAY

NUMBER = re.compile(r" *([+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?) *")
CLOCK_LIMITS = {"H": 24, "M": 60, "S": 60}


@dataclass(frozen=True, eq=False)
class Cells:
    """One column of a table.

    Attributes:
        values: the cells, or with `index` the distinct ones; what stands under `null` means nothing.
        null: where cells are missing; None where none can be.
        index: which of `values` each cell is, where values are stored once.
        spelling: how texts spell the values: the format of dates, the words for false and true; None is the usual.
    """

    values: NDArray[Any]
    null: NDArray[np.bool_] | None = None
    index: NDArray[np.integer[Any]] | None = None
    spelling: str | tuple[str, str] | None = None

    @classmethod
    def objects(cls, values: Iterable[object]) -> "Cells":
        """Cells of any Python objects, each read by its own type."""
        return cls(np.fromiter(values, dtype=object))

    def __len__(self) -> int:
        return len(self.values if self.index is None else self.index)


class Unread(Enum):
    """Why a cell has no value."""

    BAD = 1
    MISSING = 2


@dataclass(frozen=True, eq=False)
class Readings:
    """What the cells of a column say to its schema.

    Attributes:
        values: the place of a level or boolean; the number; the moment. Zero where there is none.
        bad: cells of the wrong type, or without a level.
        missing: cells that are null.
    """

    values: NDArray[Any]
    bad: NDArray[np.bool_]
    missing: NDArray[np.bool_]

    def take(self, index: NDArray[np.integer[Any]]) -> "Readings":
        """The readings of cells that are stored once."""
        return Readings(self.values[index], self.bad[index], self.missing[index])


Reading: TypeAlias = float | Unread


def read_cells(column: ModelledColumn, cells: Cells) -> Readings:
    """Read a whole column; never raises because of a value."""
    values, index = cells.values, cells.index
    if values.dtype.kind in "OUT":
        values, distinct_index = _distinct(values.astype(object))
        index = distinct_index if index is None else distinct_index[index]
        readings = _gather(column, [read_cell(column, cell) for cell in values])
    else:
        readings = _read_array(column, values)
    if index is not None:
        readings = readings.take(index)
    if cells.null is None:
        return readings
    return Readings(readings.values, readings.bad & ~cells.null, readings.missing | cells.null)


def read_cell(column: ModelledColumn, cell: object) -> Reading:
    """Read one Python object by its exact type and value; what cannot be read is bad, whatever it is."""
    try:
        if is_null(cell):
            return Unread.MISSING
        if isinstance(cell, str):
            return Unread.MISSING if cell in column.nulls else _read_text(column, str(cell))
        return _read_typed(column, cell)
    except Exception:  # noqa: BLE001 - a cell's own code may raise anything, and no row may ever raise
        return Unread.BAD


def places_of(column: ModelledColumn, readings: Readings) -> NDArray[np.int64]:
    """The place of each reading; numbers and moments out of bounds go to the first or the last bin."""
    if isinstance(column, Category | Boolean):
        return readings.values
    return np.searchsorted(np.asarray(column.edges[1:-1]), readings.values, side="right")


def out_of_bounds(column: ModelledColumn, readings: Readings) -> NDArray[np.bool_]:
    """Which numbers and moments are outside the column's bounds."""
    if isinstance(column, Category | Boolean):
        return np.zeros(len(readings.values), dtype=bool)
    outside = (readings.values < column.low) | (readings.values > column.high)
    return np.asarray(outside & ~readings.bad & ~readings.missing)


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


def _distinct(cells: NDArray[np.object_]) -> tuple[NDArray[np.object_], NDArray[np.intp]]:
    """Each text once, every other object as often as it occurs (it may not be hashable), and where each cell is."""
    found: list[object] = []

    class Places(dict[object, int]):
        def __missing__(self, cell: object) -> int:
            found.append(cell)
            self[cell] = len(found) - 1
            return len(found) - 1

    def alone(cell: object) -> int:
        found.append(cell)
        return len(found) - 1

    places = Places()
    index = np.fromiter(
        (places[cell] if type(cell) is str or cell is None else alone(cell) for cell in cells), np.intp, len(cells)
    )
    return np.fromiter(found, dtype=object, count=len(found)), index


def _gather(column: ModelledColumn, readings: list[Reading]) -> Readings:
    values = [0 if isinstance(reading, Unread) else reading for reading in readings]
    return Readings(
        np.array(values, dtype=np.float64 if isinstance(column, Number) else np.int64),
        np.array([reading is Unread.BAD for reading in readings], dtype=bool),
        np.array([reading is Unread.MISSING for reading in readings], dtype=bool),
    )


def _read_array(column: ModelledColumn, values: NDArray[Any]) -> Readings:
    """Read a NumPy array of numbers, booleans or datetimes at once."""
    kind = values.dtype.kind
    if kind == "f" and values.dtype.itemsize > 8:
        # A warning that a wide float becomes infinite would tell of a value.
        with np.errstate(over="ignore"):
            values = values.astype(np.float64)
    missing = np.isnan(values) if kind in "fmM" else np.zeros(len(values), dtype=bool)
    found = np.zeros(len(values), dtype=np.float64 if isinstance(column, Number) else np.int64)
    good = np.zeros(len(values), dtype=bool)
    if isinstance(column, Number) and kind in "iuf":
        found, good = np.where(missing, 0, values).astype(np.float64), ~missing
    elif isinstance(column, Category) and column.whole and kind in "iuf":
        found, good = _whole_levels(column, values.astype(np.float64))
    elif isinstance(column, Boolean) and kind == "b":
        found, good = values.astype(np.int64), ~missing
    elif isinstance(column, Moment) and kind == "M":
        found, good = days_or_microseconds(values, clock=column.clock), ~missing
    return Readings(np.where(good, found, 0), ~good & ~missing, missing)


def _whole_levels(column: Category, values: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """The places of numbers among integer levels, and which have one."""
    levels = np.array(column.values, dtype=np.float64)
    order = np.argsort(levels)
    nearest = order[np.minimum(np.searchsorted(levels[order], values), len(levels) - 1)]
    return nearest, levels[nearest] == values


def is_null(cell: object) -> bool:
    """Whether the cell is None, or a NaN, NA or NaT of any library."""
    if cell is None or type(cell).__name__ in ("NAType", "NaTType"):
        return True
    if isinstance(cell, np.datetime64 | np.timedelta64):
        return bool(np.isnat(cell))
    if isinstance(cell, Decimal):
        return cell.is_nan()
    return isinstance(cell, float | np.floating) and bool(np.isnan(cell))


def _read_text(column: ModelledColumn, text: str) -> Reading:
    match column:
        case Category() if not column.whole:
            return column.place_by_value.get(text, Unread.BAD)
        case Category() | Number():
            found = NUMBER.fullmatch(text)
            return _read_number(column, float(found[1])) if found else Unread.BAD
        case Boolean():
            return 1 if text in column.true else 0 if text in column.false else Unread.BAD
        case Moment():
            return _read_moment_text(column, text)


def _read_typed(column: ModelledColumn, cell: object) -> Reading:
    match column:
        case Category() if not column.whole:
            return Unread.BAD
        case Category() | Number():
            return _read_number(column, _as_double(cell))
        case Boolean():
            return int(cell) if isinstance(cell, bool | np.bool_) else Unread.BAD
        case Moment():
            moment = _microseconds(cell)
            return moment if isinstance(moment, Unread) or column.clock else moment // MICROSECONDS_A_DAY


def _as_double(cell: object) -> Reading:
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


def _read_number(column: Category | Number, number: Reading) -> Reading:
    if isinstance(column, Number) or isinstance(number, Unread):
        return number
    # Equal numbers have equal hashes, so that 1.0 finds level 1; a boolean never comes here.
    place = column.place_by_value.get(cast(int, number))
    return Unread.BAD if place is None else place


def _microseconds(cell: object) -> int | Unread:
    """A typed moment in microseconds since 1970-01-01, in UTC."""
    if isinstance(cell, np.datetime64):
        return int(days_or_microseconds(np.array([cell]), clock=True)[0])
    if isinstance(cell, dt.datetime):
        offset = cell.utcoffset() or dt.timedelta()
        time = dt.timedelta(hours=cell.hour, minutes=cell.minute, seconds=cell.second, microseconds=cell.microsecond)
        return (cell.toordinal() - DAY_ZERO) * MICROSECONDS_A_DAY + (time - offset) // dt.timedelta(microseconds=1)
    if isinstance(cell, dt.date):
        return (cell.toordinal() - DAY_ZERO) * MICROSECONDS_A_DAY
    return Unread.BAD


def _read_moment_text(column: Moment, text: str) -> Reading:
    found = re.fullmatch(column.pattern, text)
    if not found:
        return Unread.BAD
    parts = dict.fromkeys("HMSf", 0)
    parts |= {field: int(part) for field, part in zip(column.fields, found.groups(), strict=True) if part}
    if "f" in column.fields and found[7]:
        parts["f"] = int(found[7].ljust(6, "0"))
    if any(parts[field] >= limit for field, limit in CLOCK_LIMITS.items()):
        return Unread.BAD
    days = dt.date(parts["Y"], parts["m"], parts["d"]).toordinal() - DAY_ZERO
    seconds = parts["H"] * 3600 + parts["M"] * 60 + parts["S"]
    return days * MICROSECONDS_A_DAY + seconds * 1_000_000 + parts["f"] if column.clock else days
