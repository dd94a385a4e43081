"""Number: columns of whole or real numbers in bins."""

import math
import sys
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Unpack

import numpy as np
from numpy.typing import NDArray

from priory.data.cells import Reading
from priory.data.kinds import bins, numbers
from priory.data.kinds.binned import Binned, whole
from priory.data.kinds.declared import (
    MOST_WHOLE,
    Nulls,
    check_codes,
    check_edges,
    check_other_inside,
    checked_bounds,
    checked_common,
    checked_number,
)
from priory.data.kinds.kind import Mask, PublicValue, Span
from priory.data.kinds.options import ColumnOptions
from priory.data.sql import Cell
from priory.errors import SchemaError

# Drafts: up to this many integers get a bin each; more, and reals, about this many bins.
MOST_SINGLE = 100
USUAL_BINS = 20
LARGEST = Fraction(sys.float_info.max)


@dataclass(frozen=True, kw_only=True)
class Number(Binned):
    """A column of numbers in bins, whole ("integer") or not ("real").

    The last bin is closed on both sides. Infinities are out of bounds like any other number.

    Attributes:
        whole: whether decoded values are integers.
        low: the smallest number, inclusive.
        high: the largest number, inclusive.
        edges: where the bins begin, and where the last one ends: `high`, or `high + 1` for whole numbers.
        other: a number in the bin where cells that are no numbers go.
    """

    WORDS: ClassVar[tuple[str, ...]] = ("integer", "real")
    OPTIONS: ClassVar[tuple[str, ...]] = ("bounds", "bins")
    READING_TYPE: ClassVar[type[np.generic]] = np.float64

    name: str
    nullable: bool
    nulls: tuple[str, ...]
    whole: bool
    low: float
    high: float
    edges: tuple[float, ...]
    other: float | None

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
        **missing: Unpack[Nulls],
    ) -> "Number":
        """Build a column from its bounds and the edges of its bins (for whole numbers: default one bin for each)."""
        common = checked_common(name, other, missing)
        low, high = checked_bounds(name, low, high, whole=whole)
        end = high + 1 if whole else high
        if edges is None:
            if not whole:
                raise SchemaError("a real column needs bins; write bins: 20 or give their edges", column=name)
            check_codes(name, int(end - low) + common["nullable"])
            edges = range(int(low), int(end) + 1)
        edges = tuple(checked_number(name, edge, "an edge", whole=whole) for edge in edges)
        check_edges(name, edges, low, end)
        check_codes(name, len(edges) - 1 + common["nullable"])
        if other is not None:
            other = checked_number(name, other, "other", whole=whole)
            check_other_inside(name, other, low, high)
        return cls(whole=whole, low=low, high=high, edges=edges, other=other, **common)

    @property
    def kind(self) -> str:
        return "integer" if self.whole else "real"

    @classmethod
    def read(cls, kind: str, options: ColumnOptions) -> "Number":
        whole = kind == "integer"
        low, high = options.bounds("bounds: [0, 100]")
        with options.values["bounds"].located():
            low, high = checked_bounds(options.name, low, high, whole=whole)
        with options.values.get("bins", options.key).located():
            edges = _read_edges(options, low, high, whole=whole) if "bins" in options.values else None
            return cls.of(
                options.name, whole=whole, low=low, high=high, edges=edges, other=options.other, **options.nulls()
            )

    def described(self) -> dict[str, Any]:
        """The bounds, and the shortest words for the bins."""
        bounds = {"bounds": [self.low, self.high]}
        if self.whole and self.places == self.high - self.low + 1:
            return bounds
        for word, make in (("count", bins.equal_width), ("log", bins.logarithmic)):
            try:
                if make(self.name, self.low, self.high, self.places, whole=self.whole) == self.edges:
                    return bounds | {"bins": self.places if word == "count" else {word: self.places}}
            except SchemaError:
                continue  # bins of this kind cannot be had for these bounds, so these are not such bins
        return bounds | {"bins": {"edges": list(self.edges)}}

    @classmethod
    def draft(cls, name: str, values: NDArray[Any], *, nullable: bool) -> "Number | None":
        """Integers with a bin each if they are few, else bins of equal width between round bounds."""
        if values.dtype.kind not in "iuf":
            return None
        if (np.floor(values) == values).all() and (np.abs(values.astype(float)) <= MOST_WHOLE).all():
            low, high, edges = _draft_whole(int(values.min()), int(values.max()))
            return cls.of(name, whole=True, low=low, high=high, edges=edges, nullable=True)
        reals = _draft_real(float(values.min()), float(values.max()))
        return cls.of(name, whole=False, low=reals[0], high=reals[-1], edges=reals, nullable=True)

    def point_text(self, point: float) -> str:
        return numbers.short_text(point)

    @property
    def place_labels(self) -> tuple[str, ...]:
        """The bins as intervals; an integer alone in its bin as itself."""
        return tuple(
            self.point_text(self.edges[i])
            if self.whole and self.edges[i + 1] - self.edges[i] == 1
            else self.interval(i)
            for i in range(self.places)
        )

    @property
    def short_labels(self) -> tuple[str, ...]:
        firsts, ends = self.edges[:-1], (*(edge - self.whole for edge in self.edges[1:-1]), self.high)
        return tuple(
            numbers.with_thousands(first)
            if self.whole and first == end
            else f"{numbers.with_thousands(first)}–{numbers.with_thousands(end)}"
            for first, end in zip(firsts, ends, strict=True)
        )

    def read_text(self, text: str) -> Reading:
        return numbers.of_text(text)

    def read_typed(self, cell: object) -> Reading:
        return numbers.of_typed(cell)

    def read_array(self, values: NDArray[Any]) -> tuple[NDArray[Any], Mask] | None:
        if values.dtype.kind not in "iuf":
            return None
        return values.astype(np.float64), np.ones(len(values), dtype=bool)

    def sql_point(self, cell: Cell) -> str | None:
        return numbers.in_sql(cell)

    def drawn(self, low: NDArray[Any], high: NDArray[Any], rng: np.random.Generator) -> NDArray[Any]:
        """One point in each [low, high); for reals that end at the upper bound, the bound too."""
        if self.whole:
            return super().drawn(low, high, rng)
        share = rng.random(len(low))
        # Not low + share·(high − low): the difference of two finite bounds can be infinite.
        values = low * (1 - share) + high * share
        top = np.where(high == self.high, high, np.nextafter(high, -np.inf))
        return np.asarray(np.clip(values, low, np.maximum(low, top)))

    def values_at(self, points: NDArray[Any]) -> NDArray[Any]:
        return whole(points) if self.whole else points.astype(np.float64, copy=False)

    @property
    def is_coarse(self) -> bool:
        return not self.whole or super().is_coarse

    @property
    def is_whole(self) -> bool:
        return self.whole

    @property
    def order(self) -> Hashable:
        return "number"

    def point_of(self, value: PublicValue) -> float:
        if isinstance(value, bool | str):
            raise self.error(f"{value!r} is not a number")
        return value

    def period_of(self, value: object) -> Span:
        number = numbers.of_text(str(value))
        if isinstance(value, bool) or not isinstance(number, float) or not math.isfinite(number):
            raise self.error(f"{str(value)!r} is not a number")
        if not self.whole:
            return number, number
        return math.ceil(number), math.floor(number) + 1


def _read_edges(options: ColumnOptions, low: float, high: float, *, whole: bool) -> Sequence[float]:
    word, value = options.binning(("edges", "log"))
    if word == "edges":
        return options.ended(options.scalars(value, "edges", "an edge"), high, high + 1 if whole else high)
    make = bins.logarithmic if word == "log" else bins.equal_width
    return make(options.name, low, high, options.count(value), whole=whole)


def _draft_whole(low: int, high: int) -> tuple[int, int, list[int] | None]:
    """Bounds, and edges where integers do not get a bin each."""
    if high - low < MOST_SINGLE:
        return low, high, None
    step = max(int(_round_step(low, high)), 1)
    last = min((high // step + 1) * step, MOST_WHOLE + 1)
    # Round bounds may lie beyond what a double holds exactly.
    edges = [*dict.fromkeys(max(edge, -MOST_WHOLE) for edge in range(low // step * step, last, step)), last]
    return edges[0], last - 1, edges


def _draft_real(low: float, high: float) -> list[float]:
    step = _round_step(low, high)
    first = math.floor(Fraction(low) / step)
    last = max(math.ceil(Fraction(high) / step), first + 1)
    # Beyond the largest float there is no round bound.
    rounded = (float(min(max(step * i, -LARGEST), LARGEST)) for i in range(first - 1, last + 1))
    edges = list(dict.fromkeys(rounded))
    return edges[1:] if len(edges) > 2 and edges[1] <= low else edges


def _round_step(low: float, high: float) -> Fraction:
    """The smallest of 1, 2, 5, 10, … (or 0.1, 0.2, …) that makes no more than the usual number of bins."""
    width = (Fraction(high) - Fraction(low)) / USUAL_BINS or Fraction(1, USUAL_BINS)
    # Wide enough for neighbouring edges to be different floats.
    width = max(width, 4 * Fraction(math.ulp(max(abs(low), abs(high)))))
    power = Fraction(10) ** math.floor(math.log10(width))
    return next(power * digit for digit in (1, 2, 5, 10, 20) if power * digit >= width)
