"""What is said about private tables: what the schema wants, never what the table has, whatever one cell of it holds."""

import pytest

for library in ("pandas", "polars", "pyarrow", "python_calamine", "xlsxwriter"):
    pytest.importorskip(library)

import datetime as dt
import decimal
import io
import logging
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from command import priory
from priory.app.discover import discover
from priory.app.fit import fit
from priory.app.public_check import public_fitness
from priory.data.dialect import Dialect
from priory.data.schema import Schema
from priory.data.schema.open import OpenSchema
from priory.data.sources.adbc import Database
from priory.data.sources.opening import open_source
from priory.data.sources.raw import open_raw
from priory.release import load
from priory.report.evaluation import evaluate

KEY = bytes(range(32))
SCHEMA = """priory: 1
name: people
columns:
  who: {kind: id}
  text: {kind: category, levels: [a, b], other: b, nullable: true}
  whole: {kind: integer, bounds: [0, 9], nullable: true}
  real: {kind: real, bounds: [0, 9], bins: 3, nullable: true}
  day: {kind: date, bounds: [2000-01-01, 2001-12-31], bins: {every: year}, nullable: true}
  moment: {kind: datetime, bounds: [2000-01-01, 2001-12-31], bins: {every: year}, nullable: true}
  truth: {kind: boolean, nullable: true}
"""
PEOPLE = Schema.parse(SCHEMA)
NAMES = [column.name for column in PEOPLE.columns]
# A record of one person, in the place of the names, and in every row.
CANARY = ["Zoe Quill", "quillzoe", "8675309", "31.4159", "1987-06-05", "1987-06-05 04:03:02", "quilltrue"]
WORDS = ("quill", "8675309", "31.4159", "1987")


def columns(names: list[str]) -> dict[str, list[str]]:
    return {name: [cell, cell] for name, cell in zip(names, CANARY, strict=True)}


def csv_file(folder: Path, table: Any) -> Path:
    lines = [table.column_names, *([str(cell) for cell in row.values()] for row in table.to_pylist())]
    path = folder / "people.csv"
    path.write_text("".join(",".join(line) + "\n" for line in lines), encoding="utf-8")
    return path


def parquet_file(folder: Path, table: Any) -> Path:
    pq.write_table(table, folder / "people.parquet")
    return folder / "people.parquet"


def parquet_folder(folder: Path, table: Any) -> Path:
    (folder / "parts").mkdir(exist_ok=True)
    pq.write_table(table, folder / "parts" / "one.parquet")
    return folder / "parts"


def feather_file(folder: Path, table: Any) -> Path:
    from pyarrow import feather

    feather.write_feather(table, folder / "people.feather")
    return folder / "people.feather"


def json_file(folder: Path, table: Any) -> Path:
    import json

    path = folder / "people.jsonl"
    path.write_text("\n".join(json.dumps(row, default=str) for row in table.to_pylist()), encoding="utf-8")
    return path


def sheet(folder: Path, table: Any) -> Path:
    import xlsxwriter

    book = xlsxwriter.Workbook(str(folder / "people.xlsx"))
    page = book.add_worksheet()
    for i, row in enumerate([table.column_names, *(row.values() for row in table.to_pylist())]):
        for j, cell in enumerate(row):
            page.write(i, j, cell)
    book.close()
    return folder / "people.xlsx"


def sqlite_query(folder: Path, table: Any) -> Database:
    from adbc_driver_sqlite import dbapi

    with dbapi.connect(str(folder / "people.db")) as connection, connection.cursor() as cursor:
        cursor.adbc_ingest("people", table)
        connection.commit()
    return Database(f"sqlite:{folder / 'people.db'}", "SELECT * FROM people")


def polars_frame(_: Path, table: Any) -> Any:
    import polars as pl

    return pl.from_arrow(table)


def relation(_: Path, table: Any) -> Any:
    return duckdb.connect().from_arrow(table)


def stream(_: Path, table: Any) -> Any:
    return pa.RecordBatchReader.from_batches(table.schema, table.to_batches())


Container = Callable[[Path, Any], Any]
TEXTUAL: dict[str, Container] = {"CSV": csv_file, "JSON": json_file, "xlsx": sheet, "SQLite": sqlite_query}
TYPED: dict[str, Container] = {
    "Parquet": parquet_file,
    "folder of Parquet": parquet_folder,
    "Feather": feather_file,
    "Arrow": lambda _, table: table,
    "stream": stream,
    "pandas": lambda _, table: table.to_pandas(),
    "polars": polars_frame,
    "relation": relation,
}
CONTAINERS = TEXTUAL | TYPED
FILES = ("CSV", "JSON", "xlsx", "Parquet", "folder of Parquet", "Feather")


def said_by(error: BaseException | None) -> Iterator[str]:
    """All that an error says, and all that it hangs on."""
    while error is not None:
        yield from (repr(error), str(error), repr(vars(error)))
        yield from said_by(error.__cause__)
        error = error.__context__


@contextmanager
def heard() -> Iterator[io.StringIO]:
    """All that is logged or warned of meanwhile."""
    notes = io.StringIO()
    handler, root = logging.StreamHandler(notes), logging.getLogger()
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    try:
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            yield notes
        notes.write("\n".join(str(each.message) for each in warned if not issubclass(each.category, ResourceWarning)))
    finally:
        root.removeHandler(handler)
        root.setLevel(level)


def outcome(verb: Callable[[], object]) -> str:
    """What came of it and everything that was said; the same for a release, whatever its noise."""
    with heard() as notes:
        try:
            verb()
            ended = "done"
        except Exception as error:  # noqa: BLE001 - every kind of error is looked at
            ended = "\n".join([type(error).__name__, *said_by(error)])
    return f"{ended}\n{notes.getvalue()}"


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("made") / "people.priory"
    fit({name: ["a", "b"] for name in NAMES}, PEOPLE, epsilon=1, mechanism="independent", output=path)
    return path


PUBLIC = {"text": ["a", "b"], "whole": [1, 2], "real": [1.0, 2.0], "truth": [True, False]}
PUBLIC |= {name: [dt.date(2000, 1, 1), dt.date(2001, 1, 1)] for name in ("day", "moment")}


def opened(data: object) -> object:
    return discover(data, OpenSchema.of("people", NAMES), epsilon=1, delta="1e-6")


VERBS: dict[str, Callable[[Any, Path], object]] = {
    "fit": lambda data, _: fit(data, PEOPLE, epsilon=1, mechanism="independent"),
    "evaluate": lambda data, release: evaluate(load(release), data),
    "public check": lambda data, _: public_fitness(data, PEOPLE, PUBLIC, epsilon=1),
    "discover": lambda data, _: opened(data),
    "discover by names in the header": lambda data, _: discover(
        data, epsilon=1, delta="1e-6", has_header=True, kinds={"age": "integer"}
    ),
    "discover persons by names in the header": lambda data, _: discover(
        data, epsilon=1, delta="1e-6", has_header=True, unit="person"
    ),
}


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("container", CONTAINERS)
def test_a_header_that_is_a_record_stands_in_no_message(
    container: str, verb: str, release: Path, tmp_path: Path
) -> None:
    data = CONTAINERS[container](tmp_path, pa.table(columns(CANARY)))
    said = outcome(lambda: VERBS[verb](data, release))
    # In JSON a name that a row lacks is missing there, and no error.
    assert "Error" in said or container == "JSON"
    assert [word for word in WORDS if word in said.lower()] == [], said


@pytest.mark.parametrize("container", ["pandas", "Arrow"])
def test_names_that_are_there_twice_or_are_no_texts_stand_in_no_message(container: str) -> None:
    import pandas as pd

    twice = pa.Table.from_arrays([pa.array(["a"])] * 2, ["Zoe Quill"] * 2)
    numbers = pd.DataFrame([["a", "b"]], columns=[8675309, 31.4159])
    for data in (twice if container == "Arrow" else twice.to_pandas(), numbers):
        said = outcome(lambda data=data: discover(data, epsilon=1, delta="1e-6"))  # type: ignore[misc]
        assert "Error" in said
        assert [word for word in WORDS if word in said.lower()] == [], said


COMMANDS = {
    "fit": "fit {data} --schema s.yaml -o new.priory --epsilon 1 --mechanism independent",
    "fit of persons": "fit {data} --schema s.yaml -o new.priory --epsilon 1 --mechanism independent --unit who",
    "plan": "plan --schema s.yaml --rows 9 --epsilon 1 --public public.csv --check {data} --price 1 --seconds 0.01",
    "evaluate": "evaluate {release} {data}",
    "report": "report {release} --against {data} --not-private --yes -o x.not-private.html",
    "discover": "schema discover {data} --epsilon 1 --delta 1e-6 --schema names.yaml",
    "discover kinds": "schema discover {data} --epsilon 1 --delta 1e-6 --has-header --kind age=integer",
    "discover persons": "schema discover {data} --epsilon 1 --delta 1e-6 --has-header --unit person",
}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_header_that_is_a_record_is_not_printed(
    command: str,
    release: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("s.yaml").write_text(SCHEMA, encoding="utf-8")
    Path("names.yaml").write_text(OpenSchema.of("people", NAMES).dump(), encoding="utf-8")
    csv_file(tmp_path, pa.table(PUBLIC)).rename("public.csv")
    for container in FILES:
        folder = tmp_path / container.replace(" ", "-")
        folder.mkdir()
        data = CONTAINERS[container](folder, pa.table(columns(CANARY))).relative_to(tmp_path)
        ended = priory(*COMMANDS[command].format(data=data, release=release).split())
        said = (ended.stdout + ended.stderr).lower()
        assert ended.returncode > 1 or container == "JSON", (container, said)
        for made in ("new.priory", "x.not-private.html"):
            Path(made).unlink(missing_ok=True)
        assert [word for word in WORDS if word in said] == [], (container, said)


def stored(kind: Any, as_: Any, *numbers: int) -> list[Any]:
    return [pa.array([number], kind).cast(as_) for number in numbers]


BYTE = pa.StringArray.from_buffers(1, pa.py_buffer(np.array([0, 1], dtype=np.int32).tobytes()), pa.py_buffer(b"\xff"))
# Cells that one type of column can hold, each as an array of one.
CELLS: dict[str, list[Any]] = {
    "text": [pa.array([each]) for each in ("", "\0", "x" * 10**6, "1e999", "=1+1", "0001-01-01", "99999-12-31", "\n")],
    "integer": [pa.array([each], pa.int64()) for each in (2**63 - 1, -(2**63))],
    "unsigned": [pa.array([2**64 - 1], pa.uint64())],
    "float": [pa.array([each], pa.float64()) for each in (1e300, -1e300, float("nan"), float("inf"), 5e-324)],
    "small float": [pa.array(np.array([np.inf, 6e4], dtype=np.float16))[i : i + 1] for i in (0, 1)],
    "decimal": [pa.array([decimal.Decimal("9" * 38)], pa.decimal128(38, 0))],
    "wide decimal": [pa.array([decimal.Decimal("9" * 76)], pa.decimal256(76, 0))],
    "date": stored(pa.int32(), pa.date32(), -719_162, 2_932_896, 2**31 - 1, -(2**31), -(2**31) + 1),
    "date in milliseconds": stored(pa.int64(), pa.date64(), 86_400_000 * 2**24, -86_400_000 * 2**24),
    **{
        f"moment in {unit}{'' if zone is None else ' of a zone'}": stored(
            pa.int64(), pa.timestamp(unit, zone), 2**63 - 1, 2**62, -(2**62), -(2**63) + 1, -(2**63)
        )
        for unit in ("s", "ms", "us", "ns")
        for zone in (None, "Asia/Kathmandu")
    },
    "duration": stored(pa.int64(), pa.duration("us"), 2**62, -(2**63)),
    "time": stored(pa.int64(), pa.time64("us"), 86_399_999_999),
    "binary": [pa.array([each], pa.binary()) for each in (b"", b"\xff\0", b"1")],
    "list": [pa.array([[dt.datetime(1, 1, 1)]]), pa.array([[]], pa.list_(pa.timestamp("us")))],
    "record": [pa.array([{"a": dt.date(9999, 12, 31)}])],
    "levels": [pa.array(["Zoe Quill"]).dictionary_encode()],
    "nothing": [pa.nulls(1)],
}


# What fails by itself, with words of ours: DuckDB's own scan of Arrow, and of far milliseconds in a folder.
FAILING = {("relation", "moment in s of a zone"), ("relation", "moment in ms of a zone")}
FAILING |= {("folder of Parquet", "moment in ms"), ("folder of Parquet", "moment in ms of a zone")}
ROWS = max(map(len, CELLS.values())) + 1


def column_of(kind: str) -> Any:
    cells = pa.concat_arrays(CELLS[kind])
    return pa.concat_arrays([cells, pa.nulls(ROWS - len(cells), cells.type)])


def can_hold(container: str, kind: str, folder: Path) -> bool:
    """Whether the container's own library can hold such cells; what it cannot is in no table."""
    try:
        CONTAINERS[container](folder, pa.table({"x": column_of(kind)}))
    except BaseException:  # noqa: BLE001 - each library has errors of its own, and panics
        return False
    return (container, kind) not in FAILING


@pytest.mark.parametrize("container", TYPED)
def test_whatever_one_cell_holds_the_table_is_read(container: str, tmp_path: Path) -> None:
    kinds = [kind for kind in CELLS if can_hold(container, kind, tmp_path)]
    assert len(kinds) > len(CELLS) / 2
    named = {f"{kind}, {column.name}": (kind, column) for kind in kinds for column in PEOPLE.columns}
    declared: list[Any] = [replace(column, name=name) for name, (_, column) in cast("dict[str, Any]", named).items()]
    schema = Schema.of(declared, name="cells")
    table = pa.table({name: column_of(kind) for name, (kind, _) in named.items()})

    def opened() -> Any:
        return CONTAINERS[container](tmp_path, table)

    def read() -> None:
        cliques = [(name,) for name in schema.domain]
        assert all(each.total == ROWS for each in open_source(opened(), schema).count(cliques))
        raw = open_raw(opened(), list(named), None)
        for name in named:
            list(raw.texts(name))
            list(raw.values(name, "number"))

    assert outcome(read) == "done\n"
    persons = Schema.of(PEOPLE.columns[:2], name="persons")
    for kind in kinds:
        table = pa.table(dict.fromkeys(NAMES[:2], column_of(kind)))
        assert outcome(lambda: open_source(opened(), persons, unit="who", key=KEY)) == "done\n", kind


SHEET_CELLS = [-1e300, -1.0, 0.0, 60.0, 2958466.0, 1e12, 1e300, "x", "=1+1"]


@pytest.mark.parametrize("shown", ["yyyy-mm-dd", "[h]:mm:ss", "General"])
def test_whatever_one_cell_of_a_sheet_holds_it_is_read_without_a_word(
    shown: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    import xlsxwriter

    for i, cell in enumerate(SHEET_CELLS):
        book = xlsxwriter.Workbook(str(tmp_path / f"{i}.xlsx"), {"strings_to_formulas": False})
        page, form = book.add_worksheet(), book.add_format({"num_format": shown})
        page.write_row(0, 0, NAMES)
        page.write_row(1, 0, [cell] * len(NAMES), form)
        page.write_row(2, 0, ["b"] * len(NAMES))
        book.close()
        path = tmp_path / f"{i}.xlsx"
        assert open_source(path, PEOPLE, unit="who", key=KEY).count([()])[0].total in (1, 2)
        assert open_source(path, PEOPLE).count([()])[0].total == 2
        assert sum(int(counts.sum()) for _, counts in open_raw(path, NAMES, None).texts("text")) == 2
    heard = capfd.readouterr()
    assert heard.out + heard.err == ""


@pytest.mark.parametrize("first", [1, 0])
@pytest.mark.parametrize("place", [0, 1, 2])
@pytest.mark.parametrize("header", [1, 0])
def test_a_row_without_cells_is_no_row_of_a_sheet_wherever_it_stands(
    place: int, header: int, first: int, tmp_path: Path
) -> None:
    xlsx = pytest.importorskip("xlsxwriter")
    schema = Schema.parse("""
priory: 1
name: sheet
columns: {a: {kind: integer, bounds: [0, 9], nullable: true}, b: {kind: integer, bounds: [0, 9], nullable: true}}
""")
    # A column in which all cells are missing, the first or the last, and a row of which that is true.
    rows: list[list[int | None]] = [[1, None], [2, None]] if first else [[None, 1], [None, 2]]
    rows.insert(place, [None, None])
    book = xlsx.Workbook(str(tmp_path / "t.xlsx"))
    page = book.add_worksheet()
    for i, row in enumerate([["a", "b"], *rows] if header else rows):
        page.write_row(i, 0, row)
    book.close()
    reading = replace(schema, reading=Dialect.of(header=bool(header)))
    [counted] = open_source(tmp_path / "t.xlsx", reading).count([("a", "b")])
    assert counted.total == 2
    assert (counted.values[:, -1] if first else counted.values[-1])[[1, 2]].tolist() == [1, 1]


def test_a_whole_number_of_thousands_of_digits_is_read_from_json(tmp_path: Path) -> None:
    (tmp_path / "t.jsonl").write_text('{"whole": ' + "9" * 5000 + "}\n", encoding="utf-8")
    assert open_source(tmp_path / "t.jsonl", PEOPLE).count([()])[0].total == 1


def test_no_room_is_said_without_how_many_rows_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise MemoryError("Unable to allocate an array with shape (8675309,)")

    monkeypatch.setattr("priory.data.sources.frames.cells_of", full)
    with pytest.raises(MemoryError) as raised:
        open_source({"a": [1]}, PEOPLE)
    assert "8675309" not in "".join(said_by(raised.value))
