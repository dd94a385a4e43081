import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from houses import DOMAIN, curated, random_rows
from priory.errors import DomainError, OptionError, SizeError
from priory.mechanisms.hdmm.hdmm import HDMM, LeastSquares
from priory.mechanisms.hdmm.strategies import (
    Spectrum,
    Strategy,
    best_part,
    best_product,
    marginals_strategy,
    p_identity_error,
    union_strategy,
)
from priory.privacy.budget import Budget
from priory.privacy.measurement import Measurement
from priory.queries.domain import Domain
from priory.queries.factor import Array
from priory.queries.parts import Identity, Prefix, Total
from priory.queries.query import Query
from priory.queries.workload import Workload

RANGES = Workload.of(
    [
        Query.product(DOMAIN, {"age": Prefix(), "sex": Identity()}),
        Query.product(DOMAIN, {"age": Prefix(), "marital-status": Identity()}),
    ]
)


def dense(query: Query, domain: Domain) -> Array:
    parts = dict(zip(query.clique, query.parts, strict=True))
    return Query.product(domain, {name: parts.get(name, Total()) for name in domain}).dense().astype(np.float64)


def dense_error(workload: Workload, strategy: Strategy, domain: Domain, *, is_pure: bool) -> float:
    """Σ w·tr(W(AᵀA)⁺Wᵀ) with every query of the strategy at the precision that its share buys."""
    norm = [np.linalg.norm(dense(q, domain), 1 if is_pure else 2, axis=0).max() for q in strategy.queries]
    precision = [share**2 if is_pure else share for share in strategy.shares]
    gram = sum(
        p * dense(q, domain).T @ dense(q, domain) / n**2
        for q, p, n in zip(strategy.queries, precision, norm, strict=True)
    )
    inverse = np.linalg.pinv(np.asarray(gram), hermitian=True)
    asked = zip(workload.queries, workload.weights, strict=True)
    return float(sum(w * np.trace(dense(q, domain) @ inverse @ dense(q, domain).T) for q, w in asked))


@given(size=st.integers(2, 6), p=st.integers(1, 3), is_pure=st.booleans(), seed=st.integers(0, 1000))
def test_the_gradient_of_the_p_identity_error_equals_finite_differences(
    *, size: int, p: int, is_pure: bool, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    theta, work = rng.random((p, size)), rng.normal(size=(size, size))
    gram = work.T @ work
    _, gradient = p_identity_error(theta, gram, is_pure=is_pure)
    direction = rng.normal(size=theta.shape)
    step = 1e-6
    high, _ = p_identity_error(theta + step * direction, gram, is_pure=is_pure)
    low, _ = p_identity_error(theta - step * direction, gram, is_pure=is_pure)
    assert (high - low) / (2 * step) == pytest.approx(float((gradient * direction).sum()), rel=1e-4, abs=1e-4)


@given(size=st.integers(2, 6), p=st.integers(1, 3), is_pure=st.booleans(), seed=st.integers(0, 1000))
def test_the_p_identity_error_equals_the_dense_formula(*, size: int, p: int, is_pure: bool, seed: int) -> None:
    rng = np.random.default_rng(seed)
    theta, work = rng.random((p, size)), rng.normal(size=(4, size))
    stacked = np.vstack([np.eye(size), theta])
    strategy = stacked / np.linalg.norm(stacked, 1 if is_pure else 2, axis=0)
    expected = np.trace(work @ np.linalg.inv(strategy.T @ strategy) @ work.T)
    assert p_identity_error(theta, work.T @ work, is_pure=is_pure)[0] == pytest.approx(expected)


@pytest.mark.parametrize("is_pure", [True, False])
def test_prefix_ranges_are_answered_with_far_less_noise_than_from_cells(*, is_pure: bool) -> None:
    gram = np.tri(64).T @ np.tri(64)
    part, error = best_part(gram, is_pure=is_pure)
    assert error < 0.5 * np.trace(gram)
    matrix = part.matrix(64)
    np.testing.assert_allclose(np.linalg.norm(matrix, 1 if is_pure else 2, axis=0), 1)
    assert error == pytest.approx(np.trace(gram @ np.linalg.inv(matrix.T @ matrix)))


def test_the_obvious_strategy_is_found_where_there_is_one() -> None:
    assert isinstance(best_part(np.eye(5), is_pure=True)[0], Identity)
    assert isinstance(best_part(np.ones((5, 5)), is_pure=True)[0], Total)


@pytest.mark.parametrize("is_pure", [True, False])
def test_the_error_of_a_product_for_several_queries_equals_the_dense_formula(*, is_pure: bool) -> None:
    domain = Domain.of({"a": 32, "b": 3})
    work = Workload.of(
        [
            Query.product(domain, {"a": Prefix(), "b": Identity()}),
            Query.product(domain, {"a": Identity(), "b": Prefix()}),
        ],
        [3.0, 1.0],
    )
    query, error = best_product(work.queries, work.weights, is_pure=is_pure)
    assert error == pytest.approx(dense_error(work, Strategy((query,), (1.0,), error), domain, is_pure=is_pure))
    identity = Strategy((Query.marginal(domain, ("a", "b")),), (1.0,), 0)
    assert error < dense_error(work, identity, domain, is_pure=is_pure)


@pytest.mark.parametrize("is_pure", [True, False])
def test_the_shares_of_a_union_are_the_best_ones(*, is_pure: bool) -> None:
    domain = Domain.of({"a": 16, "b": 2, "c": 2})
    work = Workload.of([Query.product(domain, {"a": Prefix(), "b": Identity()}), Query.marginal(domain, ("b", "c"))])
    best = union_strategy(work, is_pure=is_pure)
    equal = union_strategy(work, is_pure=is_pure, is_equal=True)
    assert sum(best.shares) == pytest.approx(1)
    assert equal.shares == (0.5, 0.5)
    power = 2 if is_pure else 1
    errors = [best_product([query], [1.0], is_pure=is_pure)[1] for query in work]
    for share in np.linspace(0.01, 0.99, 99):
        assert best.error <= (errors[0] / share**power + errors[1] / (1 - share) ** power) * (1 + 1e-9)


@settings(max_examples=20)
@given(is_pure=st.booleans(), k=st.integers(1, 3), seed=st.integers(0, 100))
def test_the_error_of_weighted_marginals_equals_the_dense_formula(*, is_pure: bool, k: int, seed: int) -> None:
    work = Workload.marginals(DOMAIN, k)
    spectrum = Spectrum.of(work, power=2 if is_pure else 1)
    shares = np.random.default_rng(seed).dirichlet(np.ones(len(spectrum.cliques)))
    queries = tuple(Query.marginal(DOMAIN, clique) for clique in spectrum.cliques)
    given_shares = Strategy(queries, tuple(shares.tolist()), 0)
    assert spectrum.error(shares) == pytest.approx(dense_error(work, given_shares, DOMAIN, is_pure=is_pure))


@pytest.mark.parametrize("is_pure", [True, False])
def test_weighted_marginals_beat_asking_the_workload_itself(*, is_pure: bool) -> None:
    domain = Domain.of(dict.fromkeys("abcde", 2))
    work = Workload.of([Query.marginal(domain, c) for k in (1, 2) for c in Workload.marginals(domain, k).cliques])
    found = marginals_strategy(work, is_pure=is_pure)
    assert sum(found.shares) == pytest.approx(1)
    assert found.error < 0.9 * union_strategy(work, is_pure=is_pure).error
    assert HDMM(work).strategy(is_pure=is_pure) == found


def test_weighted_marginals_are_for_marginals_only() -> None:
    with pytest.raises(OptionError, match="marginals only"):
        HDMM(RANGES, kind="marginals").strategy(is_pure=True)


@pytest.mark.parametrize("budget", [Budget.pure(1), Budget.zcdp("1/10"), Budget.pure(1, relation="replace-one")])
def test_the_whole_budget_is_spent_on_the_strategy(budget: Budget) -> None:
    with curated(budget) as curator:
        release = HDMM(RANGES).run(curator, budget)
        assert curator.left == 0
    noisy = [m.query.clique for m in release.measurements if m.stddev > 0]
    assert noisy == [("age", "sex"), ("age", "marital-status")]
    # The number of rows is public under replace-one, and then it is in the release.
    assert len(release.measurements) - len(noisy) == (budget.relation == "replace-one")


def test_least_squares_on_the_full_vector_answers_exactly_what_has_no_noise() -> None:
    source = random_rows(500)
    queries = [HDMM(RANGES).strategy(is_pure=True).queries[0], Query.marginal(DOMAIN, ("sex", "marital-status"))]
    measured = tuple(Measurement.of(q, q(source.count([q.clique])[0].values), 1.0) for q in queries)
    fitted = LeastSquares.of(DOMAIN, measured)
    [asked] = [q for q in RANGES if q.clique == ("age", "sex")]
    np.testing.assert_allclose(fitted.answer(asked), asked(source.count([asked.clique])[0].values), atol=1e-3)


def test_least_squares_is_weighted_by_the_noise() -> None:
    total = Query.marginal(DOMAIN, ())
    measured = (Measurement.of(total, np.array(10.0), 1.0), Measurement.of(total, np.array(20.0), 2.0))
    assert LeastSquares.of(DOMAIN, measured).answer(total) == pytest.approx((10 + 20 / 4) / (1 + 1 / 4))


def test_least_squares_on_a_vector_that_is_too_long_is_refused_with_its_size() -> None:
    domain = Domain.of(dict.fromkeys("abcd", 100))
    with pytest.raises(SizeError) as refused:
        LeastSquares.of(domain, ())
    assert refused.value.cells == 10**8


def test_a_workload_that_cannot_be_asked_costs_nothing() -> None:
    budget = Budget.pure(1)
    other = Workload.marginals(Domain.of({"height": 3}), 1)
    with curated(budget) as curator:
        for workload in (Workload.of([]), other):
            with pytest.raises(DomainError):
                HDMM(workload).run(curator, budget)
        assert curator.left == 1


def test_hdmm_answers_its_workload_better_than_uniform() -> None:
    rng = np.random.default_rng(5)
    source = random_rows(0)
    source.rows = np.stack([rng.binomial(3, 0.2, 2000), rng.binomial(1, 0.2, 2000), rng.binomial(2, 0.7, 2000)], axis=1)
    budget = Budget.pure(1)
    with curated(budget, source) as curator:
        release = HDMM(RANGES).run(curator, budget)
    fitted = LeastSquares.of(DOMAIN, release.measurements)
    for query in RANGES:
        truth = query(source.count([query.clique])[0].values)
        uniform = query(np.full(query.domain.shape, 2000 / query.domain.size))
        assert np.abs(fitted.answer(query) - truth).sum() < 0.3 * np.abs(uniform - truth).sum()


def test_a_million_values_are_asked_as_they_are_and_their_prefixes_refused_with_the_size() -> None:
    domain = Domain.of({"wide": 10**6})
    marginal = Query.marginal(domain, "wide")
    query, error = best_product([marginal], [2.0], is_pure=True)
    assert (query, error) == (marginal, 2.0 * 10**6)
    with pytest.raises(SizeError, match="1,000,000 values"):
        best_product([Query.product(domain, {"wide": Prefix()})], [1.0], is_pure=True)
