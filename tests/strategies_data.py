"""Strategies for schemas, cells and frames."""

import datetime as dt
from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from priory.data.dialect import THOUSANDS, Dialect
from priory.data.kinds import Boolean, Category, Column, ModelledColumn, Moment, Number, Unmodelled, bins
from priory.data.kinds.moment_format import MomentFormat
from priory.data.kinds.numbers import PLAIN, NumberFormat
from priory.data.schema import Group, Schema
from priory.data.schema.constraints import Condition, Constraint, Determine, Forbid, Order

DAY = 86_400_000_000

texts = st.text(st.characters(codec="utf-8"), max_size=6) | st.sampled_from(
    [
        "yes",
        "no",
        "true",
        "null",
        "~",
        "1",
        "1.0",
        "007",
        "1e5",
        "NA",
        "",
        " a",
        "2024-03-01",
        "12:30",
        "a: b",
        "#",
        "-",
    ]
)
names = texts.filter(bool)
finite = st.floats(-1e6, 1e6).map(lambda value: value + 0.0)


@st.composite
def places_for_bad_cells(draw: st.DrawFn, other: st.SearchStrategy[Any]) -> dict[str, Any]:
    nullable = draw(st.booleans())
    return {"nullable": nullable, "other": draw(st.none() | other if nullable else other)}


@st.composite
def categories(draw: st.DrawFn, name: str, *, ordered: bool | None = None) -> Category:
    kind: st.SearchStrategy[Any] = draw(
        st.sampled_from([texts, st.integers(-20, 20), st.integers(-(2**53) + 1, 2**53 - 1)])
    )
    levels = draw(st.lists(kind, min_size=1, max_size=5, unique=True))
    rest = draw(places_for_bad_cells(st.sampled_from(levels) | kind))
    nulls = draw(st.lists(texts.filter(lambda text: text not in (*levels, rest["other"])), max_size=2, unique=True))
    is_ordered = draw(st.booleans()) if ordered is None else ordered
    return Category.of(name, levels, ordered=is_ordered, nulls=nulls, **rest)


# A decimal mark and what stands between thousands.
marks = st.sampled_from([(mark, between) for mark in ".," for between in (None, *THOUSANDS) if mark != between])
number_formats = st.just(PLAIN) | st.builds(
    lambda marks, **rest: NumberFormat.of("a", decimal=marks[0], thousands=marks[1], **rest),
    marks=marks,
    parentheses=st.booleans(),
    symbol=st.none() | st.sampled_from(["%", "$", "EUR", "€", "^"]),
)


@st.composite
def numbers(draw: st.DrawFn, name: str) -> Number:
    whole = draw(st.booleans())
    number: st.SearchStrategy[Any] = st.integers(-1000, 1000) if whole else finite
    edges: Any = sorted(draw(st.lists(number, min_size=2, max_size=6, unique=True)))
    low, high = edges[0], edges[-1] - whole
    form = draw(st.sampled_from(["edges", "equal", "log"]))
    if form == "equal":
        most = min(int(high - low) + 1, 9) if whole else 9
        edges = bins.equal_width(name, low, high, draw(st.integers(1, most)), whole=whole)
    if form == "log" and low >= 0 and high > low + 1:
        edges = bins.logarithmic(name, low, high, draw(st.integers(1, 2)), whole=whole)
    inside = st.integers(low, high) if whole else st.floats(low, high)
    nulls = draw(st.lists(texts, max_size=2, unique=True))
    rest = draw(places_for_bad_cells(inside))
    spikes = draw(st.lists(inside | st.sampled_from([low, high]), max_size=3, unique_by=float))
    step = draw(st.none() | (st.integers(1, 50) if whole else st.sampled_from([0.01, 0.3, 5.0, 1e5])))
    given: dict[str, Any] = {"whole": whole, "low": low, "high": high, "edges": edges, "spikes": spikes, "step": step}
    return Number.of(name, **given, nulls=nulls, format=draw(number_formats), **rest)


FORMATS = ("%b %d, %Y", "%m/%d/%Y %I:%M %p", "%d-%b-%Y", "%Y-%m-%d 00:00:00", "%Y%m%d", "%d/%m/%Y %H:%M %z")


@st.composite
def moments(draw: st.DrawFn, name: str) -> Moment:
    clock = draw(st.booleans())
    unit = DAY if clock else 1
    moment = st.integers(-30000 * unit, 60000 * unit)
    edges = sorted(draw(st.lists(moment, min_size=2, max_size=6, unique=True)))
    low, high = edges[0], edges[-1] - 1
    every = draw(st.none() | st.sampled_from(bins.EVERY[3:]))
    chosen = edges if every is None else bins.calendar_units(name, low, high, every, clock=clock)
    spelling = draw(st.sampled_from([None, "%d.%m.%Y" + (" %H:%M:%S" if clock else ""), "%Y/%m/%d", *FORMATS]))
    rest = draw(places_for_bad_cells(st.integers(low, high)))
    return Moment.of(name, clock=clock, low=low, high=high, edges=chosen, format=spelling, **rest)


@st.composite
def booleans(draw: st.DrawFn, name: str) -> Boolean:
    spellings: Any = draw(st.sampled_from([{}, {"true": ["yes", "1"], "false": ["no", "0"], "nulls": ["?"]}]))
    return Boolean.of(name, **spellings, **draw(places_for_bad_cells(st.booleans())))


# Columns of each kind, given a name.
BY_KIND: dict[type[ModelledColumn], Callable[[str], st.SearchStrategy[ModelledColumn]]] = {
    Category: categories,
    Number: numbers,
    Moment: moments,
    Boolean: booleans,
}


def columns(name: str) -> st.SearchStrategy[ModelledColumn]:
    return st.one_of([of_kind(name) for of_kind in BY_KIND.values()])


@st.composite
def groups(draw: st.DrawFn, found: list[Category]) -> Group:
    by = draw(st.lists(st.sampled_from(found), min_size=1, max_size=2, unique_by=lambda column: column.name))
    row = st.tuples(*(st.sampled_from(column.levels) for column in by))
    values = draw(st.lists(row, min_size=1, max_size=3, unique=True))
    return Group(by=tuple(column.name for column in by), values=tuple(values))


@st.composite
def conditions(draw: st.DrawFn, column: ModelledColumn) -> Condition:
    if column.nullable and draw(st.booleans()):
        return Condition(column=column.name, null=True)
    match column:
        case Category():
            values: tuple[Any, ...] = column.values
            levels = draw(st.lists(st.sampled_from(values), min_size=1, unique=True))
            return Condition(column=column.name, values=tuple(levels))
        case Number():
            return Condition(column=column.name, below=draw(st.sampled_from([*column.edges[1:-1], column.high + 1])))
        case Moment():
            day = dt.date(1970, 1, 1) + dt.timedelta(column.low // (DAY if column.clock else 1) - 1)
            return Condition(column=column.name, above=day.isoformat())
        case _:
            value = draw(st.sampled_from(column.place_values.tolist()))
            return Condition(column=column.name, values=(value,))


@st.composite
def constraints(draw: st.DrawFn, found: list[ModelledColumn]) -> Constraint:
    some = draw(st.lists(st.sampled_from(found), min_size=1, max_size=3, unique_by=lambda column: column.name))
    listed = [column for column in some if isinstance(column, Category)]
    counted = [column for column in some if isinstance(column, Number)]
    if len(counted) > 1:
        return Order(columns=tuple(column.name for column in counted))
    if len(listed) > 1:
        pair = (listed[0].levels[0], listed[1].values[-1])
        return Determine(column=listed[1].name, by=listed[0].name, values=(pair,))
    return Forbid(conditions=tuple(draw(conditions(column)) for column in some[:2]))


dialects = st.builds(
    lambda marks, **rest: Dialect.of(decimal=marks[0], thousands=marks[1], **rest),
    marks=marks,
    delimiter=st.none() | st.sampled_from(",;\t|:"),
    encoding=st.sampled_from(["utf-8", "latin-1", "utf-16"]),
    header=st.booleans(),
    trim=st.booleans(),
    parentheses=st.booleans(),
)


@st.composite
def schemas(draw: st.DrawFn) -> Schema:
    chosen = draw(st.lists(names, min_size=1, max_size=5, unique=True))
    modelled = [draw(columns(name)) for name in chosen]
    extra: list[Column] = [Unmodelled.of("person", kind="id")] if "person" not in chosen and draw(st.booleans()) else []
    listed = [column for column in modelled if isinstance(column, Category)]
    return Schema.of(
        draw(st.permutations([*modelled, *extra])),
        name=draw(names),
        person="person" if extra else None,
        groups=[draw(groups(listed))] if listed else [],
        constraints=[draw(constraints(modelled))] if draw(st.booleans()) else [],
        reading=draw(dialects),
    )


@st.composite
def codes(draw: st.DrawFn, schema: Schema, *, rows: int = 20) -> dict[str, NDArray[np.int64]]:
    seed = draw(st.integers(0, 2**32 - 1))
    rng = np.random.default_rng(seed)
    return {column.name: rng.integers(0, column.size, rows) for column in schema.modelled}


def spelled(column: Number, number: float) -> list[str]:
    """Texts that spell the number, or almost: with the marks of the column, in odd places too."""
    form, text = column.format, repr(number)
    own = f"{number:,}".replace(",", "\0").replace(".", form.decimal).replace("\0", form.thousands or "")
    symbol = form.symbol or "%"
    return [
        text,
        f" {text}0",
        own,
        f"{symbol} {own}",
        f"{own}{symbol} ",
        f"({own} )",
        f"({own}",
        f"{symbol}{symbol}1",
        "1e2",
    ]


def moment_cells(column: Moment, point: int) -> list[object]:
    """A moment as it is, and as texts that spell it, or almost."""
    typed = np.datetime64(point - 1, "us") if column.clock else np.datetime64(point, "D")
    moment: object = typed.item()
    if not isinstance(moment, dt.date):
        return [typed]
    texts = [MomentFormat(spelling, column.clock).text_of(moment) for spelling in (column.format, None, *FORMATS)]
    odd = [texts[0].upper(), texts[0].replace("2", "5"), f"{texts[1]}+01:30", f"{texts[1]}Z", f"{texts[1]}.1234567 UTC"]
    return [typed, *texts, *odd]


def any_cells(column: ModelledColumn) -> st.SearchStrategy[object]:
    """Cells of every type, some of them near the column's own values."""
    near: st.SearchStrategy[object] = st.nothing()
    match column:
        case Category():
            near = st.sampled_from([*column.values, *map(str, column.values)])
        case Number():
            near = st.sampled_from(column.edges).flatmap(
                lambda edge: st.sampled_from([edge, edge - 1, np.nextafter(edge, -np.inf), *spelled(column, edge)])
            )
        case Moment():
            near = st.sampled_from(column.edges).flatmap(lambda edge: st.sampled_from(moment_cells(column, edge)))
        case Boolean():
            near = st.sampled_from([*column.true, *column.false, True, False, np.True_])
    moments_of_all_kinds = st.datetimes() | st.dates() | st.datetimes(timezones=st.timezones())
    plain = st.none() | texts | st.integers() | st.floats() | st.booleans() | st.decimals() | moments_of_all_kinds
    return near | plain | st.sampled_from(column.nulls or ("?",)) | st.binary(max_size=2) | st.complex_numbers()
