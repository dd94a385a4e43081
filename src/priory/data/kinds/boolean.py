"""Boolean: columns of false and true."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, Unpack

import numpy as np
from numpy.typing import NDArray

from priory.data.cells import Reading, Unread
from priory.data.kinds.declared import Nulls, checked_common, checked_texts
from priory.data.kinds.kind import Listed, Mask, PublicValue, Span
from priory.data.kinds.options import ColumnOptions
from priory.data.sql import Cell, as_text, listed
from priory.errors import SchemaError


@dataclass(frozen=True, kw_only=True)
class Boolean(Listed):
    """A column of false (code 0) and true (code 1).

    Attributes:
        true: the texts that mean true.
        false: the texts that mean false.
        other: where cells that are neither go.
    """

    WORDS: ClassVar[tuple[str, ...]] = ("boolean",)
    OPTIONS: ClassVar[tuple[str, ...]] = ("true", "false")
    TRUE: ClassVar[tuple[str, ...]] = ("true", "True", "TRUE")
    FALSE: ClassVar[tuple[str, ...]] = ("false", "False", "FALSE")

    name: str
    nullable: bool
    nulls: tuple[str, ...]
    true: tuple[str, ...]
    false: tuple[str, ...]
    other: bool | None

    @classmethod
    def of(
        cls,
        name: str,
        *,
        true: Iterable[str] = TRUE,
        false: Iterable[str] = FALSE,
        other: bool | None = None,
        **missing: Unpack[Nulls],
    ) -> "Boolean":
        """Build a column from its spellings, checking them."""
        common = checked_common(name, other, missing)
        true, false, nulls = checked_texts(name, "true", true), checked_texts(name, "false", false), common["nulls"]
        if not true or not false:
            raise SchemaError("true and false need at least one spelling each", column=name)
        for text in (*false, *nulls):
            if text in true or (text in false and text in nulls):
                raise SchemaError(f"{text!r} has two meanings among true, false and nulls; keep one", column=name)
        return cls(true=true, false=false, other=other, **common)

    @property
    def kind(self) -> str:
        return "boolean"

    @classmethod
    def read(cls, kind: str, options: ColumnOptions) -> "Boolean":
        other = options.other
        if other is not None and not isinstance(other, bool):
            raise options.values["other"].error(f"other must be true or false; got {other!r}", options.name)
        true, false = options.texts("true", cls.TRUE), options.texts("false", cls.FALSE)
        return cls.of(options.name, true=true, false=false, other=other, **options.nulls())

    def described(self) -> dict[str, Any]:
        usual = {"true": self.TRUE, "false": self.FALSE}
        spelled = {"true": self.true, "false": self.false}
        return {word: list(texts) for word, texts in spelled.items() if texts != usual[word]}

    @property
    def values(self) -> tuple[bool, ...]:
        return False, True

    @property
    def other_place(self) -> int | None:
        return None if self.other is None else int(self.other)

    @property
    def place_labels(self) -> tuple[str, ...]:
        return "false", "true"

    def read_text(self, text: str) -> Reading:
        return 1 if text in self.true else 0 if text in self.false else Unread.BAD

    def read_typed(self, cell: object) -> Reading:
        return int(cell) if isinstance(cell, bool | np.bool_) else Unread.BAD

    def read_array(self, values: NDArray[Any]) -> tuple[NDArray[Any], Mask] | None:
        return (values.astype(np.int64), np.ones(len(values), dtype=bool)) if values.dtype.kind == "b" else None

    def sql_point(self, cell: Cell) -> str | None:
        if cell.family == "boolean":
            return f"CAST({cell.expression} AS INTEGER)"
        if cell.family == "text":
            text = as_text(cell.expression)
            return f"CASE WHEN {text} IN ({listed(self.true)}) THEN 1 WHEN {text} IN ({listed(self.false)}) THEN 0 END"
        return None

    def sql_place(self, point: str) -> str:
        return point

    @property
    def spelling(self) -> tuple[str, str] | None:
        return None if "true" in self.true and "false" in self.false else (self.false[0], self.true[0])

    def values_at(self, points: NDArray[Any]) -> NDArray[Any]:
        return np.asarray(self.floored(points) == 1)

    @property
    def group_codes(self) -> tuple[int, ...]:
        return 0, 1

    def point_of(self, value: PublicValue) -> float:
        if isinstance(value, bool) or value in (*self.true, *self.false):
            return int(value) if isinstance(value, bool) else int(value in self.true)
        raise self.error(f"{value!r} is not true or false")

    def period_of(self, value: object) -> Span:
        for place, texts in enumerate((self.false, self.true)):
            is_spelled = isinstance(value, str) and (value in texts or value.lower() == self.place_labels[place])
            if is_spelled or (isinstance(value, bool | np.bool_) and value == bool(place)):
                return place, place + 1
        raise self.error(f"{value!r} is neither true nor false")

    def compared(self, sign: str, value: object) -> list[Span]:
        raise self.error(f"it is true or false, which {sign} does not order; use =")
