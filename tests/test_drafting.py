"""Bins and spikes that are drafted from public values."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from priory.data.kinds import Number
from priory.data.kinds.drafting import Drafted, draft_bins

RNG = np.random.default_rng(0)
ROWS = 5000
LONG = np.exp(RNG.normal(size=ROWS))
COLUMNS = {
    "money": np.round(100 * LONG, 2),
    "mostly zero": np.where(RNG.random(ROWS) < 0.95, 0, np.round(1000 * LONG)),
    "round prices": np.where(RNG.random(ROWS) < 0.7, RNG.choice([10, 20, 50, 100], ROWS), np.round(80 * LONG)),
    "coded missing": np.where(RNG.random(ROWS) < 0.05, 99_999, np.round(3000 * LONG)),
    "normal": RNG.normal(500, 100, ROWS),
    "both signs": 100 * RNG.standard_t(2, ROWS),
}


def drafted(values: np.ndarray) -> Number:
    return Number.of("a", **vars(draft_bins(values)), nullable=True)


def error_of_mean(column: Number, values: np.ndarray) -> float:
    """How far the mean of the bins of these values is from theirs, in parts of it."""
    rows = np.bincount(column.places_of(values), minlength=column.places).astype(float)
    edges = np.asarray(column.edges)
    found = rows @ column.shaped(rows).middles(edges[:-1], edges[1:]) / len(values)
    return float(abs(found - values.mean()) / abs(values).mean())


@pytest.mark.parametrize("name", COLUMNS)
def test_drafts_have_few_codes_and_keep_the_mean(name: str) -> None:
    column = drafted(COLUMNS[name])
    assert 8 <= column.places <= 50
    assert not column.outside(COLUMNS[name]).any()
    assert error_of_mean(column, COLUMNS[name]) < 0.03


def test_values_that_stand_out_become_spikes_and_others_do_not() -> None:
    spikes = {name: draft_bins(values).spikes for name, values in COLUMNS.items()}
    assert spikes == {
        "money": (),
        "mostly zero": (0.0,),
        "round prices": (10.0, 20.0, 50.0, 100.0),
        "coded missing": (99_999.0,),
        "normal": (),
        "both signs": (),
    }


def test_a_few_real_values_with_many_rows_each_are_all_spikes() -> None:
    assert draft_bins(np.repeat([0.5, 1.0, 3.5], 20)).spikes == (0.5, 1.0, 3.5)
    assert draft_bins(np.repeat([0, 1000, 5000], 20)).spikes == (0, 1000, 5000)
    assert drafted(np.full(10, 3.5)).labels == ("3.5", "(3.5, 3.6]", "null")


def test_rounded_values_have_a_step() -> None:
    assert draft_bins(COLUMNS["money"]).step == 0.01
    assert draft_bins(50 * np.arange(1, 400)).step == 50
    assert draft_bins(COLUMNS["normal"]).step is None


def test_few_integers_have_a_bin_each_unless_they_fall_off_steeply() -> None:
    assert draft_bins(np.array([1, 2, 5])) == Drafted(whole=True, low=1, high=5, edges=None)
    assert draft_bins(RNG.integers(17, 91, ROWS)).edges is None
    counts = np.minimum(RNG.geometric(0.6, ROWS) - 1 + 90 * (RNG.random(ROWS) < 0.002), 95)
    assert draft_bins(counts).edges is not None


@settings(max_examples=60)
@given(st.lists(st.floats(-1e300, 1e300) | st.integers(-5, 5).map(float), min_size=1, max_size=30))
def test_a_draft_can_be_made_of_any_values_and_holds_them(values: list[float]) -> None:
    column = drafted(np.array(values))
    assert not column.outside(np.array(values)).any()
