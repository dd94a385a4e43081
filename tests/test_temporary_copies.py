"""Temporary copies: what reading a private table leaves on the disk, and for how long."""

import pytest

for library in ("adbc_driver_sqlite", "pyarrow"):
    pytest.importorskip(library)

import sqlite3
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from priory.data.dialect import Dialect
from priory.data.kinds import Category, Column, Unmodelled
from priory.data.schema import Schema
from priory.data.sources.adbc import Database
from priory.data.sources.opening import open_source
from priory.data.sources.raw import open_raw

COLUMNS: list[Column] = [Unmodelled.of("who", kind="id"), Category.of("x", ["a", "ü"], other="rest")]
SCHEMA = Schema.of(COLUMNS, name="people")
LATIN = Schema.of(COLUMNS, name="people", reading=Dialect.of(encoding="latin-1"))
RULE: dict[str, Any] = {"unit": "who", "max_rows": 1, "key": bytes(32)}
TEXT = "who,x\n1,a\n2,ü\n"


def zipped(folder: Path) -> tuple[object, Schema]:
    with zipfile.ZipFile(folder / "t.zip", "w") as archive:
        archive.writestr("t.csv", TEXT)
    return folder / "t.zip", SCHEMA


def latin(folder: Path) -> tuple[object, Schema]:
    (folder / "t.csv").write_bytes(TEXT.encode("latin-1"))
    return folder / "t.csv", LATIN


def sqlite(folder: Path) -> tuple[object, Schema]:
    with sqlite3.connect(folder / "t.db") as connection:
        connection.execute("CREATE TABLE t AS SELECT 1 AS who, 'a' AS x UNION ALL SELECT 2, 'ü'")
    return Database(f"sqlite:{folder / 't.db'}", "SELECT * FROM t"), SCHEMA


TABLE = {"who": [1, 2], "x": ["a", "ü"]}
KINDS: dict[str, Callable[[Path], tuple[object, Schema]]] = {
    "zip": zipped,
    "another encoding": latin,
    "SQLite": sqlite,
    "relation": lambda _: (duckdb.connect().from_arrow(pa.table(TABLE)), SCHEMA),
    "stream": lambda _: (pa.table(TABLE).to_reader(), SCHEMA),
}


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder for temporary files."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


@pytest.mark.parametrize("kind", KINDS)
def test_codes_in_memory_leave_no_copy_of_the_table(kind: str, tmp_path: Path, temporary: Path) -> None:
    source = open_source(*KINDS[kind](tmp_path), **RULE)
    assert list(temporary.iterdir()) == []
    assert source.count([("x",)])[0].values.tolist() == [1, 1, 0]


@pytest.mark.parametrize("kind", KINDS)
def test_codes_in_duckdb_have_one_folder_of_their_owner_which_goes_with_them(
    kind: str, tmp_path: Path, temporary: Path
) -> None:
    source: Any = open_source(*KINDS[kind](tmp_path), **RULE, engine="duckdb")
    [folder] = temporary.iterdir()
    assert folder.name.startswith("priory-")
    assert folder.stat().st_mode & 0o077 == 0 or sys.platform == "win32"
    assert not list(folder.rglob("*.parquet"))
    source.close()
    assert list(temporary.iterdir()) == []


@pytest.mark.parametrize("kind", KINDS)
def test_what_cannot_be_read_leaves_no_copy(kind: str, tmp_path: Path, temporary: Path) -> None:
    data, schema = KINDS[kind](tmp_path)
    other = Schema.of([*schema.columns, Category.of("nobody", ["a"], other="b")], name="other", reading=schema.reading)
    with pytest.raises(Exception, match="nobody"):
        open_source(data, other)
    assert list(temporary.iterdir()) == []


def test_cells_of_a_table_without_a_schema_go_with_it(tmp_path: Path, temporary: Path) -> None:
    table = open_raw(zipped(tmp_path)[0], ["who", "x"], None)
    assert len(list(temporary.iterdir())) == 1
    del table
    assert list(temporary.iterdir()) == []


def test_the_end_of_a_process_removes_what_its_sources_have(tmp_path: Path, temporary: Path) -> None:
    SCHEMA.save(tmp_path / "s.yaml")
    (tmp_path / "t.csv").write_text(TEXT, encoding="utf-8")
    program = (
        "import tempfile, sys, priory\n"
        "folder, schema, table = sys.argv[1:]\n"
        "tempfile.tempdir = folder\n"
        "source = priory.open_source(table, priory.Schema.load(schema), engine='duckdb')\n"
        "raise SystemExit(len(list(__import__('pathlib').Path(folder).iterdir())) + 40)\n"
    )
    command = [sys.executable, "-c", program, str(temporary), str(tmp_path / "s.yaml"), str(tmp_path / "t.csv")]
    assert subprocess.run(command, check=False).returncode == 41
    assert list(temporary.iterdir()) == []
