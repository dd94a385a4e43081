"""Kind: what a column of any kind can do, and what kinds of listed values have in common."""

from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from priory.data.cells import Cells, Reading
from priory.data.kinds.declared import checked_name
from priory.data.kinds.options import ColumnOptions
from priory.data.sql import Cell
from priory.errors import SchemaError

Mask: TypeAlias = NDArray[np.bool_]
Span: TypeAlias = tuple[float, float]
Spans: TypeAlias = tuple[NDArray[Any], NDArray[Any]]
PublicValue: TypeAlias = str | int | float | bool


class ModelledColumn(ABC):
    """A column that becomes an attribute: its codes are its places in order, then null where it is nullable.

    Every place is a stretch of the column's line of points, from one of `edges` to before the next: a bin of numbers
    or moments, or the one point of a listed value.

    Attributes:
        WORDS: the words of the schema file for this kind.
        OPTIONS: the options that its columns have in the schema file, besides those of all kinds.
        READING_TYPE: the NumPy type of what its cells say.
        name: the column's name in the table.
        nullable: whether missing cells have a code of their own; otherwise they go where bad cells go.
        nulls: texts that mean missing in this column.
        other: the value that stands for bad cells, if one is declared.
        edges: the point where each place begins, and after them the one where the last ends.
    """

    WORDS: ClassVar[tuple[str, ...]]
    OPTIONS: ClassVar[tuple[str, ...]]
    READING_TYPE: ClassVar[type[np.generic]] = np.int64

    name: str
    nullable: bool
    nulls: tuple[str, ...]
    other: Any
    edges: Sequence[float]

    # What is declared, and how the schema file says it.

    @property
    @abstractmethod
    def kind(self) -> str:
        """The word the schema file uses."""

    @classmethod
    @abstractmethod
    def read(cls, kind: str, options: ColumnOptions) -> Self:
        """The column that a schema file declares by the word `kind` and these options."""

    @abstractmethod
    def described(self) -> dict[str, Any]:
        """The options that the schema file writes for this kind, in the order people read them."""

    @property
    def other_written(self) -> PublicValue | None:
        """The declared `other` as the schema file writes it."""
        value: PublicValue | None = self.other
        return value

    # Places and codes.

    @property
    @abstractmethod
    def other_place(self) -> int | None:
        """The code of the declared `other`, if one is declared."""

    @property
    @abstractmethod
    def place_labels(self) -> tuple[str, ...]:
        """One readable label for each code but null."""

    @property
    def short_labels(self) -> tuple[str, ...]:
        """The same, short enough for the axis of a chart."""
        return self.place_labels

    @property
    def places(self) -> int:
        """How many codes there are without null."""
        return len(self.edges) - 1

    @property
    def size(self) -> int:
        """How many codes there are."""
        return self.places + self.nullable

    @property
    def null_code(self) -> int | None:
        """The code of missing cells, the last one, where the column is nullable."""
        return self.places if self.nullable else None

    @property
    def other_code(self) -> int:
        """Where bad cells go: to the declared `other`, or to null where there is none."""
        return self.places if self.other_place is None else self.other_place

    @property
    def missing_code(self) -> int:
        """Where missing cells go: to null, or where bad cells go if the column is not nullable."""
        return self.places if self.nullable else self.other_code

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """One readable label for each code."""
        null = "null"
        while null in self.place_labels:
            null = f"({null})"
        return (*self.place_labels, *([null] if self.nullable else []))

    # From cells to places, in memory and in SQL. No cell may raise.

    @abstractmethod
    def read_text(self, text: str) -> Reading:
        """What a text says: a point of the line, or that it is bad."""

    @abstractmethod
    def read_typed(self, cell: object) -> Reading:
        """What an object that is neither text nor null says."""

    @abstractmethod
    def read_array(self, values: NDArray[Any]) -> tuple[NDArray[Any], Mask] | None:
        """What an array of numbers, booleans or datetimes says and where it says anything; None if all is bad.

        What is found where a value is missing (NaN, NaT) means nothing.
        """

    @abstractmethod
    def places_of(self, points: NDArray[Any]) -> NDArray[np.int64]:
        """The place of each point; out of bounds it is the first or the last."""

    @abstractmethod
    def outside(self, points: NDArray[Any]) -> Mask:
        """Which points are out of bounds."""

    @abstractmethod
    def sql_point(self, cell: Cell) -> str | None:
        """The SQL for the point that a cell says, null where it says none; None if this type of cell never does."""

    @abstractmethod
    def sql_place(self, point: str) -> str:
        """The SQL for the place of a point, null for null and where there is none."""

    # From places to cells.

    @property
    def spelling(self) -> str | tuple[str, str] | None:
        """How files spell the values, as in `Cells.spelling`."""
        return None

    def shaped(self, totals: NDArray[np.float64]) -> Self:
        """The same column with values inside bins as the rows of each code suggest; these are released, never private.

        A column that was not shaped has values spread evenly inside bins.
        """
        return self

    @abstractmethod
    def located(self, places: NDArray[np.intp], spans: Spans, below: NDArray[np.float64]) -> NDArray[Any]:
        """The point of each of these places that a share `below` of its values in the span [low, high) lies before.

        With shares drawn at random, one value of each place at random.
        """

    @abstractmethod
    def values_at(self, points: NDArray[Any]) -> NDArray[Any]:
        """The values that points stand for, rounded down where values are whole."""

    @property
    def place_values(self) -> NDArray[Any]:
        """For each place, the one value it stands for; labels where places stand for more than one."""
        if self.is_coarse:
            return np.array(self.place_labels, dtype=object)
        return self.values_at(np.asarray(self.edges[:-1]))

    def cells_at(self, points: NDArray[Any]) -> Cells:
        """Points as cells; NaN is missing."""
        null = np.isnan(points) if points.dtype.kind == "f" else np.zeros(len(points), dtype=bool)
        return Cells(self.values_at(np.where(null, 0, points)), null if null.any() else None)

    def means_at(self, means: NDArray[np.float64]) -> Cells:
        """Averages as cells; NaN is missing."""
        null = np.isnan(means)
        return Cells(np.where(null, 0.0, means), null if null.any() else None)

    # What values mean: order, numbers, and what people write for them.

    @property
    @abstractmethod
    def is_binned(self) -> bool:
        """Whether a place may stand for many values."""

    @property
    def is_coarse(self) -> bool:
        """Whether a place does stand for many values."""
        return False

    @property
    def is_whole(self) -> bool:
        """Whether points are whole numbers."""
        return True

    @property
    def is_numeric(self) -> bool:
        """Whether values have a mean."""
        return True

    @property
    def is_additive(self) -> bool:
        """Whether values have a sum."""
        return self.is_numeric

    @abstractmethod
    def shares(self, first: NDArray[Any], last: NDArray[Any]) -> NDArray[np.float64]:
        """For each place, which share of its values lies from point `first` to before `last`."""

    @abstractmethod
    def middles(self, first: NDArray[Any], last: NDArray[Any]) -> NDArray[Any]:
        """For each place, the mean of its values from point `first` to before `last`, as a number."""

    def spreads(self, first: NDArray[Any], last: NDArray[Any]) -> NDArray[np.float64]:
        """For each place, the standard deviation of the same values: how far off a mean is if all are one of them."""
        return np.zeros(self.places)

    @property
    def order(self) -> Hashable:
        """What the declared order is of: columns with equal ones can be compared; None is no order."""
        return None

    @property
    def is_ascending(self) -> bool:
        """Whether values rise from place to place."""
        return self.order is not None

    @property
    def ranks(self) -> int:
        """How many places, from the first, are in order: all but a label for other cells."""
        return self.places

    @property
    def group_codes(self) -> tuple[int, ...] | None:
        """The codes of declared values without `other` and null; None where values are not listed."""
        return None

    @abstractmethod
    def point_of(self, value: PublicValue) -> float:
        """A value of a schema file as a point.

        Raises:
            SchemaError: the column cannot have this value.
        """

    @abstractmethod
    def period_of(self, value: object) -> Span:
        """The points that a person means by `value`: all from the first to before the second.

        A level is one point, and so is a whole number; a date is its day, 2024-03 the month, 2024 the year; a real
        number is none.

        Raises:
            SchemaError: the column cannot have this value.
        """

    def compared(self, sign: str, value: object) -> list[Span]:
        """The points that are < <= > or >= what a person means by `value`.

        Raises:
            SchemaError: the column has no order, or cannot have this value.
        """
        start, end = self.period_of(value)
        infinity = float("inf")
        sides = {"<": (-infinity, start), "<=": (-infinity, end), ">": (end, infinity), ">=": (start, infinity)}
        return [sides[sign]]

    def error(self, message: str) -> SchemaError:
        """An error that names this column, to be raised."""
        return SchemaError(message, column=self.name)


class Listed(ModelledColumn):
    """A column whose values are listed: its points are its places."""

    @property
    @abstractmethod
    def values(self) -> Sequence[str | int | bool]:
        """What each place stands for."""

    @property
    def edges(self) -> range:  # type: ignore[override]  # nobody sets it
        return range(len(self.values) + 1)

    @property
    def is_binned(self) -> bool:
        return False

    def places_of(self, points: NDArray[Any]) -> NDArray[np.int64]:
        return points

    def outside(self, points: NDArray[Any]) -> Mask:
        return np.zeros(len(points), dtype=bool)

    def located(self, places: NDArray[np.intp], spans: Spans, below: NDArray[np.float64]) -> NDArray[Any]:
        return places

    def shares(self, first: NDArray[Any], last: NDArray[Any]) -> NDArray[np.float64]:
        return np.asarray(last - first, dtype=np.float64)

    def middles(self, first: NDArray[Any], last: NDArray[Any]) -> NDArray[Any]:
        return np.arange(self.places, dtype=np.float64)

    def floored(self, points: NDArray[Any]) -> NDArray[np.intp]:
        """The place at or just below each point."""
        if points.dtype.kind in "iu":
            return points
        return np.asarray(np.clip(np.floor(points), 0, self.places - 1), dtype=np.intp)


@dataclass(frozen=True, kw_only=True)
class Unmodelled:
    """A column that is declared and never modelled: an identifier or free text.

    Attributes:
        name: the column's name in the table.
        kind: "id" or "text".
    """

    WORDS: ClassVar[tuple[str, ...]] = ("id", "text")

    name: str
    kind: str

    @classmethod
    def of(cls, name: str, *, kind: str) -> "Unmodelled":
        """Build a column, checking its name."""
        checked_name(name)
        return cls(name=name, kind=kind)


Column: TypeAlias = ModelledColumn | Unmodelled
