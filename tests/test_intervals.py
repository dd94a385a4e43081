"""Intervals: they hold the truth as often as they say, and say where answers come from."""

import itertools
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from experiments.refitting import refitted

from priory.answer.intervals import Redraws, intervals, noise_left, source_of
from priory.domain import Domain
from priory.errors import OptionError
from priory.estimate.estimator import estimate
from priory.model.model import Model
from priory.privacy.measurement import Measurement
from priory.privacy.noise import Laplace
from priory.queries.parts import Prefix
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


def test_a_refit_of_ones_own_is_used() -> None:
    _, measurements = plain(0)
    model = estimate(measurements, PLAIN)
    seen = []

    def refit(_: Model, again: Sequence[Measurement]) -> Model:
        seen.append(again[0].values)
        return estimate(again, PLAIN, stop="converged")

    [found] = intervals(model, measurements, [measurements[0].query], draws=10, workers=1, refit=refit)
    assert np.all(found.low < found.high)
    assert len(seen) == 10
    # The noise is added to the model's own answers.
    assert np.std(np.mean(seen, axis=0) - model.answer(measurements[0].query)) < 10


def test_one_step_spreads_answers_as_repeating_the_estimate_does() -> None:
    task = small(0, (("a", "b"), ("b", "c"), ("c", "d")))
    model = estimate(task.measurements, DOMAIN)
    queries = [measurement.query for measurement in task.measurements]

    def anew(_: Model, again: Sequence[Measurement]) -> Model:
        return estimate(again, DOMAIN)

    widths = [
        np.concatenate(
            [np.ravel(found.high - found.low) for found in intervals(model, task.measurements, queries, refit=r)]
        )
        for r in (None, refitted, anew)
    ]
    for other in widths[1:]:
        assert np.median(widths[0] / other) == pytest.approx(1, abs=0.15)


@pytest.mark.parametrize("kind", ["forgotten", "converged"])
def test_intervals_need_nothing_of_how_the_model_was_found(kind: str) -> None:
    counts, measurements = plain(0)
    if kind == "forgotten":
        model = replace(estimate(measurements, PLAIN), diagnostics=None)
    else:
        model = estimate(measurements, PLAIN, stop="converged")
    [found] = intervals(model, measurements, [measurements[0].query], workers=1)
    # Clear answers are left as measured, so 90 % of them lie within 1.645 standard deviations.
    assert np.mean(found.high - found.low) == pytest.approx(2 * 1.645 * 10, rel=0.1)
    assert np.mean((found.low <= counts) & (counts <= found.high)) > 0.7


def test_redraws_are_made_once_and_asked_again() -> None:
    _, measurements = plain(0)
    model = estimate(measurements, PLAIN)
    redraws = Redraws.of(model, measurements, draws=20, seed=3)
    query = measurements[0].query
    [kept] = redraws.intervals([query])
    [made] = intervals(model, measurements, [query], draws=20, seed=3)
    np.testing.assert_array_equal(kept.low, made.low)
    [wider] = redraws.intervals([query], level=0.99)
    assert np.all(wider.low <= kept.low)
    assert len(redraws.models) == 20


def test_a_model_that_stayed_at_its_base_is_as_unsure_as_its_misfit_says() -> None:
    domain = Domain.of({"a": 30, "b": 30})
    rng = np.random.default_rng(0)
    truth = 1000.0 * rng.dirichlet(np.ones(900)).reshape(30, 30)
    query = Query.marginal(domain, ("a", "b"))
    measurements = [Measurement.of(query, truth + rng.normal(0, 300, (30, 30)), 300.0)]
    model = estimate(measurements, domain, total=1000.0)
    assert model.diagnostics is not None
    assert model.diagnostics.degrees_of_freedom < 5
    [found] = intervals(model, measurements, [query])
    assert np.all(found.low <= found.estimate)
    assert np.all(found.estimate <= found.high)
    assert np.mean((found.low <= truth) & (truth <= found.high)) > 0.5


def test_answers_added_up_from_measured_ones_have_the_noise_of_the_sum() -> None:
    [measurement] = small(0, (("a", "b"),)).measurements
    assert measurement.stddev == 5
    # The four values of b are summed over, and the prefixes of a add up one to three of its values.
    np.testing.assert_allclose(noise_left(Query.marginal(DOMAIN, "a"), measurement), [10, 10, 10])
    prefixes = Query.product(DOMAIN, {"a": Prefix()})
    np.testing.assert_allclose(noise_left(prefixes, measurement), 10 * np.sqrt([1, 2, 3]))
    model = estimate([measurement], DOMAIN, total=1000.0)
    for query in (Query.marginal(DOMAIN, "a"), prefixes):
        [found] = intervals(model, [measurement], [query])
        assert found.source == "measured"
        assert np.all(found.high - found.low < 1.5 * 2 * 1.645 * noise_left(query, measurement))


@pytest.mark.statistical
def test_inferred_intervals_cover_what_the_model_assumes() -> None:
    # A chain of pairs explains a-c by way of b; the truth has more of it than that, and more of all other pairs, too.
    domain = Domain.of(dict.fromkeys("abcdef", 8))
    rng = np.random.default_rng(0)
    hidden = rng.integers(0, 8, 40_000)
    codes = np.array([np.where(rng.random(40_000) < 0.5, hidden, rng.integers(0, 8, 40_000)) for _ in domain]).T
    table = np.histogramdd(codes, bins=[np.arange(9) - 0.5] * 6)[0]

    def counts(clique: tuple[str, ...]) -> np.ndarray:
        return np.asarray(table.sum(axis=tuple(i for i, name in enumerate(domain) if name not in clique)))

    pairs = [("a", "b"), ("b", "c"), ("c", "d"), ("d", "e"), ("e", "f")]
    measurements = [
        Measurement.of(Query.marginal(domain, c), counts(c) + rng.normal(0, 10, counts(c).shape), 10.0)
        for c in [*((name,) for name in domain), *pairs]
    ]
    model = estimate(measurements, domain)
    unmeasured = [c for c in itertools.combinations(domain, 2) if c not in pairs]
    redraws = Redraws.of(model, measurements, draws=20)
    found = redraws.intervals([Query.marginal(domain, clique) for clique in unmeasured])
    assert {interval.source for interval in found} == {"inferred"}
    held = np.mean(
        [np.mean((i.low <= counts(c)) & (counts(c) <= i.high)) for i, c in zip(found, unmeasured, strict=True)]
    )
    blind = replace(redraws.misfit, shares=np.zeros_like(redraws.misfit.shares), least=0.0)
    assert held > 0.85
    # Redrawing alone is sure of what it cannot know.
    sure = Redraws(model, redraws.measurements, redraws.models, redraws.bias, redraws.temperature)
    sure.__dict__["misfit"] = blind
    naive = sure.intervals([Query.marginal(domain, clique) for clique in unmeasured])
    assert (
        np.mean([np.mean((i.low <= counts(c)) & (counts(c) <= i.high)) for i, c in zip(naive, unmeasured, strict=True)])
        < 0.6
    )


def test_what_nothing_speaks_of_can_be_anything_possible() -> None:
    counts, measurements = plain(0)
    model = estimate(measurements, PLAIN)
    [known, whole, alone] = intervals(
        model, measurements, [Query.marginal(PLAIN, clique) for clique in ("a", ("a", "b"), "b")]
    )
    assert (known.source, whole.source, alone.source) == ("measured", "prior", "prior")
    # All of the records of a cell, or none of them, may have any one value of b.
    assert np.all(whole.low <= 0)
    np.testing.assert_allclose(whole.high, np.broadcast_to(known.high[:, None], (40, 3)))
    np.testing.assert_allclose(whole.estimate, model.project(("a", "b")).values)
    assert np.all(alone.low <= 0)
    assert np.all(alone.high > 0.95 * counts.sum())
    [prefix] = intervals(model, measurements, [Query.product(PLAIN, {"b": Prefix()})])
    # The last prefix holds everyone.
    assert prefix.low[0] <= 0
    assert prefix.low[-1] > 0.95 * counts.sum()


def test_a_base_without_measurements_is_sure_of_nothing() -> None:
    model = estimate([], PLAIN, total=100.0)
    [found] = intervals(model, [], [Query.marginal(PLAIN, "a")], draws=2)
    assert found.source == "prior"
    assert np.all(found.low == 0)
    assert np.all(found.high == 100)


def test_bad_options_are_refused() -> None:
    _, measurements = plain(0)
    model = estimate(measurements, PLAIN)
    with pytest.raises(OptionError, match="level"):
        intervals(model, measurements, [], level=1.5)
    with pytest.raises(OptionError, match="draws"):
        intervals(model, measurements, [], draws=1)
