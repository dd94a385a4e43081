import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.special import log_ndtr, ndtr

from priory.privacy.accounting import delta_at
from priory.privacy.budget import Budget, Currency
from priory.privacy.gaussian import gaussian_delta
from priory.privacy.tail import approximate_tail, belief_tail, gaussian_tail, loss_tail, zcdp_tail

Floats = NDArray[np.float64]
NEARLY_ONE = 1 + 1e-9


def tail(p: Floats, q: Floats, epsilon: float) -> float:
    """P[L > ε], outcome by outcome."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return float(p[np.log(p) - np.log(q) > epsilon].sum())


def hockey_stick(p: Floats, q: Floats, epsilon: float) -> float:
    """δ(ε), outcome by outcome."""
    return float(np.maximum(p - math.exp(epsilon) * q, 0).sum())


def discrete_gaussian(variance: float, shift: int) -> Floats:
    reach = math.ceil(45 * math.sqrt(variance)) + 5
    log_weights = -((np.arange(-reach, reach + 1) - shift) ** 2) / (2 * variance)
    return np.asarray(np.exp(log_weights) / np.exp(log_weights).sum())


def rounded_gaussian(scale: float, shift: int) -> Floats:
    """The cells of round(N(shift, scale²)), each from the side on which it is small."""
    reach = math.ceil(30 * scale) + 5
    low = (np.arange(-reach, reach + 1) - shift - 0.5) / scale
    high = low + 1 / scale
    below, above = (low, high), (-high, -low)
    a, b = (np.where(low < 0, left, right) for left, right in zip(below, above, strict=True))
    return np.asarray(np.exp(log_ndtr(b)) - np.exp(log_ndtr(a)))


def exponential(scores: Floats, epsilon: float) -> Floats:
    weights = np.exp(epsilon * (scores - scores.max()) / 2)
    return np.asarray(weights / weights.sum())


weights = st.lists(st.floats(0.01, 1), min_size=2, max_size=8)


@given(weights, weights, st.floats(0, 3), st.floats(0.01, 3))
def test_the_curve_of_delta_bounds_the_tail_of_any_two_distributions(
    one: list[float], other: list[float], epsilon: float, gap: float
) -> None:
    size = min(len(one), len(other))
    p, q = (np.array(each[:size]) / sum(each[:size]) for each in (one, other))
    bound = hockey_stick(p, q, epsilon - gap) / (1 - math.exp(-gap))
    assert tail(p, q, epsilon) <= bound * NEARLY_ONE + 1e-12


@pytest.mark.parametrize(("epsilon", "least", "most"), [(1, 6, 9), (Fraction(1, 10), 50, 60)])
def test_the_chance_of_a_larger_loss_is_many_times_delta_and_within_the_bound(
    epsilon: Fraction, least: float, most: float
) -> None:
    delta = 1e-9
    budget = Budget.approximate(epsilon, delta)
    variance = 1 / (2 * float(budget.amount))
    p, q = (discrete_gaussian(variance, shift) for shift in (0, 1))
    assert hockey_stick(p, q, float(epsilon)) <= delta
    chance = tail(p, q, float(epsilon))
    assert least < chance / delta < most
    assert chance <= loss_tail(budget, Fraction(epsilon))


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0, 10.0])
@pytest.mark.parametrize("delta", [1e-9, 1e-6, 1e-3])
@pytest.mark.parametrize("steps", [1, 2])
def test_the_loss_of_discrete_gaussian_noise_is_within_the_bound(epsilon: float, delta: float, steps: int) -> None:
    budget = Budget.approximate(str(epsilon), str(delta))
    p, q = (discrete_gaussian(1 / (2 * float(budget.amount)), shift) for shift in (0, steps))
    for share in (0.5, 0.9, 1, 1.5):
        bound = loss_tail(budget, Fraction(steps * share * epsilon), steps=steps)
        assert tail(p, q, steps * share * epsilon) <= bound * NEARLY_ONE


@pytest.mark.parametrize("variance", [0.2, 0.5, 1.0, 3.0])
def test_the_loss_of_several_cells_with_little_noise_is_within_the_bound(variance: float) -> None:
    p, q = (discrete_gaussian(variance, shift) for shift in (0, 1))
    together = [np.outer(each, each).ravel() for each in (p, q)]
    rho = 2 * Fraction(1 / (2 * variance))
    for epsilon in np.linspace(0.1, 30, 60):
        assert tail(together[0], together[1], epsilon) <= zcdp_tail(rho, Fraction(epsilon)) * NEARLY_ONE


@pytest.mark.parametrize("scale", [0.7, 1.0, 2.0, 5.78])
@pytest.mark.parametrize("steps", [1, 2])
def test_the_loss_of_rounded_gaussian_noise_is_within_the_bound(scale: float, steps: int) -> None:
    budget = Budget.gaussian(1 / Fraction(scale) ** 2)
    p, q = (rounded_gaussian(scale, shift) for shift in (0, steps))
    for epsilon in np.linspace(0.05, 8 * steps / scale, 80):
        assert tail(p, q, epsilon) <= loss_tail(budget, Fraction(epsilon), steps=steps) * NEARLY_ONE


def test_rounding_can_raise_the_tail_above_that_of_the_noise_that_was_rounded() -> None:
    """Why Φ(−ε/μ + μ/2) is not what is printed."""
    mu = 1.0
    p, q = (rounded_gaussian(1 / mu, shift) for shift in (0, 1))
    above = [e for e in np.linspace(0.1, 5, 200) if tail(p, q, e) > 1.2 * ndtr(-e / mu + mu / 2)]
    assert above
    assert all(tail(p, q, e) <= gaussian_tail(Fraction(mu), Fraction(e)) for e in above)


@given(st.lists(st.integers(-4, 4), min_size=2, max_size=6), st.floats(0.1, 8), st.data())
def test_the_loss_of_the_exponential_mechanism_is_within_the_bounds(
    scores: list[int], epsilon: float, data: st.DataObject
) -> None:
    moves = data.draw(st.lists(st.sampled_from([-1, 0, 1]), min_size=len(scores), max_size=len(scores)))
    one = np.array(scores, dtype=float)
    p, q = exponential(one, epsilon), exponential(one + moves, epsilon)
    rho = Fraction(epsilon) ** 2 / 8
    for at in np.linspace(0.05, 1, 8) * epsilon:
        chance = tail(p, q, at)
        assert chance <= zcdp_tail(rho, Fraction(at)) * NEARLY_ONE
    assert tail(p, q, epsilon * NEARLY_ONE) == loss_tail(Budget.pure(Fraction(epsilon)), Fraction(epsilon)) == 0


@given(st.floats(1e-4, 3), st.floats(0.01, 12))
def test_under_zcdp_the_bound_is_the_least_that_the_curve_gives(rho: float, epsilon: float) -> None:
    exact_rho, exact_epsilon = Fraction(rho), Fraction(epsilon)
    bound = float(zcdp_tail(exact_rho, exact_epsilon))
    if rho >= epsilon:
        assert bound == 1
        return
    # Doubles hold no smaller numbers.
    assume(bound > 1e-250)
    # The best ε′, at 1 − e^(ε′−ε) = 1/α with α = (ε+ρ)/2ρ, may be below 0, where the curve is not evaluated.
    gap = -math.log1p(-2 * rho / (epsilon + rho))
    for factor in (0.5, 1, 2):
        if factor * gap < epsilon:
            by_curve = float(delta_at(exact_rho, Fraction(epsilon - factor * gap))) / -math.expm1(-factor * gap)
            assert bound <= min(1, by_curve) * (1 + 1e-6)
            if factor == 1:
                assert by_curve == pytest.approx(bound, rel=1e-6)


@given(st.floats(0.05, 3), st.floats(0.05, 12))
def test_under_gaussian_dp_the_bound_is_near_the_least_that_the_curve_gives(mu: float, epsilon: float) -> None:
    mu_squared, exact = Fraction(mu) ** 2, Fraction(epsilon)
    bound = float(gaussian_tail(mu_squared, exact))
    assert ndtr(-epsilon / mu + mu / 2) <= bound * NEARLY_ONE
    by_curve = [
        float(gaussian_delta(mu_squared, Fraction(epsilon - gap))) / -math.expm1(-gap)
        for gap in np.linspace(0.01, 0.99, 25) * epsilon
    ]
    assert bound <= 1.05 * min(1.0, *by_curve)


def test_a_promise_of_epsilon_and_delta_alone_bounds_larger_losses_only() -> None:
    # Randomized response over two answers whose loss is just above ε: all of its mass is beyond, and δ is tiny.
    epsilon, more = 1.0, 1e-7
    p = np.array([math.exp(epsilon + more), 1.0]) / (1 + math.exp(epsilon + more))
    q = p[::-1]
    delta = hockey_stick(p, q, epsilon)
    assert delta < 1e-7
    assert tail(p, q, epsilon) > 0.7
    for beyond in (1e-8, 1e-7, 0.1, math.log(2)):
        assert tail(p, q, epsilon + beyond) <= approximate_tail(Fraction(delta), Fraction(beyond))
    assert float(approximate_tail(Fraction(delta), Fraction(math.log(2)))) == pytest.approx(2 * delta)


def test_bounds_are_probabilities_that_fall_with_epsilon_whatever_the_budget() -> None:
    amounts = (Fraction(1, 10**300), Fraction(1, 1000), Fraction(1), Fraction(10**300))
    for make, amount in itertools.product((Budget.zcdp, Budget.gaussian), amounts):
        bounds = [loss_tail(make(amount), amount * factor) for factor in (Fraction(1, 10), 2, 10**6)]
        assert bounds == sorted(bounds, reverse=True)
        assert all(0 < bound <= 1 for bound in bounds)
    assert zcdp_tail(Fraction(0), Fraction(1)) == gaussian_tail(Fraction(0), Fraction(1)) == 0


@pytest.mark.parametrize("currency", [Currency.ZCDP, Currency.GAUSSIAN])
@pytest.mark.parametrize("steps", [1, 2])
def test_an_additive_delta_counts_in_the_bound(currency: Currency, steps: int) -> None:
    """Noise that gives the count away with probability δ′."""
    apart = 1e-4
    budget = Budget.approximate(2, "2e-4", currency, additive=str(apart))
    if currency is Currency.ZCDP:
        noisy = [discrete_gaussian(1 / (2 * float(budget.amount)), shift) for shift in (0, steps)]
    else:
        noisy = [rounded_gaussian(float(budget.amount) ** -0.5, shift) for shift in (0, steps)]
    p, q = (np.append((1 - apart) * each, given) for each, given in zip(noisy, ([apart, 0], [0, apart]), strict=True))
    for epsilon in np.linspace(0.5, 4, 8) * steps:
        assert apart <= tail(p, q, epsilon) <= loss_tail(budget, Fraction(epsilon), steps=steps)
    without = loss_tail(Budget(currency, budget.amount), Fraction(2 * steps), steps=steps)
    assert without < loss_tail(budget, Fraction(2 * steps), steps=steps) < 0.1


@pytest.mark.parametrize("weight", [0.5, 0.01, 1e-6])
@pytest.mark.parametrize(("epsilon", "delta"), [("1", "1e-6"), ("3", "1e-4")])
def test_beliefs_are_bounded_for_those_who_do_not_know_what_the_record_says(
    weight: float, epsilon: str, delta: str
) -> None:
    """A person counts in one of two cells, or is not there; the one that is believed less likely is the truth."""
    budget = Budget.approximate(epsilon, delta)
    with_person, without = (discrete_gaussian(1 / (2 * float(budget.amount)), shift) for shift in (1, 0))
    first, second = np.outer(with_person, without), np.outer(without, with_person)
    absent = np.outer(without, without)
    believed = weight * first + (1 - weight) * second
    raised = believed > math.exp(float(epsilon)) * absent
    bound = belief_tail(budget, Fraction(epsilon))
    assert 0 < first[raised].sum() <= bound
    assert second[raised].sum() <= bound
    assert absent[raised].sum() <= bound
    # Known to be there: in which of the two cells is two steps.
    raised = first > math.exp(2 * float(epsilon)) * second
    assert 0 < first[raised].sum() <= belief_tail(budget, 2 * Fraction(epsilon), steps=2)


def test_a_pure_promise_never_fails() -> None:
    assert loss_tail(Budget.pure(2), Fraction(2)) == 0
    assert loss_tail(Budget.pure(2), Fraction(4), steps=2) == 0
    assert loss_tail(Budget.pure(2), Fraction(3), steps=2) == 1


def test_exact_gaussian_accounting_does_not_loosen_the_tail() -> None:
    for epsilon in (Fraction(1, 10), Fraction(1), Fraction(10)):
        by_zcdp, exactly = (
            loss_tail(Budget.approximate(epsilon, "1e-9", currency), epsilon)
            for currency in (Currency.ZCDP, Currency.GAUSSIAN)
        )
        assert exactly <= by_zcdp
