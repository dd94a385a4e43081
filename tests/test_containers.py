"""What people have: every kind of file gives the same codes, and what cannot be read says how to convert it."""

import datetime as dt
import io
import json
import sys
import zipfile
from bisect import bisect_right
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from priory.cli import main
from priory.data.cells import Cells
from priory.data.dialect import Dialect, unique_names
from priory.data.drafting import draft_schema
from priory.data.public import misfits
from priory.data.schema import Schema
from priory.data.sources.opening import open_source
from priory.data.streaming import write_batches
from priory.data.table import Table
from priory.errors import DataError

SCHEMA = Schema.parse(
    """
priory: 1
name: people
columns:
  colour: {kind: category, levels: [grün, rot], other: rest}
  age: {kind: integer, bounds: [0, 99], bins: {edges: [0, 50, 99]}, nullable: true}
  born: {kind: date, bounds: [2000-01-01, 2001-12-31], bins: {every: year}, nullable: true}
"""
)
ROWS: list[dict[str, Any]] = [
    {"colour": ["grün", "rot", "blau"][i % 3], "age": None if i % 7 == 0 else i, "born": f"200{i % 2}-05-0{1 + i % 9}"}
    for i in range(60)
]
CLIQUES = [("colour",), ("age", "born")]


def csv_text(delimiter: str = ",", *, header: bool = True) -> str:
    lines = [list(ROWS[0]), *([("" if cell is None else str(cell)) for cell in row.values()] for row in ROWS)]
    return "".join(delimiter.join(line) + "\n" for line in lines[0 if header else 1 :])


def counted(path: Path | str, schema: Schema = SCHEMA) -> list[list[int]]:
    return [factor.values.ravel().tolist() for factor in open_source(path, schema).count(CLIQUES)]


def expected() -> list[list[int]]:
    columns = {name: [row[name] for row in ROWS] for name in ROWS[0]}
    return [factor.values.ravel().tolist() for factor in open_source(columns, SCHEMA).count(CLIQUES)]


def read_as(**reading: object) -> Schema:
    return replace(SCHEMA, reading=Dialect.of(**reading))


def zipped(files: dict[str, bytes]) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return packed.getvalue()


FILES: dict[str, tuple[bytes, Schema]] = {
    "lines.jsonl": ("\n".join(json.dumps(row) for row in ROWS).encode(), SCHEMA),
    "list.json": (json.dumps(ROWS).encode(), SCHEMA),
    "one.zip": (zipped({"__MACOSX/x.csv": b"?", "a/.hidden.csv": b"", "a/t.csv": csv_text().encode()}), SCHEMA),
    "json.zip": (zipped({"t.jsonl": "\n".join(json.dumps(row) for row in ROWS).encode()}), SCHEMA),
    "latin.csv": (csv_text().encode("latin-1"), read_as(encoding="latin-1")),
    "utf16.csv": (csv_text().encode("utf-16"), read_as(encoding="utf-16")),
    "bare.csv": (csv_text(header=False).encode(), read_as(header=False)),
    "bare.tsv": (csv_text("\t", header=False).encode(), read_as(header=False)),
    "colons.csv": (csv_text(":").encode(), read_as(delimiter=":")),
    "blanks.csv": (csv_text(" , ").encode(), read_as(trim=True)),
}


@pytest.mark.parametrize("name", FILES)
def test_every_kind_of_file_gives_the_same_codes(name: str, tmp_path: Path) -> None:
    data, schema = FILES[name]
    (tmp_path / name).write_bytes(data)
    assert counted(tmp_path / name, schema) == expected()
    assert [each.wrong for each in misfits(schema, tmp_path / name)] == [0, 0, 0]


def test_a_feather_file_gives_the_same_codes(tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    from pyarrow import feather

    feather.write_feather(arrow.table({name: [row[name] for row in ROWS] for name in ROWS[0]}), tmp_path / "t.feather")
    assert counted(tmp_path / "t.feather") == expected()
    (tmp_path / "bad.feather").write_bytes(b"nothing")
    with pytest.raises(DataError, match="not a Feather file"):
        counted(tmp_path / "bad.feather")


def test_stdin_is_read_as_csv(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(csv_text(";").encode())))
    assert counted("-") == expected()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(csv_text().encode())))
    with pytest.raises(SystemExit) as ended:
        main(["schema", "init", "-"])
    assert ended.value.code == 0
    assert Schema.parse(capsys.readouterr().out).name == "stdin"


def sheet(path: Path, **sheets: list[list[object]]) -> Path:
    book = pytest.importorskip("xlsxwriter").Workbook(str(path))
    form = book.add_format({"num_format": "yyyy-mm-dd"})
    for name, rows in sheets.items():
        page = book.add_worksheet(name)
        for i, row in enumerate(rows):
            for place, cell in enumerate(row):
                page.write(i, place, cell, form if isinstance(cell, dt.date) else None)
    book.close()
    return path


def test_a_spreadsheet_gives_the_same_codes_and_names_its_sheet(tmp_path: Path) -> None:
    pytest.importorskip("python_calamine")
    rows = [[row["colour"], row["age"], dt.date.fromisoformat(row["born"])] for row in ROWS]
    one = sheet(tmp_path / "one.xlsx", people=[list(ROWS[0]), *rows])
    assert counted(one) == expected()
    two = sheet(tmp_path / "two.xlsx", notes=[["read me"]], people=[list(ROWS[0]), *rows])
    with pytest.raises(DataError, match="it has 2 sheets; say which"):
        counted(two)
    assert counted(two, read_as(sheet="people")) == expected()
    with pytest.raises(DataError, match="no sheet 'persons'"):
        counted(two, read_as(sheet="persons"))
    draft = draft_schema(two, name="x", reading=Dialect.of(sheet="people"))
    assert {column.name: column.kind for column in draft.schema.columns}["born"] == "date"
    assert draft.schema.reading.sheet == "people"
    (tmp_path / "bad.xlsx").write_bytes(b"nothing")
    with pytest.raises(DataError, match="cannot be read as a spreadsheet"):
        counted(tmp_path / "bad.xlsx")


@pytest.mark.parametrize("suffix", [".csv", ".csv.gz", ".parquet", ".xlsx"])
def test_what_is_written_is_read_to_the_same_codes(suffix: str, tmp_path: Path) -> None:
    from priory.data.codec import decode

    if suffix == ".xlsx":
        pytest.importorskip("python_calamine")
        pytest.importorskip("xlsxwriter")
    rng = np.random.default_rng(0)
    codes = {column.name: rng.integers(0, column.size, 100) for column in SCHEMA.modelled}
    table: Table = decode(SCHEMA, codes, rng)
    path = tmp_path / f"rows{suffix}"
    assert write_batches([table, table], path) == 200
    for name, factor in zip(SCHEMA.domain, open_source(path, SCHEMA).count([(n,) for n in SCHEMA.domain]), strict=True):
        np.testing.assert_array_equal(factor.values, 2 * np.bincount(codes[name], minlength=SCHEMA.domain[name]))


@pytest.mark.parametrize(
    ("files", "message"),
    [({}, "holds 0 tables"), ({"a.csv": b"x", "b.csv": b"x"}, "holds 2 tables"), ({"read.me": b"x"}, "holds 0 tables")],
)
def test_a_zip_without_just_one_table_is_refused(files: dict[str, bytes], message: str, tmp_path: Path) -> None:
    (tmp_path / "t.zip").write_bytes(zipped(files))
    with pytest.raises(DataError, match=message):
        counted(tmp_path / "t.zip")


def test_a_text_that_is_not_in_the_declared_encoding_is_refused_without_quoting_it(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes(b"colour,age,born\ns3cret\x81,1,2\n")
    with pytest.raises(DataError, match="not cp1252 text") as caught:
        counted(tmp_path / "t.csv", read_as(encoding="cp1252"))
    assert "s3cret" not in str(caught.value)


def test_a_row_of_a_file_without_names_is_never_taken_for_them(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("colour,age,born\n", encoding="utf-8")
    assert sum(counted(tmp_path / "t.csv", read_as(header=False))[0]) == 1
    (tmp_path / "t.csv").write_text("rot,1\n", encoding="utf-8")
    with pytest.raises(DataError, match="line 1: a line has more or fewer cells"):
        counted(tmp_path / "t.csv", read_as(header=False))


def test_names_are_made_unique_and_none_is_empty() -> None:
    assert unique_names(["a", "", "a", "a (2)", "column 2", "a"]) == [
        "a",
        "column 2 (2)",
        "a (3)",
        "a (2)",
        "column 2",
        "a (4)",
    ]


RAGGED = {
    "short.csv": "a;b;c\n1;2;3\n1;2\n",
    "title.csv": "A title of the table\na;b;c\n1;2;3\n4;5;6\n",
    "uneven.csv": "a,b\n1,2\n3\n4,5,6\n",
}


@pytest.mark.parametrize("name", RAGGED)
def test_a_ragged_file_is_refused_and_never_read_as_one_column(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(RAGGED[name], encoding="utf-8")
    with pytest.raises(DataError, match=r"number of cells|more or fewer cells"):
        draft_schema(tmp_path / name, name="x")


@pytest.mark.parametrize("text", ["", "\n\n", " \n"])
def test_an_empty_file_is_refused_in_a_sentence(text: str, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match="is empty"):
        draft_schema(tmp_path / "t.csv", name="x")


def test_a_table_without_rows_or_without_a_column_to_model_is_refused(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a,b\n", encoding="utf-8")
    with pytest.raises(DataError, match="no rows"):
        draft_schema(tmp_path / "t.csv", name="x")
    (tmp_path / "t.csv").write_text("a\nNA\nNA\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"nothing modelled: a \(empty\)"):
        draft_schema(tmp_path / "t.csv", name="x")


def test_all_columns_that_do_not_fit_are_named_in_one_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    SCHEMA.save(tmp_path / "s.yaml")
    (tmp_path / "t.csv").write_text("colour,age,born\nrot,100,1999-01-01\nlila,x,\n", encoding="utf-8")
    with pytest.raises(SystemExit) as ended:
        main(["schema", "check", str(tmp_path / "s.yaml"), "--public", str(tmp_path / "t.csv")])
    err = capsys.readouterr().err
    assert ended.value.code == 4
    assert "2 of 3 columns" in err
    assert "age: 2 of 2 public cells" in err
    assert "born: 1 of 2 public cells" in err
    assert "colour: 1 of 2 cells have none of the levels and go to other" in err


def test_the_first_line_that_looks_like_a_record_is_doubted(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("1,a\n2,b\n3,c\n", encoding="utf-8")
    assert "--no-header" in draft_schema(tmp_path / "t.csv", name="x").notes[0]
    assert not draft_schema(tmp_path / "t.csv", name="x", reading=Dialect.of(header=False)).notes


def test_a_date_of_which_nobody_can_tell_day_and_month_says_so(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("d\n01/02/2024\n03/04/2024\n", encoding="utf-8")
    draft = draft_schema(tmp_path / "t.csv", name="x")
    assert '"%d/%m/%Y", which fits as well' in " ".join(draft.comments["d"])


def test_columns_of_a_frame_without_text_names_are_refused_not_dropped() -> None:
    with pytest.raises(DataError, match="names of columns are texts"):
        draft_schema({"a": [1, 2], 3: [1, 2]}, name="x")


@pytest.mark.parametrize(
    ("options", "text", "number"),
    [
        ('decimal: ","', "1,5", 1.5),
        ('decimal: ",", thousands: "."', "1.234.567,5", 1234567.5),
        ('thousands: ","', "12,34", None),
        ('thousands: " "', "1 234", 1234),
        ('symbol: "%"', "12.5 %", 12.5),
        ('symbol: "$", thousands: ","', "-$1,234", -1234),
        ("symbol: kg", "70kg", 70),
        ("symbol: kg", "70 lb", None),
        ('symbol: "$", parentheses: true', "($3.50)", -3.5),
        ("parentheses: true", "(3", None),
        ("nullable: true", "1,5", None),
    ],
)
def test_a_number_is_read_by_the_marks_that_are_declared(
    options: str, text: str, number: float | None, tmp_path: Path
) -> None:
    # A bin for each of the numbers alone, and the last one for what is none.
    edges = [-2e6, -1235, -1234, -4, -3, 1, 2, 12, 13, 69, 71, 1234, 1235, 1234567, 1234568, 1999999, 2e6]
    column = f"{{kind: real, bounds: [-2000000, 2000000], bins: {{edges: {edges}}}, other: 1999999, {options}}}"
    schema = Schema.parse(f"priory: 1\nname: x\nreading: {{delimiter: '|'}}\ncolumns:\n  a: {column}\n")
    code = bisect_right(edges, 1999999 if number is None else number) - 1
    (tmp_path / "t.csv").write_text(f"a\n{text}\n", encoding="utf-8")
    for data in (tmp_path / "t.csv", {"a": [text]}):
        assert open_source(data, schema).count([("a",)])[0].values.nonzero()[0].tolist() == [code]


@pytest.mark.parametrize(
    ("spelling", "text", "day"),
    [
        ("%d-%b-%Y", "01-MAR-2024", 60),
        ("%b %d, %Y", "March 1, 2024", 60),
        ("%m/%d/%y", "3/1/24", 60),
        ("%Y%m%d", "20240301", 60),
        ("%Y-%m", "2024-03", 60),
        ("%Y-%m-%d 00:00:00", "2024-03-01 00:00:00", 60),
        ("%d.%m.%Y", "31.02.2024", None),
        ("%d %b %Y", "01 Foo 2024", None),
    ],
)
def test_a_day_is_read_by_its_format(spelling: str, text: str, day: int | None, tmp_path: Path) -> None:
    bounds = "bounds: [2024-01-01, 2024-12-31], bins: {every: day}"
    column = f'{{kind: date, {bounds}, format: "{spelling}", nullable: true}}'
    schema = Schema.parse(f"priory: 1\nname: x\nreading: {{delimiter: '|'}}\ncolumns:\n  a: {column}\n")
    (tmp_path / "t.csv").write_text(f"a\n{text}\n", encoding="utf-8")
    for data in (tmp_path / "t.csv", {"a": [text]}):
        found = open_source(data, schema).count([("a",)])[0].values.nonzero()[0].tolist()
        assert found == [366 if day is None else day]


@pytest.mark.parametrize(
    ("text", "hour"),
    [
        ("2024-01-01T05:00:00+02:00", 3),
        ("2024-01-01 05:00:00.123456789Z", 5),
        ("2024-01-01T05:00-0330", 8),
        ("2024-01-01 05:00:00 UTC", 5),
        ("2024-01-01T05:00", 5),
    ],
)
def test_a_time_with_an_offset_is_taken_in_utc(text: str, hour: int, tmp_path: Path) -> None:
    column = "{kind: datetime, bounds: [2024-01-01, 2024-01-01], bins: {every: hour}, nullable: true}"
    schema = Schema.parse(f"priory: 1\nname: x\ncolumns:\n  a: {column}\n")
    (tmp_path / "t.csv").write_text(f"a\n{text}\n", encoding="utf-8")
    for data in (tmp_path / "t.csv", {"a": [text]}):
        assert open_source(data, schema).count([("a",)])[0].values.nonzero()[0].tolist() == [hour]


def test_a_text_that_begins_with_an_equals_sign_is_no_formula_of_a_sheet_and_stays_as_it_is_in_csv(
    tmp_path: Path,
) -> None:
    calamine = pytest.importorskip("python_calamine")
    pytest.importorskip("xlsxwriter")
    table = Table.of({"a": Cells.objects(["=1+1", "+1", "@x"])})
    write_batches([table], tmp_path / "t.xlsx")
    with zipfile.ZipFile(tmp_path / "t.xlsx") as packed:
        assert b"<f>" not in packed.read("xl/worksheets/sheet1.xml")
    rows = calamine.load_workbook(str(tmp_path / "t.xlsx")).get_sheet_by_index(0).to_python()
    assert rows == [["a"], ["=1+1"], ["+1"], ["@x"]]
    table.write_csv(tmp_path / "t.csv")
    assert (tmp_path / "t.csv").read_text() == "a\n=1+1\n+1\n@x\n"
