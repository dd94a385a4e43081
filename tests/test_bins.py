"""The bins that the words of a schema stand for."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from priory.data.kinds import bins
from priory.data.schema import Schema
from strategies_data import DAY


def parse_one(options: str) -> Any:
    return Schema.parse(f"priory: 1\nname: x\ncolumns:\n  a: {options}\n").columns[0]


@given(st.integers(-50, 50), st.integers(0, 60), st.data())
def test_equal_bins_of_integers_cover_them_and_differ_by_one(low: int, span: int, data: st.DataObject) -> None:
    count = data.draw(st.integers(1, span + 1))
    edges = bins.equal_width("a", low, low + span, count, whole=True)
    widths = set(np.diff(edges))
    assert (edges[0], edges[-1], len(edges)) == (low, low + span + 1, count + 1)
    assert max(widths) - min(widths) <= 1


@given(st.integers(0, 50), st.integers(0, 3000), st.data())
def test_logarithmic_bins_of_integers_each_hold_one(low: int, span: int, data: st.DataObject) -> None:
    count = data.draw(st.integers(1, span + 1))
    edges = bins.logarithmic("a", low, low + span, count, whole=True)
    assert (edges[0], edges[-1], len(edges)) == (low, low + span + 1, count + 1)
    assert min(np.diff(edges)) >= 1


def test_logarithmic_bins_grow_by_a_ratio() -> None:
    assert bins.logarithmic("a", 1, 10000, 4, whole=False) == (1, 10, 100, 1000, 10000)
    assert bins.logarithmic("a", 0, 999, 3, whole=False) == (0, 9, 99, 999)
    assert len(bins.logarithmic("a", 1e-313, 1e300, 5, whole=False)) == 6


@pytest.mark.parametrize(
    ("every", "labels"),
    [
        ("year", ["[2023-11-20, 2024-01-01)", "[2024-01-01, 2024-03-05]"]),
        ("quarter", ["[2023-11-20, 2024-01-01)", "[2024-01-01, 2024-03-05]"]),
        ("month", ["[2023-11-20, 2023-12-01)", "2023-12", "2024-01", "2024-02", "[2024-03-01, 2024-03-05]"]),
    ],
)
def test_calendar_bins_begin_where_their_units_do(every: str, labels: list[str]) -> None:
    column = parse_one(f"{{kind: date, bounds: [2023-11-20, 2024-03-05], bins: {{every: {every}}}, nullable: true}}")
    assert column.place_labels == tuple(labels)


def test_weeks_begin_on_monday_and_hours_on_the_hour() -> None:
    week = parse_one("{kind: date, bounds: [2024-03-01, 2024-03-12], bins: {every: week}, nullable: true}")
    assert week.place_labels[1] == "[2024-03-04, 2024-03-11)"
    hour = parse_one("{kind: datetime, bounds: [2024-03-01, 2024-03-01], bins: {every: hour}, nullable: true}")
    assert hour.places == 24
    assert hour.place_labels[23] == "[2024-03-01T23:00, 2024-03-01T23:59:59.999999]"


def test_bins_with_spikes_are_written_in_the_words_they_were_given() -> None:
    for bins_given in ("bins: 4", "bins: {log: 3}", "bins: {edges: [0, 7, 100]}"):
        for kind in ("integer", "real"):
            text = f"{{kind: {kind}, bounds: [0, 100], {bins_given}, spikes: [0, 25, 99, 100], nullable: true}}"
            column = parse_one(text)
            dumped = Schema.of([column], name="x").dump()
            assert bins_given in dumped.replace(".0", "").replace("101]", "100]")
    single = parse_one("{kind: integer, bounds: [0, 9], spikes: [0, 5], nullable: true}")
    assert single.edges == parse_one("{kind: integer, bounds: [0, 9], nullable: true}").edges


def test_a_date_alone_bounds_a_datetime_by_the_whole_day() -> None:
    column = parse_one("{kind: datetime, bounds: [1970-01-01, 1970-01-02], bins: 2, nullable: true}")
    assert (column.low, column.high, column.edges) == (0, 2 * DAY - 1, (0, DAY, 2 * DAY))
