"""Sources: tables of every kind are opened, counted, or refused without quoting a cell."""

import pytest

for library in ("pandas", "pyarrow"):
    pytest.importorskip(library)

import csv
import gzip
import itertools
import os
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd

from priory.data.kinds import Number
from priory.data.schema import Schema
from priory.data.sources.duckdb import open_in_duckdb
from priory.data.sources.memory import MemorySource
from priory.data.sources.opening import open_source
from priory.errors import DataError, DomainError, SizeError
from priory.queries.domain import Domain
from priory.queries.factor import Factor

XY = Schema.coded({"x": 3, "y": 3})
SECRET = "s3cret"


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
    schema = Schema.coded({"x": 400_000, "y": 500_000})
    source = open_source({"x": [1], "y": [2]}, schema)
    with pytest.raises(SizeError, match=r"200,000,000,000 cells") as caught:
        source.count([("x",), ("x", "y")])
    assert caught.value.cells == 200_000_000_000
    with pytest.raises(DomainError, match="unknown attributes"):
        source.count([("z",)])


CONTAINERS: dict[str, tuple[bytes | None, str]] = {
    "missing.csv": (None, "cannot be opened: No such file"),
    "empty.csv": (b"", "first line must name the columns"),
    "nocolumn.csv": (b"x,z\n1,2\n", "column 'y'.*no such column"),
    "typo.csv": (b"x,Y\n1,2\n", "column 'y': the data have no such column; name it there as the schema does"),
    "noheader.csv": (b"s3cret,2\n1,2\n", "column 'x'.*where a file has no header"),
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
