import pytest

for library in ("pandas", "polars", "pyarrow"):
    pytest.importorskip(library)

import datetime as dt
from decimal import Decimal
from fractions import Fraction
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import polars as pl
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from kinds import ANSWER, CLOCK, CODED, DATE, DAY, GERMAN, REAL, STRICT, TRUTH, WHOLE, WORDS
from priory.data.cells import Cells
from priory.data.codec import decode, encode, encode_column
from priory.data.kinds import Category, ModelledColumn, Moment, Number
from priory.data.public import misfits, refuse
from priory.data.reading import read_cell, read_cells
from priory.data.schema import Schema
from priory.data.schema.constraints import Order
from priory.errors import DataError
from strategies_data import any_cells, codes, columns, schemas

BERLIN = ZoneInfo("Europe/Berlin")


class Hostile:
    """A cell all of whose own code raises."""

    def __eq__(self, other: object) -> bool:
        raise ValueError("secret")

    def __hash__(self) -> int:
        raise ValueError("secret")

    def __float__(self) -> float:
        raise ValueError("secret")

    @property  # type: ignore[misc]  # that nobody does this is the point
    def __class__(self) -> type:
        raise ValueError("secret")


class HostileZone(dt.tzinfo):
    """A time zone that raises."""

    def tzname(self, _moment: dt.datetime | None) -> str:
        return "nowhere"

    def dst(self, _moment: dt.datetime | None) -> None:
        return None

    def utcoffset(self, _moment: dt.datetime | None) -> dt.timedelta:
        raise ValueError("secret")


def code_of(column: ModelledColumn, cell: object) -> int:
    return int(encode_column(column, Cells.objects([cell]))[0])


NULLS = [
    None,
    float("nan"),
    np.float32("nan"),
    pd.NA,
    pd.NaT,
    np.datetime64("NaT", "s"),
    Decimal("NaN"),
    Decimal("sNaN"),
]


@pytest.mark.parametrize("column", [WORDS, CODED, WHOLE, REAL, DATE, CLOCK, TRUTH])
@pytest.mark.parametrize("null", NULLS, ids=repr)
def test_every_kind_of_null_is_null_in_every_kind_of_column(column: ModelledColumn, null: object) -> None:
    assert code_of(column, null) == column.null_code


@pytest.mark.parametrize("null", NULLS, ids=repr)
def test_null_goes_to_other_where_no_null_is_declared(null: object) -> None:
    assert code_of(STRICT, null) == 1
    assert code_of(ANSWER, null) == 0


@pytest.mark.parametrize(
    ("column", "cell", "code"),
    [
        (WORDS, "1", 0), (WORDS, "a", 1), (WORDS, "", 2), (WORDS, "else", 3), (WORDS, "NA", 4),
        (WORDS, 1, 3), (WORDS, 1.0, 3), (WORDS, True, 3), (WORDS, " 1", 3), (WORDS, "A", 3), (WORDS, b"a", 3),
        (WORDS, np.str_("a"), 1), (WORDS, "na", 3),
        (CODED, 3, 0), (CODED, 1, 1), (CODED, 1.0, 1), (CODED, "1", 1), (CODED, "1.0", 1), (CODED, " +1e0 ", 1),
        (CODED, np.int8(1), 1), (CODED, Decimal("1.00"), 1), (CODED, False, 3), (CODED, True, 3), (CODED, np.True_, 3),
        (CODED, 1.5, 3), (CODED, "1.5", 3), (CODED, 9, 3), (CODED, "-1", 4), (CODED, -1, 3), (CODED, 10**400, 3),
        (CODED, "", 3), (CODED, "one", 3), (CODED, "1_0", 3), (CODED, "١", 3), (CODED, -0.0, 2),
        (WHOLE, 4, 0), (WHOLE, 5, 1), (WHOLE, 4.9, 0), (WHOLE, "4.9", 0), (WHOLE, "5", 1), (WHOLE, "5.", 1),
        (WHOLE, -7, 0), (WHOLE, 99, 1), (WHOLE, float("inf"), 1), (WHOLE, -float("inf"), 0), (WHOLE, 10**400, 1),
        (WHOLE, -(10**400), 0), (WHOLE, "1e999", 1), (WHOLE, "inf", 2), (WHOLE, "nan", 2), (WHOLE, "NA", 2),
        (WHOLE, True, 2), (WHOLE, "", 2), (WHOLE, "5\n", 2), (WHOLE, "\t5", 2), (WHOLE, "0x5", 2), (WHOLE, "5,0", 2),
        (WHOLE, Fraction(5), 2), (WHOLE, 5 + 0j, 2), (WHOLE, dt.date(1970, 1, 5), 2), (WHOLE, Decimal(5), 1),
        (WHOLE, Decimal("Infinity"), 1),
        (REAL, 0.5, 1), (REAL, np.nextafter(0.5, 0), 0), (REAL, 1, 1), (REAL, "x", 1), (REAL, "", 1), (REAL, ".25", 0),
        (REAL, np.float32(0.25), 0),
        (DATE, "1970-01-05", 0), (DATE, "1970-01-06", 1), (DATE, "1969-01-01", 0), (DATE, "9999-12-31", 1),
        (DATE, "1970-1-05", 2), (DATE, "1970-02-30", 2), (DATE, "0000-01-01", 2), (DATE, "1970-01-05T00:00", 2),
        (DATE, dt.date(1970, 1, 6), 1), (DATE, dt.datetime(1970, 1, 5, 23, 59), 0), (DATE, 5, 2), (DATE, 5.0, 2),
        (DATE, np.datetime64("1970-01-06"), 1), (DATE, np.datetime64("1970-01-05T23"), 0), (DATE, True, 2),
        (DATE, dt.datetime(1970, 1, 6, 0, 30, tzinfo=BERLIN), 0), (DATE, pd.Timestamp("1970-01-06"), 1),
        (DATE, np.datetime64(10**17, "Y"), 1), (DATE, np.datetime64(-(10**17), "M"), 0), (DATE, dt.timedelta(1), 2),
        (GERMAN, "06.01.1970", 1), (GERMAN, "6.1.1970", 1), (GERMAN, "1970-01-06", 2), (GERMAN, "06-01-1970", 2),
        (GERMAN, dt.date(1970, 1, 6), 1), (GERMAN, "31.02.1970", 2),
        (CLOCK, "1970-01-01T11:59:59.999999", 0), (CLOCK, "1970-01-01 12:00", 1), (CLOCK, "1970-01-01T12:00:00.5", 1),
        (CLOCK, dt.date(1971, 1, 1), 1), (CLOCK, "1970-01-01", 0), (CLOCK, "1970-01-01T24:00", 0),
        (CLOCK, dt.datetime(1970, 1, 1, 12, 30, tzinfo=BERLIN), 0), (CLOCK, dt.datetime(1970, 1, 1, 12, 30), 1),
        (CLOCK, pd.Timestamp("1970-01-01 13:30", tz="Europe/Berlin"), 1),
        (TRUTH, True, 1), (TRUTH, np.False_, 0), (TRUTH, "true", 1), (TRUTH, "FALSE", 0), (TRUTH, 1, 2),
        (TRUTH, 0.0, 2), (TRUTH, "yes", 2), (TRUTH, "1", 2),
        (ANSWER, "yes", 1), (ANSWER, "1", 1), (ANSWER, "no", 0), (ANSWER, "true", 0), (ANSWER, True, 1), (ANSWER, 1, 0),
    ],
    ids=repr,
)  # fmt: skip
def test_a_cell_is_read_by_its_exact_type_and_value(column: ModelledColumn, cell: object, code: int) -> None:
    assert code_of(column, cell) == code


def test_a_fraction_of_a_second_is_read_as_one() -> None:
    column = Moment.of("a", clock=True, low=0, high=DAY, edges=[0, 50_000, DAY + 1], nullable=True)
    assert code_of(column, "1970-01-01T00:00:00.05") == 1
    assert code_of(column, "1970-01-01T00:00:00.049999") == 0


def test_integers_beyond_the_exact_doubles_are_no_level_and_no_other_bin() -> None:
    top = 2**53 - 1
    column = Category.of("a", [top], other=0)
    assert [code_of(column, cell) for cell in (top, top + 1, str(top), str(top + 2))] == [0, 1, 0, 1]
    column_of_bins = Number.of("a", whole=True, low=0, high=top, edges=[0, top, top + 1], nullable=True)
    assert [code_of(column_of_bins, cell) for cell in (top - 1, str(top - 1), str(top))] == [0, 0, 1]


@pytest.mark.parametrize("column", [WORDS, CODED, WHOLE, REAL, DATE, CLOCK, TRUTH])
def test_cells_whose_own_code_raises_are_just_bad(column: ModelledColumn) -> None:
    zone = dt.datetime(2000, 1, 1, tzinfo=HostileZone())
    cells: list[Any] = [Hostile(), zone, [1], {}, object(), type, lambda: 1, memoryview(b"1"), {1}, np.array([1, 2])]
    for cell in cells:
        assert code_of(column, cell) == column.other_code


@given(columns("a"), st.data())
def test_encoding_never_raises_and_gives_a_code(column: ModelledColumn, data: st.DataObject) -> None:
    anything = st.from_type(type).flatmap(st.from_type) if data.draw(st.integers(0, 9)) == 0 else st.nothing()
    cells = data.draw(st.lists(any_cells(column) | anything, max_size=8))
    found = encode_column(column, Cells.objects(cells))
    assert len(found) == len(cells)
    assert (found < column.size).all()
    assert [code_of(column, cell) for cell in cells] == found.tolist()


DTYPES = ["?", "i1", "i8", "u8", "f2", "f4", "f8", "M8[ns]", "M8[us]", "M8[D]", "M8[s]", "m8[s]", "U3", "S3", "c16"]


@given(columns("a"), st.sampled_from(DTYPES), st.data())
def test_an_array_is_read_as_its_cells_are(column: ModelledColumn, dtype: str, data: st.DataObject) -> None:
    array = data.draw(arrays.arrays(np.dtype(dtype), st.integers(0, 6)))
    if isinstance(column, Number | Category) and dtype in ("i8", "f8"):
        near: Any = column.edges if isinstance(column, Number) else column.values if column.whole else (0,)
        array = np.concatenate([array, np.array(near, dtype=dtype), np.array(near, dtype=dtype) - 1])
    one_by_one = encode_column(column, Cells.objects(array[i] for i in range(len(array))))
    np.testing.assert_array_equal(encode_column(column, Cells(array)), one_by_one)


@given(columns("a"), st.data())
def test_indexed_cells_and_masks_are_read_as_the_cells_they_stand_for(
    column: ModelledColumn, data: st.DataObject
) -> None:
    cells = data.draw(st.lists(any_cells(column), min_size=1, max_size=5))
    index = np.array(data.draw(st.lists(st.integers(0, len(cells) - 1), max_size=8)), dtype=np.intp)
    null = np.array(data.draw(st.lists(st.booleans(), min_size=len(index), max_size=len(index))), dtype=bool)
    stored = Cells(Cells.objects(cells).values, null, index)
    plain = [None if is_null else cells[i] for i, is_null in zip(index, null, strict=True)]
    np.testing.assert_array_equal(encode_column(column, stored), encode_column(column, Cells.objects(plain)))


@given(schemas().flatmap(lambda schema: st.tuples(st.just(schema), codes(schema))), st.integers(0, 100))
def test_what_is_decoded_encodes_to_the_same_codes(given_codes: tuple[Schema, dict[str, Any]], seed: int) -> None:
    schema, before = given_codes
    table = decode(schema, before, np.random.default_rng(seed))
    assert table.names == schema.domain.attributes
    for name, after in encode(schema, table.columns).items():
        np.testing.assert_array_equal(after, before[name])


def test_decoded_numbers_fill_their_bins() -> None:
    rng = np.random.default_rng(0)
    schema = Schema.of([Number.of("a", whole=True, low=0, high=9, edges=[0, 5, 10], nullable=True)], name="x")
    assert set(decode(schema, {"a": np.zeros(200, dtype=int)}, rng).to_dict()["a"]) == set(range(5))
    assert set(decode(schema, {"a": np.ones(200, dtype=int)}, rng).to_dict()["a"]) == set(range(5, 10))
    assert decode(schema, {"a": np.array([2])}, rng).to_dict() == {"a": [None]}
    wide = Number.of("a", whole=False, low=-1.7e308, high=1.7e308, edges=[-1.7e308, 1.7e308], nullable=True)
    values = decode(Schema.of([wide], name="x"), {"a": np.zeros(100, dtype=int)}, rng).columns["a"].values
    assert np.isfinite(values).all()
    assert values.min() < -1e307
    assert values.max() > 1e307
    narrow = Number.of("a", whole=False, low=1, high=2, edges=[1, np.nextafter(1, 2), 2], nullable=True)
    assert decode(Schema.of([narrow], name="x"), {"a": np.zeros(3, dtype=int)}, rng).to_dict() == {"a": [1.0] * 3}


def test_codes_that_do_not_fit_are_refused() -> None:
    schema = Schema.coded({"a": 3})
    rng = np.random.default_rng(0)
    with pytest.raises(DataError, match="column 'a': codes must be 0 to 2"):
        decode(schema, {"a": np.array([3])}, rng)
    with pytest.raises(DataError, match="column 'a': there are no codes"):
        decode(schema, {}, rng)


@given(seed=st.integers(0, 1000), is_date=st.booleans(), is_real=st.booleans())
def test_decoded_values_do_not_fall_where_the_schema_says_so(seed: int, *, is_date: bool, is_real: bool) -> None:
    rng = np.random.default_rng(seed)

    def column(name: str) -> ModelledColumn:
        edges = np.sort(rng.choice(40, size=4, replace=False))
        if is_date:
            return Moment.of(
                name, clock=False, low=int(edges[0]), high=int(edges[-1]) - 1, edges=edges.tolist(), nullable=True
            )
        high = int(edges[-1]) - (not is_real)
        return Number.of(name, whole=not is_real, low=int(edges[0]), high=high, edges=edges.tolist(), nullable=True)

    schema = Schema.of([column("a"), column("b")], name="x", constraints=[Order(columns=("b", "a"))])
    [(_, impossible)] = schema.impossible()
    a, b = np.nonzero(~impossible)
    before = {"a": np.repeat(a, 20), "b": np.repeat(b, 20)}
    table = decode(schema, before, rng)
    for x, y in zip(*(table.to_dict()[name] for name in "ba"), strict=True):
        assert x is None or y is None or x <= y
    for name, after in encode(schema, table.columns).items():
        np.testing.assert_array_equal(after, before[name])


def test_a_chain_of_three_does_not_fall() -> None:
    one: dict[str, Any] = {"low": 0, "high": 9, "edges": [0, 10], "nullable": True}
    columns_of_chain = [Number.of(name, whole=True, **one) for name in "abc"]
    schema = Schema.of(columns_of_chain, name="x", constraints=[Order(columns=("a", "b", "c"))])
    before = {name: np.zeros(500, dtype=int) for name in "abc"}
    before["b"][:100] = 1
    table = decode(schema, before, np.random.default_rng(0)).to_dict()
    for a, b, c in zip(*table.values(), strict=True):
        assert a <= c if b is None else a <= b <= c


@given(schemas().flatmap(lambda schema: st.tuples(st.just(schema), codes(schema))))
def test_a_decoded_table_fits_its_schema_as_public_data(given_codes: tuple[Schema, dict[str, Any]]) -> None:
    schema, found = given_codes
    refuse(misfits(schema, decode(schema, found, np.random.default_rng(0))))


@pytest.mark.parametrize(
    ("column", "cells", "message"),
    [
        (STRICT, ["u", "w", "w"], "2 of 3 public cells do not fit the schema: 'w'"),
        (STRICT, ["u", None], "1 of 2 .*: null|None"),
        (WHOLE, [3, 12, -1], "2 of 3 .*: -1, 12"),
        (DATE, [dt.date(1970, 1, 1), dt.date(2000, 1, 1)], "1 of 2"),
        (TRUTH, [1], "1 of 1 .*: 1"),
    ],
)
def test_public_cells_that_do_not_fit_are_quoted(column: ModelledColumn, cells: list[Any], message: str) -> None:
    schema = Schema.of([column], name="x")
    with pytest.raises(DataError, match=f"column 'a': {message}"):
        refuse(misfits(schema, {"a": cells}))


def public_frame() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "name": [f"n{i}" for i in range(200)],
            "sex": ["f", "m", None, "m"] * 50,
            "age": [7 * i % 170 for i in range(200)],
            "rooms": [1, 2, 3, 4] * 50,
            "income": np.linspace(-3.7, 1234.5, 200),
            "score": [1.0, np.nan, 3.0, 4.0] * 50,
            "member": [True, False] * 100,
            "born": pd.date_range("1950-03-07", periods=200, freq="97D"),
            "seen": pd.date_range("2024-03-01 10:15", periods=200, freq="10min"),
            "empty": [None] * 200,
            "mixed": [1, "a"] * 100,
        }
    )


def test_a_schema_from_public_data_fits_them() -> None:
    frame = public_frame()
    schema = Schema.from_public(frame, name="people")
    kinds = {column.name: column.kind for column in schema.columns}
    assert kinds == {
        "name": "id", "sex": "category", "age": "integer", "rooms": "integer", "income": "real", "score": "integer",
        "member": "boolean", "born": "date", "seen": "datetime", "empty": "text", "mixed": "text",
    }  # fmt: skip
    refuse(misfits(schema, frame))
    refuse(misfits(schema, pl.from_pandas(frame[list(schema.domain)])))
    assert Schema.parse(schema.dump()) == schema
    assert schema.column("age").places < 100  # type: ignore[union-attr]  # modelled
    assert schema.column("rooms").labels == ("1", "2", "3", "4", "null")  # type: ignore[union-attr]  # modelled
    income = schema.column("income")
    assert isinstance(income, Number)
    assert (income.low, income.high) == (-100, 1300)
    assert 10 <= income.places <= 40


@given(
    st.lists(st.floats(allow_nan=False) | st.floats(-1, 1), min_size=1, max_size=5)
    | st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(-300, 300), min_size=1, max_size=5)
    | st.lists(st.text(st.characters(codec="utf-8"), max_size=3), min_size=1, max_size=5)
    | st.lists(st.datetimes() | st.dates(), min_size=1, max_size=5)
)
def test_any_public_column_gets_a_schema_that_it_fits(cells: list[Any]) -> None:
    schema = Schema.from_public({"a": cells, "b": ["x"] * len(cells)}, name="x")
    finite = [cell for cell in cells if not isinstance(cell, float) or np.isfinite(cell)]
    refuse(misfits(schema, {"a": finite, "b": ["x"] * len(finite)}))


def test_readings_say_what_is_bad_and_what_is_missing() -> None:
    readings = read_cells(WORDS, Cells.objects(["a", "b", None, "NA"]))
    assert readings.bad.tolist() == [False, True, False, False]
    assert readings.missing.tolist() == [False, False, True, True]
    assert read_cell(WORDS, "a") == 1
