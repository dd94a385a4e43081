"""Columns of pandas, polars, Arrow and Parquet give the codes that their cells have."""

import pytest

for library in ("pandas", "polars", "pyarrow"):
    pytest.importorskip(library)

import datetime as dt
import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from kinds import CLOCK, CODED, DATE, REAL, TRUTH, WHOLE, WORDS
from priory.data.cells import Cells
from priory.data.codec import decode, encode, encode_column
from priory.data.kinds import ModelledColumn
from priory.data.public import misfits, refuse
from priory.data.schema import Schema
from priory.data.sources import frames
from priory.errors import DataError
from strategies_data import codes, schemas

ADULT = Path(__file__).parent / "schemas" / "adult.yaml"


@settings(max_examples=50)
@given(schemas().flatmap(lambda schema: st.tuples(st.just(schema), codes(schema))), st.integers(0, 100))
def test_every_library_gives_the_same_codes_as_the_table(given_codes: tuple[Schema, dict[str, Any]], seed: int) -> None:
    schema, before = given_codes
    table = decode(schema, before, np.random.default_rng(seed))
    for frame in (table, table.to_pandas(), table.to_polars(), table.to_arrow(), table.to_dict()):
        found = encode(schema, frames.cells_of(frame, schema.domain))
        for name in schema.domain:
            np.testing.assert_array_equal(found[name], before[name], err_msg=f"{type(frame).__module__} {name!r}")


PLAIN_CELLS: dict[str, Any] = {
    "text": st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=3)
    | st.sampled_from(["1", "NA", "u"]),
    "integer": st.integers(-(2**63), 2**63 - 1) | st.integers(-5, 15),
    "real": st.floats() | st.sampled_from([0.0, 0.5, 1.0, 5.0]),
    "boolean": st.booleans(),
    "moment": st.datetimes(dt.datetime(1700, 1, 1), dt.datetime(2200, 1, 1)),
    "decimal": st.decimals(-1000, 1000, places=3),
}


def test_columns_of_every_type_of_each_library_give_the_same_codes() -> None:
    @given(
        st.sampled_from(sorted(PLAIN_CELLS)),
        st.sampled_from([WORDS, CODED, WHOLE, REAL, DATE, CLOCK, TRUTH]),
        st.data(),
    )
    def law(kind: str, column: ModelledColumn, data: st.DataObject) -> None:
        cells = data.draw(st.lists(st.none() | PLAIN_CELLS[kind], max_size=6))
        expected = encode_column(column, Cells.objects(cells)).tolist()
        for label, frame in library_frames(kind, cells).items():
            found = encode_column(column, frames.cells_of(frame, ["a"])["a"])
            assert found.tolist() == expected, label

    law()


def library_frames(kind: str, cells: list[Any]) -> dict[str, Any]:
    """The same cells in every type that each library has for them."""
    arrow = {"text": pa.string(), "integer": pa.int64(), "real": pa.float64(), "boolean": pa.bool_(),
             "moment": pa.timestamp("us"), "decimal": pa.decimal128(20, 3)}[kind]  # fmt: skip
    polars: Any = {"text": pl.String, "integer": pl.Int64, "real": pl.Float64, "boolean": pl.Boolean,
                   "moment": pl.Datetime("us"), "decimal": pl.Decimal(20, 3)}[kind]  # fmt: skip
    array = pa.array(cells, arrow)
    series = pl.Series("a", cells, dtype=polars)
    found: dict[str, Any] = {
        "pyarrow": pa.table({"a": array}),
        "pyarrow chunks": pa.table({"a": pa.chunked_array([array, array.slice(0, 0)])}),
        "polars": series.to_frame(),
        "polars lazy": series.to_frame().lazy(),
        "pandas object": pd.DataFrame({"a": pd.Series(cells, dtype=object)}),
        "pandas arrow": pd.DataFrame({"a": pd.Series(pd.array(array, dtype=pd.ArrowDtype(arrow)))}),
    }
    if kind in ("text", "integer", "boolean", "moment"):
        found["pyarrow dictionary"] = pa.table({"a": array.dictionary_encode() if kind != "boolean" else array})
        values = pd.Series(cells, dtype=object).astype({"moment": "datetime64[us]"}.get(kind, "object"))
        found["pandas category"] = pd.DataFrame({"a": values.astype("category")})
    if kind == "text":
        found["pandas string"] = pd.DataFrame({"a": pd.Series(cells, dtype="string")})
        found["pandas str"] = pd.DataFrame({"a": pd.Series(cells, dtype="str")})
        found["polars categorical"] = series.cast(pl.Categorical).to_frame()
        found["polars enum"] = series.cast(pl.Enum(sorted({cell for cell in cells if cell is not None}))).to_frame()
        found["pyarrow large"] = pa.table({"a": array.cast(pa.large_string())})
    if kind == "integer":
        found["pandas Int64"] = pd.DataFrame({"a": pd.array(cells, dtype="Int64")})
        found["polars Int128"] = series.cast(pl.Int128).to_frame()
    if kind == "boolean":
        found["pandas boolean"] = pd.DataFrame({"a": pd.array(cells, dtype="boolean")})
    if kind == "real":
        found["pandas float"] = pd.DataFrame({"a": pd.Series(cells, dtype="float64")})
        found["pandas Float64"] = pd.DataFrame({"a": pd.array(cells, dtype="Float64")})
    if kind == "moment":
        found["pandas datetime"] = pd.DataFrame({"a": pd.Series(cells, dtype="datetime64[us]")})
        zoned = pd.Series(cells, dtype="datetime64[us]").dt.tz_localize("UTC").dt.tz_convert("Asia/Kathmandu")
        found["pandas zone"] = pd.DataFrame({"a": zoned})
        found["polars zone"] = series.dt.replace_time_zone("UTC").dt.convert_time_zone("Asia/Kathmandu").to_frame()
        found["pyarrow zone"] = pa.table({"a": array.cast(pa.timestamp("us", "Asia/Kathmandu"))})
    return found


def test_dates_of_every_library_are_dates() -> None:
    days = [dt.date(1970, 1, 5), None, dt.date(1970, 1, 6), dt.date(1, 1, 1), dt.date(9999, 12, 31)]
    found = [pl.DataFrame({"a": days}), pa.table({"a": days}), pa.table({"a": pa.array(days, pa.date64())})]
    for frame in found:
        assert encode_column(DATE, frames.cells_of(frame, ["a"])["a"]).tolist() == [0, 2, 1, 0, 1]


def test_columns_of_odd_types_are_bad_but_never_raise() -> None:
    odd = [
        pl.DataFrame({"a": [[1], None]}),
        pl.DataFrame({"a": [dt.timedelta(1), None]}),
        pl.DataFrame({"a": [dt.time(1), None]}),
        pl.DataFrame({"a": [{"b": 1}, None]}),
        pl.DataFrame({"a": [b"x", None]}),
        pa.table({"a": pa.array([[1], None])}),
        pa.table({"a": pa.array([dt.timedelta(1), None])}),
        pa.table({"a": pa.array([b"x", None])}),
        pd.DataFrame({"a": [pd.Timedelta(1), None]}),
        pd.DataFrame({"a": [pd.Period("2024"), None]}),
        pd.DataFrame({"a": pd.arrays.IntervalArray.from_tuples([(0, 1), None])}),
    ]
    for frame in odd:
        for column in (WORDS, CODED, WHOLE, REAL, DATE, CLOCK, TRUTH):
            found = encode_column(column, frames.cells_of(frame, ["a"])["a"])
            assert found.tolist() == [column.other_code, column.null_code]


def test_columns_of_nothing_but_nulls_and_empty_ones_are_read() -> None:
    nothing = [
        pl.DataFrame({"a": [None, None]}),
        pa.table({"a": pa.nulls(2)}),
        pd.DataFrame({"a": [None, None]}),
        pd.DataFrame({"a": pd.Categorical([None, None])}),
        {"a": np.ma.masked_array([1, 2], [True, True])},
    ]
    for frame in nothing:
        cells = frames.cells_of(frame, ["a"])["a"]
        for column in (WORDS, CODED, WHOLE, REAL, DATE, CLOCK, TRUTH):
            assert encode_column(column, cells).tolist() == [column.null_code] * 2
    empties: list[Any] = [pd.DataFrame({"a": []}), pl.DataFrame({"a": []}), pa.table({"a": pa.nulls(0)}), {"a": []}]
    for empty in empties:
        assert encode_column(WHOLE, frames.cells_of(empty, ["a"])["a"]).tolist() == []


def test_sparse_and_run_length_columns_are_read() -> None:
    import pyarrow.compute as pc

    sparse = pd.DataFrame({"a": pd.arrays.SparseArray([0, 0, 7])})
    runs = pa.table({"a": pc.run_end_encode(pa.array([0, 0, 7]))})
    for frame in (sparse, runs):
        assert encode_column(WHOLE, frames.cells_of(frame, ["a"])["a"]).tolist() == [0, 0, 1]


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table, dict])
def test_a_missing_column_is_named(make: Any) -> None:
    with pytest.raises(DataError, match="column 'age': the data have no such column") as caught:
        frames.cells_of(make({"agee": [1], "sex": [0]}), ["age"])
    assert caught.value.column == "age"
    assert list(frames.cells_of(make({"age": [1], "more": [2]}), ["age"])) == ["age"]


def test_a_column_that_is_there_twice_is_named() -> None:
    twice = [
        pd.DataFrame([[1, 2]], columns=["age", "age"]),
        pa.table([pa.array([1]), pa.array([2])], names=["age", "age"]),
    ]
    for frame in twice:
        with pytest.raises(DataError, match="column 'age': the data have this column 2 times"):
            frames.cells_of(frame, ["age"])


def test_what_is_not_a_table_is_refused() -> None:
    for thing in (3, [1, 2], np.zeros(3), pd.Series([1])):
        with pytest.raises(DataError, match="not a table"):
            frames.cells_of(thing, ["a"])
    with pytest.raises(DataError, match="different lengths"):
        frames.cells_of({"a": [1], "b": [1, 2]}, ["a", "b"])
    with pytest.raises(DataError, match="array or a list"):
        frames.cells_of({"a": "text"}, ["a"])


@pytest.mark.data
def test_adult_comes_back_in_its_own_bins_from_every_library(data_dir: Path) -> None:
    schema = Schema.load(ADULT)
    path = data_dir / "adult_raw" / "adult.csv.gz"
    typed = pd.read_csv(path)
    with gzip.open(path, "rt") as file:
        texts = pd.read_csv(file, dtype=str, keep_default_na=False)
    found = encode(schema, frames.cells_of(typed, schema.domain))
    for frame in (texts, pl.from_pandas(typed), pa.Table.from_pandas(typed), typed.astype("category")):
        for name, again in encode(schema, frames.cells_of(frame, schema.domain)).items():
            np.testing.assert_array_equal(again, found[name])
    table = decode(schema, found, np.random.default_rng(0))
    assert len(table) == 48842
    for name, again in encode(schema, table.columns).items():
        np.testing.assert_array_equal(again, found[name])
    for name in ("workclass", "occupation", "native-country"):
        null = table.columns[name].null
        assert null is not None
        np.testing.assert_array_equal(null, typed[name] == "?")
    np.testing.assert_array_equal(table.columns["age"].values, typed["age"])
    assert (table.columns["education"].values == typed["education"].to_numpy(dtype=object)).all()
    refuse(misfits(schema, typed))
