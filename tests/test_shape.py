"""How values lie inside bins: laws of the shape itself, and of columns that have one."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from priory.data.codec import decode_column, encode_column
from priory.data.kinds import Number, shape
from strategies_data import moments, numbers

some_slopes = st.floats(-shape.STEEPEST, shape.STEEPEST)
parts = np.linspace(0, 1, 11)


@given(some_slopes)
def test_the_share_before_a_part_rises_from_nothing_to_all_and_can_be_inverted(slope: float) -> None:
    slopes = np.full(11, slope)
    shares = shape.share(slopes, parts)
    assert shares[0] == pytest.approx(0, abs=1e-12)
    assert shares[-1] == pytest.approx(1)
    assert (np.diff(shares) >= 0).all()
    np.testing.assert_allclose(shape.share(slopes, shape.place_of(slopes, parts)), parts, atol=1e-8)


@given(some_slopes)
def test_mean_and_variance_are_those_of_the_shape(slope: float) -> None:
    # The middles of a hundred thousand equal shares of the rows.
    places = shape.place_of(np.full(100_000, slope), (np.arange(100_000) + 0.5) / 100_000)
    assert shape.mean(np.array(slope)) == pytest.approx(places.mean(), abs=1e-5)
    assert shape.variance(np.array(slope)) == pytest.approx(places.var(), abs=1e-5)


@given(st.lists(st.floats(0.1, 10), min_size=2, max_size=8), st.floats(0.1, 1000))
def test_an_even_spread_stays_even(widths: list[float], density: float) -> None:
    rows = 1e6 * density * np.array(widths)
    np.testing.assert_allclose(shape.slopes(np.array(widths), rows), 0, atol=1e-3)


@given(st.lists(st.floats(0, 1e6), min_size=2, max_size=8), st.data())
def test_a_mirrored_histogram_has_mirrored_slopes(rows: list[float], data: st.DataObject) -> None:
    widths = np.array(data.draw(st.lists(st.floats(0.1, 10), min_size=len(rows), max_size=len(rows))))
    found = shape.slopes(widths, np.array(rows))
    np.testing.assert_allclose(shape.slopes(widths[::-1], np.array(rows)[::-1]), -found[::-1], atol=1e-6)


@pytest.mark.parametrize("rate", [-1.5, -0.5, 0.4])
def test_an_exponential_density_in_equal_bins_is_found_again(rate: float) -> None:
    edges = np.arange(9.0)
    rows = 1e12 * np.diff(np.exp(rate * edges)) / rate
    np.testing.assert_allclose(shape.slopes(np.ones(8), rows), rate, rtol=1e-3)


def test_of_a_long_tail_shaped_bins_have_nearly_the_mean_and_even_ones_have_not() -> None:
    values = 100 * np.exp(np.random.default_rng(0).normal(size=20_000))
    edges = [0, *np.quantile(values, np.arange(0.05, 1, 0.05)), 10_000]
    even = Number.of("a", whole=False, low=0, high=10_000, edges=edges, nullable=True)
    rows = np.bincount(even.places_of(values), minlength=even.places).astype(float)
    for column, most in ((even.shaped(rows), 0.1), (even, np.inf)):
        found = rows @ column.middles(np.array(edges[:-1]), np.array(edges[1:])) / rows.sum()
        assert abs(found / values.mean() - 1) < most
    assert found > 2 * values.mean()


@settings(max_examples=50)
@given(st.data(), st.integers(0, 99))
def test_what_a_shaped_column_decodes_is_encoded_to_the_same_codes(data: st.DataObject, seed: int) -> None:
    column = data.draw(numbers("a") | moments("a"))
    rng = np.random.default_rng(seed)
    column = column.shaped(rng.pareto(0.5, column.size) * 100)
    codes = rng.integers(0, column.size, 50)
    np.testing.assert_array_equal(encode_column(column, decode_column(column, codes, rng)), codes)


@settings(max_examples=50)
@given(st.data(), st.integers(0, 99))
def test_the_shares_of_the_parts_of_a_bin_add_up_and_their_means_average_to_its_mean(
    data: st.DataObject, seed: int
) -> None:
    column = data.draw(numbers("a"))
    rng = np.random.default_rng(seed)
    column = column.shaped(rng.pareto(0.5, column.size) * 100)
    edges = np.asarray(column.edges)
    first, last = edges[:-1], edges[1:]
    cut = first + (last - first) // 2 if column.whole else first + (last - first) / 2
    left, right = column.shares(first, cut), column.shares(cut, last)
    np.testing.assert_allclose(left + right, 1, atol=1e-9)
    together = left * column.middles(first, cut) + right * column.middles(cut, last)
    np.testing.assert_allclose(together, column.middles(first, last), rtol=1e-6, atol=1e-6 * np.ptp(edges))


@pytest.mark.parametrize("step", [None, 0.05])
def test_values_are_drawn_with_the_mean_and_spread_that_answers_take(step: float | None) -> None:
    column = Number.of("a", whole=False, low=0, high=10, edges=[0, 1, 3, 10], spikes=[1], step=step, nullable=True)
    column = column.shaped(np.array([500.0, 40.0, 300.0, 20.0]))
    edges = np.asarray(column.edges)
    means, spreads = column.middles(edges[:-1], edges[1:]), column.spreads(edges[:-1], edges[1:])
    for place in range(column.places):
        values = decode_column(column, np.full(20_000, place), np.random.default_rng(place)).values
        # Six standard errors: a chance of 2e-9 for each place.
        assert values.mean() == pytest.approx(means[place], abs=6 * spreads[place] / 20_000**0.5 + 1e-12)
        assert values.std() == pytest.approx(spreads[place], rel=0.1, abs=1e-12)
        if step is not None:
            np.testing.assert_allclose(values / step, np.rint(values / step), atol=1e-9)


def test_a_spike_is_always_decoded_as_itself() -> None:
    column = Number.of("a", whole=False, low=0, high=9, edges=[0, 4, 9], spikes=[0, 5.5, 9], nullable=True)
    column = column.shaped(np.array([9.0, 2, 3, 4, 5, 6]))
    codes = np.array([i for i, label in enumerate(column.labels) if label in ("0", "5.5", "9")])
    assert decode_column(column, codes, np.random.default_rng(0)).values.tolist() == [0.0, 5.5, 9.0]
