import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from houses import Rows, curated
from priory.estimate.mixing import Mixing
from priory.mechanisms.prior import Prior
from priory.mechanisms.weighing import Weighing
from priory.model.bases import PublicRows, Uniform
from priory.model.diagnostics import Diagnostics
from priory.model.model import Model
from priory.privacy.budget import Budget
from priory.privacy.measurement import Measurement
from priory.queries.domain import Domain
from priory.queries.query import Query
from priory.release import Release
from priory.select.workloads import default_workload

FOUR = Domain.of(dict.fromkeys("abcd", 4))
RECORDS = 4_000
PAIRS = list(itertools.combinations(FOUR, 2))


def chained(n: int, seed: int) -> np.ndarray:
    """Rows in which every attribute is mostly the one before."""
    rng = np.random.default_rng(seed)
    columns = [rng.integers(0, 4, n)]
    for _ in range(3):
        columns.append(np.where(rng.random(n) < 0.7, columns[-1], rng.integers(0, 4, n)))
    return np.stack(columns, axis=1)


def modelled(codes: np.ndarray, degrees: float = 10.0) -> Model:
    found = Diagnostics(solver="", stop="", reason="", degrees_of_freedom=degrees)
    return Model(PublicRows(codes, FOUR), {}, float(RECORDS), found)


def mixing(public: np.ndarray, bought: np.ndarray, *, sigma: float = 10.0, seed: int = 0) -> Mixing:
    truth, rng = modelled(chained(RECORDS, 1)), np.random.default_rng(seed)
    answers = [
        Measurement.of(Query.marginal(FOUR, pair), truth.project(pair).values + rng.normal(0, sigma, (4, 4)), sigma)
        for pair in PAIRS
    ]
    return Mixing(modelled(public), modelled(bought), answers, float(len(public)), has_triples=False)


UNEVEN = np.random.default_rng(0).integers(0, 4, (3_000, 4))


def test_rows_of_the_population_are_taken_and_rows_of_another_are_not() -> None:
    alike = chained(20_000, 2)
    assert mixing(alike, UNEVEN).share == 1.0
    assert mixing(UNEVEN, alike).share == 0.0


def test_public_rows_that_answers_refute_are_left_however_many_they_are() -> None:
    found = replace(mixing(UNEVEN, chained(1_000, 3), sigma=100.0), records=1e9)
    assert found.error(1.0) > 5 * len(PAIRS) * 16
    assert found.share == 0.0


def test_where_both_have_errors_of_their_own_both_are_taken() -> None:
    found = mixing(chained(2_000, 2), chained(2_000, 3), sigma=2.0)
    assert 0.2 < found.share < 0.8
    assert found.error(found.share) < min(found.error(0.0), found.error(1.0))


@settings(max_examples=20, deadline=None)
@given(st.floats(0.1, 0.9))
def test_a_mixture_has_the_marginals_and_the_error_that_it_should(share: float) -> None:
    found = mixing(chained(500, 2), chained(500, 3))
    found.__dict__["share"] = share
    mixed = found.model
    for clique in [("a",), ("b", "d"), ("a", "b", "c")]:
        parts = [model.project(clique).values for model in (found.public, found.bought)]
        np.testing.assert_allclose(mixed.project(clique).values, share * parts[0] + (1 - share) * parts[1])
    residuals = np.concatenate([(m.values - mixed.answer(m.query)).ravel() / m.stddev for m in found.measurements])
    degrees = share * 10 + (1 - share) * 0.8 * 10
    assert found.error(share) == pytest.approx(float(residuals @ residuals) - residuals.size + 2 * degrees)
    assert mixed.diagnostics is not None
    assert mixed.diagnostics.degrees_of_freedom == pytest.approx(degrees)


def test_models_that_are_not_rows_are_refused() -> None:
    graph = Model(Uniform(FOUR), {}, float(RECORDS))
    found = Mixing(modelled(UNEVEN), graph, mixing(UNEVEN, UNEVEN).measurements, 10.0, has_triples=False)
    found.__dict__["share"] = 0.5
    with pytest.raises(TypeError, match="weighted rows"):
        _ = found.model


def distance(model: Model, truth: np.ndarray) -> float:
    exact = Model(PublicRows(truth, model.domain), {}, float(len(truth)))
    off = [np.abs(model.project(p).values - exact.project(p).values).sum() for p in PAIRS]
    return float(np.mean(off) / len(truth))


def released(recipe: Prior | Weighing, truth: np.ndarray, budget: Budget, domain: Domain = FOUR) -> Release:
    with curated(budget, Rows(domain, truth)) as curator:
        release = recipe.run(curator, budget)
        assert curator.reservation.left == 0
    return release


@pytest.mark.statistical
def test_public_rows_without_some_combinations_no_longer_hold_a_large_budget_back() -> None:
    # With so many attributes hardly two rows are the same, and no value is so rare that rows one value away are added.
    domain = Domain.of(dict.fromkeys("abcdef", 4))
    truth, other = (np.hstack([chained(4_000, seed), chained(4_000, seed + 2)[:, :2]]) for seed in (1, 2))
    public = PublicRows(other[~((other[:, 0] > 1) & (other[:, 1] <= 1))], domain)
    budget = Budget.gaussian(4)
    recipes = (Prior(public=public), Prior(public=public, workload=default_workload(domain)), Weighing())
    both, alone, bought = (distance(released(recipe, truth, budget, domain).model, truth) for recipe in recipes)
    assert both < 1.3 * bought
    assert alone > 2 * bought


@pytest.mark.parametrize("shift", [0, 2])
def test_a_release_says_which_public_columns_were_left_out_beside_a_bought_model(shift: int) -> None:
    truth, other = chained(4_000, 1) // 2, chained(4_000, 2) // 2
    other[:, 1:] += shift
    release = released(Prior(public=PublicRows(other, FOUR)), truth, Budget.gaussian(1))
    notes = release.model.diagnostics.notes if release.model.diagnostics else ()
    assert any("their values of b, c, d are not those" in note for note in notes) is (shift > 0)
    assert release.statement.mechanism == "prior"


@pytest.mark.statistical
def test_public_rows_that_are_right_are_kept_where_little_can_be_bought() -> None:
    truth, other = chained(4_000, 1), chained(4_000, 2)
    budget = Budget.gaussian("1/10000")
    public = PublicRows(other, FOUR)
    untouched = distance(Model(public, {}, 4_000.0), truth)
    for _ in range(3):
        assert distance(released(Prior(public=public), truth, budget).model, truth) < 3 * untouched
