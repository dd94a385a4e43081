"""The private table is not taken as the public one, whatever either is called, and nothing is paid or read for that."""

import pytest

for library in ("pandas", "polars", "pyarrow"):
    pytest.importorskip(library)

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from command import priory
from priory.app.fit import fit
from priory.app.public_check import public_fitness
from priory.data.cells import Cells
from priory.data.schema import Schema
from priory.data.sources.adbc import Database
from priory.data.sources.same import refuse_same
from priory.data.table import Table
from priory.errors import NOTHING_SPENT, DataError
from priory.privacy.budget import Budget
from priory.privacy.ledger import Ledger, Terms

SCHEMA = """priory: 1
name: people
columns:
  age: {kind: integer, bounds: [0, 9], nullable: true}
  size: {kind: integer, bounds: [0, 9], nullable: true}
"""
PEOPLE = Schema.parse(SCHEMA)
TABLE = pa.table({"age": [1, 2, 3, 4], "size": [1, 2, 3, 4]})
PANDAS, POLARS, CONNECTION = TABLE.to_pandas(), pl.from_arrow(TABLE), duckdb.connect()
CONNECTION.register("people", TABLE)
ARRAYS = {name: PANDAS[name].to_numpy() for name in PANDAS.columns}
LISTS = TABLE.to_pydict()
QUERY = "SELECT * FROM people"


def linked(folder: Path, link: Callable[[Path, Path], object]) -> tuple[Path, Path]:
    pq.write_table(TABLE, folder / "a.parquet")
    link(folder / "a.parquet", folder / "b.parquet")
    return folder / "a.parquet", folder / "b.parquet"


def in_folder(folder: Path) -> tuple[Path, str]:
    private, _ = linked(folder, lambda a, b: b.write_bytes(a.read_bytes()))
    return private, str(folder / "[ab].parquet")


def data_set(folder: Path) -> tuple[Any, Path]:
    from pyarrow import dataset

    private, _ = linked(folder, os.link)
    return dataset.dataset(private), private


SAME: dict[str, Callable[[Path], tuple[object, object]]] = {
    "a path": lambda folder: (folder / "x.csv", str(folder / "x.csv")),
    "a relative path": lambda folder: (folder / "x.csv", Path(os.path.relpath(folder / "x.csv"))),
    "a path with dots": lambda folder: (str(folder / "x.csv"), str(folder / ".." / folder.name / "x.csv")),
    "a hard link": lambda folder: linked(folder, os.link),
    "a symbolic link": lambda folder: linked(folder, lambda a, b: b.symlink_to(a)),
    "a folder that has it": in_folder,
    "a data set of it": data_set,
    "an address": lambda _: ("s3://bucket/x.parquet", "s3://bucket/x.parquet"),
    "stdin": lambda _: ("-", "-"),
    "a query": lambda _: (Database("sqlite:a.db", QUERY), Database("sqlite:a.db", f" {QUERY}\n")),
    "a relation": lambda _: (CONNECTION.sql(QUERY), CONNECTION.sql(QUERY)),
    "Arrow": lambda _: (TABLE, TABLE),
    "a slice of Arrow": lambda _: (TABLE, TABLE.slice(1, 2)),
    "columns of Arrow": lambda _: (TABLE, TABLE.select(["size"])),
    "pandas": lambda _: (PANDAS, PANDAS),
    "a view of pandas": lambda _: (PANDAS, PANDAS[:2]),
    "a shallow copy of pandas": lambda _: (PANDAS, PANDAS.copy(deep=False)),
    "polars": lambda _: (POLARS, POLARS.clone()),
    "polars of Arrow": lambda _: (TABLE, POLARS),
    "a mapping": lambda _: (ARRAYS, {name: values[1:] for name, values in ARRAYS.items()}),
    "a mapping of pandas": lambda _: (PANDAS, ARRAYS),
    "lists": lambda _: (LISTS, dict(LISTS)),
    "a table": lambda _: (Table.of({"age": Cells(ARRAYS["age"])}), ARRAYS),
}
OTHERS: dict[str, Callable[[Path], tuple[object, object]]] = {
    "another file": lambda folder: linked(folder, lambda a, b: b.write_bytes(a.read_bytes())),
    "another query": lambda _: (Database("sqlite:a.db", QUERY), Database("sqlite:a.db", f"{QUERY} WHERE age > 1")),
    "another connection": lambda _: (CONNECTION.sql(QUERY), other_connection().sql(QUERY)),
    "other rows of Arrow": lambda _: (TABLE.slice(0, 2), TABLE.slice(2, 2)),
    "other rows of pandas": lambda _: (PANDAS[:2], PANDAS[2:]),
    "other rows of polars": lambda _: (POLARS[:2], POLARS[2:]),
    "a copy": lambda _: (PANDAS, PANDAS.copy()),
    "other lists": lambda _: (LISTS, TABLE.to_pydict()),
    "texts": lambda _: (pd.DataFrame({"age": ["1"]}), pd.DataFrame({"age": ["1"]})),
    "a file and a frame": lambda folder: (folder / "x.csv", TABLE),
    "nothing": lambda _: (TABLE, None),
}


def other_connection() -> Any:
    other = duckdb.connect()
    other.execute("CREATE TABLE people (age INT, size INT)")
    return other


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "x.csv").write_text("age,size\n1,1\n2,2\n")
    return tmp_path


@pytest.mark.parametrize("name", SAME)
def test_the_private_table_is_refused_as_the_public_one_before_anything_is_paid(name: str, folder: Path) -> None:
    private, public = SAME[name](folder)
    book = Ledger.create(folder / "a.ledger", Terms("people", "", Budget.of(epsilon=5)))
    for verb in (fit, public_fitness):
        with pytest.raises(DataError, match="is the private one") as raised:
            verb(private, PEOPLE, public=public, epsilon=1, ledger=book)
        assert getattr(raised.value, "spent", NOTHING_SPENT) in (None, NOTHING_SPENT)
    assert not book.entries()


@pytest.mark.parametrize("name", OTHERS)
def test_other_tables_may_be_public(name: str, folder: Path) -> None:
    refuse_same(*OTHERS[name](folder))


def test_the_command_line_refuses_the_private_table_as_the_public_one(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    Path("s.yaml").write_text(SCHEMA)
    Path("y.csv").hardlink_to("x.csv")
    for line in (
        "fit x.csv --schema s.yaml -o a.priory --epsilon 1 --public ./y.csv",
        "plan --schema s.yaml --rows 9 --epsilon 1 --public y.csv --check x.csv --price 1",
    ):
        ended = priory(*line.split())
        assert ended.returncode == DataError.exit_code
        assert "the public table is the private one" in ended.stderr
    assert not Path("a.priory").exists()
