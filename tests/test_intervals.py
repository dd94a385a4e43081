"""Intervals: they hold the truth as often as they say, and say where answers come from."""

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest

from priory.answer.intervals import intervals, source_of
from priory.domain import Domain
from priory.errors import OptionError
from priory.estimate.estimator import estimate, refitted
from priory.model.model import Model
from priory.privacy.measurement import Measurement
from priory.privacy.noise import Laplace
from priory.queries.query import Query
from problems import DOMAIN, small

PLAIN = Domain.of({"a": 40, "b": 3})


def plain(seed: int, stddev: float = 10.0, *, noise: str = "gaussian") -> tuple[np.ndarray, list[Measurement]]:
    counts = np.random.default_rng(0).integers(200, 800, 40).astype(float)
    rng = np.random.default_rng(seed + 1)
    if noise == "laplace":
        kind = Laplace(Fraction(stddev / 2**0.5))
        return counts, [
            Measurement.of(Query.marginal(PLAIN, "a"), counts + rng.laplace(0, stddev / 2**0.5, 40), stddev, kind)
        ]
    return counts, [Measurement.of(Query.marginal(PLAIN, "a"), counts + rng.normal(0, stddev, 40), stddev)]


@pytest.mark.statistical
@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
def test_intervals_of_clear_answers_hold_the_truth_as_often_as_they_say(noise: str) -> None:
    held = []
    for seed in range(25):
        counts, measurements = plain(seed, noise=noise)
        model = estimate(measurements, PLAIN)
        [found] = intervals(model, measurements, [measurements[0].query], draws=60, workers=1)
        held.append(np.mean((found.low <= counts) & (counts <= found.high)))
    # 1,000 answers: the deviation of the share is 0.01; 60 draws and the shrinking add to it.
    assert 0.85 <= np.mean(held) <= 0.95


def test_wider_levels_give_wider_intervals_around_the_estimate() -> None:
    _, measurements = plain(0)
    model = estimate(measurements, PLAIN)
    query = measurements[0].query
    [narrow] = intervals(model, measurements, [query], level=0.5, workers=1)
    [wide] = intervals(model, measurements, [query], level=0.95, workers=1)
    np.testing.assert_array_equal(narrow.estimate, model.answer(query))
    assert np.all(wide.low <= narrow.low)
    assert np.all(narrow.high <= wide.high)


def test_the_same_seed_gives_the_same_intervals_whatever_the_workers() -> None:
    _, measurements = plain(0)
    model = estimate(measurements, PLAIN)
    one, two = (intervals(model, measurements, [measurements[0].query], draws=5, workers=n)[0] for n in (1, 2))
    np.testing.assert_array_equal(one.low, two.low)
    np.testing.assert_array_equal(one.high, two.high)


def test_measured_inferred_and_prior_answers_are_told_apart() -> None:
    measurements = small(0, (("a", "b"), ("b", "c"))).measurements
    assert source_of(Query.marginal(DOMAIN, "a"), measurements) == "measured"
    assert source_of(Query.marginal(DOMAIN, ("a", "b")), measurements) == "measured"
    assert source_of(Query.marginal(DOMAIN, ("a", "c")), measurements) == "inferred"
    assert source_of(Query.marginal(DOMAIN, ("a", "d")), measurements) == "prior"
    assert source_of(Query.marginal(DOMAIN, "a"), []) == "prior"


def test_repeating_the_estimate_on_its_own_answers_gives_it_back() -> None:
    measurements = small(0, (("a", "b"), ("b", "c"))).measurements
    model = estimate(measurements, DOMAIN)
    again = refitted(model, measurements)
    for measurement in measurements:
        np.testing.assert_allclose(
            again.answer(measurement.query), model.answer(measurement.query), atol=1e-6 * model.total
        )


def test_an_estimate_that_cannot_be_repeated_needs_a_refit_of_its_own() -> None:
    _, measurements = plain(0)
    model = estimate(measurements, PLAIN, stop="converged")
    with pytest.raises(OptionError, match="default solver"):
        intervals(model, measurements, [measurements[0].query], draws=2, workers=1)

    def refit(_: Model, again: Sequence[Measurement]) -> Model:
        return estimate(again, PLAIN, stop="converged")

    [found] = intervals(model, measurements, [measurements[0].query], draws=10, workers=1, refit=refit)
    assert np.all(found.low < found.high)


def test_bad_options_are_refused() -> None:
    _, measurements = plain(0)
    model = estimate(measurements, PLAIN)
    with pytest.raises(OptionError, match="level"):
        intervals(model, measurements, [], level=1.5)
    with pytest.raises(OptionError, match="draws"):
        intervals(model, measurements, [], draws=1)
