import pytest

for library in ("pandas", "polars", "pyarrow"):
    pytest.importorskip(library)

import datetime as dt
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from priory.data.cells import Cells
from priory.data.codec import decode, encode
from priory.data.kinds import Boolean, Moment
from priory.data.schema import Schema
from priory.data.sources import frames
from priory.data.table import Table
from priory.errors import DataError
from strategies_data import codes, schemas

NULL = np.array([False, True])


def example() -> Table:
    return Table.of(
        {
            "text": Cells(np.array(['a, "b"', None], dtype=object), NULL),
            "whole": Cells(np.array([1, 2]), NULL),
            "sure": Cells(np.array([1, 2])),
            "real": Cells(np.array([0.1, 2.0]), NULL),
            "flag": Cells(np.array([True, False]), NULL),
            "day": Cells(np.array(["2024-03-01", "1970-01-01"], dtype="datetime64[D]"), NULL),
            "time": Cells(np.array(["2024-03-01T12:30", "1970-01-01T00:00"], dtype="datetime64[us]"), NULL),
        }
    )


def test_columns_of_different_lengths_are_refused() -> None:
    with pytest.raises(DataError, match=r"different lengths: \[1, 2\]"):
        Table.of({"a": Cells(np.zeros(1)), "b": Cells(np.zeros(2))})


def test_joined_tables_keep_what_is_missing_where_only_some_miss_it() -> None:
    values = np.array([1, 2])
    pieces = [Table({"a": Cells(values, null)}) for null in (None, NULL, None)]
    assert Table.joined(pieces).to_dict() == {"a": [1, 2, 1, None, 1, 2]}


def test_a_table_as_python_values() -> None:
    assert example().to_dict() == {
        "text": ['a, "b"', None],
        "whole": [1, None],
        "sure": [1, 2],
        "real": [0.1, None],
        "flag": [True, None],
        "day": [dt.date(2024, 3, 1), None],
        "time": [dt.datetime(2024, 3, 1, 12, 30), None],
    }
    assert len(example()) == 2
    assert example().head(1).to_dict()["sure"] == [1]
    assert [example().kind(name) for name in example().names] == [
        "text", "integer", "integer", "real", "boolean", "date", "datetime",
    ]  # fmt: skip


def test_types_are_kept_in_each_library() -> None:
    pandas = example().to_pandas()
    assert [str(dtype) for dtype in pandas.dtypes][1:] == [
        "Int64", "int64", "float64", "boolean", "datetime64[s]", "datetime64[us]",
    ]  # fmt: skip
    assert pandas.isna().iloc[1].tolist() == [True, True, False, True, True, True, True]
    assert [str(dtype) for dtype in example().to_polars().dtypes] == [
        "String", "Int64", "Int64", "Float64", "Boolean", "Date", "Datetime(time_unit='us', time_zone=None)",
    ]  # fmt: skip
    assert [str(kind) for kind in example().to_arrow().schema.types] == [
        "string", "int64", "int64", "double", "bool", "date32[day]", "timestamp[us]",
    ]  # fmt: skip
    assert example().to_arrow().to_pydict() == example().to_polars().to_dict(as_series=False) == example().to_dict()


def test_csv_keeps_nulls_and_empty_texts_apart(tmp_path: Path) -> None:
    values = np.array(["", None, "a,b", 'say "x"', "two\nlines", " x", "plain"], dtype=object)
    table = Table.of(
        {"a,b": Cells(values, np.array([value is None for value in values])), "n": Cells(np.arange(7))},
    )
    table.write_csv(tmp_path / "t.csv")
    assert (tmp_path / "t.csv").read_text(encoding="utf-8") == (
        '"a,b",n\n"",0\n,1\n"a,b",2\n"say ""x""",3\n"two\nlines",4\n" x",5\nplain,6\n'
    )


def test_csv_spells_dates_and_booleans_as_the_schema_does(tmp_path: Path) -> None:
    day = Moment.of("d", clock=False, low=-719162, high=0, edges=[-719162, 1], nullable=True, format="%d.%m.%Y")
    owns = Boolean.of("b", true=["ja"], false=["nein"], nullable=True)
    schema = Schema.of([day, owns], name="x")
    decode(schema, {"d": np.array([0, 1]), "b": np.array([1, 0])}, np.random.default_rng(3)).write_csv(
        tmp_path / "t.csv"
    )
    header, first, second, _ = (tmp_path / "t.csv").read_text(encoding="utf-8").split("\n")
    assert header == "d,b"
    assert first.endswith(",ja")
    assert len(first.split(",")[0]) == 10
    assert second == ",nein"


def test_an_early_year_is_written_with_four_digits(tmp_path: Path) -> None:
    table = Table.of({"d": Cells(np.array(["0033-04-03"], dtype="datetime64[D]"), spelling="%Y/%m/%d")})
    table.write_csv(tmp_path / "t.csv")
    assert (tmp_path / "t.csv").read_text(encoding="utf-8") == "d\n0033/04/03\n"


@settings(max_examples=40)
@given(schemas().flatmap(lambda schema: st.tuples(st.just(schema), codes(schema, rows=8))), st.integers(0, 9))
def test_files_written_can_be_read_by_the_same_schema(
    tmp_path_factory: pytest.TempPathFactory, given_codes: tuple[Schema, dict[str, Any]], seed: int
) -> None:
    schema, before = given_codes
    assume(len({name.lower() for name in schema.domain}) == len(schema.domain))
    table = decode(schema, before, np.random.default_rng(seed))
    path = tmp_path_factory.mktemp("files") / "it's.parquet"
    table.write_parquet(path)
    with duckdb.connect() as connection:
        relation = connection.read_parquet(str(path))
        assert relation.columns == list(schema.domain.attributes)
        rows = relation.fetchall()
    columns = {name: Cells.objects(row[i] for row in rows) for i, name in enumerate(schema.domain)}
    for name, after in encode(schema, columns).items():
        np.testing.assert_array_equal(after, before[name])


def test_a_csv_of_texts_is_read_to_the_same_codes(tmp_path: Path) -> None:
    schema = Schema.load(Path(__file__).parent / "schemas" / "adult.yaml")
    rng = np.random.default_rng(0)
    before = {column.name: rng.integers(0, column.size, 300) for column in schema.modelled}
    decode(schema, before, rng).write_csv(tmp_path / "t.csv")
    texts = pd.read_csv(tmp_path / "t.csv", dtype=str, keep_default_na=False, na_values=[""])
    for name, after in encode(schema, frames.cells_of(texts, schema.domain)).items():
        np.testing.assert_array_equal(after, before[name])


def test_a_table_prints_aligned_and_says_its_size() -> None:
    lines = str(example()).splitlines()
    assert lines[0].split() == ["text", "whole", "sure", "real", "flag", "day", "time"]
    assert lines[-1] == "(2 rows, 7 columns)"
    assert lines[3].split() == ["null", "null", "2", "null", "null", "null", "null"]
    long = Table.of({"a": Cells(np.array(["x" * 100, "b\nc"], dtype=object))})
    assert max(map(len, str(long).splitlines())) <= 40
    assert len(str(long).splitlines()) == 5
    assert str(Table.of({"a": Cells(np.zeros(0))})).endswith("(0 rows, 1 columns)")


def test_html_is_escaped() -> None:
    table = Table.of({"<b>": Cells(np.array(["<script>"], dtype=object))})
    assert "<script>" not in table._repr_html_()
    assert "&lt;script&gt;" in table._repr_html_()


def test_an_empty_table_can_be_written_and_converted(tmp_path: Path) -> None:
    table = example().head(0)
    table.write_csv(tmp_path / "t.csv")
    table.write_parquet(tmp_path / "t.parquet")
    assert len(table.to_pandas()) == len(table.to_polars()) == len(table.to_arrow()) == 0
    with duckdb.connect() as connection:
        found = connection.read_parquet(str(tmp_path / "t.parquet"))
        assert [str(kind) for kind in found.types] == [
            "VARCHAR", "BIGINT", "BIGINT", "DOUBLE", "BOOLEAN", "DATE", "TIMESTAMP",
        ]  # fmt: skip


def test_names_that_differ_only_in_case_are_refused_in_parquet(tmp_path: Path) -> None:
    table = Table.of({"Age": Cells(np.array([1])), "age": Cells(np.array([2]))})
    with pytest.raises(DataError, match="column 'age': another name differs only in case"):
        table.write_parquet(tmp_path / "t.parquet")
    with pytest.raises(DataError, match="at least one column"):
        Table.of({}).write_parquet(tmp_path / "t.parquet")
