"""One contract for all bases: whatever the base, its oracle, projections, answers and rows are those of its joint."""

import json
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from priory.errors import DomainError
from priory.model.bases import Base, Mixture, Product, PublicRows, Uniform
from priory.model.model import Model
from priory.model.store import from_arrays, to_arrays
from priory.queries.domain import Domain
from priory.queries.factor import Array, Factor
from priory.queries.query import Query
from strategies import parts
from strategies_model import Case, brute, cases, marginal, random_joint

Made = tuple[Base, Array]


def uniform(domain: Domain, _: np.random.Generator) -> Made:
    return Uniform(domain), np.full(domain.shape, 1 / domain.size)


def product(domain: Domain, rng: np.random.Generator) -> Made:
    ways = [random_joint(domain.project((name,)), rng, zeros=0.2) for name in domain]
    joint = np.ones(())
    for way in ways:
        joint = np.multiply.outer(joint, way)
    factors = [Factor(domain.project((name,)), 7 * way) for name, way in zip(domain, ways, strict=True)]
    return Product(factors), joint


def public_rows(domain: Domain, rng: np.random.Generator) -> Made:
    codes = np.stack([rng.integers(0, size, 12) for size in domain.shape], axis=1)
    weights = rng.random(12)
    joint = np.zeros(domain.shape)
    np.add.at(joint, tuple(codes.T), weights)
    return PublicRows(codes, domain, weights), joint / joint.sum()


def cells(domain: Domain, rng: np.random.Generator) -> Made:
    joint = random_joint(domain, rng, zeros=0.2)
    with np.errstate(divide="ignore"):
        return PublicRows.of_cells(domain, np.log(joint) + 3.0), joint


def mixture(domain: Domain, rng: np.random.Generator) -> Made:
    rows, p = public_rows(domain, rng)
    full, q = product(domain, rng)
    return Mixture([(0.75, rows), (0.25, full)]), 0.75 * p + 0.25 * q


def model(domain: Domain, rng: np.random.Generator) -> Made:
    inner, joint = product(domain, rng)
    clique = domain.attributes[:2]
    theta = rng.normal(size=domain.project(clique).shape)
    joint = brute(domain, {clique: theta}, joint)[1]
    return Model.of(inner, {clique: theta}, 100), joint


def model_on_a_mixture(domain: Domain, rng: np.random.Generator) -> Made:
    inner, joint = mixture(domain, rng)
    clique = domain.attributes[-1:]
    theta = rng.normal(size=domain.project(clique).shape)
    return Model.of(inner, {clique: theta}), brute(domain, {clique: theta}, joint)[1]


BASES: list[Callable[[Domain, np.random.Generator], Made]] = [
    uniform,
    product,
    public_rows,
    cells,
    mixture,
    model,
    model_on_a_mixture,
]
every_base = pytest.mark.parametrize("make", BASES, ids=lambda make: make.__name__)
small = cases(max_attributes=4, max_cliques=4, scales=(1.0, 30.0))
seeds = st.integers(0, 1000)


@every_base
@given(small, seeds)
def test_the_oracle_is_that_of_the_joint(
    make: Callable[[Domain, np.random.Generator], Made], case: Case, seed: int
) -> None:
    base, b = make(case.domain, np.random.default_rng(seed))
    oracle = base.bind(case.cliques)
    log_z, found = oracle(oracle.layout.pack(case.tables))
    expected, joint = brute(case.domain, case.potentials, b)
    if np.isneginf(expected):
        assert np.isneginf(log_z)
        assert not found.any()
        return
    assert log_z == pytest.approx(expected, abs=1e-9)
    for clique, factor in oracle.layout.unpack(found).items():
        np.testing.assert_allclose(factor.values, marginal(case.domain, joint, clique), atol=1e-10)


@every_base
def test_without_potentials_the_normaliser_is_one(make: Callable[[Domain, np.random.Generator], Made]) -> None:
    domain = Domain.of({"a": 3, "b": 4, "c": 2})
    base, b = make(domain, np.random.default_rng(0))
    log_z, marginals = base.oracle({("c", "a"): np.zeros((2, 3))})
    assert log_z == pytest.approx(0, abs=1e-12)
    np.testing.assert_allclose(marginals["c", "a"].values, marginal(domain, b, ("c", "a")), atol=1e-12)


@every_base
@given(small, seeds, st.data())
def test_projections_answers_and_masses_are_those_of_the_joint(
    make: Callable[[Domain, np.random.Generator], Made], case: Case, seed: int, data: st.DataObject
) -> None:
    domain = case.domain
    base, b = make(domain, np.random.default_rng(seed))
    log_z, joint = brute(domain, case.potentials, b)
    if np.isneginf(log_z):
        with pytest.raises(DomainError, match="rule out every cell"):
            Model.of(base, case.potentials)
        return
    fitted = Model.of(base, case.potentials, 50)
    assert fitted.log_z == pytest.approx(log_z, abs=1e-9)
    clique = tuple(data.draw(st.permutations(domain.attributes)))[: data.draw(st.integers(0, len(domain)))]
    np.testing.assert_allclose(fitted.project(clique).values, 50 * marginal(domain, joint, clique), atol=1e-8)
    query = Query.product(domain, {name: data.draw(parts(domain[name])) for name in clique})
    truth = query.dense() @ marginal(domain, joint, query.clique).reshape(-1)
    scale = max(1.0, float(np.abs(query.dense()).max()))
    np.testing.assert_allclose(fitted.answer(query).reshape(-1), 50 * truth, atol=1e-8 * scale)
    rows = np.stack(np.unravel_index(np.arange(domain.size), domain.shape), axis=1)
    with np.errstate(divide="ignore"):
        logs = np.log(joint.reshape(-1))
    kept = joint.reshape(-1) > 1e-290
    np.testing.assert_allclose(fitted.log_likelihood(rows)[kept], logs[kept], atol=1e-8)
    assert (fitted.log_likelihood(rows)[joint.reshape(-1) == 0] < -600).all()


@every_base
@given(seeds)
def test_what_was_written_is_read_back(make: Callable[[Domain, np.random.Generator], Made], seed: int) -> None:
    domain = Domain.of({"age": 3, "marital status": 2, "c": 4})
    base, _ = make(domain, np.random.default_rng(seed))
    fitted = Model.of(base, {("age", "c"): np.random.default_rng(seed).normal(size=(3, 4))}, 12.5)
    meta, arrays = to_arrays(fitted, embed_public_rows=True)
    again = from_arrays(json.loads(json.dumps(meta)), arrays)
    assert isinstance(again, Model)
    assert again.total == fitted.total
    clique = ("c", "marital status")
    np.testing.assert_allclose(again.project(clique).values, fitted.project(clique).values, rtol=1e-12)


def concrete(family: type[Base]) -> set[type[Base]]:
    every = {one for child in family.__subclasses__() for one in {child, *concrete(child)}}
    return {one for one in every if one.__module__.startswith("priory.")}


def test_every_base_of_the_library_is_under_contract() -> None:
    domain = Domain.of({"a": 3, "b": 4, "c": 2})
    assert {type(make(domain, np.random.default_rng(0))[0]) for make in BASES} == concrete(Base)  # type: ignore[type-abstract]


@every_base
def test_an_oracle_is_bound_once_and_asked_often(make: Callable[[Domain, np.random.Generator], Made]) -> None:
    domain = Domain.of({"a": 3, "b": 4, "c": 2})
    base, _ = make(domain, np.random.default_rng(1))
    cliques = (("b", "a"), ("c",), ("b",))
    oracle = base.bind(cliques)
    assert oracle.layout.cliques == cliques
    theta = np.random.default_rng(2).normal(size=oracle.layout.size)
    first = oracle(theta)
    oracle(np.zeros_like(theta))
    again = oracle(theta)
    assert again[0] == pytest.approx(first[0], abs=1e-12)
    np.testing.assert_allclose(again[1], first[1], atol=1e-14)


@every_base
def test_rows_lie_where_the_base_has_mass(make: Callable[[Domain, np.random.Generator], Made]) -> None:
    domain = Domain.of({"a": 3, "b": 4, "c": 2})
    base, joint = make(domain, np.random.default_rng(3))
    rows = Model.of(base, {}, 1.0).sample(500, seed=0)
    assert rows.shape == (500, 3)
    assert (joint[tuple(rows.T)] > 0).all()


@every_base
def test_only_the_uniform_base_says_nothing(make: Callable[[Domain, np.random.Generator], Made]) -> None:
    domain = Domain.of({"a": 3, "b": 4})
    base, joint = make(domain, np.random.default_rng(4))
    assert base.is_informative or np.allclose(joint, 1 / domain.size)


@every_base
def test_more_cliques_take_no_less_memory(make: Callable[[Domain, np.random.Generator], Made]) -> None:
    domain = Domain.of({"a": 3, "b": 4, "c": 2})
    base, _ = make(domain, np.random.default_rng(5))
    assert 0 <= base.bytes_of([]) <= base.bytes_of([("a",)]) <= base.bytes_of([("a", "b"), ("b", "c")])
