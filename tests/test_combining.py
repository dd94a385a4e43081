from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import priory as pr
from priory.errors import OptionError, ReleaseError
from priory.privacy.accounting import epsilon_at
from priory.privacy.budget import Currency
from priory.privacy.gaussian import gaussian_epsilon, mu_squared_of_pure
from priory.privacy.ledger import Ledger, Terms
from priory.privacy.randomness import Replay
from priory.release import Release, combine

SCHEMA = pr.Schema.coded({"a": 4, "b": 3}, name="people")


def rows(n: int = 500) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    return {"a": rng.integers(0, 4, n), "b": rng.choice(3, n, p=[0.7, 0.2, 0.1])}


def released(seed: int = 0, **options: Any) -> Release:
    return pr.fit(
        rows(), SCHEMA, **{"rho": "0.01", "mechanism": "independent", "randomness": Replay(seed=seed), **options}
    )


def test_the_measurements_of_all_make_one_model_nearer_to_the_truth() -> None:
    truth = np.bincount(rows()["b"], minlength=3)
    releases = [released(seed) for seed in range(8)]
    combined = combine(releases)
    assert len(combined.measurements) == 16
    alone = np.mean([np.abs(r.model.project("b").values - truth).sum() for r in releases])
    assert np.abs(combined.model.project("b").values - truth).sum() < alone
    assert len(combined.marginal("a", "b", draws=3)) == 12


def test_more_marginals_than_a_graphical_model_holds_are_combined() -> None:
    schema = pr.Schema.coded({f"c{i}": 6 for i in range(12)}, name="dense")
    rng = np.random.default_rng(1)
    hidden = rng.normal(size=3_000)
    columns = {
        f"c{i}": np.digitize(hidden + rng.normal(size=3_000), [-2, -1, 0, 1, 2]).astype(np.int64) for i in range(12)
    }
    releases = [
        pr.fit(columns, schema, epsilon=3, delta=1e-6, mechanism="weighing", randomness=Replay(seed=seed))
        for seed in range(2)
    ]
    combined = combine(releases)
    pairs = [("c0", "c5"), ("c3", "c11"), ("c7", "c8")]

    def error(release: Release) -> float:
        truths = [np.histogram2d(columns[a], columns[b], bins=(range(7), range(7)))[0] for a, b in pairs]
        return sum(float(np.abs(release.model.project(p).values - t).sum()) for p, t in zip(pairs, truths, strict=True))

    # All pairs of twelve columns make a graphical model of 6¹² cells.
    assert error(combined) < np.mean([error(release) for release in releases])


def test_budgets_are_added_up_by_composition() -> None:
    assert combine([released(0), released(1)]).statement.budget.amount == Fraction(1, 50)
    pure = combine([released(0, rho=None, epsilon=1), released(1, rho=None, epsilon="1/2")]).statement.budget
    assert (pure.currency.value, pure.amount) == ("pure", Fraction(3, 2))
    mixed = combine([released(0, rho=None, epsilon=1), released(1)]).statement
    assert mixed.budget.amount == Fraction(1, 2) + Fraction(1, 100)
    assert mixed.spent <= mixed.budget.amount
    one = released(0, rho=None, epsilon=1, delta=1e-6)
    two = released(1, rho=None, epsilon=2, delta=1e-9)
    both = combine([one, two]).statement.budget
    assert both.delta == Fraction(1, 10**9)
    assert both.epsilon == gaussian_epsilon(one.statement.budget.amount + two.statement.budget.amount, both.delta)
    assert 2 < float(both.epsilon) < 3


def test_mu_squared_adds_up_with_pure_releases_and_as_rho_with_those_in_rho() -> None:
    gaussian = released(0, rho=None, epsilon=1, delta=1e-6)
    assert gaussian.statement.budget.currency is Currency.GAUSSIAN
    pure = released(1, rho=None, epsilon="1/2")
    with_pure = combine([gaussian, pure]).statement
    added = gaussian.statement.budget.amount + mu_squared_of_pure(Fraction(1, 2))
    assert (with_pure.budget.currency, with_pure.budget.amount) == (Currency.GAUSSIAN, added)
    assert with_pure.spent == added
    with_rho = combine([gaussian, released(2), pure]).statement.budget
    amount = gaussian.statement.budget.amount / 2 + Fraction(1, 100) + Fraction(1, 8)
    assert (with_rho.currency, with_rho.amount) == (Currency.ZCDP, amount)
    assert with_rho.epsilon == epsilon_at(amount, Fraction(1, 10**6))


def test_additive_deltas_add_up_on_top_of_the_delta_that_amounts_are_converted_at() -> None:
    releases = [released(0), released(1)]
    budgets = [
        pr.Budget.approximate(1, "1e-6", Currency.GAUSSIAN, additive="4e-7"),
        pr.Budget.approximate(2, "1e-6", Currency.GAUSSIAN),
    ]
    for release, budget in zip(releases, budgets, strict=True):
        object.__setattr__(release.statement, "budget", budget)
    both = combine(releases).statement.budget
    assert both.additive == Fraction(4, 10**7)
    assert both.delta == Fraction(10, 10**7)
    assert both.epsilon == gaussian_epsilon(budgets[0].amount + budgets[1].amount, Fraction(6, 10**7))


def test_declared_epsilons_and_deltas_are_added_up_one_by_one() -> None:
    """No ρ follows from (ε, δ), so that the sums of zCDP do not hold for counts that were measured elsewhere."""
    query = pr.Query.marginal(SCHEMA.domain, ["a"])
    measured = [pr.Measurement.of(query, np.full(4, count), 5.0) for count in (100, 110)]
    one, two = (pr.declared_release([counts], SCHEMA, pr.Budget.of(epsilon=1, delta="1e-9")) for counts in measured)
    both = combine([one, two]).statement
    assert (both.budget.epsilon, both.budget.delta) == (Fraction(2), Fraction(2, 10**9))
    assert "promise: ε = 2, δ = 2e-09" in str(both)
    assert "ρ" not in str(both)
    with_ours = combine([one, released(0, rho=None, epsilon=1, delta="1e-6")]).statement.budget
    assert (with_ours.epsilon, with_ours.delta) == (Fraction(2), Fraction(1001, 10**9))
    with_rho = combine([one, released(0)]).statement.budget
    assert (with_rho.epsilon, with_rho.delta) == (
        1 + epsilon_at(Fraction(1, 100), Fraction(1, 10**9)),
        Fraction(2, 10**9),
    )


def test_a_combined_release_is_as_private_and_as_kept_as_the_least_of_its_parts(tmp_path: Any) -> None:
    book = Ledger.create(tmp_path / "a.ledger", Terms("people", SCHEMA.dump(), pr.Budget.zcdp(1)))
    kept = released(0, ledger=book, randomness=None)
    also = released(1, ledger=book, randomness=None)
    loose = released(2, randomness=None)
    assert combine([kept, also]).statement.ledger == "file"
    assert combine([kept, loose]).statement.ledger == "memory"
    assert combine([kept, loose]).statement.is_private
    assert not combine([kept, released(3)]).statement.is_private
    combine([kept, loose]).save(tmp_path / "c.priory")
    again = pr.load(tmp_path / "c.priory")
    assert again.statement == combine([kept, loose]).statement
    assert "combined" in str(again.statement)


def test_releases_that_do_not_belong_together_are_refused() -> None:
    other = pr.Schema.coded({"a": 4, "b": 3}, name="others")
    for stranger, words in (
        (pr.fit(rows(), other, rho=1), "schemas"),
        (pr.fit({"a": [0]}, pr.Schema.coded({"a": 4}, name="people"), rho=1), "attributes"),
        (released(1, relation="replace-one"), "neighbours"),
        (released(0), "given twice"),
    ):
        with pytest.raises(ReleaseError, match=words):
            combine([released(0), stranger])
    for few in ([], [released(0)], [released(0), "a.priory"]):
        with pytest.raises(OptionError, match="at least two"):
            combine(few)  # type: ignore[arg-type]


def nested(data: st.DataObject, leaves: list[int]) -> Any:
    """The leaves in groups within groups, at random."""
    if len(leaves) == 1:
        return leaves[0]
    cut = data.draw(st.integers(1, len(leaves) - 1))
    return [nested(data, leaves[:cut]), nested(data, leaves[cut:])]


def grouped(tree: Any, releases: list[Release]) -> Release:
    return releases[tree] if isinstance(tree, int) else combine([grouped(each, releases) for each in tree])


@pytest.fixture(scope="module")
def four() -> list[Release]:
    return [released(seed) for seed in range(4)]


@settings(max_examples=12)
@given(st.data())
def test_disjoint_releases_combine_alike_in_any_grouping(four: list[Release], data: st.DataObject) -> None:
    tree = nested(data, data.draw(st.permutations(range(4))))
    flat, deep = combine(four), grouped(tree, four)
    assert deep.statement == flat.statement
    assert len(deep.measurements) == len(flat.measurements)
    np.testing.assert_allclose(deep.model.project("b").values, flat.model.project("b").values, rtol=1e-3)


@settings(max_examples=12)
@given(st.data())
def test_the_same_measurements_are_refused_however_they_are_nested(four: list[Release], data: st.DataObject) -> None:
    twice = data.draw(st.integers(0, 3))
    one, other = (data.draw(st.lists(st.integers(0, 3).filter(lambda i: i != twice), unique=True)) for _ in range(2))
    sides = [nested(data, data.draw(st.permutations([twice, *side]))) for side in (one, other)]
    assume(not set(one) & set(other))
    with pytest.raises(ReleaseError, match="given twice"):
        grouped(sides, four)


def test_what_a_run_that_ended_early_left_is_not_combined_with_the_whole() -> None:
    whole = released(0, mechanism="mst")
    part = replace(whole, measurements=whole.measurements[:2], estimate=None)
    with pytest.raises(ReleaseError, match="the same 2 measurements would be given twice"):
        combine([whole, part])


def test_equal_answers_to_a_small_question_are_no_sign_of_the_same_noise() -> None:
    """Of two noisy numbers of rows, one in some dozens are equal."""
    one, other = released(0), released(1)
    total = pr.Measurement.of(pr.Query.marginal(SCHEMA.domain, []), np.array(500), 20.0)
    with_total = [replace(each, measurements=(*each.measurements, total)) for each in (one, other)]
    assert len(combine(with_total).measurements) == 6


def test_sums_over_currencies_are_never_less_for_being_nested() -> None:
    a, b = (released(i, rho=None, epsilon=1, delta=delta) for i, delta in enumerate((None, "1e-6")))
    c = released(2)
    flat, deep = combine([a, b, c]).statement, combine([combine([a, b]), c]).statement
    assert deep.budget.amount >= flat.budget.amount
    assert deep.spent >= flat.spent


def test_public_rows_that_one_of_them_started_from_are_kept() -> None:
    started = released(0, mechanism="prior", public=rows(50))
    combined = combine([released(1), started])
    assert combined.model.total == pytest.approx(500, abs=100)
