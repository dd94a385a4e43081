from itertools import combinations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from priory.errors import DomainError
from priory.model.bases import Uniform
from priory.model.engine import blocks as engine_blocks
from priory.model.engine import cores
from priory.model.engine.contract import Contraction
from priory.model.engine.layout import Layout
from priory.model.engine.plan import plan
from priory.queries.domain import Domain
from priory.queries.factor import Array
from strategies_model import Case, brute, cases, marginal


def oracle(domain: Domain, cliques: object) -> Contraction:
    layout = Layout.of(domain, cliques)  # type: ignore[arg-type]
    return Contraction(layout, plan(domain, layout.cliques))


def split_vector(layout: Layout, vector: Array) -> list[Array]:
    ends = zip(layout.offsets, layout.offsets[1:], layout.shapes, strict=False)
    return [vector[start:stop].reshape(shape) for start, stop, shape in ends]


def check_against_the_joint(case: Case, tolerance: float) -> None:
    call = oracle(case.domain, case.cliques)
    log_z, marginals = call(call.layout.pack(case.tables))
    expected, joint = brute(case.domain, case.potentials)
    if np.isneginf(expected):
        assert np.isneginf(log_z)
        assert not marginals.any()
        return
    assert log_z == pytest.approx(expected, rel=1e-9, abs=1e-9)
    for clique, found in zip(case.cliques, split_vector(call.layout, marginals), strict=True):
        np.testing.assert_allclose(found, marginal(case.domain, joint, clique), atol=tolerance, rtol=0)


@settings(max_examples=400)
@given(cases())
def test_marginals_and_the_normaliser_equal_those_of_the_full_table(case: Case) -> None:
    check_against_the_joint(case, 1e-10)


@settings(max_examples=150)
@given(cases(scales=(300.0, 1e4)))
def test_extreme_potentials_lose_nothing(case: Case) -> None:
    check_against_the_joint(case, 1e-8)


@settings(max_examples=30)
@given(st.integers(4, 5), st.integers(0, 2**32 - 1), st.sampled_from([1.0, 30.0, 400.0]), st.booleans())
def test_a_bag_cut_into_matrix_products_equals_the_full_table(k: int, seed: int, scale: float, zeros: bool) -> None:  # noqa: FBT001
    rng = np.random.default_rng(seed)
    domain = Domain.of({f"a{i}": 8 for i in range(k)})
    cliques = tuple(combinations(domain.attributes, 2))
    tables = [scale * rng.normal(size=(8, 8)) for _ in cliques]
    if zeros:
        tables = [np.where(rng.random((8, 8)) < 0.1, -np.inf, table) for table in tables]
    assert any(bag.split for bag in plan(domain, cliques).bags)
    check_against_the_joint(Case(domain, cliques, tuple(tables)), 1e-8)


def test_a_cut_bag_with_a_separator_and_a_batch_equals_the_full_table() -> None:
    rng = np.random.default_rng(3)
    domain = Domain.of({"a": 6, "b": 6, "c": 6, "d": 6, "e": 6, "t": 3, "u": 4, "v": 2})
    cliques = (*combinations("abcde", 2), ("a", "u"), ("b", "u"), ("u", "v"), ("t", "c"))
    p = plan(domain, cliques)
    assert any(bag.split and bag.parent >= 0 for bag in p.bags) or any(bag.split and bag.children for bag in p.bags)
    check_against_the_joint(
        Case(domain, cliques, tuple(rng.normal(size=domain.project(c).shape) for c in cliques)), 1e-10
    )


@given(cases(scales=(1.0,), zeros=False))
def test_marginals_are_the_gradient_of_the_normaliser(case: Case) -> None:
    call = oracle(case.domain, case.cliques)
    theta = call.layout.pack(case.tables)
    _, marginals = call(theta)
    rng = np.random.default_rng(0)
    direction = rng.normal(size=theta.shape)
    step = 1e-5
    slope = (call(theta + step * direction)[0] - call(theta - step * direction)[0]) / (2 * step)
    assert slope == pytest.approx(float(marginals @ direction), abs=1e-6)


@given(cases())
def test_marginals_of_cliques_agree_on_what_they_share(case: Case) -> None:
    call = oracle(case.domain, case.cliques)
    log_z, marginals = call(call.layout.pack(case.tables))
    assume(log_z > -np.inf)
    found = list(zip(case.cliques, split_vector(call.layout, marginals), strict=True))
    for (c1, m1), (c2, m2) in combinations(found, 2):
        shared = tuple(name for name in c1 if name in c2)
        one = marginal(case.domain.project(c1), m1, shared)
        two = marginal(case.domain.project(c2), m2, shared)
        np.testing.assert_allclose(one, two, atol=1e-10)
    for _, table in found:
        assert table.sum() == pytest.approx(1, abs=1e-10)


@given(cases(zeros=False), st.floats(-500, 500))
def test_a_constant_added_to_a_potential_moves_only_the_normaliser(case: Case, constant: float) -> None:
    assume(len(case.cliques) > 0)
    call = oracle(case.domain, case.cliques)
    theta = call.layout.pack(case.tables)
    log_z, marginals = call(theta)
    theta[: call.layout.sizes[0]] += constant
    shifted_z, shifted = call(theta)
    assert shifted_z == pytest.approx(log_z + constant, abs=1e-9)
    np.testing.assert_allclose(shifted, marginals, atol=1e-10)


@pytest.mark.parametrize("gap", [700.0, 1400.0, 5000.0])
def test_factors_that_disagree_beyond_underflow_keep_their_mass_in_the_right_cell(gap: float) -> None:
    # The left neighbour of b all but rules out value 0, the right one all but rules out value 1, and together they
    # prefer 0 by a little: in linear space one message or the other loses the entry that matters.
    domain = Domain.of({"a": 2, "b": 2, "c": 2})
    left = np.array([[0.0, gap], [0.0, gap]])
    right = np.array([[gap + 1.0, gap + 1.0], [0.0, 0.0]])
    potentials = {("a", "b"): left, ("b", "c"): right}
    log_z, marginals = Uniform(domain).oracle(potentials)
    expected, joint = brute(domain, potentials)
    assert log_z == pytest.approx(expected, rel=1e-12)
    np.testing.assert_allclose(marginals["b", "c"].values, marginal(domain, joint, ("b", "c")), atol=1e-8)
    assert marginals["a", "b"].project("b").values[0] == pytest.approx(1 / (1 + np.exp(-1.0)), abs=1e-8)


def test_a_long_chain_of_strong_potentials_does_not_drift() -> None:
    rng = np.random.default_rng(0)
    domain = Domain.of({f"a{i}": 3 for i in range(400)})
    cliques = list(zip(domain.attributes, domain.attributes[1:], strict=False))
    call = oracle(domain, cliques)
    theta = 20 * rng.normal(size=call.layout.size)
    log_z, marginals = call(theta)
    tables = theta.reshape(-1, 3, 3)
    forward = np.zeros(3)
    for table in tables:
        forward = np.logaddexp.reduce(forward[:, None] + table, axis=0)
    assert log_z == pytest.approx(float(np.logaddexp.reduce(forward)) - 400 * np.log(3), rel=1e-12)
    found = marginals.reshape(-1, 3, 3)
    np.testing.assert_allclose(found[:-1].sum(axis=1), found[1:].sum(axis=2), atol=1e-10)


def test_structural_zeros_stay_on_the_fast_path(monkeypatch: pytest.MonkeyPatch) -> None:
    domain = Domain.of({"a": 3, "b": 3, "c": 3})
    table = np.zeros((3, 3))
    table[:, 0] = -np.inf
    call = oracle(domain, [("a", "b"), ("b", "c")])
    theta = call.layout.pack([table, np.arange(9.0).reshape(3, 3)])
    monkeypatch.setattr(Contraction, "_rescued", lambda *_: pytest.fail("went to log space"))
    _, marginals = call(theta)
    assert marginals[:9].reshape(3, 3)[:, 0].sum() == 0
    assert marginals.sum() == pytest.approx(2)


def test_no_cliques_at_all_leave_the_base_as_it_is() -> None:
    log_z, marginals = Uniform(Domain.of({"a": 2, "b": 3})).oracle({})
    assert log_z == 0
    assert marginals == {}


def test_potentials_may_be_named_in_any_order_of_attributes() -> None:
    domain = Domain.of({"a": 2, "b": 3})
    table = np.arange(6.0).reshape(2, 3)
    one, two = Uniform(domain).oracle({("a", "b"): table}), Uniform(domain).oracle({("b", "a"): table.T})
    assert one[0] == pytest.approx(two[0])
    np.testing.assert_allclose(one[1]["a", "b"].values, two[1]["b", "a"].values.T)


def test_bad_potentials_are_refused() -> None:
    base = Uniform(Domain.of({"a": 2, "b": 3}))
    with pytest.raises(DomainError, match="shape"):
        base.oracle({("a", "b"): np.zeros((3, 2))})
    with pytest.raises(DomainError, match="unknown attributes"):
        base.oracle({("a", "c"): np.zeros((2, 2))})
    with pytest.raises(DomainError, match="NaN"):
        base.oracle({("a",): np.array([np.nan, 0.0])})
    with pytest.raises(DomainError, match=r"\+inf"):
        base.oracle({("a",): np.array([np.inf, 0.0])})
    with pytest.raises(DomainError, match="rule out every cell"):
        base.oracle({("a",): np.full(2, -np.inf)})
    with pytest.raises(DomainError, match="real numbers"):
        base.oracle({("a",): np.array(["x", "y"])})


def test_packing_needs_every_table() -> None:
    layout = Layout.of(Domain.of({"a": 2, "b": 3}), [("a",), ("b",)])
    with pytest.raises(DomainError, match="no values"):
        layout.pack({("a",): np.zeros(2)})
    with pytest.raises(DomainError, match="1 tables"):
        layout.pack([np.zeros(2)])


def test_the_oracle_can_be_called_from_several_threads() -> None:
    from concurrent.futures import ThreadPoolExecutor

    rng = np.random.default_rng(0)
    domain = Domain.of({f"a{i}": 4 for i in range(30)})
    call = oracle(domain, list(zip(domain.attributes, domain.attributes[1:], strict=False)))
    thetas = [rng.normal(size=call.layout.size) for _ in range(40)]
    alone = [call(theta) for theta in thetas]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(call, thetas))
    for (z1, m1), (z2, m2) in zip(alone, together, strict=True):
        assert z1 == z2
        np.testing.assert_array_equal(m1, m2)


@settings(max_examples=100)
@given(cases(max_attributes=5), st.integers(2, 5))
def test_several_cores_do_what_one_does(case: Case, count: int) -> None:
    alone = oracle(case.domain, case.cliques)
    expected = alone(alone.layout.pack(case.tables))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cores, "WORTH_IT", 2)
        patch.setattr(cores, "available", lambda: count)
        together = oracle(case.domain, case.cliques)
        found = together(together.layout.pack(case.tables))
    assert found[0] == pytest.approx(expected[0], abs=1e-12)
    np.testing.assert_allclose(found[1], expected[1], atol=1e-14)


def test_a_failure_beside_is_not_lost() -> None:
    def fails() -> None:
        raise ValueError("beside")

    with pytest.raises(ValueError, match="beside"):
        cores.together([lambda: None, fails])


@given(st.integers(1, 3), st.integers(1, 90), st.integers(1, 700), st.integers(1, 90), st.integers(0, 100))
def test_a_product_in_blocks_is_the_product(batch: int, m: int, k: int, n: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    a, b, out = rng.normal(size=(batch, m, k)), rng.normal(size=(batch, k, n)), np.empty((batch, m, n))
    x, y, blocks = engine_blocks.in_blocks(a, b, out)
    np.matmul(x, y, out=blocks)
    np.testing.assert_allclose(out, a @ b, atol=1e-10)
    rows, columns = engine_blocks.block_of(m, k, n)
    assert (rows, columns) == (m, n) or rows * columns * k <= 2**18


def test_a_large_cut_bag_on_three_cores_equals_one_core(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    domain = Domain.of({f"a{i}": 8 for i in range(7)})
    cliques = tuple(combinations(domain.attributes, 2))
    theta = rng.normal(size=64 * len(cliques))
    monkeypatch.setattr(cores, "available", lambda: 1)
    alone = oracle(domain, cliques)(theta)
    monkeypatch.setattr(cores, "available", lambda: 3)
    monkeypatch.setattr(cores, "WORTH_IT", 1 << 8)
    together = oracle(domain, cliques)(theta)
    assert together[0] == pytest.approx(alone[0], abs=1e-12)
    np.testing.assert_allclose(together[1], alone[1], atol=1e-14)
