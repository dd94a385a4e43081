import pytest

for library in ("pandas", "pyarrow"):
    pytest.importorskip(library)

import csv
import gzip
import io
import itertools
import os
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given, settings
from hypothesis import strategies as st

from priory.app.fit import fit
from priory.data.cells import Cells
from priory.data.codec import encode
from priory.data.kinds import Boolean, Category, Moment, Number, Unmodelled
from priory.data.schema import Schema
from priory.data.sources.duckdb import open_in_duckdb
from priory.data.sources.memory import MemorySource
from priory.data.sources.opening import open_source
from priory.data.sources.source import Source
from priory.errors import DataError, DomainError, OptionError, SizeError
from priory.estimate.estimator import estimate
from priory.measure import measure
from priory.model.rows import Membership
from priory.privacy.budget import Budget
from priory.privacy.curator import Curator
from priory.privacy.ledger import Ledger
from priory.queries.domain import Clique, Domain
from priory.queries.factor import Factor
from priory.queries.query import Query
from priory.release import load

DAY = 86_400_000_000
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


def write_csv(path: Path, names: list[str], rows: list[list[str | None]], end: str = "\n") -> Path:
    """A CSV file in which nulls are empty cells and every text is quoted."""
    out = io.StringIO()
    lines: list[list[str | None]] = [[*names], *rows]
    for row in lines:
        out.write(",".join("" if cell is None else '"' + cell.replace('"', '""') + '"' for cell in row) + end)
    data = out.getvalue().encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


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


class Unspellable:
    def __str__(self) -> str:
        raise RuntimeError("told")

    __repr__ = __str__


@pytest.mark.parametrize("person", [10**5000, Unspellable()], ids=["long", "raises"])
def test_a_person_who_cannot_be_spelled_is_nobody(person: object) -> None:
    frame = {"who": ["a", person], "x": ["a", "b"]}
    assert open_source(frame, PERSONS, unit="who", key=KEY).count([()])[0].total == 1


@pytest.mark.parametrize("same", [[1, 1.0, "1", np.float32(1), np.int8(1)], [True, np.True_, "true"]])
def test_a_person_is_spelled_alike_whatever_the_type(same: list[object]) -> None:
    frame = {"who": same, "x": ["a"] * len(same)}
    assert open_source(frame, PERSONS, unit="who", key=KEY).count([()])[0].total == 1


def test_no_warning_tells_of_a_wide_float() -> None:
    schema = Schema.of([Number.of("x", whole=False, low=0, high=1, edges=[0, 0.5, 1], other=0)], name="wide")
    frame = {"x": np.array([np.longdouble("1e4000"), 0])}
    assert open_source(frame, schema).count([("x",)])[0].values.tolist() == [1, 1]


def test_lengths_that_differ_are_refused_without_a_count() -> None:
    with pytest.raises(DataError, match=r"^[^0-9]*$"):
        open_source({"x": range(12345), "y": [1]}, Schema.coded({"x": 2, "y": 2}))


def test_a_frame_with_a_column_called_domain_is_a_frame() -> None:
    schema = Schema.coded({"domain": 3, "count": 2})
    frame = pd.DataFrame({"domain": [0, 1, 1], "count": [0, 0, 1]})
    for data in (frame, duckdb.connect().from_df(frame)):
        assert open_source(data, schema).count([("domain",)])[0].values.tolist() == [1, 2, 0]


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


def random_records(rng: np.random.Generator, rows: int) -> tuple[Domain, list[np.ndarray]]:
    domain = Domain.of({"a": 3, "b": 300, "c": 1, "d": 70_000})
    return domain, [rng.integers(0, size, rows).astype(np.min_scalar_type(size - 1)) for size in domain.shape]


@pytest.mark.parametrize("rows", [0, 1, 100, 70_000])
def test_counting_equals_counting_one_by_one(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("priory.data.sources.memory.BLOCK", 1000)
    monkeypatch.setattr("priory.data.sources.memory.MANY", 100_000)
    domain, codes = random_records(np.random.default_rng(rows), rows)
    source = MemorySource(domain, tuple(codes), rows)
    for clique in [(), ("a",), ("b", "a"), ("c", "b", "a"), ("d", "a")]:
        truth = np.zeros(domain.project(clique).shape, dtype=np.int64)
        np.add.at(truth, tuple(codes[domain.axis[name]] for name in clique), 1) if clique else truth.fill(rows)
        [found] = source.count([clique])
        assert found.domain == domain.project(clique)
        np.testing.assert_array_equal(found.values, truth)
        assert found.values.dtype == np.int64
    together = source.count([("a",), ("b",), ("a", "c")])
    np.testing.assert_array_equal(together[2].values.ravel(), together[0].values)


def test_duckdb_counts_what_memory_counts() -> None:
    frame = pd.DataFrame({"x": np.arange(1000) % 7, "y": np.arange(1000) % 3})
    schema = Schema.coded({"x": 7, "y": 4})
    relation = duckdb.connect().from_df(frame)
    large, small = open_in_duckdb(relation, schema, None), open_source(frame, schema)
    for clique in [(), ("x",), ("y", "x")]:
        [one], [two] = large.count([clique]), small.count([clique])
        np.testing.assert_array_equal(one.values, two.values)


def test_cliques_that_cannot_be_counted_are_refused() -> None:
    schema = Schema.coded({"x": 900_000, "y": 900_000})
    source = open_source({"x": [1], "y": [2]}, schema)
    with pytest.raises(SizeError, match=r"810,000,000,000 cells") as caught:
        source.count([("x",), ("x", "y")])
    assert caught.value.cells == 810_000_000_000
    with pytest.raises(DomainError, match="unknown attributes"):
        source.count([("z",)])


PERSONS = Schema.of([Unmodelled.of("who", kind="id"), Category.of("x", list("abc"), other="c")], name="persons")
KEY = bytes(range(32))


def persons_frame(seed: int) -> pd.DataFrame:
    draw = random.Random(seed)  # noqa: S311 - test data
    rows = [(draw.choice(["ann", "bob", "eve", None, "zoë", "7"]), draw.choice("aabc")) for _ in range(60)]
    return pd.DataFrame(rows, columns=["who", "x"])


@pytest.mark.parametrize("max_rows", [1, 2, 5, 100])
def test_records_of_a_person_are_bounded_alike_everywhere(max_rows: int, tmp_path: Path) -> None:
    frame = persons_frame(max_rows)
    path = write_csv(
        tmp_path / "p.csv", ["who", "x"], frame.astype(object).where(frame.notna(), None).to_numpy().tolist()
    )
    rule = {"unit": "who", "max_rows": max_rows, "key": KEY}
    here = open_source(frame, PERSONS, **rule).count([("x",)])[0].values  # type: ignore[arg-type]
    there = open_source(path, PERSONS, **rule).count([("x",)])[0].values  # type: ignore[arg-type]
    np.testing.assert_array_equal(here, there)
    sizes = frame.dropna().groupby("who").size()
    assert here.sum() == sizes.clip(upper=max_rows).sum()


def test_which_records_count_depends_on_no_other_person_and_no_order() -> None:
    frame = persons_frame(0).dropna()
    for person in ["ann", "bob"]:
        without = frame[frame.who != person]
        both = _counts(frame) - _counts(without)
        alone = _counts(frame[frame.who == person])
        np.testing.assert_array_equal(both, alone)
    np.testing.assert_array_equal(_counts(frame), _counts(frame.sample(frac=1, random_state=1)))


def test_another_key_keeps_other_records() -> None:
    frame = pd.DataFrame({"who": [f"p{i // 3}" for i in range(300)], "x": list("abc") * 100})
    assert (_counts(frame) != _counts(frame, key=bytes(32))).any()


def _counts(frame: pd.DataFrame, key: bytes = KEY) -> np.ndarray:
    return open_source(frame, PERSONS, unit="who", max_rows=2, key=key).count([("x",)])[0].values


def test_numbers_that_name_persons_are_spelled_alike() -> None:
    for who in ([1, 1, 2], [1.0, 1.0, 2.0], ["1", "1", "2"]):
        source = open_source(pd.DataFrame({"who": who, "x": ["a", "b", "c"]}), PERSONS, unit="who", key=KEY)
        expected = open_source(
            pd.DataFrame({"who": ["1", "1", "2"], "x": ["a", "b", "c"]}), PERSONS, unit="who", key=KEY
        )
        np.testing.assert_array_equal(source.count([("x",)])[0].values, expected.count([("x",)])[0].values)


@pytest.mark.parametrize(
    ("options", "argument"),
    [
        ({"max_rows": 2}, "max_rows"),
        ({"unit": "who", "max_rows": 0, "key": KEY}, "max_rows"),
        ({"unit": "x", "key": KEY}, "unit"),
        ({"unit": "who"}, "key"),
        ({"unit": "who", "key": b"short"}, "key"),
    ],
)
def test_bad_options_are_refused_by_name(options: dict[str, object], argument: str) -> None:
    with pytest.raises(OptionError) as caught:
        open_source(pd.DataFrame({"who": ["a"], "x": ["a"]}), PERSONS, **options)  # type: ignore[arg-type]
    assert caught.value.argument == argument


XY = Schema.coded({"x": 3, "y": 3})
SECRET = "s3cret"
CONTAINERS: dict[str, tuple[bytes | None, str]] = {
    "missing.csv": (None, "cannot be opened: No such file"),
    "empty.csv": (b"", "first line must name the columns"),
    "nocolumn.csv": (b"x,z\n1,2\n", "column 'y'.*no such column"),
    "typo.csv": (b"x,Y\n1,2\n", "column 'y'.*did you mean 'Y'"),
    "noheader.csv": (b"s3cret,2\n1,2\n", "column 'x'.*is it a header"),
    "twice.csv": (b"x,y,x\n1,2,3\n", "column 'x'.*two columns"),
    "latin.csv": (b"x,y\ns3cret\xff,2\n", "not UTF-8"),
    "ragged.csv": (b"x,y\n1,2\ns3cret\n", "line 3: a line has more or fewer cells"),
    "long.csv": (b"x,y\n1,2\n1,2,s3cret\n", "line 3: a line has more or fewer cells"),
    "quote.csv": (b'x,y\n1,2\n"s3cret,2\n', "quote is opened and not closed"),
    "table.csv.xz": (b"x", r"kind that cannot be read.*\.csv.*unpack it"),
    "table.dta": (b"x", r"kind that cannot be read.*pandas.read_stata.*to_parquet"),
    "table.nothing": (b"x", "kind that cannot be read"),
    "lines.jsonl": (b'{"x": 1, "y": 2}\n{"x": "s3cret"\n', "line 2: it needs a JSON object in each line"),
    "list.json": (b'[{"x": 1, "y": 2}, "s3cret"]', "JSON object in each line, or one list"),
    "fake.zip": (b"s3cret", "not a zip file"),
    "fake.csv.gz": (b"x,y\n", "not a gzip file"),
    "cut.csv.gz": (gzip.compress(b"x,y\n" + os.urandom(5000).hex().encode() + b",1\n")[:2000], "gzip"),
    "fake.parquet": (b"x,y\ns3cret,2\n", "not a Parquet file"),
    "tiny.parquet": (b"x", "not a Parquet file"),
}  # fmt: skip


@pytest.mark.parametrize("name", CONTAINERS)
def test_a_container_that_cannot_be_read_is_refused_without_quoting_a_cell(name: str, tmp_path: Path) -> None:
    data, message = CONTAINERS[name]
    path = tmp_path / name
    if data is not None:
        path.write_bytes(data)
    with pytest.raises(DataError, match=message) as caught:
        open_source(path, XY)
    assert SECRET not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


def test_a_folder_is_not_a_table(tmp_path: Path) -> None:
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(DataError, match="is a folder"):
        open_source(tmp_path / "folder.csv", XY)


def counts(path: Path) -> list[int]:
    [found] = open_source(path, XY).count([("x",)])
    return found.values.tolist()  # type: ignore[no-any-return]


@pytest.mark.parametrize("delimiter", ",;\t|")
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_delimiters_line_ends_and_marks_of_other_systems_are_read(delimiter: str, end: str, tmp_path: Path) -> None:
    lines = [["y", "other", "x"], ["1", "", "0"], ["1", "?", "2"]]
    text = "\ufeff" + end.join(delimiter.join(line) for line in lines) + end
    (tmp_path / "ünï [1]*.csv").write_bytes(text.encode())
    assert counts(tmp_path / "ünï [1]*.csv") == [1, 0, 1]


def test_an_empty_table_counts_zero_and_one_row_counts_one(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("x,y\n")
    assert counts(tmp_path / "t.csv") == [0, 0, 0]
    (tmp_path / "t.csv").write_text("x,y\n1,1")
    assert counts(tmp_path / "t.csv") == [0, 1, 0]
    for frame in [pd.DataFrame({"x": [], "y": []}), {"x": [], "y": []}]:
        assert open_source(frame, XY).count([("x",)])[0].total == 0


def test_a_table_of_one_column_works(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("x\n1\n2\n")
    assert open_source(tmp_path / "t.csv", Schema.coded({"x": 3})).count([("x",)])[0].values.tolist() == [0, 1, 1]
    assert open_source(tmp_path / "t.csv", Schema.coded({"x": 3})).count([()])[0].values == 2


BAD_ROWS = ["7,1", "-1,1", "zzz,1", ",1", "1.5,1", '"",""', "9e99,1", "NaN,1"]


@pytest.mark.parametrize("row", BAD_ROWS)
def test_private_rows_with_bad_values_make_no_visible_difference(
    row: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "t.csv").write_text(f"x,y\n{row}\n")
    source = open_source(tmp_path / "t.csv", XY)
    assert source.count([("x", "y")])[0].total == 1
    assert capfd.readouterr() == ("", "")
    assert repr(source) == "MemorySource(2 attributes)"


def test_a_relations_database_is_left_as_it_was() -> None:
    connection = duckdb.connect()
    before = (
        connection.execute("SELECT * FROM duckdb_tables()").fetchall(),
        connection.execute("SELECT view_name FROM duckdb_views() WHERE NOT internal").fetchall(),
    )
    open_source(connection.sql("SELECT 1 AS x, 2 AS y"), XY)
    after = (
        connection.execute("SELECT * FROM duckdb_tables()").fetchall(),
        connection.execute("SELECT view_name FROM duckdb_views() WHERE NOT internal").fetchall(),
    )
    assert before == after


def test_a_source_is_opened_as_itself() -> None:
    source = MemorySource(Domain.of({"x": 2}), (np.array([0, 1], dtype=np.uint8),), 2)
    assert open_source(source, XY) is source


@pytest.mark.data
def test_adult_from_csv_equals_adult_from_pandas(data_dir: Path) -> None:
    schema = Schema.load(Path(__file__).parent / "schemas" / "adult.yaml")
    path = data_dir / "adult_raw" / "adult.csv.gz"
    with gzip.open(path, "rt") as file:
        names, *rows = csv.reader(file)
    frame = pd.DataFrame(rows, columns=names)
    pairs = list(itertools.combinations(schema.domain, 2))[:20]
    one, two = open_source(path, schema).count(pairs), open_source(frame, schema).count(pairs)
    assert all(isinstance(factor, Factor) for factor in one)
    for here, there in zip(one, two, strict=True):
        np.testing.assert_array_equal(here.values, there.values)


PAIR = Domain.of({"x": 2, "y": 2})


@dataclass(frozen=True)
class Huge:
    """A source that declares and counts more rows than 32 bits hold."""

    counts: np.ndarray
    row_limit: int
    domain: Domain = PAIR

    def count(self, cliques: Sequence[Clique]) -> list[Factor]:
        whole = Factor(self.domain, self.counts)
        return [Factor(self.domain.project(clique), whole.project(clique).values) for clique in cliques]


def test_counts_beyond_32_bits_are_answered_to_the_row() -> None:
    counts = np.array([[2**40 + 1, 2**33], [7, 2**41 - 3]])
    budget = Budget.zcdp(50)
    with Ledger.in_memory(budget).reserve(budget, "huge") as reservation:
        curator = Curator(reservation, Huge(counts, 2**43))
        measured = measure(curator, [Query.marginal(curator.domain, ("x", "y"))], budget)
        found = measured[0].values.reshape(2, 2)
    # Noise of a standard deviation of 0.1 is not 0 less often than once in 10^20 draws.
    np.testing.assert_array_equal(found, counts)
    model = estimate(measured, curator.domain)
    np.testing.assert_allclose(model.project(("x", "y")).values, counts, rtol=1e-6, atol=1e7)


@pytest.mark.parametrize("mechanism", ["independent", "mst", "aim"])
def test_a_release_of_more_rows_than_32_bits_hold_answers_them(mechanism: str, tmp_path: Path) -> None:
    schema = Schema.coded({"x": 2, "y": 2})
    counts = np.array([[2**39 + 1, 2**33], [7, 2**38 - 3]])
    fit(Huge(counts, 2**40), schema, rho=50, mechanism=mechanism, output=tmp_path / "huge.priory")
    release = load(tmp_path / "huge.priory")
    for clique in (("x",), ("y",)) if mechanism == "independent" else (("x",), ("x", "y")):
        answered = release.marginal(*clique).to_dict()
        truth = Factor(PAIR, counts).project(clique).values.ravel()
        np.testing.assert_allclose(answered["estimate"], truth, rtol=1e-6, atol=1e6)
        assert all(low <= high for low, high in zip(answered["low"], answered["high"], strict=True))
    total = release.marginal().to_dict()["estimate"][0]
    assert abs(total - counts.sum()) < 1e6
    assert len(release.sample(10, seed=0)) == 10


def test_a_row_limit_is_declared_by_whoever_opens_a_table(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("x,y\n1,1\n")
    for data in (tmp_path / "t.csv", {"x": [1], "y": [1]}, duckdb.sql("SELECT 1 AS x, 1 AS y")):
        assert open_source(data, XY).row_limit == 2**32
        assert open_source(data, XY, row_limit=2**40).row_limit == 2**40
    assert open_in_duckdb(tmp_path / "t.csv", XY, None, row_limit=5).row_limit == 5


@pytest.mark.parametrize("row_limit", [0, -1, 2**62 + 1, 1.5, True])
def test_more_rows_than_can_be_counted_are_refused_before_anything_is_paid(row_limit: Any) -> None:
    book = Ledger.in_memory(Budget.zcdp(1), dataset=XY.name, schema=XY.dump())
    table = {"x": [1], "y": [1]}
    for data, declared in ((table, row_limit), (Huge(np.zeros((3, 3), dtype=np.int64), row_limit, XY.domain), None)):
        with pytest.raises(OptionError) as caught:
            fit(data, XY, rho=1, ledger=book, mechanism="independent", row_limit=declared)
        assert caught.value.argument == "row_limit"
        assert book.left() == 1
    with pytest.raises(OptionError, match="its own"):
        fit(Huge(np.zeros((3, 3), dtype=np.int64), 5, XY.domain), XY, rho=1, row_limit=5)


def test_rows_beyond_32_bits_have_places_of_64() -> None:
    wide, narrow = (Membership.of([(np.array([1, 0, 1]), 2)], rows).matrix for rows in (2**40, 3))
    assert (wide.indices.dtype, narrow.indices.dtype) == (np.int64, np.int32)
    np.testing.assert_array_equal(wide.indices, narrow.indices)
