from collections.abc import Callable
from typing import get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from priory.errors import OptionError
from priory.model.bases import Base, Mixture, Product, PublicRows, Uniform
from priory.model.model import Model
from priory.model.sampling import Chance, Codes, Method
from priory.queries.domain import Clique, Domain
from priory.queries.factor import Array
from strategies_model import Case, brute, cases


def tallied(domain: Domain, rows: Codes, clique: Clique) -> Array:
    counts = np.zeros(domain.project(clique).shape)
    np.add.at(counts, tuple(rows[:, domain.axis[name]] for name in clique), 1)
    return counts


@given(st.integers(1, 12), st.integers(0, 500), st.integers(0, 10**6))
def test_rounding_gives_each_cell_the_floor_or_the_ceiling_of_its_share(cells: int, n: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    weights = rng.random((3, cells)) * (rng.random((3, cells)) < 0.7)
    weights[:, -1] += 0.01
    counts = Chance(rng, "rounding").allocated(weights, np.array([n, 0, 7]))
    expected = np.array([n, 0, 7])[:, None] * weights / weights.sum(axis=1, keepdims=True)
    assert (counts.sum(axis=1) == [n, 0, 7]).all()
    assert (np.abs(counts - expected) < 1 + 1e-9).all()
    assert (counts[weights == 0] == 0).all()


@pytest.mark.statistical
def test_rounding_is_right_on_average() -> None:
    # 4,000 draws of fractions: the standard error of a mean is at most 0.5/√4000 = 0.008; 0.05 is six of them.
    rng = np.random.default_rng(0)
    weights = np.array([[0.05, 0.2, 0.0, 0.33, 0.42]])
    draws = np.array([Chance(rng, "rounding").allocated(weights, np.array([3]))[0] for _ in range(4000)])
    np.testing.assert_allclose(draws.mean(axis=0), 3 * weights[0], atol=0.05)


@pytest.mark.parametrize("method", get_args(Method))
@given(cases(max_attributes=4, scales=(1.0, 10.0)), st.integers(0, 2**31))
def test_rows_lie_in_the_domain_and_where_the_model_has_mass(method: Method, case: Case, seed: int) -> None:
    log_z, joint = brute(case.domain, case.potentials)
    if np.isneginf(log_z):
        return
    fitted = Model.of(Uniform(case.domain), case.potentials)
    rows = fitted.sample(60, seed=seed, method=method)
    assert rows.shape == (60, len(case.domain))
    assert (joint[tuple(rows.T)] > 0).all()


def all_rows(domain: Domain) -> PublicRows:
    return PublicRows(np.stack(np.unravel_index(np.arange(domain.size), domain.shape), axis=1), domain)


BASES: dict[str, Callable[[Domain], Base]] = {
    "tree": Uniform,
    "rows": all_rows,
    "mixture": lambda domain: Mixture([(0.5, Uniform(domain)), (0.5, Product([], domain=domain))]),
}


@pytest.mark.statistical
@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("method", get_args(Method))
def test_rows_have_the_joint_of_the_model(base: str, method: Method) -> None:
    # All 48 cells at once. For independent rows Pearson's statistic has mean 47 and deviation 9.7; 120 is beyond seven
    # deviations. Rows by rounding have no more variance than that in any cell.
    rng = np.random.default_rng(1)
    domain = Domain.of({"a": 2, "b": 4, "c": 3, "d": 2})
    potentials = {("a", "b"): rng.normal(size=(2, 4)), ("b", "c"): rng.normal(size=(4, 3))}
    fitted = Model.of(BASES[base](domain), potentials)
    joint = brute(domain, potentials)[1]
    for seed in range(3):
        rows = fitted.sample(40_000, seed=seed, method=method)
        counts = tallied(domain, rows, domain.attributes)
        assert ((counts - 40_000 * joint) ** 2 / (40_000 * joint)).sum() < 120


@pytest.mark.statistical
def test_rows_of_a_cut_bag_have_the_pairs_of_the_model() -> None:
    # Independent rows: 64 cells a pair, mean 63 and deviation 11; 150 is beyond seven deviations.
    rng = np.random.default_rng(1)
    domain = Domain.of({f"a{i}": 8 for i in range(5)})
    names = domain.attributes
    pairs = [(a, b) for i, a in enumerate(names) for b in names[i + 1 :]]
    fitted = Model.of(Uniform(domain), {pair: rng.normal(size=(8, 8)) for pair in pairs})
    rows = fitted.sample(30_000, seed=0, method="independent")
    for pair in pairs:
        expected = 30_000 * fitted.project(pair).values
        assert ((tallied(domain, rows, pair) - expected) ** 2 / expected).sum() < 150
    rounded = fitted.sample(30_000, seed=0)
    for pair in pairs:
        expected = 30_000 * fitted.project(pair).values
        assert ((tallied(domain, rounded, pair) - expected) ** 2 / expected).sum() < 150


def test_rounding_meets_the_tables_it_draws_from_more_closely_than_independent_rows() -> None:
    rng = np.random.default_rng(1)
    domain = Domain.of({"a": 5, "b": 6, "c": 4})
    fitted = Model.of(Uniform(domain), {("a", "b"): rng.normal(size=(5, 6)), ("b", "c"): rng.normal(size=(6, 4))})
    errors = {}
    for method in get_args(Method):
        rows = fitted.sample(10_000, seed=0, method=method)
        errors[method] = max(
            np.abs(tallied(domain, rows, pair) - 10_000 * fitted.project(pair).values).max()
            for pair in (("a", "b"), ("b", "c"))
        )
    assert errors["rounding"] < 3
    assert errors["independent"] > 10


def test_rows_agree_with_the_evidence_and_follow_the_conditional() -> None:
    rng = np.random.default_rng(1)
    domain = Domain.of({"a": 3, "b": 4, "c": 2})
    potentials = {("a", "b"): rng.normal(size=(3, 4)), ("b", "c"): rng.normal(size=(4, 2))}
    joint = brute(domain, potentials)[1]
    for base in (Uniform(domain), Mixture([(0.5, Uniform(domain)), (0.5, Uniform(domain))])):
        rows = Model.of(base, potentials).sample(5000, where={"c": 1, "b": [0, 2]}, seed=0)
        assert (rows[:, 2] == 1).all()
        assert set(np.unique(rows[:, 1])) == {0, 2}
        conditional = joint[:, [0, 2], 1] / joint[:, [0, 2], 1].sum()
        np.testing.assert_allclose(tallied(domain, rows, ("a", "b"))[:, [0, 2]] / 5000, conditional, atol=0.002)


def test_a_seed_draws_the_same_rows_again() -> None:
    fitted = Model.of(Uniform(Domain.of({"a": 5, "b": 3})), {("a", "b"): np.arange(15.0).reshape(5, 3)})
    np.testing.assert_array_equal(fitted.sample(50, seed=3), fitted.sample(50, seed=3))
    assert (fitted.sample(50, seed=3) != fitted.sample(50, seed=4)).any()


def test_batches_have_all_the_rows() -> None:
    fitted = Model.of(Uniform(Domain.of({"a": 5, "b": 3})), {("a", "b"): np.zeros((5, 3))})
    batches = list(fitted.batches(1000, 300, seed=0))
    assert [len(batch) for batch in batches] == [300, 300, 300, 100]
    counts = sum(np.bincount(batch[:, 0], minlength=5) for batch in batches)
    assert np.abs(np.asarray(counts) - 200).max() <= 4


def test_columns_are_in_the_order_of_the_domain_and_rows_in_no_order() -> None:
    domain = Domain.of({"a": 2, "b": 1000})
    rows = Model.of(Uniform(domain), {("b",): np.zeros(1000)}).sample(1000, seed=0)
    assert rows[:, 1].max() > 1
    assert rows[:, 0].max() == 1
    assert (np.diff(rows[:, 1]) < 0).sum() > 300


def test_no_rows_can_be_asked_for() -> None:
    domain = Domain.of({"a": 2, "b": 3})
    for base in (Uniform(domain), PublicRows([[0, 0]], domain)):
        assert Model.of(base, {("a", "b"): np.zeros((2, 3))}).sample(0).shape == (0, 2)


def test_bad_requests_for_rows_are_refused() -> None:
    fitted = Model.of(Uniform(Domain.of({"a": 2, "b": 3})), {("a",): np.array([0.0, -np.inf])})
    with pytest.raises(OptionError, match="at least 0"):
        fitted.sample(-1)
    with pytest.raises(OptionError, match="whole number"):
        fitted.sample(2.5)  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="probability zero"):
        fitted.sample(1, where={"a": 1})
    with pytest.raises(OptionError, match="codes 0 … 2"):
        fitted.sample(1, where={"b": [1, 3]})
    with pytest.raises(OptionError, match="codes 0 … 2"):
        fitted.sample(1, where={"b": []})
    with pytest.raises(OptionError, match="method"):
        fitted.sample(1, method="magic")  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="batch"):
        list(fitted.batches(5, 0))
