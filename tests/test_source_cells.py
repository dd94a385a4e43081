"""Cells of every kind and spelling: each way into a source makes the same codes of them."""

import pytest

for library in ("pandas", "pyarrow"):
    pytest.importorskip(library)

from collections.abc import Callable
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given, settings
from hypothesis import strategies as st

from priory.data.cells import Cells
from priory.data.codec import encode
from priory.data.kinds import Boolean, Category, Moment, Number, Unmodelled
from priory.data.schema import Schema
from priory.data.sources.duckdb import open_in_duckdb
from priory.data.sources.memory import MemorySource
from priory.data.sources.opening import open_source
from priory.data.sources.source import Source
from sources_at_hand import write_csv

DAY = 86_400_000_000
KEY = bytes(range(32))
SCHEMA = Schema.of(
    [
        Unmodelled.of("who", kind="id"),
        Category.of("text", ["", "a", "A", "1", "1.0", "NA", 'say "hi"', "x,y", "größe"], other="other", nulls=["?"]),
        Category.of("code", [3, 1, -7], other=99, nullable=True),
        Category.of("grade", ["low", "high"], ordered=True, nullable=True, nulls=["NA", ""]),
        Number.of("age", whole=True, low=0, high=110, other=0, nullable=True),
        Number.of("bins", whole=True, low=-5, high=20, edges=[-5, 0, 1, 7, 21], other=3),
        Number.of("income", whole=False, low=0.1, high=1e6, edges=[0.1, 0.3, 10.0, 1e6], nullable=True, nulls=["NaN"]),
        Number.of("paid", whole=False, low=-1, high=99, edges=[-1, 5, 99], spikes=[0, 1e-3, 99], nullable=True),
        Moment.of("born", clock=False, low=-100, high=20_000, edges=[-100, 0, 1, 366, 20_001], nullable=True),
        Moment.of("each", clock=False, low=0, high=9, edges=range(11), other=4, format="%d.%m.%Y"),
        Moment.of("seen", clock=True, low=-DAY, high=DAY, edges=[-DAY, -1, 0, 3_600_000_000, DAY + 1], nullable=True),
        Boolean.of("yes", true=["yes", "1"], false=["no"], nullable=True),
    ],
    name="awkward",
)
TEXTS = [
    None, "", "a", "A", "b", "1", "1.0", "+1", "-7", "3.0e0", "3.5", "NA", "?", "NaN", "nan", "inf", "-inf", 'say "hi"',
    "x,y", "größe", "GRÖßE", " 1", "1 ", "\t1", "1\n", "1_000", "0x10", "1e999", "-1e999", "1e-999", ".5", "5.", ".",
    "-", "e5", "0.1", "0.1000000000000000055511151231257827", "0.30000000000000004", "0.3", "9007199254740993", "-0",
    "99999999999999999999999999999999999999999", "٣", "1970-01-01", "1969-12-31", "1971-02-29", "0000-01-01",
    "9999-12-31", "1970-1-1", "01.01.1970", "1.1.1970", "31.12.1969", "30.02.1970", "1970-01-01T00:00", "yes", "no",
    "1e-3", "5e-324", "0.0010000000000000002", "98.99999999999999",
    "1970-01-01 23:59:59.5", "1970-01-01T24:00", "1970-01-01T00:60", "1970-01-01 00:00:00.000001", "low", "high", "YES",
    "1969-12-31T23:59:59.999999", "1970-01-01T00:00:60", "1970-01-01T00:00:00Z", "true", "\x00", "😀", "1970-01-01 ",
]  # fmt: skip


def codes_of(source: object) -> list[np.ndarray]:
    assert isinstance(source, MemorySource)
    return list(source.codes)


def table(rows: list[list[str | None]]) -> dict[str, Cells]:
    names = [column.name for column in SCHEMA.columns]
    return {name: Cells.objects([row[i] for row in rows]) for i, name in enumerate(names)}


FAR = {
    "days": (pa.int32(), pa.date32(), [2**31 - 1, -(2**31) + 2]),
    "seconds": (pa.int64(), pa.timestamp("s"), [2**62, -(2**62)]),
    "microseconds": (pa.int64(), pa.timestamp("us"), [2**63 - 2, -(2**63) + 2]),
}


@pytest.mark.parametrize("unit", FAR)
def test_a_moment_beyond_any_calendar_is_read_and_does_not_fail(unit: str, tmp_path: Path) -> None:
    stored, kind, numbers = FAR[unit]
    frame = pa.table(dict.fromkeys((column.name for column in SCHEMA.columns), pa.array(numbers, stored).cast(kind)))
    sources = [open_source(frame, SCHEMA), open_source(duckdb.connect().from_arrow(frame), SCHEMA)]
    if unit != "seconds":
        pq.write_table(frame, tmp_path / "far.parquet")
        sources.append(open_source(tmp_path / "far.parquet", SCHEMA))
    for source in sources:
        assert source.count([()])[0].total == 2


def test_texts_of_arrow_that_are_not_utf8_are_bad_cells_and_persons_of_their_own() -> None:
    ends, text = pa.py_buffer(np.array([0, 1, 2, 3], dtype=np.int32).tobytes()), pa.py_buffer(b"a\xff\xff")
    column = pa.StringArray.from_buffers(3, ends, text)
    schema = Schema.of([Unmodelled.of("who", kind="id"), Category.of("x", ["a"], other="b")], name="bytes")
    frame = pa.table({"who": column, "x": column})
    assert open_source(frame, schema).count([("x",)])[0].values.tolist() == [1, 2]
    assert open_source(frame, schema, unit="who", key=KEY).count([("x",)])[0].values.tolist() == [1, 1]


def test_duckdb_reads_every_awkward_text_as_the_codec_does(tmp_path: Path) -> None:
    rows: list[list[str | None]] = [[text] * len(SCHEMA.columns) for text in TEXTS]
    path = write_csv(tmp_path / "t.csv", [column.name for column in SCHEMA.columns], rows)
    expected = encode(SCHEMA, table(rows))
    for (name, codes), found in zip(expected.items(), codes_of(open_source(path, SCHEMA)), strict=True):
        assert [(t, int(c)) for t, c in zip(TEXTS, codes, strict=True)] == [
            (t, int(c)) for t, c in zip(TEXTS, found, strict=True)
        ], name


number_like = st.from_regex(r"\A ?[+-]?[0-9]{0,4}(\.[0-9]{0,20})?([eE][+-]?[0-9]{1,3})? ?\Z")
date_like = r"19[67][0-9]-[01][0-9]-[0-3][0-9]"
clock_like = r"[ T][0-2][0-9]:[0-5][0-9](:[0-6][0-9](\.[0-9]{1,7})?)?"
moment_like = st.from_regex(rf"\A({date_like}({clock_like})?|[0-3]?[0-9]\.1\.1970)\Z")
any_text = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r"), max_size=6)
cells = st.one_of(st.sampled_from(TEXTS), number_like, moment_like, any_text)


@settings(max_examples=60)
@given(st.lists(st.lists(cells, min_size=len(SCHEMA.columns), max_size=len(SCHEMA.columns)), min_size=1, max_size=20))
def test_duckdb_and_the_codec_give_the_same_codes(
    tmp_path_factory: pytest.TempPathFactory, rows: list[list[str | None]]
) -> None:
    path = write_csv(tmp_path_factory.mktemp("csv") / "t.csv.gz", [column.name for column in SCHEMA.columns], rows)
    for codes, found in zip(encode(SCHEMA, table(rows)).values(), codes_of(open_source(path, SCHEMA)), strict=True):
        np.testing.assert_array_equal(codes, found)


TYPED = pd.DataFrame(
    {
        "text": pd.Series(["a", None, "1", "zz"], dtype=object),
        "code": pd.Series([3.0, None, 1.0, 1.5]),
        "grade": pd.Series(["low", "high", None, "LOW"], dtype="category"),
        "age": pd.Series([0, 110, None, 500], dtype="Int64"),
        "bins": pd.Series([-6, 0, 6, 21], dtype="int8"),
        "income": pd.Series([0.1, float("nan"), float("inf"), -1.0]),
        "paid": pd.Series([0, -0.0, 5e-324, 100.0]),
        "born": pd.Series(pd.to_datetime(["1970-01-01", "1969-12-31", None, "2100-01-01"])).dt.date,
        "each": pd.to_datetime(pd.Series(["1970-01-01 23:00", "1970-01-05", None, "1960-01-01"]), format="ISO8601"),
        "seen": pd.to_datetime(
            pd.Series(["1970-01-01 00:30", None, "1969-12-31 23:59:59.999999", "1970-01-01 01:00"]), format="ISO8601"
        ),
        "yes": pd.Series([True, False, None, True], dtype="boolean"),
    }
)


@pytest.mark.parametrize("kind", ["pandas", "polars", "arrow", "parquet", "relation", "duckdb"])
def test_every_kind_of_typed_table_gives_the_same_counts(kind: str, tmp_path: Path) -> None:
    import polars as pl
    import pyarrow as pa
    import pyarrow.parquet as pq

    arrow = pa.Table.from_pandas(TYPED, preserve_index=False)
    path = tmp_path / "t.parquet"
    pq.write_table(arrow, path)
    openers: dict[str, Callable[[], Source]] = {
        "pandas": lambda: open_source(TYPED, SCHEMA),
        "polars": lambda: open_source(pl.from_arrow(arrow), SCHEMA),
        "arrow": lambda: open_source(arrow, SCHEMA),
        "parquet": lambda: open_source(path, SCHEMA),
        "relation": lambda: open_source(duckdb.connect().sql(f"FROM '{path}'"), SCHEMA),
        "duckdb": lambda: open_in_duckdb(path, SCHEMA, None),
    }
    source = openers[kind]()
    expected = {
        "text": {"a": 1, "other": 2, "1": 1},
        "code": {"3": 1, "null": 1, "1": 1, "99": 1},
        "grade": {"low": 1, "high": 1, "null": 2},
        "age": {"0": 1, "110": 2, "null": 1},
        "bins": {"[-5, 0)": 1, "0": 1, "[1, 7)": 1, "[7, 20]": 1},
        "income": {"[0.1, 0.3)": 2, "[10, 1000000]": 1, "null": 1},
        "paid": {"0": 2, "(0, 0.001)": 1, "99": 1},
        "yes": {"true": 2, "false": 1, "null": 1},
        "born": {"1970-01-01": 1, "[1969-09-23, 1970-01-01)": 1, "[1971-01-02, 2024-10-04]": 1, "null": 1},
        "each": {"1970-01-01": 2, "1970-01-05": 2},
    }
    for name, counts in expected.items():
        labels = SCHEMA.column(name).labels  # type: ignore[union-attr]
        [found] = source.count([(name,)])
        assert {label: n for label, n in zip(labels, found.values.tolist(), strict=True) if n} == counts, name
