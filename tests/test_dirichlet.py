import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import gamma

from priory.estimate import dirichlet
from priory.estimate.dirichlet import Counts, single_attributes
from priory.estimate.estimator import estimate
from priory.model.bases import Uniform
from priory.model.structural_zeros import without_zeros
from priory.privacy.measurement import Measurement
from priory.queries.domain import Domain
from priory.queries.factor import Array
from priory.queries.parts import Identity, Part, Prefix, Recode, Total
from priory.queries.query import Query

# One common value, a few others, and many that hardly occur, as in real columns.
UNEVEN = np.array([600.0, 200, 100, 50, 30, 10, 5, 5, *[0.0] * 22])


def measured(counts: Array, stddev: float, seed: int, groups: int | None = None) -> Measurement:
    domain = Domain.of({"a": len(counts)})
    query = Query.marginal(domain, ("a",))
    if groups is not None:
        query = Query.product(domain, {"a": Recode(np.arange(len(counts)) * groups // len(counts))})
    answers = np.asarray(query(counts))
    return Measurement.of(query, answers + np.random.default_rng(seed).normal(0, stddev, answers.shape), stddev)


def distance(counts: Array, truth: Array) -> float:
    return float(np.abs(counts / counts.sum() - truth / truth.sum()).sum() / 2)


@settings(max_examples=30)
@given(
    st.lists(st.floats(-1e5, 1e5), min_size=1, max_size=6), st.floats(0.1, 1e6), st.floats(1, 1e6), st.integers(1, 3)
)
def test_counts_add_up_to_the_total_and_none_is_below_nothing(
    values: list[float], stddev: float, total: float, groups: int
) -> None:
    domain = Domain.of({"a": len(values)})
    sums = Query.product(domain, {"a": Recode(np.arange(len(values)) * groups // (len(values) + groups))})
    answers = [
        Measurement.of(Query.marginal(domain, ("a",)), np.array(values), stddev),
        Measurement.of(sums, np.zeros(sums.shape), stddev),
    ]
    counts = Counts.of(answers, total)
    assert (counts.means >= 0).all()
    assert (counts.variances >= 0).all()
    assert counts.means.sum() == pytest.approx(total)
    assert counts.degrees_of_freedom >= 0


@pytest.mark.parametrize("concentration", [0.05, 0.7, 4.0])
@pytest.mark.parametrize(("value", "stddev"), [(-30.0, 20.0), (3.0, 20.0), (40.0, 5.0), (250.0, 30.0)])
def test_a_posterior_is_the_integral_over_its_prior(concentration: float, value: float, stddev: float) -> None:
    prior = gamma(concentration, scale=10.0 / concentration)

    def moment(power: int) -> float:
        def density(log: float) -> float:
            count = math.exp(log)
            return float(prior.pdf(count)) * math.exp(-0.5 * ((count - value) / stddev) ** 2) * count ** (power + 1)

        return sum(float(quad(density, *span, limit=500)[0]) for span in ((-600, -60), (-60, 0), (0, 4), (4, 8)))

    answers = dirichlet._Answers(np.array([value]), np.array([stddev]), (), 10.0)
    [(mean, variance, log_chance)] = answers._blocks(concentration, np.array([10.0]))
    assert mean == pytest.approx(moment(1) / moment(0), rel=0.02)
    assert variance == pytest.approx(moment(2) / moment(0) - (moment(1) / moment(0)) ** 2, rel=0.03)
    assert log_chance == pytest.approx(math.log(moment(0)), abs=0.02)


def test_little_noise_leaves_the_counts_and_much_of_it_leaves_nothing() -> None:
    clear, lost = (Counts.of([measured(UNEVEN, stddev, 0)], 1000.0) for stddev in (0.5, 1e5))
    np.testing.assert_allclose(clear.means, UNEVEN, atol=1.5)
    np.testing.assert_allclose(lost.means, 1000 / 30, rtol=0.3)
    assert clear.degrees_of_freedom > 5
    assert lost.degrees_of_freedom < 0.1


def test_uneven_counts_are_closer_than_an_estimate_from_even_ones() -> None:
    ours, theirs = [], []
    for seed in range(20):
        answer = measured(UNEVEN, 60.0, seed)
        ours.append(distance(Counts.of([answer], 1000.0).means, UNEVEN))
        model = estimate([answer], answer.query.domain, total=1000.0)
        theirs.append(distance(model.project(("a",)).values, UNEVEN))
    # 0.21 and 0.33.
    assert np.mean(ours) < 0.8 * np.mean(theirs)


def test_answers_about_sums_bring_counts_closer() -> None:
    smooth = 1000 * np.exp(-np.arange(90) / 20) / np.exp(-np.arange(90) / 20).sum()
    alone, both = [], []
    for seed in range(10):
        fine, coarse = measured(smooth, 60.0, seed), measured(smooth, 60.0, seed + 100, groups=9)
        alone.append(distance(Counts.of([fine], 1000.0).means, smooth))
        both.append(distance(Counts.of([fine, coarse], 1000.0).means, smooth))
    assert np.mean(both) < 0.8 * np.mean(alone)


def test_a_column_whose_values_were_only_measured_in_groups_is_even_within_them() -> None:
    counts = Counts.of([measured(np.array([80.0, 0, 10, 10]), 0.5, 0, groups=2)], 100.0)
    np.testing.assert_allclose(counts.means, [40, 40, 10, 10], atol=1.5)


def test_the_model_has_the_counts_of_each_attribute_and_takes_them_as_independent() -> None:
    domain = Domain.of({"a": 3, "b": 2})
    answers = [
        Measurement.of(Query.marginal(domain, ("a",)), np.array([500.0, 300, 200]), 3.0),
        Measurement.of(Query.marginal(domain, ("b",)), np.array([900.0, 100]), 3.0),
    ]
    model = single_attributes(answers, Uniform(domain), 1000.0)
    pair = model.project(("a", "b")).values
    np.testing.assert_allclose(pair, np.outer(pair.sum(1), pair.sum(0)) / 1000, rtol=1e-6)
    np.testing.assert_allclose(pair.sum(1), [500, 300, 200], atol=3)
    assert model.total == 1000.0
    assert model.diagnostics is not None
    assert model.diagnostics.total_stddev == 0.0
    # Two and one directions are free.
    assert 2 < model.diagnostics.degrees_of_freedom < 5


def test_the_model_has_nothing_where_nothing_can_be() -> None:
    domain = Domain.of({"a": 2, "b": 2})
    answers = [Measurement.of(Query.marginal(domain, name), np.array([60.0, 40]), 5.0) for name in domain]
    zeros = np.array([[False, False], [False, True]])
    base = without_zeros(Uniform(domain), [(("a", "b"), zeros)])
    pair = single_attributes(answers, base).project(("a", "b")).values
    assert pair[1, 1] == 0
    assert (pair[:, 0] > 0).all()


def test_deviations_hold_the_truth_as_often_as_they_should() -> None:
    held = []
    for seed in range(40):
        counts = Counts.of([measured(UNEVEN, 20.0, seed)], 1000.0)
        query = Query.marginal(Domain.of({"a": len(UNEVEN)}), ("a",))
        held.append(np.abs(counts.means - UNEVEN) <= 1.645 * counts.deviations(query, 0.0))
    of_large, of_all = np.mean(np.array(held)[:, :3]), np.mean(held)
    assert 0.82 < of_large < 0.96
    assert 0.85 < of_all < 0.97


@pytest.mark.parametrize("part", [Identity(), Total(), Recode([0, 0, 1]), Prefix()])
def test_deviations_of_sums_are_those_of_counts_that_add_up_to_a_noisy_total(part: Part) -> None:
    domain = Domain.of({"a": 3})
    means, variances, total_stddev = np.array([50.0, 30.0, 20.0]), np.array([9.0, 4.0, 1.0]), 7.0
    covariance = np.diag(variances) - np.outer(variances, variances) / variances.sum()
    covariance += np.outer(means, means) / means.sum() ** 2 * total_stddev**2
    matrix = part.matrix(3)
    found = Counts(means, variances, 0.0).deviations(Query.product(domain, {"a": part}), total_stddev)
    np.testing.assert_allclose(found, np.sqrt(np.diag(matrix @ covariance @ matrix.T)))
