import itertools
import math
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from priory.errors import OptionError
from priory.privacy import choice as choices
from priory.privacy.budget import Budget, Currency
from priory.privacy.choice import Choice, ChoiceKind, NoisyMax, PermuteAndFlip, choice_within
from priory.privacy.randomness import OpenDP, OperatingSystem, Randomness, opendp_measurement
from priory.queries.parts import Numbers

AMOUNTS = st.fractions(min_value=Fraction(1, 10**6), max_value=10**4)
SCORES = np.array([0, 1, 3, 3, -2])
BOTH: list[Choice] = [NoisyMax(Fraction(2)), PermuteAndFlip(Fraction(2))]


def exact_law(choice: Choice, scores: Numbers) -> Numbers:
    """Softmax, or permute-and-flip by going through every order of the candidates."""
    weights: Numbers = np.exp((scores - scores.max()) / float(choice.scale))
    if isinstance(choice, NoisyMax):
        softmax: Numbers = weights / weights.sum()
        return softmax
    law: Numbers = np.zeros(len(scores))
    for order in itertools.permutations(range(len(scores))):
        still = 1.0
        for i in order:
            law[i] += still * weights[i]
            still *= 1 - weights[i]
    law /= math.factorial(len(scores))
    return law


def p_value(counts: Numbers, law: Numbers) -> float:
    from scipy.stats import chisquare

    return float(chisquare(counts, law * counts.sum()).pvalue)


@pytest.mark.parametrize("kind", ["noisy-max", "permute-and-flip", None])
@given(amount=AMOUNTS, sensitivity=st.integers(1, 1000).map(Fraction))
def test_the_pick_bought_costs_no_more_than_the_share_and_hardly_less(
    kind: ChoiceKind | None, amount: Fraction, sensitivity: Fraction
) -> None:
    for budget in (Budget.pure(amount), Budget.zcdp(amount), Budget.gaussian(amount)):
        choice = choice_within(budget, sensitivity, kind)
        cost = choice.cost(sensitivity, budget.currency)
        assert amount * (1 - Fraction(1, 10**12)) <= cost <= amount
        assert choice.kind == (kind or ("permute-and-flip" if budget.is_pure else "noisy-max"))


def test_an_unknown_kind_of_pick_is_refused() -> None:
    with pytest.raises(OptionError, match="neither"):
        choice_within(Budget.pure(1), Fraction(1), "best")  # type: ignore[arg-type]


def test_permute_and_flip_is_charged_four_times_noisy_max_in_zcdp() -> None:
    one = Fraction(1)
    assert NoisyMax(Fraction(2)).cost(one, Currency.ZCDP) == Fraction(1, 8)
    assert PermuteAndFlip(Fraction(2)).cost(one, Currency.ZCDP) == Fraction(1, 2)
    assert NoisyMax(Fraction(2)).cost(one, Currency.PURE) == PermuteAndFlip(Fraction(2)).cost(one, Currency.PURE) == 1


def test_permute_and_flip_is_charged_more_than_noisy_max_in_gaussian_dp() -> None:
    # μ = 2Φ⁻¹(e^ε/(1+e^ε)) for a pure ε, and half the ε where the range is bounded.
    one = Fraction(1)
    sharp, blunt = (kind(Fraction(2)).cost(one, Currency.GAUSSIAN) for kind in (PermuteAndFlip, NoisyMax))
    assert blunt == NoisyMax(Fraction(4)).cost(2 * one, Currency.GAUSSIAN)
    assert blunt == PermuteAndFlip(Fraction(4)).cost(one, Currency.GAUSSIAN)
    assert 3.5 < sharp / blunt < 4


@pytest.mark.statistical
@pytest.mark.parametrize("source", [OperatingSystem(), OpenDP()])
@pytest.mark.parametrize("choice", BOTH)
def test_picks_follow_the_law_that_is_charged(choice: Choice, source: Randomness) -> None:
    # A right sampler fails once in a million runs. OpenDP 0.15 had the other law here, at this one's price.
    counts = np.bincount(source.picks(SCORES, choice, 20_000), minlength=len(SCORES))
    assert p_value(counts, exact_law(choice, SCORES)) > 1e-6
    other = BOTH[0] if choice is BOTH[1] else BOTH[1]
    for wrong in (other, type(choice)(choice.scale * Fraction(9, 10))):
        assert p_value(counts, exact_law(wrong, SCORES)) < 1e-6


@given(st.integers(1, 1000), st.integers(1, 50))
def test_our_prices_are_those_of_opendp(scale: int, sensitivity: int) -> None:
    for choice, currency in [(BOTH[0], Currency.ZCDP), (BOTH[1], Currency.PURE)]:
        reference: Any = opendp_measurement(choice.kind, Fraction(scale))
        ours = type(choice)(Fraction(scale)).cost(Fraction(sensitivity), currency)
        assert float(ours) == pytest.approx(reference.map(sensitivity))


@pytest.mark.statistical
@pytest.mark.parametrize("choice", BOTH)
def test_picks_made_together_are_independent(choice: Choice) -> None:
    first, second = np.reshape(choice.picks(SCORES, 40_000), (-1, 2)).T
    law = exact_law(choice, SCORES)
    counts = np.bincount(len(SCORES) * first + second, minlength=len(SCORES) ** 2)
    assert p_value(counts, np.outer(law, law).ravel()) > 1e-6


@pytest.mark.statistical
@pytest.mark.parametrize("choice", BOTH)
def test_many_candidates_are_picked_by_the_same_law_in_groups(choice: Choice) -> None:
    # With thousands of copies of each score both laws are the softmax by group: permute-and-flip picks uniformly
    # among the accepted, whose shares are then those of the weights.
    copies = 3_000
    scores = np.tile(SCORES, copies)
    counts = np.bincount(np.array(choice.picks(scores, 2_000)) % len(SCORES), minlength=len(SCORES))
    law = exact_law(NoisyMax(choice.scale), SCORES)
    assert p_value(counts, law) > 1e-6


def test_scores_that_are_no_integers_are_refused() -> None:
    for bad in (np.array([1.0]), np.array([], dtype=np.int64), np.zeros((2, 2), dtype=np.int64)):
        with pytest.raises(TypeError, match="int64"):
            NoisyMax(Fraction(1)).pick(bad)


@pytest.mark.parametrize("size", [3, 20_000])
def test_scores_nobody_can_move_are_picked_exactly(size: int) -> None:
    scores = np.arange(size)
    for budget in (Budget.pure(1), Budget.zcdp(1), Budget.gaussian(1)):
        assert choice_within(budget, Fraction(0)).pick(scores) == size - 1


@pytest.mark.parametrize("scale", [1e-300, 1e-9])
def test_no_scale_is_so_small_that_a_warning_tells_of_the_scores(scale: float) -> None:
    for kind in (NoisyMax, PermuteAndFlip):
        assert kind(Fraction(scale)).pick(np.arange(20_000)) == 19_999


@pytest.mark.parametrize("choice", BOTH)
def test_a_far_better_candidate_is_always_picked(choice: Choice) -> None:
    for size in (5, 20_000):
        scores = np.zeros(size, dtype=np.int64)
        scores[size // 2] = 10**6
        assert {choice.pick(scores) for _ in range(20)} == {size // 2}


@given(st.lists(st.integers(0, 10**6), min_size=1, max_size=50), st.fractions(Fraction(1, 100), 10**5))
def test_no_weight_is_above_its_level(behind: list[int], scale: Fraction) -> None:
    scale = Fraction(float(scale))
    per_level = float(scale) * math.log(2) * (1 + 2.0**-40)
    for place in behind:
        level = int(min(place / per_level, choices._LEVELS))
        with localcontext(prec=60):
            log_weight = -Decimal(place) * Decimal(scale.denominator) / Decimal(scale.numerator)
            assert log_weight <= -level * Decimal(2).ln()


@pytest.mark.statistical
def test_scores_spread_over_many_levels_follow_the_law() -> None:
    scores = np.array([0, -3, -7, -12, -40, -3, -5000])
    choice = NoisyMax(Fraction(2))
    counts = np.bincount(choice.picks(scores, 20_000), minlength=len(scores))
    law = exact_law(choice, scores)
    likely = law > 1e-3
    assert counts[~likely].sum() <= 5
    assert p_value(counts[likely], law[likely] / law[likely].sum()) > 1e-6
