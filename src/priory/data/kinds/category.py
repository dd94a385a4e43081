"""Category: columns with listed levels, in an order or not."""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Unpack, cast

import numpy as np
from numpy.typing import NDArray

from priory.data.cells import Reading, Unread
from priory.data.kinds import numbers
from priory.data.kinds.declared import (
    MOST_WHOLE,
    Level,
    Nulls,
    check_codes,
    checked_common,
    checked_levels,
    repeated,
)
from priory.data.kinds.kind import Listed, Mask, PublicValue, Span
from priory.data.kinds.options import ColumnOptions
from priory.data.sql import Cell, as_text, listed
from priory.data.yaml_reader import suggestion
from priory.errors import SchemaError


@dataclass(frozen=True, kw_only=True)
class Category(Listed):
    """A column with listed levels, ordered ("ordinal") or not ("category").

    A cell has a level only if it has the level's exact type and value: the text "1" is not the number 1. Where the
    levels are integers, a text that spells the number and a float equal to it are that level; true and false are not.

    Attributes:
        levels: the declared levels, all texts or all integers.
        other: where cells without a level go: a level, or a label of its own that comes after them.
        ordered: whether the order of the levels means something.
    """

    WORDS: ClassVar[tuple[str, ...]] = ("category", "ordinal")
    OPTIONS: ClassVar[tuple[str, ...]] = ("levels",)

    name: str
    nullable: bool
    nulls: tuple[str, ...]
    levels: tuple[str, ...] | tuple[int, ...]
    other: Level | None
    ordered: bool

    @classmethod
    def of(
        cls,
        name: str,
        levels: Iterable[Level],
        *,
        other: Level | None = None,
        ordered: bool = False,
        **missing: Unpack[Nulls],
    ) -> "Category":
        """Build a column from its levels, checking them."""
        levels, common = tuple(levels), checked_common(name, other, missing)
        if not levels:
            raise SchemaError("there are no levels; list at least one", column=name)
        texts = checked_levels(name, levels if other is None else (*levels, other))
        if len(set(levels)) < len(levels):
            raise SchemaError(f"level {repeated(levels)!r} is listed twice; keep one", column=name)
        both = sorted(set(common["nulls"]) & set(texts))
        if both:
            raise SchemaError(f"{both[0]!r} is both a level and a spelling of null; keep one", column=name)
        column = cls(levels=cast(tuple[str, ...] | tuple[int, ...], levels), other=other, ordered=ordered, **common)
        check_codes(name, column.size)
        return column

    @property
    def kind(self) -> str:
        return "ordinal" if self.ordered else "category"

    @classmethod
    def read(cls, kind: str, options: ColumnOptions) -> "Category":
        value = options.required("levels", "levels: [a, b]")
        with value.located():
            levels = options.scalars(value, "levels", "a level")
            return cls.of(options.name, levels, other=options.other, ordered=kind == "ordinal", **options.nulls())

    def described(self) -> dict[str, Any]:
        return {"levels": list(self.levels)}

    @cached_property
    def values(self) -> tuple[str, ...] | tuple[int, ...]:
        """What each place stands for: the levels, and `other` after them if it is not one of them."""
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
    def other_place(self) -> int | None:
        return None if self.other is None else self.place_by_value[self.other]

    @property
    def place_labels(self) -> tuple[str, ...]:
        return tuple(str(value) for value in self.values)

    def read_text(self, text: str) -> Reading:
        if self.whole:
            return self._place_of_number(numbers.of_text(text))
        return self.place_by_value.get(text, Unread.BAD)

    def read_typed(self, cell: object) -> Reading:
        return self._place_of_number(numbers.of_typed(cell)) if self.whole else Unread.BAD

    def _place_of_number(self, number: Reading) -> Reading:
        # Equal numbers have equal hashes, so that 1.0 finds level 1; a boolean never comes here.
        return number if isinstance(number, Unread) else self.place_by_value.get(cast(int, number), Unread.BAD)

    def read_array(self, values: NDArray[Any]) -> tuple[NDArray[Any], Mask] | None:
        if not self.whole or values.dtype.kind not in "iuf":
            return None
        levels, numbers = np.array(self.values, dtype=np.float64), values.astype(np.float64)
        order = np.argsort(levels)
        nearest = order[np.minimum(np.searchsorted(levels[order], numbers), len(levels) - 1)]
        return nearest, levels[nearest] == numbers

    def sql_point(self, cell: Cell) -> str | None:
        if self.whole:
            return numbers.in_sql(cell)
        return as_text(cell.expression) if cell.family == "text" else None

    def sql_place(self, point: str) -> str:
        if self.whole:
            is_whole = f"{point} = trunc({point}) AND abs({point}) <= {MOST_WHOLE}"
            point = f"CASE WHEN {is_whole} THEN CAST(CAST({point} AS BIGINT) AS VARCHAR) END"
        # An enumeration is DuckDB's hash table from texts to places.
        return f"enum_code(TRY_CAST({point} AS ENUM({listed(self.place_labels)})))"

    def values_at(self, points: NDArray[Any]) -> NDArray[Any]:
        return np.array(self.values, dtype=np.int64 if self.whole else object)[self.floored(points)]

    @property
    def is_numeric(self) -> bool:
        return self.whole

    def middles(self, first: NDArray[Any], last: NDArray[Any]) -> NDArray[Any]:
        return np.asarray(self.values, dtype=np.float64) if self.whole else super().middles(first, last)

    @property
    def order(self) -> Hashable:
        return self.values if self.ordered else None

    @property
    def is_ascending(self) -> bool:
        return self.ordered or (self.whole and list(self.values) == sorted(self.values))

    @property
    def ranks(self) -> int:
        return len(self.levels)

    @property
    def group_codes(self) -> tuple[int, ...]:
        return tuple(code for code, level in enumerate(self.levels) if level != self.other)

    def point_of(self, value: PublicValue) -> float:
        if isinstance(value, bool | float) or value not in self.place_by_value:
            raise self.error(f"{value!r} is not one of the levels")
        return self.place_by_value[value]

    def period_of(self, value: object) -> Span:
        text = str(value)
        level: object = text
        if self.whole:
            number = numbers.of_text(text)
            level = int(number) if isinstance(number, float) and number.is_integer() else value
        if isinstance(level, bool) or level not in self.place_by_value:
            raise self.error(f"{text!r} is not a level; {suggestion(text, self.place_labels)}")
        place = self.place_by_value[cast(Level, level)]
        return place, place + 1

    def compared(self, sign: str, value: object) -> list[Span]:
        """Levels in their declared order; whole numbers that have no declared order in that of numbers."""
        if self.ordered:
            [(low, high)] = super().compared(sign, value)
            # A label for other cells stands after the levels and has no rank.
            return [(max(low, 0), min(high, self.ranks))]
        number = numbers.of_text(str(value))
        if not self.whole or isinstance(number, Unread):
            raise self.error(f"its levels are without an order, so {sign} means nothing; use = or in")
        holds: Callable[[float], bool] = {
            "<": number.__gt__,
            "<=": number.__ge__,
            ">": number.__lt__,
            ">=": number.__le__,
        }[sign]
        return [(place, place + 1) for level, place in self.place_by_value.items() if holds(float(level))]
