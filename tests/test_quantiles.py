"""Several quantiles in one call are those of single calls, in every container."""

import pytest

for library in ("pandas", "polars", "pyarrow"):
    pytest.importorskip(library)

import csv
import itertools
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from priory.app.fit import fit
from priory.data.schema import Schema
from priory.data.table import Table
from priory.errors import OptionError
from priory.privacy.randomness import Replay
from priory.release import Release

SCHEMA = Schema.parse(
    """
priory: 1
name: few
columns:
  age: {kind: integer, bounds: [0, 99], bins: 5, nullable: true}
  pay: {kind: real, bounds: [0, 9.5], bins: 3, spikes: [0, 9.5], other: 0}
  at: {kind: ordinal, levels: [low, mid, high], nullable: true}
  born: {kind: date, bounds: [2000-01-01, 2003-12-31], bins: {every: year}, nullable: true}
  seen: {kind: datetime, bounds: [2020-01-01, 2020-01-02], bins: 3, nullable: true}
  rooms: {kind: category, levels: [1, 2, 4], other: 4}
  one: {kind: integer, bounds: [3, 8], bins: 1, nullable: true}
"""
)
NAMES = tuple(column.name for column in SCHEMA.modelled)
CONDITIONS = (None, "age >= 30", "pay = 0 or age is null", "born < 2002 and rooms <> 4", "seen is not null or one > 4")
SHARES = st.sampled_from([0, 0.1, 0.5, 1]) | st.floats(0, 1)


@cache
def released(kind: str) -> Release:
    """Few rows and many, pairs of columns that were measured and some of which nothing is known."""
    rng = np.random.default_rng(0)
    n = 9 if kind == "few rows" else 400
    data = {
        "age": [None if i % 5 == 0 else i % 100 for i in range(n)],
        "pay": rng.choice([0, 0, 2.5, 9.5], n),
        "at": rng.choice(["low", "mid"], n).tolist(),
        "born": [None if i % 7 == 0 else f"200{i % 4}-05-05" for i in range(n)],
        "seen": [f"2020-01-01T{i % 24:02}:30:00" for i in range(n)],
        "rooms": rng.choice([1, 2], n).tolist(),
        "one": [None] * n,
    }
    mechanism, rho = {"few rows": ("mst", "0.01"), "pairs": ("mst", "1"), "columns": ("independent", "1")}[kind]
    return fit(data, SCHEMA, rho=rho, mechanism=mechanism, randomness=Replay(seed=0))


@st.composite
def calls(draw: st.DrawFn) -> tuple[str, dict[str, Any]]:
    """A release, and what is asked of it but for the shares."""
    column, by = draw(st.tuples(st.sampled_from(NAMES), st.lists(st.sampled_from(NAMES), max_size=2, unique=True)))
    where, level = draw(st.tuples(st.sampled_from(CONDITIONS), st.sampled_from([0.9, None])))
    asked = {"column": column, "by": [name for name in by if name != column], "where": where, "level": level}
    return draw(st.sampled_from(["few rows", "pairs", "columns"])), asked


# How the columns of a table are read back from each container, a missing cell as None.
CONTAINERS: dict[str, Callable[[Table], list[list[Any]]]] = {
    "dict": lambda table: list(table.to_dict().values()),
    "pandas": lambda table: [
        series.astype(object).where(series.notna(), None).tolist() for _, series in table.to_pandas().items()
    ],
    "polars": lambda table: [series.to_list() for series in table.to_polars()],
    "Arrow": lambda table: [column.to_pylist() for column in table.to_arrow().columns],
    "CSV": lambda table: [list(each) for each in zip(*csv.reader(table.csv_lines()), strict=True)],
}


# With --hypothesis-profile long.
CALLS = 10_000 if settings().max_examples > 50 else 250


@settings(max_examples=CALLS)
@given(calls(), st.lists(SHARES, min_size=1, max_size=4))
def test_several_quantiles_are_those_of_single_calls_in_every_container(
    call: tuple[str, dict[str, Any]], shares: list[float]
) -> None:
    release, asked = released(call[0]), call[1]
    several = release.quantile(at=shares, **asked, draws=5)
    each = [release.quantile(at=share, **asked, draws=5) for share in shares]
    assert several.names[1:] == each[0].names
    assert several.to_dict()[several.names[0]] == [share for share in shares for _ in range(len(each[0]))]
    # Notes on the condition, one on bins where a call had one, which counts intervals, and the stamp of tests.
    notes = dict.fromkeys(_uncounted(note) for table in each for note in table.notes)
    assert sorted(map(_uncounted, several.notes)) == sorted(notes)
    assert several.notes[-1] == each[0].notes[-1]
    for name, columns_of in CONTAINERS.items():
        wanted = [list(itertools.chain(*pieces)) for pieces in zip(*map(columns_of, each), strict=True)]
        assert columns_of(several)[1:] == wanted, name


def _uncounted(note: str) -> str:
    return "bins" if "narrower bins" in note else note


def test_shares_may_come_in_anything_that_lists_them() -> None:
    release, shares = released("columns"), [0.25, 0.75]
    wanted = release.quantile("age", shares).to_dict()
    others: list[Any] = [tuple(shares), np.array(shares), np.array(shares, dtype=np.float32), iter(shares)]
    for given_as in others:
        assert release.quantile("age", given_as).to_dict() == wanted


def test_shares_that_are_none_are_refused() -> None:
    release = released("columns")
    with pytest.raises(OptionError, match="at least one share"):
        release.quantile("age", [])
    with pytest.raises(OptionError, match="from 0 to 1"):
        release.quantile("age", [0.5, 2])


@pytest.mark.parametrize("share", [0, 0.1, 0.5, 0.9, 1])
@pytest.mark.parametrize("column", NAMES[:-1])
def test_no_quantile_has_an_interval_where_nothing_is_known_of_its_error(column: str, share: float) -> None:
    table = released("columns").quantile(column, share, by="one").to_dict()
    assert set(table["source"]) == {"independent by assumption"}
    assert set(table["low"]) == set(table["high"]) == {None}
