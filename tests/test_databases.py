"""Databases: tables that a query gives, through the drivers of ADBC, without a word of what the drivers say."""

import pytest

for library in ("adbc_driver_postgresql", "adbc_driver_sqlite", "pyarrow"):
    pytest.importorskip(library)

import datetime as dt
import json
import sqlite3
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import adbc_driver_postgresql.dbapi

import priory
from command import priory as command
from priory.app.fit import fit
from priory.data.schema import Schema
from priory.data.sources.adbc import Database
from priory.data.sources.opening import open_source
from priory.errors import DataError, MissingExtra, OptionError
from priory.privacy.budget import Budget
from priory.privacy.ledger import Ledger, Terms

SECRET = "s3cret"
SCHEMA = Schema.parse(
    """
priory: 1
name: people
columns:
  who: {kind: id}
  job: {kind: category, levels: [cook, "1"], other: rest, nullable: true}
  code: {kind: category, levels: [1, 2], other: 9, nullable: true}
  paid: {kind: real, bounds: [0, 9], bins: {edges: [0, 1.5, 9]}, nullable: true, decimal: ","}
"""
)
KEY = bytes(range(32))


def counts(data: object, schema: Schema = SCHEMA, **options: Any) -> dict[str, list[int]]:
    found = open_source(data, schema, **options).count([(name,) for name in schema.domain])
    return {factor.domain.attributes[0]: factor.values.tolist() for factor in found}


@pytest.fixture
def sqlite(tmp_path: Path) -> Path:
    """A table whose cells have types of their own, different ones only after the driver's first batch."""
    rows: list[tuple[Any, ...]] = [(i % 500, "cook", 1, 0.5) for i in range(1500)]
    rows += [(7.0, 1, "1", "1,5"), ("007", b"cook", 2.0, 1.5), (None, None, None, None), (8, "x", 10**18, "1.5")]
    with sqlite3.connect(tmp_path / "people.db") as connection:
        connection.execute("CREATE TABLE people (who, job, code, paid)")
        connection.executemany("INSERT INTO people VALUES (?, ?, ?, ?)", rows)
    return tmp_path / "people.db"


def in_memory(path: Path) -> dict[str, list[Any]]:
    """The rows of SQLite as Python has them."""
    with sqlite3.connect(path) as connection:
        rows = connection.execute("SELECT * FROM people").fetchall()
    return {name: [row[i] for row in rows] for i, name in enumerate(("who", "job", "code", "paid"))}


def test_each_cell_of_sqlite_keeps_its_own_type(sqlite: Path) -> None:
    rules: list[dict[str, Any]] = [{}, {"unit": "who", "max_rows": 2, "key": KEY}]
    for rule in rules:
        for address in (f"sqlite:{sqlite}", f"sqlite:///{sqlite}", f"file:{sqlite}", str(sqlite)):
            database = Database(address, "SELECT * FROM people -- all;")
            assert counts(database, **rule) == counts(in_memory(sqlite), **rule)


def test_numbers_of_sqlite_are_exact(tmp_path: Path) -> None:
    edges = [0.0, 0.1 + 0.2, 1 / 3, 0.5]
    schema = Schema.parse(
        f"priory: 1\nname: x\ncolumns: {{x: {{kind: real, bounds: [0, 0.5], bins: {{edges: {edges}}}, other: 0}}}}"
    )
    cells = [0.3, 0.1 + 0.2, 1 / 3, 0.33333333333333326, float("inf"), 5e-324, -0.0]
    with sqlite3.connect(tmp_path / "x.db") as connection:
        connection.execute("CREATE TABLE t (x)")
        connection.executemany("INSERT INTO t VALUES (?)", [(cell,) for cell in cells])
    database = Database(f"sqlite:{tmp_path / 'x.db'}", "SELECT x FROM t")
    assert counts(database, schema) == counts({"x": cells}, schema)


def test_a_database_of_sqlite_is_neither_made_nor_changed(sqlite: Path) -> None:
    with pytest.raises(DataError, match="cannot be opened"):
        open_source(Database(f"sqlite:{sqlite.parent / 'none.db'}", "SELECT 1 AS x"), SCHEMA)
    assert not (sqlite.parent / "none.db").exists()
    before = sqlite.read_bytes()
    with pytest.raises(DataError, match="did not run the query"):
        open_source(Database(f"sqlite:{sqlite}", "DELETE FROM people RETURNING *"), SCHEMA)
    assert sqlite.read_bytes() == before


TYPES = Schema.parse(
    """
priory: 1
name: types
columns:
  who: {kind: id}
  paid: {kind: real, bounds: [0, 99], bins: {edges: [0, 12, 13, 99]}, nullable: true, decimal: ","}
  whole: {kind: integer, bounds: [0, 9], nullable: true}
  letter: {kind: category, levels: [ab, c], other: rest}
  mood: {kind: category, levels: [sad, ok], other: rest, nullable: true}
  until: {kind: date, bounds: [2000-01-01, 2002-12-31], bins: {every: year}, nullable: true}
  seen: {kind: datetime, bounds: [2000-01-01, 2002-12-31], bins: {every: year}, nullable: true}
  member: {kind: boolean, nullable: true}
"""
)
NOBODY = "00000000-0000-0000-0000-0000000000ff"
ROWS: list[dict[str, Any]] = [
    {"who": NOBODY, "paid": Decimal("12.50"), "whole": Decimal("7.00"), "letter": "ab", "mood": "ok"},
    {"who": NOBODY, "paid": Decimal("Infinity"), "whole": Decimal("7.5"), "letter": "c", "mood": "sad"},
    {"who": None, "paid": Decimal("NaN"), "letter": "", "until": dt.date(2001, 5, 1), "member": True},
    {"who": NOBODY[:-1] + "e", "letter": "x", "seen": dt.datetime(2002, 7, 1, 12), "until": dt.date(9999, 1, 1)},
    {"who": NOBODY, "letter": "ab", "until": dt.date(1, 1, 1), "member": False},
    {"who": None, "letter": "ab", "seen": dt.datetime(9999, 1, 1)},
    {"who": None, "letter": "ab", "seen": dt.datetime(1, 1, 1)},
]


def test_types_of_postgresql_are_read_as_what_they_are(postgres: str) -> None:
    with adbc_driver_postgresql.dbapi.connect(postgres) as connection, connection.cursor() as cursor:
        cursor.execute("CREATE TYPE mood AS ENUM ('sad', 'ok')")
        cursor.execute(
            "CREATE TABLE types (who uuid, paid numeric, whole numeric(9, 2), letter char(5), mood mood, until date, "
            "seen timestamptz, member bool)"
        )
        for row in ROWS:
            names = ", ".join(row)
            far: dict[Any, str] = {dt.date(9999, 1, 1): "'infinity'", dt.date(1, 1, 1): "'-infinity'"}
            far |= {dt.datetime(9999, 1, 1): "'infinity'", dt.datetime(1, 1, 1): "'-infinity'"}
            cells = [far.get(cell, "NULL" if cell is None else f"'{cell}'") for cell in row.values()]
            cursor.execute(f"INSERT INTO types ({names}) VALUES ({', '.join(cells)})")
        connection.commit()
    expected = {name: [row.get(name) for row in ROWS] for name in ("who", *TYPES.domain)}
    rules: list[dict[str, Any]] = [{}, {"unit": "who", "max_rows": 1, "key": KEY}]
    for rule in rules:
        assert counts(Database(postgres, "SELECT * FROM types -- all"), TYPES, **rule) == counts(
            expected, TYPES, **rule
        )


WRONG = {
    "SELECT nope FROM (SELECT 's3cret' AS x) t": "no such column",
    "SELECT * FROM s3cret": "no such table",
    "SELEC 's3cret'": "not one that the database understands",
    "SELECT 's3cret'::int AS job": "did not run the query",
    "SELECT 1 AS who, 's3cret' AS job, 1 / (i - 90000) AS code, 1 AS paid FROM generate_series(1, 100000) i": "the end",
    "SELECT 1 AS job, 2 AS job, 3 AS code, 4 AS paid, 5 AS who": "2 times",
    "DROP TABLE IF EXISTS s3cret": "no such column",
    "SELECT 1; SELECT 's3cret'": "not one that the database understands",
}


@pytest.mark.parametrize("query", WRONG)
def test_what_postgresql_refuses_costs_nothing_and_quotes_nothing(query: str, postgres: str) -> None:
    book = Ledger.in_memory(Budget.zcdp(1), dataset=SCHEMA.name, schema=SCHEMA.dump())
    with pytest.raises(DataError, match=WRONG[query]) as caught:
        fit(Database(postgres, query), SCHEMA, rho=1, ledger=book, mechanism="independent")
    assert SECRET not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__ or caught.value.__context__ is None
    assert book.left() == 1


ADDRESSES = {
    "postgresql://ann:s3cret@127.0.0.1:1/people": "cannot be opened",
    "postgresql://ann:s3@cret@/people?host=/nowhere": "cannot be opened",
    "sqlite:/nowhere/s3cret.db": "cannot be opened",
}


@pytest.mark.parametrize("address", ADDRESSES)
def test_a_database_that_cannot_be_reached_is_not_named(address: str) -> None:
    database = Database(address, "SELECT 's3cret'")
    with pytest.raises(DataError, match=ADDRESSES[address]) as caught:
        open_source(database, SCHEMA)
    assert "cret" not in str(caught.value) + repr(database)
    assert caught.value.__suppress_context__


def test_a_driver_that_is_not_here_is_named_without_the_address(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DataError, match="cannot be opened") as caught:
        open_source(Database("nothing://ann:s3cret@host", "SELECT 1"), SCHEMA)
    assert SECRET not in str(caught.value)
    monkeypatch.setattr("priory.data.sources.adbc.find_spec", lambda _: None)
    with pytest.raises(MissingExtra, match=r"priory\[adbc\]"):
        open_source(Database("postgresql://ann:s3cret@host", "SELECT 1"), SCHEMA)


@pytest.mark.parametrize(("uri", "query"), [("", "SELECT 1"), ("sqlite:x.db", " "), (None, "SELECT 1")])
def test_a_database_needs_an_address_and_a_query(uri: Any, query: str) -> None:
    with pytest.raises(OptionError):
        Database(uri, query)


def run(*arguments: object) -> int:
    from priory.cli import main

    with pytest.raises(SystemExit) as caught:
        main([str(each) for each in arguments])
    return caught.value.code  # type: ignore[return-value]


def test_the_command_line_fits_and_judges_a_database_and_keeps_its_password(
    postgres: str, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "sklearn.ensemble", None)  # learning takes long, and is not what this is about
    with adbc_driver_postgresql.dbapi.connect(postgres) as connection, connection.cursor() as cursor:
        cells = "i AS who, 'cook' AS job, i % 2 + 1 AS code, 0.5::float8 AS paid"
        cursor.execute(f"CREATE TABLE fitted AS SELECT {cells} FROM generate_series(1, 400) i")
        connection.commit()
    SCHEMA.save(tmp_path / "people.yaml")
    Ledger.create(tmp_path / "a.ledger", Terms("people", SCHEMA.dump(), Budget.pure(2)))
    where = ["--adbc", postgres, "--query", "SELECT * FROM fitted"]
    options = ["--schema", tmp_path / "people.yaml", "-o", tmp_path / "p.priory", "--ledger", tmp_path / "a.ledger"]
    options += ["--epsilon", 1, "--mechanism", "independent"]
    assert run("fit", *where, *options) == 0
    assert priory.load(tmp_path / "p.priory").statement.mechanism == "independent"
    assert run("evaluate", tmp_path / "p.priory", *where, "--engine", "memory") == 0
    assert run("fit", *where, *options, "--public-query", "SELECT * FROM fitted LIMIT 50") == 2
    (tmp_path / "p.priory").rename(tmp_path / "first.priory")
    assert run("fit", *where[:-1], "SELECT who FROM fitted", *options) == 4
    said = "".join(capfd.readouterr())
    assert "no use for public data" in said
    assert "no such column" in said
    assert "s3cret-password" not in said
    assert b"s3cret-password" not in b"".join(path.read_bytes() for path in tmp_path.iterdir())


@pytest.mark.parametrize(
    "arguments",
    [
        ["--adbc", "postgresql://ann:s3cret@host/x"],
        ["--query", "SELECT 's3cret'"],
        ["t.csv", "--adbc", "postgresql://ann:s3cret@host/x", "--query", "SELECT 1"],
        ["--adbc", "postgresql://ann:s3cret@host/x", "--query", "SELECT 1", "--engine", "hadoop"],
        ["postgresql://ann:s3cret@host/x"],
        ["t.csv", "postgresql://ann:s3cret@host/x"],
        ["t.csv", "--public-query", "SELECT 1"],
        [],
    ],
)
def test_wrong_options_are_refused_and_no_password_is_said(
    arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    SCHEMA.save(tmp_path / "people.yaml")
    options = ["--schema", tmp_path / "people.yaml", "-o", tmp_path / "p.priory", "--epsilon", "1"]
    assert run("fit", *arguments, *options) in (2, 4)
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert SECRET not in said


def test_public_rows_may_be_asked_of_the_same_database(sqlite: Path) -> None:
    from priory.cli.tables import public_of

    query = "SELECT * FROM people LIMIT 1500"
    public = public_of(None, f"sqlite:{sqlite}", query, None)
    release = fit(
        Database(f"sqlite:{sqlite}", "SELECT * FROM people"), SCHEMA, rho=1, public=public, mechanism="pmw-pub"
    )
    assert release.statement.mechanism == "pmw-pub"


def test_schemas_and_plans_ask_a_database_too(tmp_path: Path) -> None:
    address, path = f"sqlite:{tmp_path / 'people.db'}", tmp_path / "people.yaml"
    with sqlite3.connect(tmp_path / "people.db") as connection:
        connection.execute("CREATE TABLE people (job, town)")
        connection.executemany("INSERT INTO people VALUES (?, ?)", [("abc"[i % 3], "xy"[i % 2]) for i in range(300)])
    query, there = "SELECT * FROM people", ["--adbc", address]
    drafted = command("schema", "init", *there, "--query", query, "--name", "people", "-o", path)
    assert (drafted.returncode, Schema.load(path).domain.attributes) == (0, ("job", "town")), drafted.stderr
    checked = command("schema", "check", path, *there, "--public-query", query)
    assert "the public table fits it" in checked.stderr
    wrong = command("schema", "check", path, *there, "--public-query", "SELECT job FROM people")
    assert (wrong.returncode, "'town'" in wrong.stderr) == (4, True), wrong.stderr
    plan = ["plan", "--schema", path, "--rows", 300, "--rho", 1, "--seconds", 0.01, "--runs", 1, "--json", *there]
    look = ["--public-query", query, "--query", f"{query} LIMIT 200", "--price", 1, "--engine", "duckdb"]
    assert json.loads(command(*plan, *look).stdout)["public_check"]
    learnt = command(
        *("schema", "discover", *there, "--query", query, "--columns", "job,town", "--name", "people"),
        *("--output", tmp_path / "learnt.yaml"),
        *("--epsilon", 8, "--delta", "1e-3", "--kind", "job=category", "--kind", "town=category"),
    )
    assert (learnt.returncode, "Spent" in learnt.stderr) == (0, True), learnt.stderr
    for given, said in {
        ("schema", "init", *there, "--query", query): "--name",
        ("schema", "init", "--query", query): "DATA",
        ("schema", "discover", *there, "--query", query, "--name", "x", "--epsilon", 1, "-o", "x.yaml"): "--columns",
        ("schema", "check", path, "--public-query", query): "--public-query",
        (*plan[:-2], "--engine", "duckdb"): "--check",
        (*plan, "--query", query, "--price", 1): "--check",
        (*plan, "--query", query, "--check", "t.csv", "--price", 1, "--public-query", query): "--adbc",
    }.items():
        refused = command(*given)
        assert (refused.returncode, said in refused.stderr) == (2, True), (given, refused.stderr)
