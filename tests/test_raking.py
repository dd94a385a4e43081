"""Raking: projections, the four cases, and relative entropy."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from priory.estimate.dual import Dual
from priory.estimate.estimator import estimate
from priory.estimate.evidence import Evidence
from priory.estimate.loss import L2
from priory.estimate.papers.raking import Projection, Raking, projected
from priory.estimate.problem import Problem, states
from priory.model.bases import PublicRows, Uniform
from priory.privacy.measurement import Measurement
from priory.queries.parts import Recode, Set
from priory.queries.query import Query
from problems import DOMAIN, LOOP, TREE, Array, small


def proportional_update(shares: Array, rows: Array, answers: Array) -> Array:
    """Definition 3.1 of IDE on an explicit table, with all four cases.

    Args:
        shares: q, one share for each cell.
        rows: for each cell the row of the query it belongs to, −1 where it belongs to none.
        answers: y, one for each row.

    Returns:
        The cells of row i times y_i over the row's mass; spread evenly where the row has no mass; cells of no row
        scaled to 1 − Σy, evenly where they have no mass.
    """
    wanted = np.append(answers, 1 - float(np.sum(answers)))
    index = np.where(rows < 0, len(answers), rows)
    mass = np.bincount(index, weights=shares, minlength=len(wanted))
    cells = np.bincount(index, minlength=len(wanted))
    scaled = shares * wanted[index] / np.where(mass > 0, mass, 1.0)[index]
    return np.where(mass[index] > 0, scaled, wanted[index] / np.maximum(cells[index], 1))


PROJECTIONS: list[Projection] = ["euclidean", "scaled", "towards the model"]
shares = st.lists(st.floats(-0.5, 1.5), min_size=2, max_size=8)


@given(shares, st.integers(0, 99), st.sampled_from(PROJECTIONS))
def test_every_projection_is_nearest_in_l1(answers: list[float], seed: int, projection: Projection) -> None:
    noisy = np.array(answers)
    model = np.random.default_rng(seed).dirichlet(np.ones(len(noisy)))
    found = projected(noisy, model, projection)
    clipped = np.maximum(noisy, 0)
    least = np.abs(np.minimum(noisy, 0)).sum() + abs(1 - clipped.sum())
    assert found.min() >= 0
    assert found.sum() == pytest.approx(1)
    assert np.abs(found - noisy).sum() == pytest.approx(least, abs=1e-9)


def test_a_query_that_does_not_cover_the_domain_may_sum_to_less() -> None:
    np.testing.assert_array_equal(projected(np.array([0.2, -0.1]), np.array([0.1, 0.1]), covers=False), [0.2, 0])
    assert projected(np.array([0.9, 0.4]), np.array([0.1, 0.1]), covers=False).sum() == pytest.approx(1)


def test_the_update_has_the_four_cases_of_definition_3_1() -> None:
    q = np.array([0.1, 0.3, 0.0, 0.0, 0.4, 0.2])
    rows = np.array([0, 0, 1, 1, -1, -1])
    # Row 0 has mass and is scaled; row 1 has none and is spread evenly; the rest is scaled to what is left.
    np.testing.assert_allclose(proportional_update(q, rows, np.array([0.2, 0.5])), [0.05, 0.15, 0.25, 0.25, 0.2, 0.1])
    # Cells of no row without mass are spread evenly.
    q = np.array([0.5, 0.5, 0.0, 0.0])
    rows = np.array([0, 0, -1, -1])
    np.testing.assert_allclose(proportional_update(q, rows, np.array([0.6])), [0.3, 0.3, 0.2, 0.2])


def test_one_update_of_the_solver_is_definition_3_1_on_the_full_table() -> None:
    for parts in ({"a": Recode([0, 1, 0])}, {"b": Set([1, 2])}):
        query = Query.product(DOMAIN, parts)
        answers = np.linspace(200, 400, query.rows)
        evidence = Evidence.of(DOMAIN, [Measurement.of(query, answers, 1.0)])
        base = estimate([], DOMAIN, base=Uniform(DOMAIN)).base
        problem = Problem(base.bind(evidence.layout.cliques), L2(evidence), 1000.0)
        state = Raking().step(problem, Raking().init(problem))
        cells = query.domain.size
        matrix = query.dense()
        rows = np.where(matrix.sum(0) > 0, matrix.argmax(0), -1)
        y = projected(answers / 1000, evidence.predicted(np.full(cells, 1 / cells)), covers=bool((rows >= 0).all()))
        np.testing.assert_allclose(
            state.marginals / 1000, proportional_update(np.full(cells, 1 / cells), rows, y), rtol=1e-8
        )


def consistent(cliques: tuple[tuple[str, ...], ...]) -> list[Measurement]:
    return small(0, cliques, noise=0.0).measurements


@pytest.mark.parametrize("cliques", [TREE, LOOP], ids=["tree", "loop"])
def test_consistent_answers_and_a_uniform_prior_give_the_maximum_entropy_model(
    cliques: tuple[tuple[str, ...], ...],
) -> None:
    raked = estimate(consistent(cliques), DOMAIN, solver=Raking(iterations=3000, tolerance=1e-12), stop="converged")
    table = raked.project(tuple(DOMAIN)).values / raked.total
    assert np.abs(table.sum() - 1) < 1e-12
    for measurement in consistent(cliques):
        np.testing.assert_allclose(raked.answer(measurement.query), measurement.values, atol=1e-4)
    # Of the exponential form with these cliques and with these marginals there is only the one of most entropy.
    fitted = estimate(consistent(cliques), DOMAIN, solver=Dual.exact(1e-10), stop="converged")
    np.testing.assert_allclose(table, fitted.project(tuple(DOMAIN)).values / fitted.total, atol=1e-6)


def test_consistent_answers_give_the_relative_entropy_projection_of_the_prior() -> None:
    from scipy.optimize import minimize

    rng = np.random.default_rng(0)
    rows = PublicRows(rng.integers(0, DOMAIN.shape, (40, 4)), DOMAIN)
    target = rng.dirichlet(np.ones(len(rows.codes)))
    queries = [Query.marginal(DOMAIN, clique) for clique in (("a", "b"), ("c",))]
    truth = PublicRows(rows.codes, DOMAIN, target)
    measurements = [Measurement.of(q, estimate([], DOMAIN, base=truth, total=1000).answer(q), 1.0) for q in queries]
    raked = estimate(
        measurements, DOMAIN, base=rows, total=1000, solver=Raking(iterations=2000, tolerance=1e-12), stop="converged"
    )
    matrix = np.vstack([_indicator(rows, q) for q in queries])
    # Both marginals sum to 1: without the directions they share, the solver's constraints are independent.
    _, sizes, directions = np.linalg.svd(matrix)
    matrix = directions[: int(np.sum(sizes > 1e-9))]
    wanted = matrix @ target
    prior = rows.shares

    def tilted(alpha: Array) -> Array:
        weights = prior * np.exp(matrix.T @ alpha)
        return np.asarray(weights / weights.sum())

    # The dual of the projection, by Newton's method: log Z(α) − ⟨α, y⟩, whose second derivative is a covariance.
    found = minimize(
        lambda alpha: float(np.log(prior @ np.exp(matrix.T @ alpha)) - alpha @ wanted),
        np.zeros(len(wanted)),
        jac=lambda alpha: matrix @ tilted(alpha) - wanted,
        hess=lambda alpha: matrix @ np.diag(tilted(alpha)) @ matrix.T - np.outer(*[matrix @ tilted(alpha)] * 2),
        method="trust-exact",
        options={"gtol": 1e-12},
    )
    np.testing.assert_allclose(matrix @ tilted(found.x), wanted, atol=1e-10)
    everything = raked.project(tuple(DOMAIN)).values / 1000
    np.testing.assert_allclose(everything[tuple(rows.codes.T)], tilted(found.x), atol=1e-6)


def _indicator(rows: PublicRows, query: Query) -> np.ndarray:
    cells = np.ravel_multi_index(tuple(rows.codes[:, DOMAIN.axis[name]] for name in query.clique), query.domain.shape)
    return np.eye(query.rows)[:, cells]


def test_what_no_public_row_can_receive_is_dropped_and_reported() -> None:
    rows = PublicRows([[0, 0, 0, 0], [1, 0, 0, 0]], DOMAIN)
    evidence = Evidence.of(DOMAIN, [Measurement.of(Query.marginal(DOMAIN, "a"), [30, 30, 40], 1.0)])
    problem = Problem(rows.bind(evidence.layout.cliques), L2(evidence), 100.0)
    *_, last = states(Raking(), problem)
    np.testing.assert_allclose(last.marginals, [50, 50, 0])
    assert last.carry.missed == pytest.approx([0.4])


def test_an_answer_of_zero_does_not_empty_its_records_for_good() -> None:
    query = Query.marginal(DOMAIN, "a")
    evidence = Evidence.of(DOMAIN, [Measurement.of(query, [0, 50, 50], 1.0)])
    problem = Problem(Uniform(DOMAIN).bind(evidence.layout.cliques), L2(evidence), 100.0)
    state = Raking().step(problem, Raking().init(problem))
    assert 0 < state.marginals[0] < 1e-6
