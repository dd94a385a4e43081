"""Probes and raw tables: public partitions of texts, and rows that count before there is a schema."""

import csv
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from priory.data.persons import PersonRule
from priory.data.probes import DATE_FORMATS, SCALE, Days, Numbers, Probe, Spellings, refined
from priory.data.sources.raw import Probed, RawTable, open_raw
from priory.errors import DataError, OptionError

SPELLINGS = Spellings()
texts = st.one_of(
    st.none(),
    st.text(max_size=12),
    st.integers().map(str),
    st.floats().map(str),
    st.dates().map(str),
    st.datetimes().map(str),
    st.sampled_from(["", " ", "NA", "?", "yes", "FALSE", "007", "1,5", "$3", "3/4/2020", "25/12/2020", "31.12.1999"]),
)
edges = st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=8, unique=True).map(lambda each: tuple(sorted(each)))
probes = st.one_of(
    st.just(SPELLINGS),
    st.builds(Numbers, edges),
    st.builds(
        Days,
        st.lists(st.integers(-9999, 9999), min_size=1, unique=True).map(lambda each: tuple(sorted(each))),
        st.sampled_from(list(DATE_FORMATS)),
    ),
)
KEY = bytes(range(32))


@given(probes, texts)
def test_every_text_is_in_one_cell_of_a_probe(probe: Probe, text: str | None) -> None:
    assert 0 <= probe.place(text) < probe.size


@pytest.mark.parametrize(
    ("text", "family", "spelling"),
    [
        (None, "null", ""),
        ("  ", "null", ""),
        ("?", "null", "?"),
        ("Yes", "boolean", "Yes"),
        ("007", "padded", ""),
        ("0", "number", "whole"),
        ("-1.0", "number", "whole"),
        ("2.5", "number", "fraction"),
        ("1e999", "number", "whole"),
        ("2024-02-29", "date", "date"),
        ("2023-02-29", "text", ""),
        ("2024-01-01T10:00:00+02:00", "date", "datetime"),
        ("31.12.1999", "date", "d.m.Y"),
        ("12/25/2020", "date", "m/d/Y"),
        ("25/12/2020", "date", "d/m/Y"),
        ("1/2/2020", "date", "either"),
        ("1.234,5", "odd number", "decimal comma"),
        ("12 %", "odd number", "percent or currency"),
        ("x" * 1000, "text", ""),
        ("9" * 1000, "text", ""),
    ],
)
def test_texts_are_what_people_read(text: str | None, family: str, spelling: str) -> None:
    assert SPELLINGS.cells[SPELLINGS.place(text)][:2] == (family, spelling)


@given(
    seen=st.dictionaries(st.integers(0, len(SCALE)), st.floats(0, 1e6), min_size=1, max_size=4),
    enough=st.floats(1, 1e5),
    whole=st.booleans(),
)
def test_a_refined_grid_rises_and_covers_what_was_seen(seen: dict[int, float], *, enough: float, whole: bool) -> None:
    grid = refined(seen, enough, whole=whole)
    assert list(grid) == sorted(set(grid))
    if whole:
        assert all(edge == int(edge) for edge in grid)
    else:
        assert all(grid[0] <= edge <= grid[-1] for i in seen for edge in SCALE[max(i - 1, 0) : i + 1])


rows = st.lists(
    st.tuples(st.sampled_from(["1", "2", "2.0", " 3", None]), st.sampled_from(["a", "b", "c", None, "a,b"]), texts),
    max_size=25,
)


def opened(table: Sequence[tuple[str | None, ...]], rule: PersonRule | None) -> RawTable:
    data = {name: [row[i] for row in table] for i, name in enumerate(("who", "x", "y"))}
    return open_raw(data, ["x", "y"], rule)


def counted(table: RawTable, column: str) -> Counter[object]:
    return Counter(
        {
            value: int(n)
            for chunk in table.values(column, "text")
            for value, n in zip(chunk.values, chunk.persons, strict=True)
        }
    )


@settings(max_examples=12, deadline=None)
@given(rows, st.integers(1, 3))
def test_no_person_adds_more_rows_or_values_than_may_count(table: list[tuple[str | None, ...]], max_rows: int) -> None:
    rule = PersonRule("who", max_rows, KEY)
    everyone = opened(table, rule)
    for person in ("1", "2", "3"):
        without = opened(
            [row for row in table if row[0] is None or row[0].strip().rstrip("0").rstrip(".") != person], rule
        )
        for column in ("x", "y"):
            more = counted(everyone, column)
            more.subtract(counted(without, column))
            # One person adds 1 to each of at most max_rows values, and changes nothing else.
            assert all(0 <= n <= 1 for n in more.values())
            assert sum(more.values()) <= max_rows
            size = SPELLINGS.size
            one, other = (
                Probed(each, {column: SPELLINGS}).count([(column,)])[0].values for each in (everyone, without)
            )
            assert one.shape == other.shape == (size,)
            assert 0 <= int((one - other).sum()) <= max_rows
            assert (one >= other).all()


@settings(max_examples=10, deadline=None)
@given(rows)
def test_the_order_of_rows_says_nothing(table: list[tuple[str | None, ...]]) -> None:
    rule = PersonRule("who", 2, KEY)
    one, other = opened(table, rule), opened(table[::-1], rule)
    assert counted(one, "x") == counted(other, "x")
    assert counted(one, "y") == counted(other, "y")


def test_a_file_and_a_frame_have_the_same_values(tmp_path: Path) -> None:
    table = [("1", "a,b", "3.5"), ("2", None, "2020-01-01"), ("2.0", "ü", "x"), (None, "a", "0"), ("3", "a", None)] * 3
    path = tmp_path / "table.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(
            [("who", "x", "y"), *(["" if each is None else each for each in row] for row in table)]
        )
    for rule in (None, PersonRule("who", 2, KEY)):
        for column in ("x", "y"):
            assert counted(open_raw(path, ["x", "y"], rule), column) == counted(opened(table, rule), column)


def test_typed_columns_are_read_as_their_texts() -> None:
    data = {
        "b": np.array([True, False]),
        "f": np.array([1.0, np.nan]),
        "d": np.array(["2020-01-01", "NaT"], dtype="datetime64[D]"),
    }
    source = Probed(open_raw(data, list(data), None), dict.fromkeys(data, SPELLINGS))
    seen = {name: {SPELLINGS.cells[i][:2] for i in np.flatnonzero(source.count([(name,)])[0].values)} for name in data}
    assert seen == {
        "b": {("boolean", "true"), ("boolean", "false")},
        "f": {("number", "whole"), ("null", "")},
        "d": {("date", "date"), ("null", "")},
    }


def test_only_probes_of_the_closed_list_are_counted() -> None:
    class Mine(Probe):
        size = 2

        def place(self, text: str | None) -> int:
            return int(text == "secret")

    with pytest.raises(OptionError, match="closed"):
        Probed(open_raw({"a": ["secret"]}, ["a"], None), {"a": Mine()})


def test_a_missing_column_is_an_error_that_quotes_no_cell() -> None:
    with pytest.raises(DataError, match="no such column") as caught:
        open_raw({"a": ["secret"]}, ["b"], None)
    assert "secret" not in str(caught.value)
