from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from checks import BUDGET_CHECKS
from houses import DOMAIN, Rows, curated, random_rows
from priory.app.fit import fit
from priory.app.registry import Registered
from priory.data.schema import Schema
from priory.errors import BudgetError, DataError, DomainError, OptionError
from priory.mechanisms.aim import AIM
from priory.mechanisms.prior import Prior
from priory.mechanisms.steps.drift import drifted_columns, without_drift
from priory.mechanisms.steps.public_rows import neighbourhood
from priory.model.bases import PublicRows
from priory.model.model import Model
from priory.privacy.budget import Budget
from priory.privacy.journal import Transcript
from priory.privacy.ledger import Ledger
from priory.privacy.measurement import Measurement
from priory.queries.domain import Domain
from priory.queries.parts import Prefix
from priory.queries.query import Query
from priory.queries.workload import Workload
from priory.release import Release
from priory.select.information import informative_marginals
from priory.select.workloads import default_workload
from publics import KINDS, private, public

BUDGET = Budget.zcdp("1/10", relation="replace-one")
PAIRS = Workload.marginals(DOMAIN, 2)


def mean_distance(release: Release, source: Rows) -> float:
    assert release.model is not None
    model, n = release.model, len(source.rows)
    return float(
        np.mean(
            [
                np.abs(model.project(query.clique).values - source.count([query.clique])[0].values).sum() / (2 * n)
                for query in PAIRS
            ]
        )
    )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("check", BUDGET_CHECKS)
def test_the_contract_holds_upon_every_kind_of_public_rows(check: Callable[[Registered], None], kind: str) -> None:
    check(Registered("prior", "", lambda _: Prior(public=public(kind))))


@pytest.mark.statistical
def test_a_prior_that_is_right_is_hardly_spoiled_by_little_budget() -> None:
    # The truth is the prior: every move away is noise. One run in ten moves, by 0.05; five means of 0.04 are far off.
    source = random_rows(3_000, seed=1)
    budget = Budget.zcdp("1/10000", relation="replace-one")
    distances = []
    for _ in range(5):
        with curated(budget, source) as curator:
            release = Prior(public=PublicRows(source.rows, DOMAIN), workload=PAIRS, outside=0.0).run(curator, budget)
        distances.append(mean_distance(release, source))
    assert np.mean(distances) < 0.04


@pytest.mark.parametrize("kind", ["smaller", "disjoint", "larger"])
def test_a_large_budget_leaves_the_public_support_for_the_truth(kind: str) -> None:
    source = Rows(DOMAIN, private(kind))
    budget = Budget.zcdp(1000, relation="replace-one")
    with curated(budget, source) as curator:
        before = mean_distance(_untouched(kind, source), source)
        release = Prior(public=public(kind), workload=PAIRS).run(curator, budget)
    # One value away from two rows is not everywhere.
    assert mean_distance(release, source) < (0.5 if kind == "disjoint" else 0.3) * before


def _untouched(kind: str, source: Rows) -> Release:
    with curated(BUDGET, source) as curator:
        release = Release(DOMAIN, (), curator.statement("none"))
    return release.with_model(Model.of(public(kind), {}, len(source.rows)))


def test_rows_outside_have_their_share_and_every_value() -> None:
    rows = public("disjoint")
    base = neighbourhood(rows, 0.1, np.random.default_rng(0))
    for axis, size in enumerate(DOMAIN.shape):
        assert set(base.codes[:, axis]) == set(range(size))
    inside = (base.codes[:, None, :] == rows.codes[None, :, :]).all(axis=2).any(axis=1)
    # Some rows one value away are public rows again, and add to their share.
    assert 0.9 <= base.shares[inside].sum() < 1
    away = (base.codes[:, None, :] != rows.codes[None, :, :]).sum(axis=2).min(axis=1)
    assert away.max() == 1
    assert neighbourhood(rows, 0.0, np.random.default_rng(0)) is rows


def test_rows_with_enough_of_every_value_have_no_neighbours() -> None:
    many = np.indices(DOMAIN.shape).reshape(len(DOMAIN), -1).T
    rows = PublicRows(np.repeat(many, 100, axis=0), Domain.of(dict(zip(DOMAIN, DOMAIN.shape, strict=True))))
    assert set(map(tuple, neighbourhood(rows, 0.1, np.random.default_rng(0)).codes)) == set(map(tuple, many))


def test_the_workload_itself_is_measured_where_it_is_small() -> None:
    assert informative_marginals(PAIRS, None, most=3, most_cells=100) == list(PAIRS.cliques)


def test_the_strongest_pairs_stand_for_a_large_workload_and_the_rest_is_told_alone() -> None:
    age, sex, region = DOMAIN
    rng = np.random.default_rng(0)
    rows = np.stack([rng.integers(0, size, 500) for size in DOMAIN.shape], axis=1)
    rows[:, 1] = rows[:, 0] % DOMAIN.shape[1]
    whole = Workload.marginals(DOMAIN, 3)
    found = informative_marginals(whole, PublicRows(rows, DOMAIN), most=1, most_cells=20)
    assert found == [(age, sex), (region,)]
    assert informative_marginals(whole, None, most=9, most_cells=2) == [(sex,)]


def test_a_prior_of_the_population_and_noisy_marginals_are_better_together_than_either() -> None:
    source = random_rows(3_000, seed=1)
    few = PublicRows(random_rows(300, seed=2).rows, DOMAIN)
    budget = Budget.zcdp("1/500", relation="replace-one")
    errors = []
    for seed in range(5):
        with curated(budget, source) as curator:
            release = Prior(public=few, workload=PAIRS, seed=seed).run(curator, budget)
        errors.append(mean_distance(release, source))
    with curated(budget, source) as curator:
        untouched = Release(DOMAIN, (), curator.statement("none")).with_model(Model.of(few, {}, 3_000))
    assert np.mean(errors) < 0.8 * mean_distance(untouched, source)


@pytest.mark.parametrize(
    ("mechanism", "error"),
    [
        (Prior(public=PublicRows([[0]], Domain.of({"age": 4}))), DomainError),
        (Prior(workload=Workload.of([])), DomainError),
        (Prior(workload=Workload.of([Query.product(DOMAIN, {"age": Prefix()})])), OptionError),
        (Prior(outside=1.0), OptionError),
    ],
)
def test_what_cannot_be_done_costs_nothing(mechanism: Prior, error: type[Exception]) -> None:
    source = random_rows()
    with curated(BUDGET, source) as curator:
        with pytest.raises(error):
            mechanism.run(curator, BUDGET)
        with pytest.raises(BudgetError):
            Prior().run(curator, Budget.zcdp(1, relation="replace-one"))
        assert curator.reservation.spent == 0
    assert source.looks == 0


SCHEMA = Schema.parse(
    """
priory: 1
name: people
columns:
  colour: {kind: category, levels: [red, green], other: rest}
  age: {kind: integer, bounds: [0, 99], bins: {edges: [0, 50, 99]}, nullable: true}
"""
)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("colour\nred\n", DataError),
        ("colour,age\nred,300\n", DataError),
        ("colour,age\nred,old\n", DataError),
        ("colour,age\n,3\n", DataError),
        ("colour,age\n", DataError),
    ],
)
@pytest.mark.parametrize("mechanism", ["prior", "pmw-pub"])
def test_bad_public_data_is_refused_and_nothing_spent(
    tmp_path: Path, text: str, error: type[Exception], mechanism: str
) -> None:
    (tmp_path / "public.csv").write_text(text)
    (tmp_path / "private.csv").write_text("colour,age\nred,3\n")
    book = Ledger.in_memory(Budget.zcdp(1), dataset="people", schema=SCHEMA.dump())
    data, bad = tmp_path / "private.csv", tmp_path / "public.csv"
    with pytest.raises(error):
        fit(data, SCHEMA, rho=1, mechanism=mechanism, public=bad, ledger=book)
    assert book.left() == 1


def test_a_mechanism_without_use_for_public_data_says_so(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("colour,age\nred,3\n")
    with pytest.raises(OptionError, match="public"):
        fit(tmp_path / "a.csv", SCHEMA, rho=1, mechanism="independent", public={"colour": ["red"], "age": [3]})


def test_a_fit_upon_public_data_gives_a_model(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("colour,age\n" + "red,3\ngreen,70\n" * 20)
    release = fit(tmp_path / "a.csv", SCHEMA, rho=1, mechanism="prior", public={"colour": ["red"], "age": [3]})
    assert release.model is not None
    assert release.model.domain == SCHEMA.domain


def test_constraints_leave_weighed_rows_as_they_are_and_their_answers_keep_intervals() -> None:
    text = """
priory: 1
name: pairs
columns:
  a: {kind: category, levels: [x, y, z], other: z}
  b: {kind: category, levels: [x, y, z], other: z}
constraints:
  - forbid: {a: [x], b: [z]}
"""
    schema = Schema.parse(text)
    codes = np.random.default_rng(0).integers(0, 3, (4_000, 2))
    codes = codes[(codes[:, 0] != 0) | (codes[:, 1] != 2)]
    letters = {name: [*map("xyz".__getitem__, codes[:, i])] for i, name in enumerate("ab")}
    before = {name: column[:1_500] for name, column in letters.items()}
    release = fit(letters, schema, epsilon=1, delta=1e-6, mechanism="prior", public=before)
    # Estimated upon the weighed rows again, the answers would count twice.
    assert not release.model.potentials
    answers = release.marginal("a", "b").to_dict()
    assert answers["estimate"][2] == 0
    assert all(low < high for i, (low, high) in enumerate(zip(answers["low"], answers["high"], strict=True)) if i != 2)


def test_a_column_whose_values_do_not_overlap_is_drawn_anew_and_fitted() -> None:
    rng = np.random.default_rng(2)
    domain = Domain.of({"a": 4, "b": 8, "c": 8})

    def rows(count: int, shift: int) -> np.ndarray:
        a, b, c = rng.integers(0, (4, 2, 2), (count, 3)).T
        return np.stack([a, a // 2 + b + shift, (a + c) % 4 + shift], axis=1)

    source, known = Rows(domain, rows(5_000, 0)), PublicRows(rows(5_000, 4), domain)
    with curated(BUDGET, source) as curator:
        release = Prior(public=known, workload=Workload.marginals(domain, 2)).run(curator, BUDGET)
    for pair in (("a", "b"), ("a", "c"), ("b", "c")):
        truth = source.count([pair])[0].values
        # As they are, the public rows are wrong everywhere.
        assert np.abs(known.tilt({}).project(pair) * 5_000 - truth).sum() == 2 * 5_000
        assert np.abs(release.model.project(pair).values - truth).sum() < 0.15 * 2 * 5_000


def test_columns_that_have_not_drifted_stay_as_they_are() -> None:
    source, known = random_rows(3_000, seed=1), PublicRows(random_rows(2_000, seed=2).rows, DOMAIN)
    measured = [Measurement.of(q, source.count([q.clique])[0].values, 5.0) for q in PAIRS]
    rows, changed = without_drift(known, measured, 3_000)
    assert not changed
    assert np.array_equal(rows.codes, known.codes)


@pytest.mark.statistical
def test_noise_alone_makes_no_column_drift() -> None:
    rng, domain = np.random.default_rng(6), Domain.of({"a": 200})
    codes = rng.integers(0, 200, (2_000, 1))
    query, counts = Query.marginal(domain, ("a",)), np.bincount(codes[:, 0], minlength=200)
    known = PublicRows(codes, domain)
    for _ in range(300):
        noisy_counts = Measurement.of(query, np.rint(counts + rng.normal(0, 200, 200)), 200.0)
        assert not drifted_columns(known, [noisy_counts], 2_000)


def test_a_drifted_column_gets_other_values_even_where_all_its_noisy_counts_are_negative() -> None:
    domain = Domain.of({"a": 2, "b": 3})
    known = PublicRows(np.array([[0, 0], [1, 0]] * 25), domain, np.arange(1, 51))
    counts = Measurement.of(Query.marginal(domain, ("b",)), np.array([-500.0, -300.0, -400.0]), 1.0)
    rows, changed = without_drift(known, [counts], 10.0)
    assert changed == ["b"]
    assert set(rows.codes[:, 1]) == {1}


def drifting(rng: np.random.Generator, count: int, shift: int) -> np.ndarray:
    a, b, c = rng.integers(0, (4, 2, 2), (count, 3)).T
    return np.stack([a, a // 2 + b + shift, (a + c) % 4 + shift], axis=1)


@pytest.mark.parametrize("mechanism", [Prior, AIM])
def test_public_rows_whose_values_are_others_are_left_out_and_the_release_says_so(
    mechanism: type[Prior] | type[AIM],
) -> None:
    rng, domain = np.random.default_rng(2), Domain.of({"a": 4, "b": 8, "c": 8})
    source = Rows(domain, drifting(rng, 5_000, 0))
    workload = Workload.marginals(domain, 2)
    for shift, is_left_out in ((4, True), (0, False)):
        recipe = mechanism(public=PublicRows(drifting(rng, 5_000, shift), domain), workload=workload)
        with curated(BUDGET, source) as curator:
            release = recipe.run(curator, BUDGET)
            assert curator.reservation.left == 0
        notes = release.model.diagnostics.notes if release.model.diagnostics else ()
        assert any("values of b, c are not" in note for note in notes) is is_left_out
        recovered = recipe.recovered(release, Transcript(), BUDGET)
        assert isinstance(recovered.model.base, PublicRows) is not is_left_out


def test_what_was_paid_to_see_the_drift_is_not_lost() -> None:
    domain = Domain.of({"a": 4, "b": 8, "c": 8})
    rng = np.random.default_rng(2)
    source, known = Rows(domain, drifting(rng, 5_000, 0)), PublicRows(drifting(rng, 5_000, 4), domain)
    precisions = []
    for recipe in (Prior(public=known, workload=default_workload(domain)), AIM()):
        with curated(BUDGET, source) as curator:
            release = recipe.run(curator, BUDGET)
        first = [m for m in release.measurements if m.query.clique == ("a",)][:2]
        precisions.append(sum(float(m.stddev) ** -2 for m in first[: 1 if recipe.public is None else 2]))
    assert precisions[0] == pytest.approx(precisions[1], rel=0.02)


def test_public_rows_stay_where_the_values_of_few_columns_are_others() -> None:
    rng = np.random.default_rng(5)
    domain = Domain.of({f"a{i}": 4 for i in range(12)})

    def rows(shift: int) -> np.ndarray:
        steps = rng.integers(0, 2, (4_000, 12))
        chain = np.minimum(np.cumsum(steps, axis=1) % 4, 3)
        chain[:, 3] = chain[:, 3] // 2 + shift
        return chain

    source, known = Rows(domain, rows(0)), PublicRows(rows(2), domain)
    with curated(BUDGET, source) as curator:
        recipe = Prior(public=known, workload=Workload.marginals(domain, 2))
        release = recipe.run(curator, BUDGET)
    assert release.model.diagnostics is not None
    assert any("Public values of a3 were changed" in note for note in release.model.diagnostics.notes)
    assert isinstance(release.model.base, PublicRows)
    assert isinstance(recipe.recovered(release, Transcript(), BUDGET).model.base, PublicRows)
    for name in domain:
        truth = source.count([(name,)])[0].values
        assert np.abs(release.model.project(name).values - truth).sum() < 0.1 * 4_000
