"""Columns: what a schema declares about each of them, and which codes that gives."""

import bisect
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Literal, TypeAlias, cast

from priory.data.declared import (
    MOST_WHOLE,
    Level,
    check_bounds,
    check_codes,
    check_edges,
    check_format,
    check_other_inside,
    checked_bounds,
    checked_common,
    checked_levels,
    checked_name,
    checked_number,
    checked_texts,
)
from priory.data.moments import (
    FIRST_DAY,
    FORMAT_FIELDS,
    ISO_DATE,
    ISO_DATETIME,
    LAST_DAY,
    MICROSECONDS_A_DAY,
    calendar_label,
    moment_text,
)
from priory.errors import SchemaError

Kind: TypeAlias = Literal["category", "ordinal", "integer", "real", "date", "datetime", "boolean", "id", "text"]


class Modelled(ABC):
    """A column that becomes an attribute: its codes are its own places in order, then null where it is nullable.

    Attributes:
        name: the column's name in the table.
        nullable: whether missing cells have a code of their own; otherwise they go where bad cells go.
        nulls: texts that mean missing in this column.
    """

    name: str
    nullable: bool
    nulls: tuple[str, ...]

    @property
    @abstractmethod
    def kind(self) -> Kind:
        """The word the schema file uses."""

    @property
    @abstractmethod
    def places(self) -> int:
        """How many codes there are without null."""

    @property
    @abstractmethod
    def other_place(self) -> int | None:
        """The code of the declared `other`, if one is declared."""

    @property
    @abstractmethod
    def place_labels(self) -> tuple[str, ...]:
        """One readable label for each code but null."""

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


@dataclass(frozen=True, kw_only=True)
class Category(Modelled):
    """A column with listed levels, ordered ("ordinal") or not ("category").

    A cell has a level only if it has the level's exact type and value: the text "1" is not the number 1. Where the
    levels are integers, a text that spells the number and a float equal to it are that level; true and false are not.

    Attributes:
        levels: the declared levels, all texts or all integers.
        other: where cells without a level go: a level, or a label of its own that comes after them.
        ordered: whether the order of the levels means something.
    """

    name: str
    levels: tuple[str, ...] | tuple[int, ...]
    other: Level | None
    ordered: bool
    nullable: bool
    nulls: tuple[str, ...]

    @classmethod
    def of(
        cls,
        name: str,
        levels: Iterable[Level],
        *,
        other: Level | None = None,
        ordered: bool = False,
        nullable: bool = False,
        nulls: Iterable[str] = (),
    ) -> "Category":
        """Build a column from its levels, checking them."""
        levels, nulls = tuple(levels), checked_common(name, nullable=nullable, other=other, nulls=nulls)
        if not levels:
            raise SchemaError("there are no levels; list at least one", column=name)
        texts = checked_levels(name, levels if other is None else (*levels, other))
        if len(set(levels)) < len(levels):
            twice = next(level for i, level in enumerate(levels) if level in levels[:i])
            raise SchemaError(f"level {twice!r} is listed twice; keep one", column=name)
        both = sorted(set(nulls) & set(texts))
        if both:
            raise SchemaError(f"{both[0]!r} is both a level and a spelling of null; keep one", column=name)
        one_type = cast(tuple[str, ...] | tuple[int, ...], levels)
        column = cls(name=name, levels=one_type, other=other, ordered=ordered, nullable=nullable, nulls=nulls)
        check_codes(name, column.size)
        return column

    @property
    def kind(self) -> Literal["category", "ordinal"]:
        """The word the schema file uses."""
        return "ordinal" if self.ordered else "category"

    @cached_property
    def values(self) -> tuple[str, ...] | tuple[int, ...]:
        """What each code but null stands for: the levels, and `other` after them if it is not one of them."""
        if self.other is None or self.other in self.levels:
            return self.levels
        return (*self.levels, self.other)

    @cached_property
    def place_by_value(self) -> Mapping[Level, int]:
        """The code of each of `values`."""
        values: Sequence[Level] = self.values
        return {value: i for i, value in enumerate(values)}

    @property
    def whole(self) -> bool:
        """Whether the levels are integers."""
        return isinstance(self.levels[0], int)

    @property
    def places(self) -> int:
        """How many codes there are without null."""
        return len(self.values)

    @property
    def other_place(self) -> int | None:
        """The code of the declared `other`, if one is declared."""
        return None if self.other is None else self.place_by_value[self.other]

    @property
    def place_labels(self) -> tuple[str, ...]:
        """The levels as texts."""
        return tuple(str(value) for value in self.values)


class Binned(Modelled):
    """A column whose codes are bins between edges.

    Attributes:
        edges: where the bins begin, and where the last one ends.
        other: a value in the bin where bad cells go.
    """

    edges: tuple[float, ...]
    other: float | None

    @property
    def places(self) -> int:
        """How many codes there are without null."""
        return len(self.edges) - 1

    @property
    def other_place(self) -> int | None:
        """The code of the bin that holds `other`, if it is declared."""
        return None if self.other is None else place_of(self.edges, self.other)


@dataclass(frozen=True, kw_only=True)
class Number(Binned):
    """A column of numbers in bins, whole ("integer") or not ("real").

    Bins are closed on the left and open on the right, the last is closed on both sides. Numbers out of bounds go to
    the first or the last bin, infinities too.

    Attributes:
        whole: whether decoded values are integers.
        low: the smallest number, inclusive.
        high: the largest number, inclusive.
        edges: where the bins begin, and where the last one ends: `high`, or `high + 1` for whole numbers.
        other: a number in the bin where cells that are no numbers go.
    """

    name: str
    whole: bool
    low: float
    high: float
    edges: tuple[float, ...]
    other: float | None
    nullable: bool
    nulls: tuple[str, ...]

    @classmethod
    def of(
        cls,
        name: str,
        *,
        whole: bool,
        low: float,
        high: float,
        edges: Sequence[float] | None = None,
        other: float | None = None,
        nullable: bool = False,
        nulls: Iterable[str] = (),
    ) -> "Number":
        """Build a column from its bounds and the edges of its bins (for whole numbers: default one bin for each)."""
        nulls = checked_common(name, nullable=nullable, other=other, nulls=nulls)
        low, high = checked_bounds(name, low, high, whole=whole)
        end = high + 1 if whole else high
        if edges is None:
            if not whole:
                raise SchemaError("a real column needs bins; write bins: 20 or give their edges", column=name)
            check_codes(name, int(end - low) + nullable)
            edges = range(int(low), int(end) + 1)
        edges = tuple(checked_number(name, edge, "an edge", whole=whole) for edge in edges)
        check_edges(name, edges, low, end)
        check_codes(name, len(edges) - 1 + nullable)
        if other is not None:
            other = checked_number(name, other, "other", whole=whole)
            check_other_inside(name, other, low, high)
        return cls(name=name, whole=whole, low=low, high=high, edges=edges, other=other, nullable=nullable, nulls=nulls)

    @property
    def kind(self) -> Literal["integer", "real"]:
        """The word the schema file uses."""
        return "integer" if self.whole else "real"

    @property
    def place_labels(self) -> tuple[str, ...]:
        """The bins as intervals; an integer alone in its bin as itself."""
        texts = [number_text(edge) for edge in (*self.edges[:-1], self.high)]
        return tuple(
            texts[i] if self.whole and self.edges[i + 1] - self.edges[i] == 1 else _interval(texts, i)
            for i in range(self.places)
        )


@dataclass(frozen=True, kw_only=True)
class Moment(Binned):
    """A column of dates ("date") or of dates with a time of day ("datetime") in bins.

    All moments are integers here: days since 1970-01-01 for dates, microseconds since its midnight for datetimes, in
    UTC where a cell has a time zone. Moments out of bounds go to the first or the last bin.

    Attributes:
        clock: whether there is a time of day.
        low: the first moment, inclusive.
        high: the last moment, inclusive.
        edges: where the bins begin, and after them `high + 1`.
        other: a moment in the bin where cells that are no moments go.
        format: how texts spell a moment, by %Y %m %d %H %M %S and literal text; None is ISO 8601.
    """

    name: str
    clock: bool
    low: int
    high: int
    edges: tuple[int, ...]
    other: int | None
    nullable: bool
    nulls: tuple[str, ...]
    format: str | None

    @classmethod
    def of(
        cls,
        name: str,
        *,
        clock: bool,
        low: int,
        high: int,
        edges: Sequence[int],
        other: int | None = None,
        nullable: bool = False,
        nulls: Iterable[str] = (),
        format: str | None = None,  # noqa: A002 - the word of the schema file
    ) -> "Moment":
        """Build a column from its bounds and the edges of its bins, checking them."""
        nulls = checked_common(name, nullable=nullable, other=other, nulls=nulls)
        day = MICROSECONDS_A_DAY if clock else 1
        if low < FIRST_DAY * day or high >= (LAST_DAY + 1) * day:
            raise SchemaError("bounds are outside the years 0001 to 9999", column=name)
        check_bounds(name, low, high, whole=True)
        edges = tuple(edges)
        check_edges(name, edges, low, high + 1)
        check_codes(name, len(edges) - 1 + nullable)
        if other is not None:
            check_other_inside(name, other, low, high)
        if format is not None:
            check_format(name, format)
        return cls(
            name=name,
            clock=clock,
            low=low,
            high=high,
            edges=edges,
            other=other,
            nullable=nullable,
            nulls=nulls,
            format=format,
        )

    @property
    def kind(self) -> Literal["date", "datetime"]:
        """The word the schema file uses."""
        return "datetime" if self.clock else "date"

    @property
    def pattern(self) -> str:
        """The regular expression that a whole text cell must match, with one group for each of `fields`."""
        if self.format is None:
            return ISO_DATETIME if self.clock else ISO_DATE
        texts = re.split("%([YmdHMS])", self.format)
        return "".join(FORMAT_FIELDS[text] if i % 2 else re.escape(text) for i, text in enumerate(texts))

    @property
    def fields(self) -> str:
        """What the groups of `pattern` mean, a letter each: Y, m, d, H, M, S, and f for the fraction of a second."""
        if self.format is None:
            return "YmdHMSf" if self.clock else "Ymd"
        return "".join(re.findall("%([YmdHMS])", self.format))

    @property
    def place_labels(self) -> tuple[str, ...]:
        """The bins as calendar units where they are one (2024, 2024-03, 2024-03-01), else as intervals."""
        texts = [moment_text(edge, clock=self.clock) for edge in (*self.edges[:-1], self.high)]
        day = MICROSECONDS_A_DAY if self.clock else 1
        return tuple(calendar_label(self.edges, i, day) or _interval(texts, i) for i in range(self.places))


@dataclass(frozen=True, kw_only=True)
class Boolean(Modelled):
    """A column of false (code 0) and true (code 1).

    Attributes:
        true: the texts that mean true.
        false: the texts that mean false.
        other: where cells that are neither go.
    """

    TRUE: ClassVar[tuple[str, ...]] = ("true", "True", "TRUE")
    FALSE: ClassVar[tuple[str, ...]] = ("false", "False", "FALSE")

    name: str
    true: tuple[str, ...]
    false: tuple[str, ...]
    other: bool | None
    nullable: bool
    nulls: tuple[str, ...]

    @classmethod
    def of(
        cls,
        name: str,
        *,
        true: Iterable[str] = TRUE,
        false: Iterable[str] = FALSE,
        other: bool | None = None,
        nullable: bool = False,
        nulls: Iterable[str] = (),
    ) -> "Boolean":
        """Build a column from its spellings, checking them."""
        nulls = checked_common(name, nullable=nullable, other=other, nulls=nulls)
        true, false = checked_texts(name, "true", true), checked_texts(name, "false", false)
        if not true or not false:
            raise SchemaError("true and false need at least one spelling each", column=name)
        for text in (*false, *nulls):
            if text in true or (text in false and text in nulls):
                raise SchemaError(f"{text!r} has two meanings among true, false and nulls; keep one", column=name)
        return cls(name=name, true=true, false=false, other=other, nullable=nullable, nulls=nulls)

    @property
    def kind(self) -> Literal["boolean"]:
        """The word the schema file uses."""
        return "boolean"

    @property
    def places(self) -> int:
        """How many codes there are without null."""
        return 2

    @property
    def other_place(self) -> int | None:
        """The code of the declared `other`, if one is declared."""
        return None if self.other is None else int(self.other)

    @property
    def place_labels(self) -> tuple[str, ...]:
        """The words false and true."""
        return ("false", "true")


@dataclass(frozen=True, kw_only=True)
class Unmodelled:
    """A column that is declared and never modelled: an identifier or free text.

    Attributes:
        name: the column's name in the table.
        kind: "id" or "text".
    """

    name: str
    kind: Literal["id", "text"]

    @classmethod
    def of(cls, name: str, *, kind: Literal["id", "text"]) -> "Unmodelled":
        """Build a column, checking its name."""
        checked_name(name)
        return cls(name=name, kind=kind)


ModelledColumn: TypeAlias = Category | Number | Moment | Boolean
Column: TypeAlias = ModelledColumn | Unmodelled


def place_of(edges: Sequence[float], value: float) -> int:
    """The bin that holds `value`, or the nearest one: how many inner edges are not above it."""
    return bisect.bisect_right(edges, value, 1, len(edges) - 1) - 1


def number_text(value: float) -> str:
    """A number as short as it can be without losing anything.

    >>> number_text(250000.0), number_text(0.1)
    ('250000', '0.1')
    """
    return str(int(value)) if value == int(value) and abs(value) <= MOST_WHOLE else repr(value)


def _interval(texts: Sequence[str], i: int) -> str:
    return f"[{texts[i]}, {texts[i + 1]}{']' if i == len(texts) - 2 else ')'}"
