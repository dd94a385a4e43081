"""Streams of Arrow batches: read once, in bounded pieces, by the rules of all other tables."""

import pytest

pa = pytest.importorskip("pyarrow")

import itertools
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import dataset, parquet

from priory.app.discover import discover
from priory.app.fit import fit
from priory.data.kinds import Category, Number, Unmodelled
from priory.data.public import public_codes
from priory.data.schema import Schema
from priory.data.sources import arrow
from priory.data.sources.arrow import Stream, is_stream, stream_of
from priory.data.sources.duckdb import DuckDBSource
from priory.data.sources.memory import MemorySource
from priory.data.sources.opening import open_source
from priory.errors import DataError, MissingExtra, OptionError
from priory.privacy.budget import Budget
from priory.privacy.ledger import Ledger

KEY = bytes(range(32))
SCHEMA = Schema.of(
    [
        Unmodelled.of("who", kind="id"),
        Category.of("x", list("abc"), other="c"),
        Number.of("n", whole=True, low=0, high=9, nullable=True),
    ],
    name="people",
)
TABLE = pa.table(
    {"n": [i % 11 for i in range(60)], "who": [f"p{i % 7}" for i in range(60)], "x": ["abcz"[i % 4] for i in range(60)]}
)


class Exporter:
    """A table of a library that nobody has heard of."""

    def __init__(self, table: Any, ends_with: str | None = None) -> None:
        self.table, self.ends_with, self.begun = table, ends_with, 0

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        def batches() -> Iterator[Any]:
            for batch in self.table.to_batches(max_chunksize=13):
                self.begun += 1
                yield batch
            if self.ends_with:
                raise ValueError(self.ends_with)

        return pa.RecordBatchReader.from_batches(self.table.schema, batches()).__arrow_c_stream__(requested_schema)


def counts(data: object, **options: Any) -> list[int]:
    return open_source(data, SCHEMA, **options).count([("x", "n")])[0].values.ravel().tolist()


def streams(folder: Path) -> dict[str, object]:
    parquet.write_table(TABLE, folder / "t.parquet", row_group_size=9)
    files = dataset.dataset(folder / "t.parquet")
    return {
        "a reader": TABLE.to_reader(max_chunksize=9),
        "any exporter": Exporter(TABLE),
        "a data set": files,
        "a scanner": files.scanner(batch_size=5),
        "dictionaries": TABLE.set_column(2, "x", TABLE["x"].dictionary_encode()).to_reader(max_chunksize=9),
        "DuckDB's reader": duckdb.connect().from_arrow(TABLE).to_arrow_reader(10),
    }


def test_every_stream_counts_what_the_table_counts(tmp_path: Path) -> None:
    for name, stream in streams(tmp_path).items():
        assert is_stream(stream), name
        assert counts(stream) == counts(TABLE), name
    for name, stream in streams(tmp_path).items():
        rule = {"unit": "who", "max_rows": 2, "key": KEY}
        assert counts(stream, **rule) == counts(TABLE, **rule), name


def test_a_table_that_is_in_memory_is_no_stream() -> None:
    pd, pl = pytest.importorskip("pandas"), pytest.importorskip("polars")
    for table in (TABLE, TABLE.to_batches()[0], TABLE.to_pandas(), pl.from_arrow(TABLE), {"x": [1]}, pd.Series([1])):
        assert not is_stream(table)


@settings(max_examples=50)
@given(st.lists(st.integers(0, 20), max_size=12), st.integers(1, 12))
def test_blocks_are_bounded_and_hold_every_row_in_order(sizes: list[int], block: int) -> None:
    ends = np.cumsum([0, *sizes])
    batches = [pa.record_batch({"x": np.arange(a, b)}) for a, b in itertools.pairwise(ends)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(arrow, "BLOCK", block)
        blocks = list(Stream(pa.schema([("x", pa.int64())]), iter(batches)).blocks())
    assert all(0 < len(each) <= block for each in blocks)
    assert [x for each in blocks for x in each["x"].to_pylist()] == list(range(ends[-1]))


def test_persons_in_several_blocks_are_bounded_as_in_one(monkeypatch: pytest.MonkeyPatch) -> None:
    rule = {"unit": "who", "max_rows": 3, "key": KEY}
    monkeypatch.setattr(arrow, "BLOCK", 8)
    assert counts(TABLE.to_reader(max_chunksize=3), **rule) == counts(TABLE, **rule)


def test_codes_that_do_not_fit_memory_stay_in_duckdb(monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(open_source(Exporter(TABLE), SCHEMA), MemorySource)
    monkeypatch.setattr("priory.data.sources.duckdb._bytes_of_codes", lambda _: 2**40)
    source = open_source(Exporter(TABLE), SCHEMA)
    assert isinstance(source, DuckDBSource)
    assert source.count([("x", "n")])[0].values.ravel().tolist() == counts(TABLE)


def test_an_engine_decides_where_codes_are(tmp_path: Path) -> None:
    parquet.write_table(TABLE, tmp_path / "t.parquet")
    for data in (tmp_path / "t.parquet", Exporter(TABLE), duckdb.connect().from_arrow(TABLE)):
        for engine, kind in (("memory", MemorySource), ("duckdb", DuckDBSource), (None, MemorySource)):
            source = open_source(data, SCHEMA, engine=engine)
            assert type(source) is kind
            assert source.count([("x", "n")])[0].values.ravel().tolist() == counts(TABLE)


@pytest.mark.parametrize(
    ("data", "engine", "says"),
    [
        (TABLE, "duckdb", "in memory already"),
        (TABLE, "hadoop", "one of memory, duckdb, spark"),
        (open_source(TABLE, SCHEMA), "memory", "has its own"),
        (Exporter(TABLE), "spark", "tables and paths of its own"),
    ],
)
def test_an_engine_that_cannot_take_a_table_is_refused(data: object, engine: str, says: str) -> None:
    with pytest.raises(OptionError, match=says) as caught:
        open_source(data, SCHEMA, engine=engine)
    assert caught.value.argument == "engine"


def test_a_row_limit_is_declared_for_a_stream() -> None:
    assert open_source(Exporter(TABLE), SCHEMA, row_limit=2**40).row_limit == 2**40
    assert open_source(Exporter(TABLE), SCHEMA, row_limit=2**40, engine="duckdb").row_limit == 2**40


def test_a_stream_that_fails_midway_costs_nothing_and_quotes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    book = Ledger.in_memory(Budget.zcdp(1), dataset=SCHEMA.name, schema=SCHEMA.dump())
    stream = Exporter(TABLE, ends_with="s3cret")
    with pytest.raises(DataError, match="failed before its end") as caught:
        fit(stream, SCHEMA, rho=1, ledger=book, mechanism="independent")
    assert stream.begun == 5  # of batches
    assert not caught.value.spent
    assert book.left() == 1
    assert "s3cret" not in str(caught.value) + repr(caught.value) + "".join(capfd.readouterr())
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__
    assert list(tmp_path.iterdir()) == []


def test_a_reader_that_was_read_is_refused_and_not_taken_for_an_empty_table() -> None:
    reader = TABLE.to_reader(max_chunksize=9)
    open_source(reader, SCHEMA)
    with pytest.raises(DataError, match="was read before"):
        open_source(reader, SCHEMA)


def test_a_missing_column_is_noticed_before_a_row_is_read() -> None:
    stream = Exporter(TABLE.rename_columns(["n", "who", "X"]))
    with pytest.raises(DataError, match=r"'x': the data have no such column"):
        open_source(stream, SCHEMA)
    assert stream.begun <= 1  # pyarrow looks at the first by itself


def test_what_is_no_table_is_refused() -> None:
    with pytest.raises(DataError, match="cannot be read as a stream"):
        open_source(pa.chunked_array([[1, 2]]), SCHEMA)


def test_a_public_table_may_be_a_stream() -> None:
    public = pa.table({"n": [1, 2, None, 9], "x": ["a", "b", "b", "c"]})
    expected = public_codes(SCHEMA, public)
    np.testing.assert_array_equal(public_codes(SCHEMA, public.to_reader()), expected)


def test_a_schema_is_discovered_and_drafted_from_a_stream() -> None:
    learnt = discover(Exporter(TABLE), epsilon=200, delta=1e-3, kinds={"x": "category"}, name="people", unit="who")
    assert "x" in learnt.dump()
    drafted = Schema.from_public(TABLE.to_reader(), name="people")
    assert [column.name for column in drafted.columns] == ["n", "who", "x"]


def test_a_data_set_reads_the_columns_that_are_wanted(tmp_path: Path) -> None:
    parquet.write_table(TABLE, tmp_path / "t.parquet")
    files = dataset.dataset(tmp_path / "t.parquet")
    assert stream_of(files, ["x"]).names == ["x"]
    assert stream_of(files, ["nobody"]).names == TABLE.column_names


def test_spark_without_its_library_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)
    monkeypatch.setitem(sys.modules, "pyspark.sql", None)
    with pytest.raises(MissingExtra, match=r"priory\[spark\]"):
        open_source("register.people", SCHEMA, engine="spark")
