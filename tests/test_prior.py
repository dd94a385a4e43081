import itertools
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
from priory.estimate.rows.samples import Sample, common_records
from priory.estimate.rows.weigh import mixture
from priory.mechanisms.aim import AIM
from priory.mechanisms.steps.drift import drifted_columns
from priory.mechanisms.steps.public_rows import neighbourhood
from priory.mechanisms.weighing import Weighing
from priory.model.bases import PublicRows
from priory.model.model import Model
from priory.privacy.budget import Budget
from priory.privacy.ledger import Ledger
from priory.privacy.measurement import Measurement
from priory.queries.domain import Domain
from priory.queries.parts import Prefix
from priory.queries.query import Query
from priory.queries.workload import Workload
from priory.release import Release
from priory.select.information import informative_marginals
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
    check(Registered("prior", "", lambda _: Weighing(public=public(kind))))


@pytest.mark.statistical
def test_a_prior_that_is_right_is_hardly_spoiled_by_little_budget() -> None:
    # The truth is the prior: every move away is noise. One run in ten moves, by 0.05; five means of 0.04 are far off.
    source = random_rows(3_000, seed=1)
    budget = Budget.zcdp("1/10000", relation="replace-one")
    distances = []
    for _ in range(5):
        with curated(budget, source) as curator:
            release = Weighing(public=PublicRows(source.rows, DOMAIN), workload=PAIRS, outside=0.0).run(curator, budget)
        distances.append(mean_distance(release, source))
    assert np.mean(distances) < 0.04


@pytest.mark.parametrize("kind", ["smaller", "disjoint", "larger"])
def test_a_large_budget_leaves_the_public_support_for_the_truth(kind: str) -> None:
    source = Rows(DOMAIN, private(kind))
    budget = Budget.zcdp(1000, relation="replace-one")
    with curated(budget, source) as curator:
        before = mean_distance(_untouched(kind, source), source)
        release = Weighing(public=public(kind), workload=PAIRS).run(curator, budget)
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
            release = Weighing(public=few, workload=PAIRS, seed=seed).run(curator, budget)
        errors.append(mean_distance(release, source))
    with curated(budget, source) as curator:
        untouched = Release(DOMAIN, (), curator.statement("none")).with_model(Model.of(few, {}, 3_000))
    assert np.mean(errors) < 0.8 * mean_distance(untouched, source)


@pytest.mark.parametrize(
    ("mechanism", "error"),
    [
        (Weighing(public=PublicRows([[0]], Domain.of({"age": 4}))), DomainError),
        (Weighing(workload=Workload.of([])), DomainError),
        (Weighing(workload=Workload.of([Query.product(DOMAIN, {"age": Prefix()})])), OptionError),
        (Weighing(outside=1.0), OptionError),
    ],
)
def test_what_cannot_be_done_costs_nothing(mechanism: Weighing, error: type[Exception]) -> None:
    source = random_rows()
    with curated(BUDGET, source) as curator:
        with pytest.raises(error):
            mechanism.run(curator, BUDGET)
        with pytest.raises(BudgetError):
            Weighing().run(curator, Budget.zcdp(1, relation="replace-one"))
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


@pytest.mark.statistical
def test_noise_alone_makes_no_column_drift() -> None:
    rng, domain = np.random.default_rng(6), Domain.of({"a": 200})
    codes = rng.integers(0, 200, (2_000, 1))
    query, counts = Query.marginal(domain, ("a",)), np.bincount(codes[:, 0], minlength=200)
    known = PublicRows(codes, domain)
    for _ in range(300):
        noisy_counts = Measurement.of(query, np.rint(counts + rng.normal(0, 200, 200)), 200.0)
        assert not drifted_columns(known, [noisy_counts], 2_000)


def drifting(rng: np.random.Generator, count: int, shift: int) -> np.ndarray:
    a, b, c = rng.integers(0, (4, 2, 2), (count, 3)).T
    return np.stack([a, a // 2 + b + shift, (a + c) % 4 + shift], axis=1)


def test_public_rows_whose_values_are_others_are_left_out_and_the_release_says_so() -> None:
    rng, domain = np.random.default_rng(2), Domain.of({"a": 4, "b": 8, "c": 8})
    source = Rows(domain, drifting(rng, 5_000, 0))
    for shift, is_left_out in ((4, True), (0, False)):
        recipe = AIM(public=PublicRows(drifting(rng, 5_000, shift), domain), workload=Workload.marginals(domain, 2))
        with curated(BUDGET, source) as curator:
            release = recipe.run(curator, BUDGET)
            assert curator.reservation.left == 0
        notes = release.model.diagnostics.notes if release.model.diagnostics else ()
        assert any("values of b, c are not" in note for note in notes) is is_left_out


@pytest.mark.statistical
def test_public_rows_of_another_population_do_no_harm_and_the_release_says_what_share_they_have() -> None:
    rng, domain = np.random.default_rng(2), Domain.of({"a": 4, "b": 8, "c": 8})
    budget = Budget.gaussian("1/10")
    source = Rows(domain, drifting(rng, 5_000, 0))
    for shift in (4, 0):
        shares = []
        for _ in range(4):
            with curated(budget, source) as curator:
                release = Weighing(public=PublicRows(drifting(rng, 5_000, shift), domain)).run(curator, budget)
            assert release.statement.mechanism == "prior"
            assert release.model.diagnostics is not None
            *changed, note = release.model.diagnostics.notes
            assert [words for words in changed if "values of b, c were changed" in words] == changed
            assert bool(changed) is bool(shift)
            shares.append(int(note.split()[3].rstrip("%")))
            for pair in (("a", "b"), ("a", "c"), ("b", "c")):
                truth = source.count([pair])[0].values
                assert np.abs(release.model.project(pair).values - truth).sum() < 0.1 * 2 * 5_000
        # Right ones get 7 to 100 %, one time in six less than 15.
        assert max(shares) <= 3 if shift else max(shares) >= 15


@pytest.mark.statistical
def test_public_rows_without_some_combinations_do_not_hold_a_large_budget_back() -> None:
    domain = Domain.of(dict.fromkeys("abcdef", 4))
    truth, other = (np.hstack([chained(4_000, seed), chained(4_000, seed + 2)[:, :2]]) for seed in (1, 2))
    public = PublicRows(other[~((other[:, 0] > 1) & (other[:, 1] <= 1))], domain)
    budget = Budget.gaussian(4)
    recipes = Weighing(public=public), Weighing()
    both, bought = (np.mean([off(recipe, truth, budget, domain) for _ in range(3)]) for recipe in recipes)
    assert both < 1.3 * bought


@pytest.mark.statistical
def test_public_rows_that_are_right_are_kept_where_little_can_be_bought() -> None:
    truth, other, domain = chained(4_000, 1), chained(4_000, 2), Domain.of(dict.fromkeys("abcd", 4))
    public = PublicRows(other, domain)
    for _ in range(3):
        assert off(Weighing(public=public), truth, Budget.gaussian("1/10000"), domain) < 5 * distance(
            Model(public, {}, 4_000.0), truth
        )


def chained(n: int, seed: int) -> np.ndarray:
    """Rows in which every attribute is mostly the one before."""
    rng = np.random.default_rng(seed)
    columns = [rng.integers(0, 4, n)]
    for _ in range(3):
        columns.append(np.where(rng.random(n) < 0.7, columns[-1], rng.integers(0, 4, n)))
    return np.stack(columns, axis=1)


def off(recipe: Weighing, truth: np.ndarray, budget: Budget, domain: Domain) -> float:
    with curated(budget, Rows(domain, truth)) as curator:
        release = recipe.run(curator, budget)
        assert curator.reservation.left == 0
    return distance(release.model, truth)


def distance(model: Model, truth: np.ndarray) -> float:
    exact = Model(PublicRows(truth, model.domain), {}, float(len(truth)))
    pairs = list(itertools.combinations(model.domain, 2))
    both = [(model.project(pair).values / model.total, exact.project(pair).values / exact.total) for pair in pairs]
    return float(np.mean([np.abs(one - other).sum() for one, other in both]))


def test_a_mixture_has_the_share_that_answers_give_and_the_marginals_of_both() -> None:
    domain = Domain.of(dict.fromkeys("abcd", 4))
    query = Query.marginal(domain, ("a", "b"))
    one, other = (PublicRows(chained(2_000, seed), domain) for seed in (1, 2))
    of_one, of_other = (Model.of(rows, {}, 100.0).answer(query) for rows in (one, other))
    for share in (0.0, 0.3, 1.0):
        answer = Measurement.of(query, share * of_one + (1 - share) * of_other, 1e-6)
        rows, found = mixture(one, other, [answer], 100.0)
        assert found == pytest.approx(share, abs=1e-6)
        np.testing.assert_allclose(Model.of(rows, {}, 100.0).answer(query), answer.values, atol=1e-6)


def sample_of(truth: np.ndarray, rows: np.ndarray, rng: np.random.Generator) -> Sample:
    domain = Domain.of(dict.fromkeys("abcd", 4))
    exact = Model(PublicRows(truth, domain), {}, float(len(truth)))
    queries = [Query.marginal(domain, pair) for pair in (("a", "b"), ("c", "d"))]
    noisy = [Measurement.of(q, exact.answer(q) + rng.normal(0, 10, q.shape), 10.0) for q in queries]
    return Sample(PublicRows(rows, domain), noisy, float(len(truth)))


@pytest.mark.statistical
def test_samples_of_the_population_count_for_more_than_those_of_another() -> None:
    rng = np.random.default_rng(0)
    alike = [sample_of(chained(500, seed), chained(5_000, seed + 100), rng) for seed in range(8)]
    others = [sample_of(chained(500, seed), rng.integers(0, 4, (5_000, 4)), rng) for seed in range(8)]
    assert common_records(alike, 5_000) >= 500
    assert common_records(others, 5_000) <= 50
    assert common_records([], 5_000) == np.inf
    weights = others[0].shares(common_records(others, 5_000))
    codes = others[0].base.codes
    # Nearly as many rows as in the population have the value of the attribute before.
    assert weights[codes[:, 0] == codes[:, 1]].sum() > 0.6
    np.testing.assert_array_equal(alike[0].shares(np.inf), alike[0].base.shares)
