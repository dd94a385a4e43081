import contextlib
import math
import os
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from priory.app.registry import MECHANISMS
from priory.audit.attack import frequency_bound, likelihood_bound, loss_of, worst_pair
from priory.audit.battery import TESTS, _in_processes, findings_of, name_of
from priory.audit.bugs import BUGS, PLANTED, complaints_of, planted
from priory.audit.canaries import counts_in
from priory.audit.edges import LAWS, broken
from priory.audit.findings import QUICK, Effort, Finding, Test
from priory.audit.laws import Pair, choice_price, log_chances, log_masses, price
from priory.audit.replay import complaints_about, pairs
from priory.audit.settings import SETTINGS, Measuring, always
from priory.audit.tables import SPELLINGS, NeighbouringTables, coded, crowds, neighbours, strangers
from priory.cli.audit import tables
from priory.data.sources.memory import MemorySource
from priory.data.spelling import of_cell
from priory.privacy.budget import Budget, Currency
from priory.privacy.choice import Choice, NoisyMax, PermuteAndFlip
from priory.privacy.noise import Gaussian, Laplace, Noise, RoundedGaussian
from priory.queries.domain import Domain
from priory.queries.query import Query
from priory.queries.sensitivity import Relation, Sensitivity

ONE = Domain.of({"a": 2})
SCORES = st.lists(st.integers(-8, 8), min_size=1, max_size=7)
CHOICES = st.builds(
    lambda kind, scale: kind(Fraction(scale)), st.sampled_from([NoisyMax, PermuteAndFlip]), st.integers(1, 9)
)
NOISES: list[Noise] = [
    Laplace(Fraction(3, 2)),
    Gaussian(Fraction(2)),
    RoundedGaussian(Fraction(2)),
    RoundedGaussian(Fraction(3, 4), 3),
]


@pytest.mark.statistical
@pytest.mark.parametrize("test", TESTS, ids=name_of)
def test_the_quick_battery_passes(test: Test) -> None:
    # Its limits are such that right code fails less than once in a hundred thousand runs; see each test's own.
    findings = findings_of(test, QUICK)
    assert findings
    failed = [
        f"{finding.test}: {finding.figure} (limit: {finding.limit})" for finding in findings if not finding.passed
    ]
    assert not failed


def test_neighbours_come_in_every_kind() -> None:
    found = list(neighbours(72, seed=0))
    assert {pair.name.split(":")[0] for pair in found} == set(NeighbouringTables.bases)
    assert {(pair.budget.relation, pair.budget.currency, pair.budget.max_rows) for pair in found} == {
        (relation, currency, rows) for relation in Relation for currency in Currency for rows in (1, 3)
    }
    assert {pair.in_memory for pair in found} == {True, False}
    assert {pair.name.split(", ")[1] for pair in found} == {"first", "last", "scattered", "all shuffled"}
    assert {pair.name.split(": ")[1].split(",")[0] for pair in found} == {"one more", "one less", "one replaced"}
    cells = {cell for pair in found for row in pair.other for cell in row}
    assert {"ultraviolet", "1000000000000", "maybe", None} <= cells


@pytest.mark.parametrize("pair", [*neighbours(72, seed=1), *crowds(seed=1)], ids=lambda pair: pair.name)
def test_neighbours_differ_in_one_person_however_that_one_is_spelled(pair: NeighbouringTables) -> None:
    def rows(table: tuple[tuple[str | None, ...], ...]) -> dict[object, list[object]]:
        by_person: dict[object, list[object]] = {}
        for i, (who, *rest) in enumerate(sorted(table, key=repr)):
            person = of_cell(who) if pair.unit else (who, tuple(rest), i if pair.unit else None)
            by_person.setdefault(person, []).append(rest)
        return by_person

    one, other = rows(pair.one), rows(pair.other)
    changed = {
        person
        for person in {*one, *other}
        if sorted(map(repr, one.get(person, []))) != sorted(map(repr, other.get(person, [])))
    }
    assert len(changed) <= (2 if pair.budget.relation is Relation.REPLACE_ONE else 1)
    if pair.budget.relation is Relation.REPLACE_ONE and pair.budget.max_rows == 1:
        assert len(pair.one) == len(pair.other)


def test_all_spellings_are_of_one_person() -> None:
    for number in ("0", "7", "1000"):
        assert {of_cell(spelling.format(number)) for spelling in SPELLINGS} == {number}


def test_strangers_have_the_same_number_of_rows_only_where_that_is_public() -> None:
    for pair in strangers(30, seed=0):
        is_public = pair.budget.relation is Relation.REPLACE_ONE and pair.budget.max_rows == 1
        assert (len(pair.one) == len(pair.other)) == is_public


def test_a_quick_replay_has_at_least_forty_neighbours() -> None:
    assert QUICK.neighbours >= 40
    assert sum(not pair.are_strangers for pair in pairs(QUICK.neighbours)) >= 40


def test_each_planted_mechanism_is_caught_for_its_own_bug() -> None:
    expected = {
        "a mechanism that peeks": ("path", "requests"),
        "an error that depends on the rows": ("raised ValueError",),
        "a second answer without a charge": ("more than was paid",),
        "noise for half the sensitivity": ("more than was paid",),
        "a true count in the release": ("different releases",),
    }
    assert set(expected) == set(PLANTED)
    for name, words in expected.items():
        complaints = list(complaints_about(always(PLANTED[name]), 4))
        assert complaints
        assert any(word in complaints[0] for word in words)


def test_the_findings_of_an_outside_look_are_all_planted() -> None:
    # The sampler with a bias of a thousandth is planted by the tests of samplers.
    assert "planted_bias" in map(name_of, TESTS)
    words = (
        "AIM's score sensitivity halved",
        "a noise scale rounded down",
        "the first rows of a person",
        "permute-and-flip at the exponential mechanism's zCDP price",
        "complements of negative entries",
        "payoff's sensitivity that ignores max_rows",
        "exact number of rows in PrivBayes",
        "exact number of rows in MWEM",
        "dependence halved",
        "largest cell that ignores max_rows",
    )
    assert all(any(word in name for name in BUGS) for word in words)


def test_every_edge_has_bugs_that_are_caught_and_gone_afterwards() -> None:
    assert {f"edges: {name}" for name in LAWS} == {
        name for bug in BUGS.values() for name in bug.tests if "edges" in name
    }
    for bug in BUGS.values():
        if any("edges" in name for name in bug.tests):
            assert all(complaints_of(bug, QUICK).values())
    assert not any(broken(name, QUICK) for name in LAWS)


def test_a_listed_header_is_noticed_wherever_tables_are_read(tmp_path: Path) -> None:
    for change in BUGS["the columns of the data listed in a message"].changes:
        with planted(*change):
            assert any("quotes a header" in complaint for complaint in LAWS["messages"](tmp_path))


@pytest.mark.parametrize("name", ["the first rows of a person in a frame", "the exact number of rows in PrivBayes"])
def test_a_planted_bug_is_caught_and_gone_afterwards(name: str) -> None:
    bug, few = BUGS[name], replace(QUICK, neighbours=4)
    assert all(complaints_of(bug, few).values())
    assert not any(complaint(few) for complaint in bug.tests.values())


def test_what_is_planted_is_removed_again_whatever_happens() -> None:
    right, noise, size = Laplace.cost, Laplace(Fraction(2)), Sensitivity(Fraction(1), Fraction(1))
    with contextlib.suppress(ZeroDivisionError), planted(Laplace, "cost", lambda right, *given: 2 * right(*given)):
        assert noise.cost(size, Currency.PURE) == 1
        raise ZeroDivisionError
    assert Laplace.cost is right


def test_settings_cover_what_is_not_a_default() -> None:
    names = " ".join(SETTINGS)
    words = ("permute-and-flip", "negative", "fractions", "best mixture", "groups", "at once", "half the candidates")
    assert all(word in names for word in words)


def selection_probabilities(choice: Choice, scores: list[int]) -> NDArray[np.float64]:
    """How likely each candidate is picked, from the definition."""
    coins = np.exp(-(max(scores) - np.array(scores)) / float(choice.scale))
    if isinstance(choice, NoisyMax):
        return np.asarray(coins / coins.sum())
    # Permute-and-flip is uniform among the accepted: P(i) = c_i·E[1/(1 + others)], with the number of others that are
    # accepted distributed as a sum of coins.
    return np.array([c * mean_inverse(np.delete(coins, i)) for i, c in enumerate(coins)])


def mean_inverse(coins: NDArray[np.float64]) -> float:
    law = np.ones(1)
    for coin in coins:
        law = np.convolve(law, [1 - coin, coin])
    return float((law / np.arange(1, len(law) + 1)).sum())


@given(CHOICES, SCORES)
def test_the_law_of_picks_follows_from_their_definition(choice: Choice, scores: list[int]) -> None:
    expected = selection_probabilities(choice, scores)
    np.testing.assert_allclose(np.exp(log_chances(choice, np.array(scores))), expected, rtol=1e-9)


@pytest.mark.parametrize("noise", NOISES, ids=repr)
def test_the_law_of_noise_is_the_one_that_samplers_are_tested_against(noise: Noise) -> None:
    k = np.arange(-30, 31)
    mine, theirs = log_masses(noise, k), np.log(noise.probabilities(k))
    np.testing.assert_allclose(mine - mine[30], theirs - theirs[30], rtol=1e-9, atol=1e-12)


@settings(max_examples=60)
@given(CHOICES, st.data())
def test_no_pick_tells_more_than_its_published_price(choice: Choice, data: st.DataObject) -> None:
    one = data.draw(SCORES)
    other = [score + data.draw(st.integers(-1, 1)) for score in one]
    law = Pair.of_choice(choice, np.array(one), np.array(other))
    epsilon = float(2 / choice.scale)
    for currency in Currency:
        assert law.amount(currency) <= choice_price(choice.kind, epsilon, currency) * (1 + 1e-9) + 1e-12


@pytest.mark.parametrize("gap", [1, 3])
def test_rounded_gaussian_noise_is_no_easier_to_tell_apart_than_gaussian_noise(gap: int) -> None:
    for noise in (RoundedGaussian(Fraction(2)), RoundedGaussian(Fraction(3, 4), 3)):
        exact = Pair.of_noise(noise, gap)
        budget = Budget.gaussian(1)
        paid = price(noise, np.array([float(gap)]), budget)
        assert paid == pytest.approx((gap / float(noise.scale)) ** 2)
        # Rounding loses a little of what Gaussian noise tells, and never adds to it.
        assert 0.8 * paid <= exact.mu_squared() <= paid * (1 + 1e-6)


def test_discrete_gaussian_noise_has_no_price_in_gaussian_dp() -> None:
    assert math.isinf(price(Gaussian(Fraction(2)), np.ones(1), Budget.gaussian(1)))


WITH_ROW, WITHOUT = (coded(ONE, [[0]] * n) for n in (3, 2))


def losses(
    budget: Budget, fits: int, one: MemorySource = WITH_ROW, other: MemorySource = WITHOUT
) -> NDArray[np.float64]:
    """Losses of one answer about tables of three rows and of two, run on the first."""
    mechanism = Measuring((Query.marginal(ONE, "a"),))
    return np.array([loss_of(mechanism, budget, one, other).value for _ in range(fits)])


def test_the_loss_of_one_laplace_answer_is_the_step_of_its_density() -> None:
    # y ≥ 3 is e times as likely with three rows as with two, and y ≤ 2 as much less; each is missed by 60 runs with a
    # chance below 10⁻⁷.
    assert set(np.round(losses(Budget.pure(1), 60), 9)) == {1.0, -1.0}


@pytest.mark.parametrize("budget", [Budget.pure(1), Budget.gaussian("1/4")])
def test_likelihood_ratios_have_mean_one_under_the_other_table(budget: Budget) -> None:
    # E[exp(−loss)] = 1; with ε = 1 or μ = ½ its standard deviation is at most 1.05, so that 500 runs are within 0.3 of
    # 1 but for a chance below 10⁻⁸.
    assert np.exp(-losses(budget, 500)).mean() == pytest.approx(1, abs=0.3)


@pytest.mark.parametrize("budget", [Budget.pure(1), Budget.gaussian(1)])
def test_bounds_are_below_the_claim_and_not_far_below(budget: Budget) -> None:
    one, other = losses(budget, 400), losses(budget, 400, WITHOUT, WITH_ROW)
    delta = Fraction(0) if budget.is_pure else Fraction(1, 100)
    claim = float(budget.epsilon_at(delta))
    assert claim / 2 <= likelihood_bound(one, float(delta), claim) <= claim * (1 + 1e-9)
    assert 0 <= frequency_bound(one, -other, float(delta)) <= claim


def test_the_attack_sees_choices() -> None:
    mechanism = MECHANISMS["dualquery"].build(Domain.of({"a": 2, "b": 2}))
    budget, (one, other) = worst_pair(mechanism, Currency.PURE, 1)
    found = [loss_of(mechanism, budget, one, other) for _ in range(4)]
    assert all(loss.picks > 0 for loss in found)
    assert any(loss.value != 0 for loss in found)
    assert all(loss.value <= float(budget.amount) + 1e-9 for loss in found)


def test_an_error_in_a_test_is_a_finding_and_the_rest_goes_on() -> None:
    def broken(effort: Effort) -> Iterator[Finding]:
        yield Finding("first", "-", "-", passed=True)
        raise ZeroDivisionError(str(effort))

    first, second = findings_of(broken, QUICK)
    assert first.passed
    assert not second.passed
    assert "ZeroDivisionError" in second.figure


def ended(effort: Effort) -> list[Finding]:  # noqa: ARG001
    os._exit(3)


def fine(number: int, effort: Effort) -> Iterator[Finding]:  # noqa: ARG001
    yield Finding(f"fine {number}", "-", "-", passed=True)


def test_a_process_that_dies_is_a_finding_and_the_rest_goes_on() -> None:
    tests: list[Test] = [partial(fine, 1), ended, partial(fine, 2)]
    found = list(_in_processes(tests, QUICK, 2))
    assert [(finding.test, finding.passed) for finding in found] == [
        ("fine 1", True),
        ("ended", False),
        ("fine 2", True),
    ]


def test_planted_bugs_and_bounds_are_printed_as_tables() -> None:
    bug = Finding("planted bug: less noise", "replay: a complaint", "-", passed=True, seconds=1.23)
    bound = Finding("end to end: aim", "ε ≥ 0.5", "0 … 1", passed=True, seconds=60)
    lines = list(tables([bug, bound, Finding("forks", "-", "-", passed=True)]))
    assert "| less noise | replay: a complaint | 1.2 |" in lines
    assert "| aim | ε ≥ 0.5 | 0 … 1 | 60 |" in lines
    assert not any("forks" in line for line in lines)


@pytest.mark.parametrize("text", ["total 1237.", "[1237, 3]", "1,237 rows", "1237.0 2", "total=1237)"])
def test_an_exact_count_is_found_where_it_is_a_number_of_its_own(text: str) -> None:
    assert counts_in(text)


def test_digits_of_other_numbers_are_no_exact_count() -> None:
    assert not counts_in("0.12371 41237 1237.5 a1237f 1237e5 12372 3.1237")
