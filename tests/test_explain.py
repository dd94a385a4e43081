import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from priory.privacy.budget import Budget
from priory.privacy.explain import explain, grown


def test_epsilon_one_turns_fifty_percent_into_seventy_three() -> None:
    words = explain(Budget.pure(1))
    assert words.beliefs[0].before == 0.5
    assert words.beliefs[0].after == pytest.approx(0.731, abs=5e-4)
    assert "from 50 % to at most 73.1 %" in str(words)
    assert "This always holds." in str(words)


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


def test_a_delta_is_said_as_a_chance() -> None:
    words = explain(Budget.approximate(1, 1e-6, max_rows=3))
    assert words.delta == 1e-6
    assert "1 in 1,000,000" in str(words)
    assert "at most 3 rows a person" in str(words)
    # Two together cost more than one and less than twice as much.
    assert "together cost ε = 1.4" in str(words)


def test_rho_is_explained_at_common_deltas() -> None:
    words = explain(Budget.zcdp("0.0149731"))
    assert words.epsilon == pytest.approx(1, abs=1e-3)
    assert "at δ = 1e-06" in str(words)


def test_a_huge_epsilon_is_said_without_overflow() -> None:
    assert explain(Budget.pure(10**6)).beliefs[0].after == 1.0
