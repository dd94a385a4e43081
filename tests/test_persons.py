"""Persons: one person is one, in every container, type and spelling."""

import csv
import datetime as dt
import decimal
import io
import uuid
from collections import Counter
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from priory.data.cells import Cells
from priory.data.kinds import Category, Unmodelled
from priory.data.persons import record_hash
from priory.data.schema import Schema
from priory.data.sources.arrow_cells import arrow_cells
from priory.data.sources.duckdb import spelling
from priory.data.sources.encoding import person_cell
from priory.data.sources.files import connect, container_errors
from priory.data.sources.frames import pandas_cells
from priory.data.sources.opening import open_source
from priory.data.spelling import of_cell, person_texts
from priory.data.sql import Cell

SCHEMA = Schema.of([Unmodelled.of("who", kind="id"), Category.of("x", list("abc"), other="c")], name="persons")
KEY = bytes(range(32))
WIDE = decimal.Context(prec=60)

# Ways to write a whole number down, each of which some program uses.
TEXTS: list[Callable[[int], str]] = [
    str,
    "{}.0".format,
    "{}.00".format,
    " {}".format,
    "{} ".format,
    "\t{}\r".format,
    "\ufeff{}".format,
    "00{}".format,
    "+{}".format,
    "{}.".format,
]
NUMBERS: list[Callable[[int], object]] = [
    int,
    float,
    np.int64,
    np.float64,
    np.longdouble,
    Decimal,
    lambda i: Decimal(f"{i}.00"),
    Fraction,
    lambda i: str(i).encode(),
]

ids = st.integers(0, 9) | st.integers(0, 2**53)
tables = st.lists(st.tuples(ids, st.sampled_from("abc"), st.integers(0, 10**6)), min_size=1, max_size=30)
Rows = list[tuple[int, str, int]]


def kept(rows: Rows, max_rows: int) -> list[int]:
    """The records of each person that come first in line, counted the slow way."""
    codes = {letter: i for i, letter in enumerate("abc")}
    counts, copies, places = [0, 0, 0], Counter[tuple[int, str]](), dict[int, list[tuple[str, int]]]()
    for person, letter, _ in rows:
        copies[person, letter] += 1
        place = record_hash(KEY, str(person), [codes[letter]], copies[person, letter])
        places.setdefault(person, []).append((place, codes[letter]))
    for line in places.values():
        for _, code in sorted(line)[:max_rows]:
            counts[code] += 1
    return counts


def counted(data: object, max_rows: int = 1) -> list[int]:
    source = open_source(data, SCHEMA, unit="who", max_rows=max_rows, key=KEY)
    return [int(count) for count in source.count([("x",)])[0].values]


def mixed(rows: Rows, ways: list[Callable[[int], Any]]) -> list[Any]:
    return [ways[way % len(ways)](person) for person, _, way in rows]


def csv_file(folder: Path, who: list[str], x: list[str]) -> Path:
    out = io.StringIO()
    csv.writer(out, quoting=csv.QUOTE_ALL).writerows([("who", "x"), *zip(who, x, strict=True)])
    (folder / "p.csv").write_bytes(out.getvalue().encode())
    return folder / "p.csv"


def parquet_file(folder: Path, table: pa.Table) -> Path:
    pq.write_table(table, folder / "p.parquet")
    return folder / "p.parquet"


def arrow_columns(rows: Rows) -> dict[str, pa.Array]:
    who, texts = [person for person, _, _ in rows], mixed(rows, TEXTS)
    return {
        "integers": pa.array(who, pa.int64()),
        "floats": pa.array([float(i) for i in who], pa.float64()),
        "decimals": pa.array([Decimal(i) for i in who], pa.decimal128(38, 2)),
        "texts": pa.array(texts, pa.string()),
        "large texts": pa.array(texts, pa.large_string()),
        "bytes": pa.array([text.encode() for text in texts], pa.binary()),
        "dictionary": pa.array(texts).dictionary_encode(),
    }


@settings(max_examples=20)
@given(tables, st.integers(1, 3))
def test_a_persons_records_are_bounded_alike_in_every_frame(rows: Rows, max_rows: int) -> None:
    expected, x = kept(rows, max_rows), [letter for _, letter, _ in rows]
    texts, who = mixed(rows, TEXTS), [person for person, _, _ in rows]
    frames: dict[str, object] = {
        "mapping": {"who": mixed(rows, [*TEXTS, *NUMBERS]), "x": x},
        "pandas objects": pd.DataFrame({"who": pd.Series(mixed(rows, [*TEXTS, *NUMBERS]), dtype=object), "x": x}),
        "pandas category": pd.DataFrame({"who": pd.Categorical(texts), "x": x}),
    }
    for kind in ("int64", "Int64", "float64", "Float64", "int64[pyarrow]", "double[pyarrow]", "category"):
        frames[f"pandas {kind}"] = pd.DataFrame({"who": pd.Series(who).astype(kind), "x": x})
    for kind in ("string", "object", "string[pyarrow]"):
        frames[f"pandas texts as {kind}"] = pd.DataFrame({"who": pd.Series(texts, dtype=kind), "x": x})
    for name, column in arrow_columns(rows).items():
        table = pa.table({"who": column, "x": x})
        frames |= {f"arrow {name}": table, f"polars {name}": pl.from_arrow(table)}
    for name, frame in frames.items():
        assert counted(frame, max_rows) == expected, name


@settings(max_examples=5)
@given(rows=tables, max_rows=st.integers(1, 3))
def test_a_persons_records_are_bounded_alike_in_every_file_and_relation(
    rows: Rows, max_rows: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    expected, x = kept(rows, max_rows), [letter for _, letter, _ in rows]
    folder = tmp_path_factory.mktemp("persons")
    assert counted(csv_file(folder, mixed(rows, TEXTS), x), max_rows) == expected
    connection = duckdb.connect()
    for name, column in arrow_columns(rows).items():
        table = pa.table({"who": column, "x": x})
        assert counted(parquet_file(folder, table), max_rows) == expected, name
        assert counted(connection.from_arrow(table), max_rows) == expected, name
    connection.register("t", pa.table({"who": [person for person, _, _ in rows], "x": x}))
    for kind in ("BIGINT", "HUGEINT", "UBIGINT", "DOUBLE", "DECIMAL(38, 5)", "VARCHAR"):
        assert counted(connection.sql(f"SELECT who::{kind} AS who, x FROM t"), max_rows) == expected, kind


COLUMNS = {
    "boolean": (pa.bool_(), st.booleans()),
    "int8": (pa.int8(), st.integers(-128, 127)),
    "int64": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "uint64": (pa.uint64(), st.integers(0, 2**64 - 1)),
    "float32": (pa.float32(), st.floats(width=32)),
    "float64": (pa.float64(), st.floats() | st.integers(-(2**70), 2**70).map(float)),
    "decimal": (pa.decimal128(38, 6), st.decimals(-(10**20), 10**20, places=6).map(WIDE.create_decimal)),
    "text": (pa.string(), st.text(st.characters(exclude_categories=["Cs"])) | st.from_regex(r"[0-9eE.+-]{1,9}")),
    "bytes": (pa.binary(), st.binary()),
    "day": (pa.date32(), st.integers(-(2**31) + 1, 2**31 - 1)),
    "seconds": (pa.timestamp("s"), st.integers(-(2**63) + 1, 2**63 - 1)),
    "milliseconds": (pa.timestamp("ms"), st.integers(-(2**63) + 1, 2**63 - 1)),
    "microseconds": (pa.timestamp("us"), st.integers(-(2**63) + 1, 2**63 - 1) | st.integers(-(10**16), 10**16)),
    "nanoseconds": (pa.timestamp("ns"), st.integers(-(2**63) + 1, 2**63 - 1)),
    "with a time zone": (pa.timestamp("us", "Asia/Kolkata"), st.integers(-(2**63) + 1, 2**63 - 1)),
    "time": (pa.time64("us"), st.times()),
    "uuid": (pa.uuid(), st.uuids().map(lambda found: found.bytes)),
}


def texts_by_query(column: pa.Array) -> list[str | None]:
    """What a query makes of an Arrow column."""
    connection = database()
    relation = connection.from_arrow(pa.table({"i": range(len(column)), "who": column}))
    kind, cell = person_cell(Cell("who", str(relation.types[1])))
    with spelling(connection, kind) as spell:
        connection.register("t", relation)
        found = connection.execute(f"SELECT {spell}({cell}) FROM t ORDER BY i").fetchall()
        connection.unregister("t")
    return [text for (text,) in found]


@cache
def database() -> duckdb.DuckDBPyConnection:
    """One for all examples: to open one takes longer than an example."""
    return connect()


@pytest.mark.parametrize("kind", COLUMNS)
@settings(max_examples=12)
@given(data=st.data())
def test_a_query_and_a_frame_spell_a_person_alike(kind: str, data: st.DataObject) -> None:
    stored, values = COLUMNS[kind]
    drawn = data.draw(st.lists(st.none() | values, min_size=1, max_size=20))
    is_moment = pa.types.is_timestamp(stored) or pa.types.is_date(stored)
    plain = pa.int32() if pa.types.is_date(stored) else pa.int64()
    column = pa.array(drawn, plain).view(stored) if is_moment else pa.array(drawn, stored)
    assert texts_by_query(column) == person_texts(arrow_cells(column))


@given(st.integers(), st.integers())
def test_distinct_numbers_are_distinct_persons(one: int, other: int) -> None:
    assert (of_cell(one) == of_cell(other)) == (one == other)
    assert of_cell(str(one)) == of_cell(Decimal(one)) == str(one)


@given(st.text())
def test_a_spelling_is_spelled_as_itself(text: str) -> None:
    spelled = of_cell(text)
    assert spelled is None or of_cell(spelled) == spelled


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_double_and_its_shortest_text_are_one_person(number: float) -> None:
    assert of_cell(number) == of_cell(repr(number)) == of_cell(str(np.float64(number))) == of_cell(f"{number:.16e}")


@given(st.datetimes(), st.timezones())
def test_a_moment_is_one_person_in_every_type(naive: dt.datetime, zone: dt.tzinfo) -> None:
    texts = {of_cell(naive), of_cell(np.datetime64(naive)), of_cell(naive.isoformat()), of_cell(str(naive))}
    assert len(texts) == 1
    aware = naive.replace(tzinfo=zone)
    offset = aware.utcoffset() or dt.timedelta()
    if not offset.total_seconds() % 60 and abs(naive.year - 5000) < 4990:
        assert of_cell(aware) == of_cell(aware.isoformat()) == of_cell(naive - offset)


def test_a_day_is_its_midnight() -> None:
    day = dt.date(2024, 3, 1)
    stamp = pd.Timestamp(2024, 3, 1)
    cells = [day, stamp, stamp.to_pydatetime(), np.datetime64(day), "2024-03-01", "2024-03-01 00:00:00"]
    cells += ["2024-03-01T00:00Z", stamp.tz_localize("UTC"), "2024-03-01T01:00:00.000+01:00", np.datetime64(stamp)]
    assert {of_cell(cell) for cell in cells} == {"2024-03-01"}
    assert of_cell(stamp + pd.Timedelta(1, "ns")) == "2024-03-01T00:00:00.000000001"
    assert person_texts(pandas_cells(pd.Series([stamp, None]))) == ["2024-03-01", None]


@given(st.uuids())
def test_a_uuid_is_one_person_however_it_is_written(found: uuid.UUID) -> None:
    ways: list[object] = [found, str(found), str(found).upper(), found.hex, f"{{{found}}}", found.urn]
    assert len({of_cell(way) for way in ways}) == 1


APART = [
    ("ann", "Ann"),
    ("A007", "A7"),
    ("12e4", "120000"),
    ("12e34567", "13e34567"),
    ("true", "1"),
    ("7", "7.5"),
    ("-7", "7"),
    ("Ann Lee", "AnnLee"),
    ("nan", "NaN"),
    ("9007199254740993", "9007199254740992"),
]


@pytest.mark.parametrize(("one", "other"), APART)
def test_these_are_two_persons(one: str, other: str) -> None:
    assert of_cell(one) != of_cell(other)


SAME = [
    ["7", 7, 7.0, "7.0", " 7", "+7", "007", "7e0", "7.0E+00", "7.", Decimal("7.00"), np.float32(7), b"7", "\ufeff7"],
    ["0", -0.0, "-0", "0e0", "000"],
    ["1e5", 100000, "1.0E+05", "100000"],
    [True, np.True_, "true", "True", "TRUE"],
    [2.0**60, "1.152921504606847e+18", 2**60, str(2**60)],
    ["Zoë", "Zoe\u0308", " Zoë ", "Zoë".encode()],
    ["Ann Lee", "Ann  Lee", "Ann\u00a0Lee", "Ann Lee\0"],
    [".5", 0.5, "0.50", Decimal("0.5")],
]


@pytest.mark.parametrize("cells", SAME, ids=lambda cells: str(cells[0]))
def test_these_are_one_person(cells: list[object]) -> None:
    assert len({of_cell(cell) for cell in cells}) == 1
    assert counted({"who": cells, "x": ["a"] * len(cells)}) == [1, 0, 0]


@pytest.mark.parametrize("cell", [None, float("nan"), Decimal("NaN"), pd.NA, pd.NaT, "", "  ", np.datetime64("NaT")])
def test_this_is_nobody(cell: object) -> None:
    assert of_cell(cell) is None


def test_a_person_spelled_7_and_7_0_counts_once_in_every_container(tmp_path: Path) -> None:
    x = ["a", "a"]
    texts = pa.table({"who": ["7", "7.0"], "x": x})
    decimals = pa.table({"who": pa.array([Decimal(7), Decimal("7.0")], pa.decimal128(5, 1)), "x": x})
    data = [
        csv_file(tmp_path, ["7", "7.0"], x),
        {"who": ["7", "7.0"], "x": x},
        {"who": [Decimal(7), Decimal("7.0")], "x": x},
        *[shape for table in (texts, decimals) for shape in (table, table.to_pandas(), pl.from_arrow(table))],
        duckdb.connect().from_arrow(texts),
    ]
    assert [counted(each) for each in data] == [[1, 0, 0]] * len(data)


MOMENTS = ["'infinity'", "'-infinity'", "'290000-01-01'", "'2024-03-01'", "NULL"]


@pytest.mark.parametrize("kind", ["TIMESTAMP", "TIMESTAMPTZ", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS", "DATE"])
def test_no_moment_of_a_person_is_an_error(kind: str) -> None:
    values = ", ".join(f"(TRY_CAST({moment} AS {kind}), 'a')" for moment in MOMENTS)
    relation = duckdb.connect().sql(f"FROM (VALUES {values}) AS t(who, x)")
    assert counted(relation) == [1 if kind == "TIMESTAMP_NS" else 2, 0, 0]


def test_seconds_that_no_timestamp_holds_are_nobody(tmp_path: Path) -> None:
    table = pa.table({"who": pa.array([2**62, -(2**62), 0]).view(pa.timestamp("s")), "x": ["a"] * 3})
    assert counted(table) == counted(duckdb.connect().from_arrow(table)) == [1, 0, 0]
    days = pa.table({"who": pa.array([2**31 - 1, 2**30, 0], pa.int32()).view(pa.date32()), "x": ["a"] * 3})
    assert counted(days) == counted(parquet_file(tmp_path, days)) == [1, 0, 0]


@pytest.mark.parametrize("kind", ["QueryLog", None])
def test_the_key_stands_in_no_log_of_the_callers_database(kind: str | None) -> None:
    connection = duckdb.connect()
    relation = connection.sql("SELECT range AS who, 'a' AS x FROM range(5)")
    level = "level = 'trace'" if kind is None else f"'{kind}'"
    connection.execute(f"CALL enable_logging({level})")
    key = b"a key of thirty-two bytes or so."
    source = open_source(relation, SCHEMA, unit="who", key=key)
    connection.execute("CALL disable_logging()")
    assert source.count([()])[0].total == 5
    logged = str(connection.execute("SELECT type, message FROM duckdb_logs").fetchall()).lower()
    assert "copy" in logged
    assert key.hex() not in logged
    assert key.decode() not in logged


def test_nothing_of_ours_is_left_in_the_callers_database() -> None:
    connection = duckdb.connect()
    views = "SELECT view_name FROM duckdb_views() UNION SELECT table_name FROM duckdb_tables() ORDER BY 1"
    functions = "SELECT count(*) FROM duckdb_functions()"
    before = [connection.execute(query).fetchall() for query in (views, functions)]
    counted(connection.sql("SELECT 1 AS who, 'a' AS x"))
    assert [connection.execute(query).fetchall() for query in (views, functions)] == before


def test_the_query_that_bounds_persons_has_its_key_as_a_parameter() -> None:
    from priory.data.sources.encoding import bounded

    query = bounded("FROM t", ["c0"], 2)
    with connect() as connection:
        connection.execute("CREATE TABLE t AS SELECT 0 AS c0, 'a' AS person")
        plan = connection.execute(f"EXPLAIN {query}", {"key": KEY.hex()}).fetchall()
    assert "$key" in query
    assert plan


def test_a_reader_who_stops_a_query_stops_the_program() -> None:
    def stop(_number: int) -> str:
        raise KeyboardInterrupt

    with connect() as connection:
        connection.create_function("stop", stop, ["BIGINT"], "VARCHAR")
        with pytest.raises(KeyboardInterrupt), container_errors("it"):
            connection.execute("SELECT stop(range) FROM range(3)").fetchall()
        connection.remove_function("stop")
    # This is what DuckDB makes of it between calls of functions.
    with pytest.raises(KeyboardInterrupt), container_errors("it"):
        raise RuntimeError("Query interrupted")
    with pytest.raises(RuntimeError, match="other"), container_errors("it"):
        raise RuntimeError("other")


@pytest.mark.parametrize("unit", ["Y", "M", "W", "D", "h", "m", "s", "ms", "us", "ns", "25s", "generic"])
def test_no_datetime_of_numpy_is_an_error(unit: str) -> None:
    kind = "datetime64" if unit == "generic" else f"datetime64[{unit}]"
    moments = np.array([2**63 - 1, -(2**63), 2**62, -(2**62), 0]).view(kind)
    texts = person_texts(Cells(moments))
    assert texts == [of_cell(moment) for moment in moments]
    assert texts[:2] == [None, None]
    assert texts[4] == (None if unit == "generic" else "1970-01-01")


def test_cells_that_are_stored_once_are_spelled_where_they_stand() -> None:
    cells = Cells(np.array(["7", "7.0", "b"], dtype=object), np.array([False, True, False]), np.array([1, 0, 2]))
    assert person_texts(cells) == ["7", None, "b"]
