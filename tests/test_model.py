import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from priory.errors import DomainError, OptionError, SizeError
from priory.model import graph, subtree
from priory.model.bases import PublicRows, Uniform
from priory.model.engine.plan import plan
from priory.model.model import Model
from priory.queries.domain import Domain
from priory.queries.factor import Array
from priory.queries.parts import Identity, Mean, Moments, Point, Prefix, Range, Recode, Set, Total
from priory.queries.query import Query
from strategies import parts
from strategies_model import Case, brute, cases, marginal

DOMAIN = Domain.of({"age": 6, "sex": 2, "marital-status": 3, "income": 4, "alone": 5})


def a_model() -> tuple[Model, Array]:
    rng = np.random.default_rng(0)
    potentials = {
        ("age", "sex"): rng.normal(size=(6, 2)),
        ("sex", "marital-status"): rng.normal(size=(2, 3)),
        ("marital-status", "income"): rng.normal(size=(3, 4)),
        ("age",): rng.normal(size=6),
    }
    return Model.of(Uniform(DOMAIN), potentials, 1000), brute(DOMAIN, potentials)[1]


@settings(max_examples=200)
@given(cases(max_attributes=6, scales=(1.0, 20.0)), st.data())
def test_algorithm_3_equals_the_dense_query_on_the_joint(case: Case, data: st.DataObject) -> None:
    log_z, joint = brute(case.domain, case.potentials)
    if np.isneginf(log_z):
        return
    fitted = Model.of(Uniform(case.domain), case.potentials, 3)
    names = data.draw(st.permutations(case.domain.attributes))[: data.draw(st.integers(0, 4))]
    query = Query.product(case.domain, {name: data.draw(parts(case.domain[name])) for name in names})
    tilted = fitted._tilted
    assert isinstance(tilted, graph.GraphTilted)
    truth = query.dense() @ marginal(case.domain, joint, query.clique).reshape(-1)
    scale = max(1.0, float(np.abs(query.dense()).max()))
    assert tilted._factored(query).shape == query.shape
    np.testing.assert_allclose(tilted._factored(query).reshape(-1), truth, atol=1e-10 * scale)
    np.testing.assert_allclose(fitted.answer(query).reshape(-1), 3 * truth, atol=1e-9 * scale)


def test_a_query_that_needs_no_large_marginal_never_forms_it() -> None:
    # The marginal of the clique would have 10^12 cells.
    domain = Domain.of({f"a{i}": 1000 for i in range(4)})
    rng = np.random.default_rng(0)
    potentials = {(f"a{i}", f"a{i + 1}"): rng.normal(size=(1000, 1000)) for i in range(3)}
    fitted = Model.of(Uniform(domain), potentials)
    query = Query.product(
        domain,
        {"a0": Range(0, 499), "a1": Mean(range(1000)), "a2": Recode([i % 3 for i in range(1000)]), "a3": Set([1, 5])},
    )
    tables = [np.exp(table) for table in potentials.values()]
    left = tables[0][:500].sum(axis=0) * np.arange(1000.0)
    right = tables[2][:, [1, 5]].sum(axis=1)
    expected = [(left @ tables[1][:, k::3]) @ right[k::3] for k in range(3)]
    mass = (tables[0] @ tables[1] @ tables[2]).sum()
    np.testing.assert_allclose(fitted.answer(query).reshape(-1), np.array(expected) / mass, rtol=1e-10)
    with pytest.raises(SizeError, match="bytes"):
        fitted.project(domain.attributes)


def test_batches_of_queries_have_the_answers_of_each() -> None:
    fitted, joint = a_model()
    queries = [
        Query.product(DOMAIN, {"age": Prefix(), "income": Identity()}),
        Query.marginal(DOMAIN, ("age", "income")),
        Query.product(DOMAIN, {"alone": Point(2), "age": Moments(range(6), 2)}),
        Query.product(DOMAIN, {"sex": Total(), "marital-status": Recode([0, 1, 0])}),
        Query.product(DOMAIN, {}),
    ]
    for query, answer in zip(queries, fitted.answers(queries), strict=True):
        truth = 1000 * (query.dense() @ marginal(DOMAIN, joint, query.clique).reshape(-1))
        np.testing.assert_allclose(answer.reshape(-1), truth, rtol=1e-10)
        np.testing.assert_array_equal(answer, fitted.answer(query))


def test_conditional_expectations_are_those_of_the_joint() -> None:
    fitted, joint = a_model()
    ages = np.arange(6.0) * 10
    mean_age = fitted.expect(Query.product(DOMAIN, {"age": Mean(ages.tolist()), "sex": Identity()}), given="sex")
    table = marginal(DOMAIN, joint, ("age", "sex"))
    np.testing.assert_allclose(mean_age, (ages @ table / table.sum(axis=0))[None, :], rtol=1e-10)
    share = fitted.expect(Query.product(DOMAIN, {"income": Set([2, 3]), "age": Range(0, 2)}), given=["age"])
    table = marginal(DOMAIN, joint, ("age", "income"))[:3]
    np.testing.assert_allclose(share, [[table[:, 2:].sum() / table.sum()]], rtol=1e-10)
    within = fitted.expect(Query.marginal(DOMAIN, "income"), where={"sex": 1, "age": [0, 5]})
    table = marginal(DOMAIN, joint, ("sex", "age", "income"))[1, [0, 5]].sum(axis=0)
    np.testing.assert_allclose(within, table / table.sum(), rtol=1e-10)
    assert fitted.probability({"sex": 1, "age": [0, 5]}) == pytest.approx(table.sum())
    np.testing.assert_allclose(fitted.expect(Query.marginal(DOMAIN, "sex")).sum(), 1)


def test_a_conditional_on_nothing_possible_is_not_a_number() -> None:
    domain = Domain.of({"a": 2, "b": 2})
    fitted = Model.of(Uniform(domain), {("a",): np.array([-np.inf, 0.0])})
    answers = fitted.expect(Query.marginal(domain, ("a", "b")), given="a")
    assert np.isnan(answers[0]).all()
    np.testing.assert_allclose(answers[1], 0.5)


@given(cases(max_attributes=5, scales=(1.0, 20.0)))
def test_entropy_and_divergence_are_those_of_the_joint(case: Case) -> None:
    log_z, joint = brute(case.domain, case.potentials)
    if np.isneginf(log_z):
        return
    fitted = Model.of(Uniform(case.domain), case.potentials)
    held = joint[joint > 0]
    entropy = -float((held * np.log(held)).sum())
    assert fitted.entropy() == pytest.approx(entropy, abs=1e-8)
    assert fitted.divergence() == pytest.approx(np.log(case.domain.size) - entropy, abs=1e-8)


def test_the_entropy_of_rows_and_of_models_on_models_is_that_of_the_joint() -> None:
    domain = Domain.of({"a": 2, "b": 2})
    rows = Model.of(PublicRows([[0, 0], [1, 1]], domain, [0.25, 0.75]), {})
    assert rows.entropy() == pytest.approx(-(0.25 * np.log(0.25) + 0.75 * np.log(0.75)))
    inner = Model.of(Uniform(domain), {("a",): np.array([0.0, 1.0])})
    outer = Model.of(inner, {("a",): np.array([1.0, 0.0])})
    assert outer.entropy() == pytest.approx(np.log(4))
    assert outer.log_likelihood([[0, 1]])[0] == pytest.approx(-np.log(4))


def test_a_model_scales_with_its_total() -> None:
    fitted, _ = a_model()
    assert fitted.project(("income", "alone")).total == pytest.approx(1000)
    assert fitted.project(()).values == pytest.approx(1000)


def test_an_attribute_nobody_measured_is_uniform_and_independent() -> None:
    fitted, joint = a_model()
    np.testing.assert_allclose(
        fitted.project(("alone", "sex")).values, 1000 * marginal(DOMAIN, joint, ("alone", "sex"))
    )


def test_bad_questions_are_refused() -> None:
    fitted, _ = a_model()
    other = Domain.of({"age": 7, "agee": 2})
    with pytest.raises(DomainError, match="unknown attributes"):
        fitted.project(("agee",))
    with pytest.raises(DomainError, match="unknown attributes"):
        fitted.answer(Query.marginal(other, "agee"))
    with pytest.raises(DomainError, match="the query reads"):
        fitted.answer(Query.marginal(other, "age"))
    with pytest.raises(DomainError, match="unknown attributes"):
        fitted.expect(Query.marginal(DOMAIN, "age"), given="sex")
    with pytest.raises(OptionError, match="codes 0 … 1"):
        fitted.probability({"sex": 2})
    with pytest.raises(OptionError, match="total"):
        Model.of(Uniform(DOMAIN), {}, -1)
    with pytest.raises(OptionError, match="total"):
        Model.of(Uniform(DOMAIN), {}, np.nan)
    with pytest.raises(DomainError, match="one column"):
        fitted.log_likelihood([[0, 0]])


def test_projecting_a_cut_bag_equals_the_joint() -> None:
    rng = np.random.default_rng(2)
    domain = Domain.of({f"a{i}": 6 for i in range(6)})
    names = domain.attributes
    potentials = {(a, b): rng.normal(size=(6, 6)) for i, a in enumerate(names[:5]) for b in names[i + 1 : 5]}
    potentials["a4", "a5"] = rng.normal(size=(6, 6))
    fitted = Model.of(Uniform(domain), potentials)
    assert any(bag.split for bag in plan(domain, potentials).bags)
    joint = brute(domain, potentials)[1]
    for clique in (("a5", "a0"), ("a1", "a2", "a3"), ("a0", "a1", "a2", "a3", "a4"), ("a5",)):
        np.testing.assert_allclose(fitted.project(clique).values, marginal(domain, joint, clique), atol=1e-12)


@pytest.mark.parametrize("limit", [0, 10**9])
def test_tables_are_divided_beforehand_or_on_the_way(limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subtree, "_DIVIDED_CELLS", limit)
    fitted, joint = a_model()
    for clique in (("age", "income"), ("income", "sex", "alone"), ("marital-status", "age")):
        for _ in range(2):
            expected = 1000 * marginal(DOMAIN, joint, clique)
            np.testing.assert_allclose(fitted.project(clique).values, expected, rtol=1e-10)
