import pytest

for library in ("pyspark", "pyarrow"):
    pytest.importorskip(library)

import base64
import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from fractions import Fraction
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given, settings
from hypothesis import strategies as st

import sparks
from priory.app.fit import fit
from priory.cli import main
from priory.data.persons import PersonRule, kept_records
from priory.data.public import public_codes
from priory.data.schema import Schema
from priory.data.sources.memory import MemorySource
from priory.data.sources.opening import open_source
from priory.data.sources.same import refuse_same
from priory.data.sources.spark import is_spark_frame, open_spark, read_spark
from priory.data.sources.spark.blocks import BlockLayout, binary
from priory.data.sources.spark.tallies import BlockTally, CellLine, Sum
from priory.data.sources.spark.workers import FAILED, FirstInLine, TaskFailure
from priory.errors import DataError, PrioryError
from priory.privacy.book import Terms
from priory.privacy.budget import Budget
from priory.privacy.ledger import Ledger
from priory.privacy.progress import Step
from priory.queries.domain import Domain, checked_cliques
from priory.release import Release
from spark_faults import DyingTally, FailingEncoder

pytestmark = pytest.mark.filterwarnings(sparks.PANDAS_WARNING, "ignore:distutils Version classes:DeprecationWarning")
XY = Schema.coded({"x": 3, "y": 300})
KEY = bytes(range(100, 132))
SIZES = st.lists(st.sampled_from([1, 2, 7, 256, 257, 70_000]), min_size=1, max_size=4)


def random_columns(sizes: Sequence[int], records: int) -> list[np.ndarray]:
    rng = np.random.default_rng(records)
    return [rng.integers(0, size, records).astype(np.min_scalar_type(size - 1)) for size in sizes]


def cut(columns: Sequence[np.ndarray], ends: Sequence[int]) -> list[list[np.ndarray]]:
    edges = [0, *sorted(min(end, len(columns[0])) for end in ends), len(columns[0])]
    return [[column[a:b] for column in columns] for a, b in pairwise(edges)]


@given(SIZES, st.integers(0, 6000), st.lists(st.integers(0, 6000), max_size=4))
@settings(max_examples=50)
def test_records_come_out_of_blocks_as_they_went_in(sizes: list[int], records: int, ends: list[int]) -> None:
    layout, columns = BlockLayout(tuple(sizes)), random_columns(sizes, records)
    pieces = list(layout.unpacked(layout.packed(cut(columns, ends))))
    assert sum(count for _, count in pieces) == records
    for i, column in enumerate(columns):
        found = [piece[i] for piece, _ in pieces]
        np.testing.assert_array_equal(np.concatenate([column[:0], *found]), column)
    np.testing.assert_array_equal(layout.record_columns(layout.record_table(columns)), columns)


@given(st.lists(st.tuples(st.sampled_from("abcde"), st.integers(0, 3)), max_size=40), st.integers(1, 4), st.data())
def test_the_first_in_line_are_those_of_other_sources(rows: list[tuple[str, int]], most: int, data: Any) -> None:
    rows = sorted(rows)
    layout, codes = BlockLayout((4,)), np.array([code for _, code in rows], dtype=np.uint8)
    ends = sorted(data.draw(st.lists(st.integers(0, len(rows)), max_size=3)))
    persons = pa.array([person.encode() for person, _ in rows], pa.binary())
    batch = pa.RecordBatch.from_arrays([persons, binary(codes[:, None])], ["person", "record"])
    batches = [batch.slice(a, b - a) for a, b in zip([0, *ends], [*ends, len(rows)], strict=True)]
    found = [piece[0] for piece, _ in layout.unpacked(FirstInLine(layout, most, KEY)(batches))]
    expected = codes[kept_records([person for person, _ in rows], [codes], most, KEY)]
    assert sorted(np.concatenate([codes[:0], *found])) == sorted(expected)


CLIQUES = [(), ("a",), ("b", "a"), ("d", "c"), ("d", "a", "b"), ("b", "d")]


@given(st.integers(0, 3000), st.lists(st.integers(0, 3000), max_size=5), st.sampled_from([0, 5, 2**22]))
@settings(max_examples=30)
def test_partial_sums_add_up_to_the_counts_in_memory(records: int, ends: list[int], held: int) -> None:
    domain = Domain.of({"a": 3, "b": 40, "c": 1, "d": 900})
    columns = random_columns(domain.shape, records)
    layout, line = BlockLayout(domain.shape), CellLine(tuple(checked_cliques(domain, CLIQUES)))
    parts = [list(BlockTally(domain, line, held)(layout.packed([piece]))) for piece in cut(columns, ends)]
    rows = [{**row, "part": i} for i, batches in enumerate(parts) for batch in batches for row in batch.to_pylist()]
    rows.sort(key=lambda row: (row["chunk"], row["part"]))
    for _ in range(4):
        schema = pa.schema(
            [("chunk", pa.int64()), ("part", pa.int64()), ("cells", pa.binary()), ("counts", pa.binary())]
        )
        summed = Sum(line, 2)([pa.RecordBatch.from_pylist(rows, schema)])
        rows = [row for batch in summed for row in batch.to_pylist()]
    assert len(rows) <= line.chunks
    total = np.zeros(line.size, dtype=np.int64)
    for row in rows:
        line.add(total[row["chunk"] * 2**16 : (row["chunk"] + 1) * 2**16], row["chunk"], row["cells"], row["counts"])
    truth = MemorySource(domain, tuple(columns), records).count(CLIQUES)
    for found, expected in zip(line.factors(total), truth, strict=True):
        np.testing.assert_array_equal(found.values, expected.values)


def test_partial_sums_of_many_rows_are_exact() -> None:
    line = CellLine((Domain.of({"a": 3}),))
    total = np.zeros(3, dtype=np.int64)
    for _ in range(3):
        for row in line.parts(np.array([0, 2]), np.array([2**40 + 1, 2**62 // 3]), 0).to_pylist():
            line.add(total, 0, row["cells"], row["counts"])
    assert total.tolist() == [3 * (2**40 + 1), 0, 3 * (2**62 // 3)]


@pytest.fixture(scope="module")
def spark() -> Any:
    return sparks.session()


def test_a_frame_that_is_made_in_the_same_way_is_the_private_table(spark: Any) -> None:
    refuse_same(spark.range(9), spark.range(8))
    with pytest.raises(DataError, match="is the private one"):
        refuse_same(spark.range(9), spark.range(9))


def table(rows: int, seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    return pa.table({"x": rng.integers(0, 3, rows), "y": rng.integers(0, 300, rows), "who": rng.integers(0, 50, rows)})


def parquet(folder: Path, data: Any, files: int = 5) -> Path:
    folder.mkdir(exist_ok=True)
    ends = [len(data) * i // files for i in range(files + 1)]
    for i, (start, end) in enumerate(pairwise(ends)):
        pq.write_table(data.slice(start, end - start), folder / f"{i}.parquet")
    return folder


def test_codes_are_made_once_and_rows_never_read_again(spark: Any, tmp_path: Path) -> None:
    data, folder = table(2000), parquet(tmp_path / "rows", table(2000))
    source = open_source(spark.read.parquet(str(folder)), XY)
    shutil.rmtree(folder)
    for clique in [("x",), ("y", "x")]:
        [found], [expected] = source.count([clique]), open_source(data, XY).count([clique])
        np.testing.assert_array_equal(found.values, expected.values)
    assert source.count([]) == []


def test_a_tree_of_sums_counts_as_memory_does(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"FAN_IN": 2, "HELD_CELLS": 5, "DRIVER_BYTES": 0}.items():
        monkeypatch.setattr(f"priory.data.sources.spark.source.{name}", value)
    frame = spark.range(0, 500, numPartitions=9).selectExpr("cast(id % 3 as int) x", "cast(id * id % 300 as int) y")
    ids = np.arange(500)
    cliques = [("y", "x"), ("x",), ()]
    there = open_source(frame, XY).count(cliques)
    here = open_source({"x": ids % 3, "y": ids * ids % 300}, XY).count(cliques)
    for found, expected in zip(there, here, strict=True):
        np.testing.assert_array_equal(found.values, expected.values)


def test_columns_are_found_by_their_exact_names(spark: Any) -> None:
    schema = Schema.coded({"a.b": 3, "q`r": 3})
    frame = spark.range(6).selectExpr("cast(id % 3 as int) `a.b`", "1 `A.B`", "2 `q``r`")
    assert open_source(frame, schema).count([("a.b",)])[0].values.tolist() == [2, 2, 2]
    with pytest.raises(DataError, match=r"column 'q`r'.*no such column"):
        open_source(frame.drop("q`r"), schema)
    with pytest.raises(DataError, match="2 times"):
        open_source(spark.range(3).selectExpr("1 `a.b`", "2 `a.b`", "2 `q``r`"), schema)


def test_a_fit_of_a_spark_frame_is_a_fit_and_reports_its_tasks(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("priory.data.sources.spark.stages.PAUSE", 0.001)
    spark.sparkContext.setLocalProperty("spark.jobGroup.id", "mine")
    steps: list[Step] = []
    frame = spark.range(0, 900, numPartitions=3).selectExpr("cast(id % 3 as int) x", "cast(id % 7 as int) y")
    assert is_spark_frame(frame)
    release = fit(frame, XY, rho=10**4, mechanism="independent", row_limit=2**40, progress=steps.append)
    assert any("encoding" in step.note and step.note.endswith("tasks") for step in steps if not step.number)
    assert spark.sparkContext.getLocalProperty("spark.jobGroup.id") == "mine"
    # Noise of a standard deviation below 0.02.
    np.testing.assert_allclose(release.model.project(("x",)).values, [300, 300, 300], atol=1)


def test_tables_and_files_are_read_by_name(spark: Any, tmp_path: Path) -> None:
    folder = parquet(tmp_path / "rows", table(60))
    expected = open_source(table(60), XY).count([("x", "y")])[0].values
    spark.read.parquet(str(folder)).createOrReplaceTempView("people")
    lines = ["x,y", *(f'"{x}",{y}' for x, y in zip(*(table(60)[name].to_pylist() for name in "xy"), strict=True))]
    (tmp_path / "t.csv").write_text("\n".join(lines) + "\n")
    for name in ("people", str(folder), str(tmp_path / "t.csv")):
        frame = read_spark(name)
        assert is_spark_frame(frame)
        np.testing.assert_array_equal(open_source(frame, XY).count([("x", "y")])[0].values, expected)
    (tmp_path / "changed" / "_delta_log").mkdir(parents=True)
    wrong = {"nobody": "no such table", "no.parquet": "no such file", "changed": "table of Delta.*catalogue"}
    for name, reason in ((str(tmp_path / each) if each != "nobody" else each, wrong[each]) for each in wrong):
        with pytest.raises(DataError, match=reason):
            read_spark(name)


@pytest.mark.usefixtures("spark")
def test_the_command_line_fits_what_spark_reads(tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text(XY.dump())
    folder, output = parquet(tmp_path / "rows", table(300)), tmp_path / "t.priory"
    where = ["fit", str(folder), "--engine", "spark", "--schema", str(tmp_path / "s.yaml"), "--output", str(output)]
    with pytest.raises(SystemExit) as ended:
        main([*where, "--rho", "10000", "--mechanism", "independent"])
    assert ended.value.code == 0
    np.testing.assert_allclose(Release.load(output).model.project(()).values, 300, atol=1)


@pytest.mark.parametrize("trim", ["true", "false"])
@pytest.mark.usefixtures("spark")
def test_csv_files_have_the_cells_that_they_have_elsewhere(trim: str, tmp_path: Path) -> None:
    columns = "x: {kind: category, levels: [a, '', b], other: z, nullable: true}, y: {kind: text}"
    reading = f"reading: {{delimiter: ;, header: false, trim: {trim}}}"
    schema = Schema.parse(f"{{priory: 1, name: s, columns: {{{columns}}}, {reading}}}")
    (tmp_path / "t.csv").write_text('"a";"two\nlines"\n"";\n;"say ""hi"""\n" b";1\n b ;\nc;2\n')
    here = open_source(tmp_path / "t.csv", schema).count([("x",)])[0].values
    there = open_source(tmp_path / "t.csv", schema, engine="spark").count([("x",)])[0].values
    assert here.sum() == 6
    np.testing.assert_array_equal(there, here)


def test_public_rows_are_checked_and_thinned_there(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    frame = spark.range(0, 4000, numPartitions=4).selectExpr("cast(id % 3 as int) x", "cast(id % 7 as int) y")
    codes = public_codes(XY, frame)
    assert sorted(map(tuple, codes.tolist())) == sorted((i % 3, i % 7) for i in range(4000))
    monkeypatch.setattr("priory.data.sources.spark.public.MOST_ROWS", 400)
    some = public_codes(XY, frame)
    # The number of rows kept has a standard deviation of 19.
    assert 300 <= len(some) <= 500
    np.testing.assert_array_equal(some, public_codes(XY, frame))
    np.testing.assert_allclose(np.bincount(some[:, 0]) / len(some), [1 / 3] * 3, atol=0.15)
    with pytest.raises(DataError, match=r"column 'x': 1,333 of 4,000 public cells do not fit"):
        public_codes(Schema.coded({"x": 2, "y": 300}), frame)
    with pytest.raises(DataError, match="no rows"):
        public_codes(XY, frame.limit(0))


CANARY = "cnry7f3a"
MARKED = Schema.parse(
    "{priory: 1, name: marked, columns: {who: {kind: id}, x: {kind: category, levels: [a, b], other: b}}}"
)


def marked_frame(spark: Any, rows: int = 60) -> Any:
    cells = [(f"{CANARY}-{i % 20}", "a" if i % 3 else f"{CANARY} cell") for i in range(rows)]
    return spark.createDataFrame(cells, "who string, x string").repartition(4)


def hidden(words: Sequence[bytes]) -> list[str]:
    """The logs of Spark that have one of the words."""
    return [name for name, text in sparks.logs().items() if any(word in text for word in words)]


def test_a_worker_killed_while_it_counts_changes_no_count_and_no_charge(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = sparks.session(sparks.CLUSTER)
    frame = session.range(0, 900, numPartitions=6).selectExpr("cast(id % 3 as int) x", "cast(id % 7 as int) y")
    flag = tmp_path / "died"
    monkeypatch.setattr("priory.data.sources.spark.source.BlockTally", partial(DyingTally, flag=flag))
    book = Ledger.create(tmp_path / "book.ledger", Terms(XY.name, XY.dump(), Budget.zcdp(10**4), None))
    release = fit(frame, XY, rho=10**4, mechanism="independent", ledger=book)
    assert flag.exists()
    np.testing.assert_allclose(release.model.project(("x",)).values, [300, 300, 300], atol=1)
    assert book.left() == 0
    [entry] = book.entries()
    assert (entry.mechanism, entry.charged, entry.state.value) == ("independent", Fraction(10**4), "spent")


def test_no_log_and_no_error_has_a_cell_or_the_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    frame = marked_frame(sparks.session(sparks.CLUSTER))
    rule = PersonRule("who", 2, KEY)
    words = [CANARY.encode(), KEY, KEY.hex().encode(), base64.b64encode(KEY)[:40]]
    words += [json.dumps(list(KEY))[1:-1].encode()]
    for always in (False, True):
        failing = partial(FailingEncoder, flag=tmp_path / "failed", always=always)
        monkeypatch.setattr("priory.data.sources.spark.source.Encoder", failing)
        if always:
            with pytest.raises(PrioryError) as caught:
                open_spark(frame, MARKED, rule, 2**32)
            assert CANARY not in repr(caught.value)
            assert caught.value.__suppress_context__
        else:
            # Of twenty persons with three rows each, two rows count.
            assert open_spark(frame, MARKED, rule, 2**32).count([()])[0].values == 40
    monkeypatch.undo()
    open_spark(frame, MARKED, rule, 2**32).count([("x",)])
    assert (tmp_path / "failed").exists()
    assert hidden(words) == []
    logs = sparks.logs()
    assert any(FAILED.encode() in text for text in logs.values())
    assert any(name.startswith("events") and b"FirstInLine" in text for name, text in logs.items())
    assert any("stderr" in name for name in logs)


def test_what_a_task_says_of_a_failure_quotes_nothing(tmp_path: Path) -> None:
    encoder = FailingEncoder(MARKED, ("x",), flag=tmp_path / "failed")
    with pytest.raises(TaskFailure) as caught:
        list(encoder([pa.RecordBatch.from_pydict({"c0": [CANARY]})]))
    assert str(caught.value) == FAILED
    assert caught.value.__context__ is None
    with pytest.raises(TaskFailure, match="another version"):
        list(FailingEncoder(MARKED, ("x",), version="0")([]))


def test_connect_counts_as_the_others_do(tmp_path: Path) -> None:
    from pyspark import __version__

    if __version__.startswith("3."):
        pytest.skip("the wheel of pyspark 3 brings no Connect server")
    pytest.importorskip("grpc")
    script = Path(__file__).parent / "spark_connect.py"
    command = [sys.executable, "-W", "ignore", str(script), str(tmp_path)]
    done = subprocess.run(command, env=sparks.environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[-1] == "equal"
    assert CANARY not in done.stderr
