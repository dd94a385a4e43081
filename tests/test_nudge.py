from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from priory.estimate.estimator import estimate
from priory.estimate.nudge import nudged
from priory.model.model import Model
from priory.privacy.measurement import Measurement
from priory.queries.domain import Domain
from priory.queries.query import Query

DOMAIN = Domain.of({"a": 4, "b": 3, "c": 5})
SIGMA = 20.0


def measured(rows: np.ndarray, clique: tuple[str, ...], rng: np.random.Generator) -> Measurement:
    counts = np.zeros(DOMAIN.project(clique).shape)
    np.add.at(counts, tuple(rows[:, DOMAIN.axis[name]] for name in clique), 1)
    return Measurement.of(Query.marginal(DOMAIN, clique), np.rint(counts + rng.normal(0, SIGMA, counts.shape)), SIGMA)


def before_and_new(seed: int) -> tuple[Model, list[Measurement], np.ndarray]:
    """A model of single attributes and one tied pair, and a pair that it does not know of."""
    rng = np.random.default_rng(seed)
    a = rng.integers(0, 4, 5_000)
    b, c = (a + rng.integers(0, 2, 5_000)) % 3, (a + rng.integers(0, 3, 5_000)) % 5
    rows = np.stack([a, b, c], axis=1)
    every = [measured(rows, clique, rng) for clique in (("a",), ("b",), ("c",), ("a", "b"), ("a", "c"))]
    return estimate(every[:-1], DOMAIN), every, rows


@settings(max_examples=10)
@given(st.integers(0, 99))
def test_a_nudged_model_says_of_the_clique_what_it_was_said_to(seed: int) -> None:
    model, every, _ = before_and_new(seed)
    after, said = nudged(model, every, model.project(("a", "c")).values)
    np.testing.assert_allclose(after.project(("a", "c")).values, said, rtol=1e-6, atol=1e-3)
    assert after.total == model.total


@settings(max_examples=10)
@given(st.integers(0, 99))
def test_a_nudge_is_about_as_good_as_an_estimate_of_everything(seed: int) -> None:
    model, every, rows = before_and_new(seed)
    truth = np.zeros((4, 5))
    np.add.at(truth, (rows[:, 0], rows[:, 2]), 1)
    # Columns alone are wrong by thousands, an estimate of everything by about 200: noise of 20 in 20 cells.
    assert np.abs(model.project(("a", "c")).values - truth).sum() > 1_000
    after, said = nudged(model, every, model.project(("a", "c")).values)
    assert np.abs(said - truth).sum() < 700
    whole = estimate(every, DOMAIN, warm=after)
    assert np.abs(whole.project(("a", "c")).values - truth).sum() < 700


def test_what_was_measured_before_is_not_forgotten() -> None:
    model, every, _ = before_and_new(0)
    after, _ = nudged(model, every, model.project(("a", "c")).values)
    for clique in (("a",), ("b",), ("c",), ("a", "b")):
        moved = np.abs(after.project(clique).values - model.project(clique).values)
        assert moved.max() < 5 * SIGMA


@settings(max_examples=10)
@given(st.integers(0, 99))
def test_a_nudge_is_the_same_however_older_answers_are_followed_by_all_tables_together(seed: int) -> None:
    model, every, _ = before_and_new(seed)
    marginal, rng = model.project(("a", "c")).values, np.random.default_rng(seed)
    assert model.diagnostics is not None
    shifts = [rng.normal(0, 1, len(alpha)) for _, alpha, _ in model.diagnostics.multipliers]
    shifted = [
        (query, alpha, perturbed + shift)
        for (query, alpha, perturbed), shift in zip(model.diagnostics.multipliers, shifts, strict=True)
    ]
    other = replace(model, diagnostics=replace(model.diagnostics, multipliers=tuple(shifted)))
    (one, said), (two, same) = (nudged(each, every, marginal) for each in (model, other))
    np.testing.assert_array_equal(said, same)
    assert one.diagnostics is not None
    assert two.diagnostics is not None
    pairs = zip(one.diagnostics.multipliers, two.diagnostics.multipliers, [*shifts, np.zeros(20)], strict=True)
    for (_, alpha, perturbed), (_, same_alpha, moved), shift in pairs:
        np.testing.assert_array_equal(alpha, same_alpha)
        np.testing.assert_allclose(moved - perturbed, shift, atol=1e-9)
