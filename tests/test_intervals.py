"""Intervals: they hold the truth as often as they say, and say where answers come from."""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import pytest
from experiments.refitting import refitted

import priory as pr
from priory.answer.intervals import noise_left, source_of
from priory.answer.redraws import Redraws
from priory.answer.ties import Ties
from priory.errors import OptionError
from priory.estimate.estimator import estimate
from priory.privacy.measurement import Measurement
from priory.privacy.noise import Laplace
from priory.queries.domain import Domain
from priory.queries.parts import Identity, Part, Prefix, Range, Recode
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


@dataclass(frozen=True)
class Answered:
    """What people get: the columns of the table of answers, in the query's shape."""

    estimate: np.ndarray
    low: np.ndarray
    high: np.ndarray
    source: str

    def holds(self, truth: np.ndarray) -> np.ndarray:
        return (self.low <= truth) & (truth <= self.high)


def released(
    measurements: Sequence[Measurement], domain: Domain, *, total: float | None = None, stop: str = "fission"
) -> pr.Release:
    schema = pr.Schema.coded(dict(zip(domain.attributes, domain.shape, strict=True)))
    budget = pr.Budget.of(rho=1)
    return pr.declared_release(measurements, schema, budget, total=total, stop=stop)  # type: ignore[arg-type]


def answered(release: pr.Release, query: Query, **options: float) -> Answered:
    columns = release.answer(query, **options).to_dict()  # type: ignore[arg-type]
    [source] = set(columns["source"])
    answer, low, high = (
        np.array([np.nan if value is None else value for value in columns[name]], dtype=float).reshape(query.shape)
        for name in ("estimate", "low", "high")
    )
    return Answered(answer, low, high, source)


@pytest.mark.statistical
@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
def test_intervals_of_clear_answers_hold_the_truth_as_often_as_they_say(noise: str) -> None:
    held = []
    for seed in range(25):
        counts, measurements = plain(seed, noise=noise)
        found = answered(released(measurements, PLAIN), measurements[0].query, draws=60)
        held.append(np.mean(found.holds(counts)))
    # 1,000 answers: the deviation of the share is 0.01; 60 draws and the shrinking add to it.
    assert 0.85 <= np.mean(held) <= 0.95


def test_wider_levels_give_wider_intervals_around_the_estimate() -> None:
    _, measurements = plain(0)
    release = released(measurements, PLAIN)
    query = measurements[0].query
    narrow, wide = (answered(release, query, level=level) for level in (0.5, 0.95))
    np.testing.assert_allclose(narrow.estimate, release.model.answer(query))
    assert np.all(wide.low <= narrow.low)
    assert np.all(narrow.high <= wide.high)


def test_the_same_seed_gives_the_same_redraws_whatever_the_workers() -> None:
    _, measurements = plain(0)
    model = estimate(measurements, PLAIN)
    one, two = (Redraws.of(model, measurements, draws=5).models for _ in range(2))
    query = measurements[0].query
    for mine, other in zip(one, two, strict=True):
        np.testing.assert_array_equal(mine.answer(query), other.answer(query))


def test_measured_inferred_and_prior_answers_are_told_apart() -> None:
    measurements = small(0, (("a", "b"), ("b", "c"))).measurements
    assert source_of(Query.marginal(DOMAIN, "a"), measurements) == "measured"
    assert source_of(Query.marginal(DOMAIN, ("a", "b")), measurements) == "measured"
    assert source_of(Query.marginal(DOMAIN, ("a", "c")), measurements) == "inferred"
    assert source_of(Query.marginal(DOMAIN, ("a", "d")), measurements) == "prior"
    assert source_of(Query.marginal(DOMAIN, "a"), []) == "prior"


def test_what_was_measured_on_runs_of_values_is_measured_for_sums_of_these_alone() -> None:
    domain, runs = Domain.of({"a": 4, "b": 2}), Recode((0, 0, 1, 1))
    coarse = Measurement.of(Query.product(domain, {"a": runs, "b": Identity()}), np.ones((2, 2)), 1.0)
    ties = Ties(dict.fromkeys(domain, 0))

    def named(a: Part, *measurements: Measurement) -> str:
        query = Query.product(domain, {"a": a, "b": Identity()})
        return ties.named(source_of(query, measurements), query, measurements)

    assert named(runs, coarse) == named(Recode((0, 0, 0, 0)), coarse) == named(Range(2, 3), coarse) == "measured"
    assert named(Identity(), coarse) == named(Range(1, 3), coarse) == "inferred"
    fine = Measurement.of(Query.marginal(domain, ("a", "b")), np.ones((4, 2)), 1.0)
    assert named(Identity(), coarse, fine) == "measured"


def test_repeating_the_estimate_on_its_own_answers_gives_it_back() -> None:
    measurements = small(0, (("a", "b"), ("b", "c"))).measurements
    model = estimate(measurements, DOMAIN)
    again = refitted(model, measurements)
    for measurement in measurements:
        np.testing.assert_allclose(
            again.answer(measurement.query), model.answer(measurement.query), atol=1e-6 * model.total
        )


def test_one_step_spreads_answers_as_repeating_the_estimate_does() -> None:
    task = small(0, (("a", "b"), ("b", "c"), ("c", "d")))
    model = estimate(task.measurements, DOMAIN)
    queries = [measurement.query for measurement in task.measurements]
    rng = np.random.default_rng(5)
    fresh = [
        [replace(m, values=model.answer(m.query) + rng.normal(0, m.stddev, m.query.shape)) for m in task.measurements]
        for _ in range(50)
    ]

    def spread(answers: np.ndarray) -> np.ndarray:
        return np.asarray(np.std(answers, axis=0))

    redraws = Redraws.of(model, task.measurements, draws=50)
    moved = [redraws.repeats(query, model.answer(query), 50).reshape(50, -1) for query in queries]
    steps = spread(np.concatenate(moved, axis=1))
    repeats: list[Callable[[list[Measurement]], pr.Model]] = [
        lambda again: refitted(model, again),
        lambda again: estimate(again, DOMAIN),
    ]
    for repeat in repeats:
        # Fifty draws tell a spread within a tenth of itself; the median over 29 answers within a few hundredths.
        answers = [np.concatenate([np.ravel(each) for each in repeat(again).answers(queries)]) for again in fresh]
        assert np.median(steps / spread(np.array(answers))) == pytest.approx(1, abs=0.15)


def test_a_converged_estimate_has_the_noise_of_its_answers() -> None:
    counts, measurements = plain(0)
    found = answered(released(measurements, PLAIN, stop="converged"), measurements[0].query)
    # Clear answers are left as measured, so 90 % of them lie within 1.645 standard deviations.
    assert np.mean(found.high - found.low) == pytest.approx(2 * 1.645 * 10, rel=0.1)
    assert np.mean(found.holds(counts)) > 0.7


def test_a_model_that_does_not_say_how_it_was_found_has_the_noise_of_what_was_measured_itself() -> None:
    counts, measurements = plain(0)
    release = released(measurements, PLAIN)
    forgotten = release.with_model(replace(release.model, diagnostics=None))
    found = answered(forgotten, measurements[0].query)
    assert np.all(found.high - found.low >= 2 * 1.64 * 10)
    assert np.mean(found.holds(counts)) > 0.7
    assert np.isnan(answered(forgotten, Query.product(PLAIN, {"a": Prefix()})).low).all()


def test_a_model_that_stayed_at_its_base_is_as_unsure_as_its_misfit_says() -> None:
    domain = Domain.of({"a": 30, "b": 30})
    rng = np.random.default_rng(0)
    truth = 1000.0 * rng.dirichlet(np.ones(900)).reshape(30, 30)
    query = Query.marginal(domain, ("a", "b"))
    measurements = [Measurement.of(query, truth + rng.normal(0, 300, (30, 30)), 300.0)]
    release = released(measurements, domain, total=1000.0)
    assert release.model.diagnostics is not None
    assert release.model.diagnostics.degrees_of_freedom < 5
    found = answered(release, query)
    assert np.all(found.low <= found.estimate)
    assert np.all(found.estimate <= found.high)
    assert np.mean(found.holds(truth)) > 0.5


def test_answers_added_up_from_measured_ones_have_the_noise_of_the_sum() -> None:
    [measurement] = small(0, (("a", "b"),)).measurements
    assert measurement.stddev == 5
    # The four values of b are summed over, and the prefixes of a add up one to three of its values.
    np.testing.assert_allclose(noise_left(Query.marginal(DOMAIN, "a"), measurement), [10, 10, 10])
    prefixes = Query.product(DOMAIN, {"a": Prefix()})
    np.testing.assert_allclose(noise_left(prefixes, measurement), 10 * np.sqrt([1, 2, 3]))
    release = released([measurement], DOMAIN, total=1000.0)
    for query in (Query.marginal(DOMAIN, "a"), prefixes):
        found = answered(release, query)
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
    release = released(measurements, domain)
    unmeasured = [c for c in itertools.combinations(domain, 2) if c not in pairs]

    def held() -> float:
        found = [answered(release, Query.marginal(domain, clique), draws=20) for clique in unmeasured]
        assert {each.source for each in found} == {"inferred"}
        return float(np.mean([np.mean(i.holds(counts(c))) for i, c in zip(found, unmeasured, strict=True)]))

    assert held() > 0.85
    # Redrawing alone is sure of what it cannot know.
    redraws = release.redrawing(20).redraws
    assert redraws is not None
    blind = replace(redraws.errors, misfit=0.0)
    release.redrawing(20).__dict__["redraws"] = replace(redraws, errors=blind)
    assert held() < 0.6


def test_of_what_nothing_speaks_of_no_end_is_known() -> None:
    _, measurements = plain(0)
    release = released(measurements, PLAIN)
    whole, alone = (answered(release, Query.marginal(PLAIN, clique)) for clique in (("a", "b"), "b"))
    for found in (whole, alone):
        assert found.source == "prior"
        assert np.isnan(found.low).all()
        assert np.isnan(found.high).all()
    np.testing.assert_allclose(whole.estimate, release.model.project(("a", "b")).values)


def test_bad_options_are_refused() -> None:
    _, measurements = plain(0)
    release = released(measurements, PLAIN)
    with pytest.raises(OptionError, match="level"):
        release.answer(measurements[0].query, level=1.5)
    with pytest.raises(OptionError, match="draws"):
        release.answer(measurements[0].query, draws=1)
