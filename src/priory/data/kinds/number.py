"""Number: columns of whole or real numbers in bins."""

import itertools
import math
import sys
from collections.abc import Hashable, Sequence
from dataclasses import asdict, dataclass, field, fields
from functools import cached_property
from typing import Any, ClassVar, Unpack, cast

import numpy as np
from numpy.typing import NDArray

from priory.data.cells import Reading
from priory.data.kinds import bins, numbers
from priory.data.kinds.binned import Binned, whole
from priory.data.kinds.declared import (
    Nulls,
    check_codes,
    check_edges,
    check_other_inside,
    checked_bounds,
    checked_common,
    checked_number,
    repeated,
)
from priory.data.kinds.kind import Mask, PublicValue, Span
from priory.data.kinds.numbers import PLAIN, NumberFormat
from priory.data.kinds.options import ColumnOptions
from priory.data.sql import Cell
from priory.errors import SchemaError

NUMBER_FORMAT = tuple(each.name for each in fields(NumberFormat))


@dataclass(frozen=True, kw_only=True)
class Number(Binned):
    """A column of numbers in bins, whole ("integer") or not ("real").

    The last bin is closed on both sides. Infinities are out of bounds like any other number. A spike is a number with
    a place to itself: it cuts the bin it lies in, and the place of a real one reaches to the next double.

    Attributes:
        whole: whether decoded values are integers.
        low: the smallest number, inclusive.
        high: the largest number, inclusive.
        edges: where bins and spikes begin, and where the last one ends: `high`, or after it for whole numbers and
            where it is a spike.
        spikes: the numbers with a place to themselves, ascending.
        step: values are rounded to multiples of it; None where they are not known to be.
        other: a number in the place where cells that are no numbers go.
        format: how texts spell the numbers.
    """

    WORDS: ClassVar[tuple[str, ...]] = ("integer", "real")
    OPTIONS: ClassVar[tuple[str, ...]] = ("bounds", "bins", "spikes", "step", *NUMBER_FORMAT)
    READING_TYPE: ClassVar[type[np.generic]] = np.float64

    name: str
    nullable: bool
    nulls: tuple[str, ...]
    whole: bool
    low: float
    high: float
    edges: tuple[float, ...]
    spikes: tuple[float, ...]
    step: float | None
    other: float | None
    format: NumberFormat
    slopes: tuple[float, ...] = field(default=(), compare=False, repr=False)

    @classmethod
    def of(
        cls,
        name: str,
        *,
        whole: bool,
        low: float,
        high: float,
        edges: Sequence[float] | None = None,
        spikes: Sequence[float] = (),
        step: float | None = None,
        other: float | None = None,
        format: NumberFormat = PLAIN,  # noqa: A002 - the word that moments have, too
        **missing: Unpack[Nulls],
    ) -> "Number":
        """Build a column from its bounds, its bins (for whole numbers: default one for each) and its spikes."""
        common = checked_common(name, other, missing)
        low, high = checked_bounds(name, low, high, whole=whole)
        end = high + 1 if whole else high
        if edges is None:
            if not whole:
                raise SchemaError("a real column needs bins; write bins: 20 or give their edges", column=name)
            check_codes(name, int(end - low) + common["nullable"])
            edges = range(int(low), int(end) + 1)
        edges = tuple(checked_number(name, edge, "an edge", whole=whole) for edge in edges)
        spikes = _checked_spikes(name, spikes, low, high, whole=whole)
        # A column built again from its edges ends after a spike at the upper bound.
        is_after = spikes[-1:] == (high,) and edges[-1:] == (_after(high, whole=whole),)
        check_edges(name, edges, low, edges[-1] if is_after else end)
        places = tuple(sorted({*edges, *spikes, *(_after(spike, whole=whole) for spike in spikes)}))
        check_codes(name, len(places) - 1 + common["nullable"])
        if other is not None:
            other = checked_number(name, other, "other", whole=whole)
            check_other_inside(name, other, low, high)
        if step is not None and (step := checked_number(name, step, "step", whole=whole)) <= 0:
            raise SchemaError(f"step must be above 0; got {step!r}", column=name)
        return cls(
            whole=whole,
            low=low,
            high=high,
            edges=places,
            spikes=spikes,
            step=step,
            other=other,
            format=format,
            **common,
        )

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
        spikes = options.values.get("spikes")
        with (spikes or options.values.get("bins", options.key)).located():
            return cls.of(
                options.name,
                whole=whole,
                low=low,
                high=high,
                edges=edges,
                spikes=() if spikes is None else options.scalars(spikes, "spikes", "a spike"),
                step=cast(float, options.values["step"].scalar("step", options.name))
                if "step" in options.values
                else None,
                other=options.other,
                format=NumberFormat.of(options.name, **options.scalars_of(NUMBER_FORMAT)),
                **options.nulls(),
            )

    def described(self) -> dict[str, Any]:
        """The bounds, the shortest words for the bins, the spikes, and how texts spell the numbers."""
        bounds = {"bounds": [self.low, self.high]}
        spikes = {"spikes": list(self.spikes)} if self.spikes else {}
        step = {} if self.step is None else {"step": self.step}
        return bounds | self._described_bins() | spikes | step | asdict(self.format)

    def _described_bins(self) -> dict[str, Any]:
        if self.whole and self.places == self.high - self.low + 1:
            return {}
        cut = {edge for spike in self.spikes for edge in (spike, _after(spike, whole=self.whole))}
        for word, make in (("count", bins.equal_width), ("log", bins.logarithmic)):
            # A spike adds up to two places to those of the bins.
            for count in range(self.places, max(self.places - len(cut), 1) - 1, -1):
                try:
                    edges = make(self.name, self.low, self.high, count, whole=self.whole)
                except SchemaError:
                    continue  # bins of this kind cannot be had for these bounds, so these are not such bins
                if {*edges, *cut} == set(self.edges):
                    return {"bins": count if word == "count" else {word: count}}
        inner = [edge for edge in self.edges if edge not in cut and self.low < edge < self.high + self.whole]
        return {"bins": {"edges": [self.low, *inner, self.high + self.whole]}}

    def point_text(self, point: float) -> str:
        return numbers.short_text(point)

    @property
    def place_labels(self) -> tuple[str, ...]:
        """The bins as intervals, open where a real spike was taken out; a number alone in its place as itself."""
        return tuple(
            self.point_text(first) if is_one else self.interval(i) if spike is None else self._open(i, spike)
            for i, (first, is_one, spike) in enumerate(zip(self.edges, self.singles, self._spikes_before, strict=False))
        )

    @property
    def short_labels(self) -> tuple[str, ...]:
        ends = (*(edge - self.whole for edge in self.edges[1:-1]), self.high)
        firsts = (
            numbers.with_thousands(first) if spike is None else f">{numbers.with_thousands(spike)}"
            for first, spike in zip(self.edges, self._spikes_before, strict=False)
        )
        return tuple(
            first if is_one else f"{first}–{numbers.with_thousands(end)}"
            for first, end, is_one in zip(firsts, ends, self.singles, strict=True)
        )

    @cached_property
    def singles(self) -> tuple[bool, ...]:
        """Whether each place holds one number only."""
        pairs = itertools.pairwise(self.edges)
        return tuple(after == _after(first, whole=self.whole) for first, after in pairs)

    @property
    def _spikes_before(self) -> tuple[float | None, ...]:
        """For each place of reals, the spike that it begins just above, if it does."""
        spikes = {} if self.whole else {_after(spike, whole=False): spike for spike in self.spikes}
        return tuple(spikes.get(edge) for edge in self.edges[:-1])

    def _open(self, i: int, spike: float) -> str:
        return f"({self.point_text(spike)}, {self.interval(i).partition(', ')[2]}"

    def read_text(self, text: str) -> Reading:
        return self.format.of_text(text)

    def read_typed(self, cell: object) -> Reading:
        return numbers.of_typed(cell)

    def read_array(self, values: NDArray[Any]) -> tuple[NDArray[Any], Mask] | None:
        if values.dtype.kind not in "iuf":
            return None
        return values.astype(np.float64), np.ones(len(values), dtype=bool)

    def sql_point(self, cell: Cell) -> str | None:
        return self.format.in_sql(cell)

    @property
    def spelling(self) -> str | None:
        return None if self.format.decimal == "." else self.format.decimal

    @property
    def _sloped_places(self) -> NDArray[np.intp]:
        return np.flatnonzero(~np.isin(np.asarray(self.edges[:-1]), np.asarray(self.spikes)))

    def _steps(self, places: NDArray[np.intp], points: NDArray[Any]) -> NDArray[Any]:
        starts = np.asarray(self.edges)[places]
        plain = points - starts if self.whole else points / self._unit - starts / self._unit
        if self.step is None:
            return plain
        return np.where(self._on_grid[places], self._grid_index(points) - self._first_index[places], plain)

    def _starts(self, places: NDArray[np.intp]) -> NDArray[Any]:
        starts = np.asarray(self.edges)[places]
        if self.step is None:
            return starts
        return np.where(self._on_grid[places], self._grid_point(self._first_index[places]), starts)

    def _scales(self, places: NDArray[np.intp]) -> NDArray[Any]:
        plain = np.full(len(places), 1 if self.whole else self._unit)
        return plain if self.step is None else np.where(self._on_grid[places], self.step, plain)

    def _units(self, places: NDArray[np.intp]) -> NDArray[np.float64]:
        return np.asarray(self._on_grid[places] | self.whole, dtype=np.float64)

    def _points(
        self, places: NDArray[np.intp], steps: NDArray[np.float64], low: NDArray[Any], high: NDArray[Any]
    ) -> NDArray[Any]:
        if self.step is None:
            points = self._starts(places)
            # A sum of two, as a product can be infinite where the sum is not.
            more = 0.0 if self._unit == 1 else steps
            points = points + steps.astype(np.int64) if self.whole else points + steps + more
        else:
            on_grid = self._grid_point(self._first_index[places] + steps)
            plain = self._starts(places) + steps * self._scales(places)
            points = np.where(self._on_grid[places], on_grid, plain)
        if self.whole:
            return points.astype(np.int64)
        # Where the upper bound is a spike, the bin before it is open and the spike's place is just it.
        top = np.where((high == self.high) & self._is_closed, high, np.nextafter(high, -np.inf))
        return np.asarray(np.clip(points, low, np.maximum(low, top)))

    @property
    def _unit(self) -> float:
        """What reals are measured in: 1, or 2 where the difference of the bounds is infinite."""
        return 2.0 if math.isinf(self.high - self.low) else 1.0

    @property
    def _is_closed(self) -> bool:
        """Whether the last bin holds its end."""
        return self.edges[-1] == self.high

    @cached_property
    def _first_index(self) -> NDArray[np.float64]:
        """Which multiple of the step is the first in each place."""
        return self._grid_index(np.asarray(self.edges[:-1]))

    @cached_property
    def _on_grid(self) -> Mask:
        """Which places hold a multiple of the step."""
        if self.step is None:
            return np.zeros(self.places, dtype=bool)
        return np.asarray(self._grid_index(np.asarray(self.edges[1:])) > self._first_index)

    def _grid_point(self, index: NDArray[np.float64]) -> NDArray[np.float64]:
        """Multiples of the step, as the doubles that people write for them."""
        step = cast(float, self.step)
        parts = round(1 / step)
        return index / parts if step < 1 and abs(parts * step - 1) < 1e-12 else index * step

    def _grid_index(self, points: NDArray[Any]) -> NDArray[np.float64]:
        """Which multiple of the step is the first at or after each point; the end of the last bin is inside it."""
        index = np.ceil(points / cast(float, self.step) - 1e-9) + 0.0
        found = self._grid_point(index)
        is_inside = (points == self.high) & (found == points) & (not self.whole and self._is_closed)
        return np.asarray(index + ((found < points) | is_inside))

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
            return number, _after(number, whole=False) if number in self.spikes else number
        return math.ceil(number), math.floor(number) + 1


def _read_edges(options: ColumnOptions, low: float, high: float, *, whole: bool) -> Sequence[float]:
    word, value = options.binning(("edges", "log"))
    if word == "edges":
        return options.ended(options.scalars(value, "edges", "an edge"), high, high + 1 if whole else high)
    make = bins.logarithmic if word == "log" else bins.equal_width
    return make(options.name, low, high, options.count(value), whole=whole)


def _after(number: float, *, whole: bool) -> float:
    """The next number."""
    return number + 1 if whole else math.nextafter(number, math.inf)


def _checked_spikes(name: str, spikes: Sequence[float], low: float, high: float, *, whole: bool) -> tuple[float, ...]:
    """The spikes in order, if they are numbers inside the bounds and none is listed twice."""
    checked = sorted(checked_number(name, spike, "a spike", whole=whole) for spike in spikes)
    for spike in checked:
        if not low <= spike <= high:
            raise SchemaError(
                f"spike {spike!r} is outside the bounds; widen the bounds to hold it, or leave it out", column=name
            )
        if spike == sys.float_info.max:
            raise SchemaError("the largest number there is cannot be a spike; leave it out", column=name)
    if (twice := repeated(checked)) is not None:
        raise SchemaError(f"spike {twice!r} is listed twice; keep one", column=name)
    return tuple(checked)
