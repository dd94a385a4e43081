import math
import re
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from priory.privacy.budget import Budget, Currency
from priory.privacy.explain import chance, explain, grown, percent_up


def test_epsilon_one_turns_fifty_percent_into_seventy_three() -> None:
    words = explain(Budget.pure(1))
    assert words.beliefs[0].before == 0.5
    assert words.beliefs[0].after == pytest.approx(0.731, abs=5e-4)
    assert "from 50 % to at most 73.2 %" in str(words)
    assert "This always holds." in str(words)
    assert words.tail == 0


@given(st.floats(1e-6, 1 - 1e-6), st.floats(0, 30))
def test_odds_grow_by_at_most_e_to_the_epsilon(prior: float, epsilon: float) -> None:
    after = grown(prior, epsilon)
    assert prior <= after <= 1
    # Nearer to 1 a double cannot tell what is left.
    if after < 1 - 1e-9:
        odds, grown_odds = math.log(prior / (1 - prior)), math.log(after) - math.log1p(-after)
        assert grown_odds - odds == pytest.approx(epsilon, abs=1e-5)


def test_what_a_record_says_is_two_steps_under_add_remove_and_one_under_replace_one() -> None:
    assert "what their record says: from 50 % to at most 88.1 %" in str(explain(Budget.pure(1)))
    replaced = explain(Budget.pure(1, relation="replace-one"))
    assert "88.1" not in str(replaced)
    assert "the record of a person in the table says a certain thing" in str(replaced)


def test_nothing_that_people_read_calls_delta_the_probability_of_failure() -> None:
    root = Path(__file__).parents[1]
    wrong = re.compile(
        r"but for a chance of|chance, at most, that|(δ|delta)\W+(is|:)\W+the (chance|probability) that", re.IGNORECASE
    )
    pages = [root / "README.md", *(root / "docs").rglob("*.md"), *(root / "src").rglob("*.py")]
    assert len(pages) > 100
    assert not [str(page) for page in pages if wrong.search(page.read_text(encoding="utf-8"))]


def test_delta_is_never_said_to_be_the_probability_of_failure() -> None:
    for currency in (Currency.ZCDP, Currency.GAUSSIAN):
        words = explain(Budget.approximate(1, 1e-9, currency, max_rows=3))
        assert words.delta == 1e-9
        assert "1 in 1,000,000,000" not in str(words)
        assert "δ = 1e-09 is not that probability" in str(words)
        assert words.tail > 8e-8
        assert f"at most {chance(Fraction(words.tail))}" in str(words)
        assert "at most 3 rows a person" in str(words)


def test_the_chance_that_is_said_covers_the_noise_that_is_drawn() -> None:
    """The sentence of version 0.1, "but for a chance of at most δ", fails here by a factor of 6 to 9."""
    budget = Budget.approximate(1, 1e-9)
    words = explain(budget)
    variance = 1 / (2 * float(budget.amount))
    outcomes = np.arange(-200, 201)
    inside, outside = (np.exp(-((outcomes - shift) ** 2) / (2 * variance)) for shift in (0, 1))
    inside, outside = inside / inside.sum(), outside / outside.sum()
    after = 0.5 * inside / (0.5 * inside + 0.5 * outside)
    failed = float(inside[after > words.beliefs[0].after].sum())
    assert 6e-9 < failed < 9e-9
    assert failed <= words.tail
    # Should the person not be in the table, the belief that they are grows too far even more rarely.
    assert float(outside[after > words.beliefs[0].after].sum()) < failed


def test_two_releases_cost_more_than_one_and_less_than_twice_as_much() -> None:
    assert "together cost ε = 1.4" in str(explain(Budget.approximate(1, 1e-6)))
    assert "together cost ε = 2;" in str(explain(Budget.pure(1)))


def test_of_a_declared_epsilon_and_delta_nothing_is_said_that_does_not_follow() -> None:
    words = explain(Budget.approximate(1, 1e-9), is_declared=True)
    assert "ρ" not in str(words)
    # P[L > ε + log 2] ≤ 2δ is what follows, and a δ for what else the record may say. Two releases cost 2ε and 2δ.
    assert words.tail == pytest.approx(3e-9)
    assert words.epsilon == pytest.approx(1 + math.log(2))
    assert words.beliefs[0].after == pytest.approx(2 * math.e / (1 + 2 * math.e))
    assert "together cost ε = 2 at δ = 2e-09" in str(words)
    # Two steps: (2ε, (1 + e^ε)δ), and log 2 beyond.
    assert chance(Fraction(3 * (1 + math.e) * 1e-9)) in str(words)
    assert str(explain(Budget.pure(1), is_declared=True)) == str(explain(Budget.pure(1)))


def test_an_additive_delta_is_explained_and_doubles() -> None:
    words = explain(Budget.approximate(1, "2e-6", additive="1e-6"))
    assert words.tail > 1e-6
    assert "of which δ′ = 1e-06 is additive" in words.lines[0]
    assert "at δ = 4e-06; a ledger adds them up" in str(words)
    assert "at δ = 1e-09" not in str(words)
    assert explain(Budget.zcdp("1/10")).tail < explain(replace(Budget.zcdp("1/10"), additive=Fraction(1, 10**5))).tail


def test_rho_and_mu_are_explained_at_common_deltas() -> None:
    words = explain(Budget.zcdp("0.0149731"))
    assert words.epsilon == pytest.approx(1, abs=1e-3)
    assert "at δ = 1e-06" in str(words)
    exact = explain(Budget.gaussian("0.03312"))
    assert exact.epsilon == pytest.approx(1, abs=1e-3)
    assert "μ² = 0.03312" in exact.lines[0]


def test_a_huge_epsilon_is_said_without_overflow() -> None:
    assert explain(Budget.pure(10**6)).beliefs[0].after == 1.0


@given(st.floats(1e-9, 1 - 1e-9))
def test_percentages_are_rounded_up_and_by_little(probability: float) -> None:
    said = Fraction(percent_up(probability).removesuffix(" %")) / 100
    assert said >= Fraction(probability)
    assert said - Fraction(probability) <= Fraction(probability) / 50
    # Near 1, what is left is not rounded away.
    assert probability > 0.999999 or said < 1


@given(st.fractions(Fraction(1, 10**30), 1))
def test_probabilities_are_rounded_up_and_one_in_so_many_is_rounded_down(probability: Fraction) -> None:
    number, _, rest = chance(probability).partition(" (1 in ")
    assert Fraction(number) >= probability * (1 - Fraction(1, 10**15))
    if rest:
        assert Fraction(1, int(rest.rstrip(")").replace(",", ""))) >= probability


@given(st.fractions(Fraction(1, 1000), 1000))
def test_no_promise_is_shown_smaller_than_it_is(epsilon: Fraction) -> None:
    first = explain(Budget.pure(epsilon)).lines[0]
    assert Fraction(first.removeprefix("ε = ").partition(",")[0]) >= epsilon


def test_a_promise_a_little_above_one_is_not_shown_as_one() -> None:
    assert explain(Budget.pure("1.0000049")).lines[0].startswith("ε = 1.00001,")
