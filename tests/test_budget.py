from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from priory.errors import OptionError
from priory.privacy.budget import Budget, Currency, exact, rounded_down, rounded_up
from priory.queries.sensitivity import Relation

AMOUNTS = st.fractions(min_value=Fraction(1, 10**9), max_value=100)


@given(AMOUNTS, st.integers(1, 60))
def test_equal_shares_add_up_to_the_whole_exactly(amount: Fraction, n: int) -> None:
    parts = Budget.zcdp(amount).split([1] * n)
    assert sum((part.amount for part in parts), Fraction(0)) == amount


@given(AMOUNTS, st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=20))
def test_unequal_shares_add_up_to_the_whole_exactly(amount: Fraction, shares: list[float]) -> None:
    budget = Budget.pure(amount, relation="replace-one", max_rows=3)
    parts = budget.split(shares)
    assert sum((part.amount for part in parts), Fraction(0)) == amount
    assert {(part.currency, part.relation, part.max_rows) for part in parts} == {
        (Currency.PURE, Relation.REPLACE_ONE, 3)
    }


def test_a_float_means_the_decimal_it_prints_as() -> None:
    assert Budget.pure(0.1).amount == Fraction(1, 10)
    assert Budget.zcdp("1e-3").amount == Fraction(1, 1000)
    assert exact("epsilon", Decimal("0.25")) == Fraction(1, 4)
    assert exact("epsilon", " 2/3 ") == Fraction(2, 3)


@pytest.mark.parametrize("number", ["1e999999999", "1e-999999999", "-1E+999999999", Decimal("1e999999")])
def test_a_number_with_endless_zeros_is_refused_at_once(number: str | Decimal) -> None:
    with pytest.raises(OptionError):
        exact("epsilon", number)


def test_a_part_of_an_approximate_budget_is_a_rho() -> None:
    budget = Budget.approximate(1, 1e-9)
    assert budget.currency is Currency.ZCDP
    assert budget.part("1/2") == Budget.zcdp(budget.amount / 2)


@pytest.mark.parametrize(
    "epsilon", [0, -1, float("nan"), float("inf"), "a lot", True, None, [1], "1/0", "", "1e-400", "1e400"]
)
def test_an_epsilon_that_is_no_positive_number_is_refused(epsilon: Any) -> None:
    with pytest.raises(OptionError, match="epsilon"):
        Budget.pure(epsilon)
    with pytest.raises(OptionError, match="epsilon"):
        Budget.approximate(epsilon, 1e-9)


@pytest.mark.parametrize("delta", [1, 1.5, -1e-9, float("nan"), 0])
def test_a_delta_outside_zero_to_one_is_refused(delta: float) -> None:
    with pytest.raises(OptionError, match="delta"):
        Budget.approximate(1, delta)


@pytest.mark.parametrize("max_rows", [0, -1, 1.0, True])
def test_records_per_person_are_a_whole_number(max_rows: Any) -> None:
    with pytest.raises(OptionError, match="max_rows"):
        Budget.pure(1, max_rows=max_rows)


def test_options_decide_the_currency() -> None:
    assert Budget.of(epsilon=1).currency is Currency.PURE
    assert Budget.of(epsilon=1, delta=0).currency is Currency.PURE
    assert Budget.of(epsilon=1, delta=1e-9).currency is Currency.ZCDP
    assert Budget.of(rho=0.5).currency is Currency.ZCDP
    with pytest.raises(OptionError, match="either"):
        Budget.of(rho=0.5, epsilon=1)
    with pytest.raises(OptionError, match="give epsilon"):
        Budget.of(delta=1e-9)
    with pytest.raises(OptionError, match="relation"):
        Budget.of(epsilon=1, relation="swap")


def test_a_part_above_the_whole_is_refused() -> None:
    with pytest.raises(OptionError, match="at most the whole"):
        Budget.pure(1).part("3/2")
    with pytest.raises(OptionError, match="shares"):
        Budget.pure(1).split([])
    with pytest.raises(OptionError, match="shares"):
        Budget.pure(1).split([1, -1])


def test_a_tiny_epsilon_works() -> None:
    assert 0 < Budget.approximate(0.001, 1e-9).amount < Fraction(1, 10**7)
    assert str(Budget.pure("0.001")) == "ε = 0.001"
    assert str(Budget.approximate(1, 1e-9)).startswith("ε = 1, δ = 1e-09 (ρ = 0.0149")


def test_a_budget_in_mu_squared_is_asked_for_by_its_currency() -> None:
    assert Budget.of(epsilon=1, delta=1e-9, currency="gaussian") == Budget.approximate(1, 1e-9, Currency.GAUSSIAN)
    assert Budget.of(epsilon=1, delta=1e-9, currency="zcdp") == Budget.approximate(1, 1e-9)
    assert Budget.of(epsilon=1, currency="pure") == Budget.pure(1)
    assert Budget.of(rho=1, currency=Currency.ZCDP) == Budget.zcdp(1)


@pytest.mark.parametrize(
    "options",
    [
        {"epsilon": 1, "currency": "gaussian"},
        {"epsilon": 1, "delta": 0, "currency": "gaussian"},
        {"rho": 1, "currency": "gaussian"},
        {"epsilon": 1, "delta": 1e-9, "currency": "pure"},
        {"epsilon": 1, "delta": 1e-9, "currency": "euro"},
    ],
)
def test_a_currency_that_does_not_fit_the_other_options_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(OptionError, match="currency"):
        Budget.of(**options)


@given(st.fractions(0, 10**6, max_denominator=10**12))
def test_what_is_shown_is_rounded_towards_privacy_in_six_digits(value: Fraction) -> None:
    up, down = Fraction(rounded_up(value)), Fraction(rounded_down(value))
    assert down <= value <= up
    assert up - down <= value / 10**5


def test_a_promise_a_little_above_a_round_number_is_not_shown_as_it() -> None:
    assert rounded_up(Fraction("1.0000049")) == "1.00001"
    assert rounded_down(Fraction("0.9999999")) == "0.999999"
    assert str(Budget.pure("1.0000049")) == "ε = 1.00001"
    assert str(Budget.approximate("1.0000049", "1.0000049e-9")).startswith("ε = 1.00001, δ = 1.00001e-09 (ρ = ")
