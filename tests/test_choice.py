import itertools
import math
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from priory.errors import OptionError
from priory.privacy import choice as choices
from priory.privacy.budget import Budget, Currency
from priory.privacy.choice import Choice, ChoiceKind, NoisyMax, PermuteAndFlip, choice_within
from priory.privacy.noise import Bits
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


@given(AMOUNTS, st.integers(1, 1000).map(Fraction))
def test_the_pick_bought_costs_no_more_than_the_share_and_hardly_less(amount: Fraction, sensitivity: Fraction) -> None:
    for budget in (Budget.pure(amount), Budget.zcdp(amount)):
        choice = choice_within(budget, sensitivity)
        cost = choice.cost(sensitivity, budget.currency)
        assert amount * (1 - Fraction(1, 10**12)) <= cost <= amount
        assert isinstance(choice, PermuteAndFlip if budget.is_pure else NoisyMax)


@pytest.mark.parametrize("kind", ["noisy-max", "permute-and-flip"])
@given(amount=AMOUNTS, sensitivity=st.integers(1, 1000).map(Fraction))
def test_either_kind_of_pick_can_be_bought_in_either_currency(
    kind: ChoiceKind, amount: Fraction, sensitivity: Fraction
) -> None:
    for budget in (Budget.pure(amount), Budget.zcdp(amount)):
        choice = choice_within(budget, sensitivity, kind)
        assert choice.kind == kind
        cost = choice.cost(sensitivity, budget.currency)
        assert amount * (1 - Fraction(1, 10**12)) <= cost <= amount


def test_an_unknown_kind_of_pick_is_refused() -> None:
    with pytest.raises(OptionError, match="neither"):
        choice_within(Budget.pure(1), Fraction(1), "best")  # type: ignore[arg-type]


def test_permute_and_flip_is_charged_four_times_noisy_max_in_zcdp() -> None:
    one = Fraction(1)
    assert NoisyMax(Fraction(2)).cost(one, Currency.ZCDP) == Fraction(1, 8)
    assert PermuteAndFlip(Fraction(2)).cost(one, Currency.ZCDP) == Fraction(1, 2)
    assert NoisyMax(Fraction(2)).cost(one, Currency.PURE) == PermuteAndFlip(Fraction(2)).cost(one, Currency.PURE) == 1


@pytest.mark.statistical
@pytest.mark.parametrize("choice", BOTH)
def test_opendp_picks_by_the_law_that_is_charged(choice: Choice) -> None:
    # A right sampler fails once in a million runs. OpenDP 0.15 had the other law here, at this one's price.
    counts = np.bincount([choice.pick(SCORES) for _ in range(20_000)], minlength=len(SCORES))
    assert p_value(counts, exact_law(choice, SCORES)) > 1e-6
    other = BOTH[0] if choice is BOTH[1] else BOTH[1]
    assert p_value(counts, exact_law(other, SCORES)) < 1e-6


@pytest.mark.statistical
@pytest.mark.parametrize("choice", BOTH)
def test_our_own_picks_follow_the_law_that_is_charged(choice: Choice) -> None:
    counts = np.bincount([choice.pick_by_coins(SCORES) for _ in range(20_000)], minlength=len(SCORES))
    assert p_value(counts, exact_law(choice, SCORES)) > 1e-6
    assert p_value(counts, exact_law(type(choice)(choice.scale * Fraction(9, 10)), SCORES)) < 1e-6


@pytest.mark.statistical
@pytest.mark.parametrize("choice", BOTH)
def test_picks_made_together_are_independent(choice: Choice) -> None:
    first, second = np.reshape(choice.picks_by_coins(SCORES, 40_000), (-1, 2)).T
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
    counts = np.bincount([choice.pick(scores) % len(SCORES) for _ in range(2_000)], minlength=len(SCORES))
    law = exact_law(NoisyMax(choice.scale), SCORES)
    assert p_value(counts, law) > 1e-6


def test_scores_that_are_no_integers_are_refused() -> None:
    for bad in (np.array([1.0]), np.array([], dtype=np.int64), np.zeros((2, 2), dtype=np.int64)):
        with pytest.raises(TypeError, match="int64"):
            NoisyMax(Fraction(1)).pick(bad)


@pytest.mark.parametrize("size", [3, 20_000])
def test_scores_nobody_can_move_are_picked_exactly(size: int) -> None:
    scores = np.arange(size)
    for budget in (Budget.pure(1), Budget.zcdp(1)):
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


def test_a_coin_on_the_boundary_is_settled_by_further_bits() -> None:
    # exp(−1) in binary to 192 places; a draw just below it is true, just above is not.
    with localcontext(prec=80):
        boundary = int(Decimal(-1).exp() * 2**192)
    for step, expected in [(-(2**10), True), (2**10, False), (-(2**70), True), (2**70, False)]:
        drawn = boundary + step
        words = [drawn >> 128, (drawn >> 64) % 2**64, drawn % 2**64]
        assert choices._coins(np.array([2]), Fraction(2), _bits(words)).tolist() == [expected]


def test_the_best_candidates_coin_always_falls_right() -> None:
    assert choices._coins(np.array([0]), Fraction(2), _bits([2**64 - 1])).tolist() == [True]


def test_uniform_numbers_reject_the_bits_that_would_favour_small_ones() -> None:
    drawn = iter([b"\xff", b"\xfe"])
    # 255 is the largest multiple of three that a byte holds, so only 0 … 254 may be used.
    assert choices._below(3, lambda _: next(drawn)) == 254 % 3
    assert choices._below(2**63, _bits([2**64 - 1])) == 2**63 - 1
    assert choices._below(1, bytes) == 0


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
    counts = np.bincount([choice.pick_by_coins(scores) for _ in range(20_000)], minlength=len(scores))
    law = exact_law(choice, scores)
    likely = law > 1e-3
    assert counts[~likely].sum() <= 5
    assert p_value(counts[likely], law[likely] / law[likely].sum()) > 1e-6


def _bits(words: list[int]) -> Bits:
    left = iter(words)
    return lambda n: b"".join(next(left).to_bytes(8, "little") for _ in range(n // 8))
