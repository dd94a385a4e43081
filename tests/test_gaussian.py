"""Gaussian DP: conversions never promise too much, and choices cost what was proved."""

import itertools
import math
from fractions import Fraction

import mpmath  # type: ignore[import-untyped]
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit, ndtri

from priory.privacy.accounting import rho_within
from priory.privacy.budget import Currency
from priory.privacy.gaussian import (
    gaussian_delta,
    gaussian_epsilon,
    mu_squared_of_pure,
    mu_squared_within,
)
from priory.privacy.prices import bounded_range_within, converted, price_of_bounded_range, price_of_pure, pure_within

# A hundred digits: what is compared with it has eighty.
mpmath.mp.dps = 100

epsilons = st.fractions("1/1000", 1000, max_denominator=10**6)
exponents = st.integers(1, 300)


def exact_tail(x: mpmath.mpf) -> mpmath.mpf:
    return mpmath.erfc(x / mpmath.sqrt(2)) / 2


def exact_delta(mu_squared: Fraction, epsilon: Fraction) -> mpmath.mpf:
    mu, e = mpmath.sqrt(real(mu_squared)), real(epsilon)
    return exact_tail(e / mu - mu / 2) - mpmath.exp(e) * exact_tail(e / mu + mu / 2)


def real(value: Fraction) -> mpmath.mpf:
    return mpmath.mpf(value.numerator) / value.denominator


@given(epsilon=epsilons, mu_squared=st.fractions("1/1000000", 1000, max_denominator=10**6))
def test_delta_is_never_below_the_exact_one_and_close_to_it(epsilon: Fraction, mu_squared: Fraction) -> None:
    found, exact = real(gaussian_delta(mu_squared, epsilon)), exact_delta(mu_squared, epsilon)
    assert found >= exact
    # Below 10⁻²⁰⁰⁰ it is not worked out.
    assert found <= exact * (1 + mpmath.mpf(10) ** -18) or found <= mpmath.mpf(10) ** -2000


@settings(deadline=None)
@given(epsilon=epsilons, exponent=exponents)
def test_the_mu_squared_within_a_promise_keeps_it_and_leaves_almost_nothing(epsilon: Fraction, exponent: int) -> None:
    delta = Fraction(1, 10**exponent)
    found = mu_squared_within(epsilon, delta)
    assert exact_delta(found, epsilon) <= real(delta)
    assert exact_delta(found * (1 + Fraction(1, 10**15)), epsilon) > real(delta)
    assert found >= 2 * rho_within(epsilon, delta)


@settings(deadline=None)
@given(mu_squared=st.fractions("1/100000", 100, max_denominator=10**6), exponent=exponents)
def test_epsilon_is_never_below_the_exact_one_and_close_to_it(mu_squared: Fraction, exponent: int) -> None:
    delta = Fraction(1, 10**exponent)
    found = gaussian_epsilon(mu_squared, delta)
    assert exact_delta(mu_squared, found) <= real(delta)
    if found:
        assert exact_delta(mu_squared, found * (1 - Fraction(1, 10**12))) > real(delta)


@pytest.mark.parametrize(
    ("delta", "gains"), [("1e-9", {"0.1": 12.0, "1": 10.6, "10": 8.4}), ("1e-6", {"0.1": 18.2, "1": 15.0, "10": 10.9})]
)
def test_exact_accounting_buys_more_than_zcdp_by_what_was_studied(delta: str, gains: dict[str, float]) -> None:
    for epsilon, gain in gains.items():
        mu_squared = mu_squared_within(Fraction(epsilon), Fraction(delta))
        rho = rho_within(Fraction(epsilon), Fraction(delta))
        assert 100 * (mu_squared / 2 / rho - 1) == pytest.approx(gain, abs=0.2)


@pytest.mark.parametrize(("sigma", "epsilon"), [(0.7, 1.0), (1.0, 0.5), (2.0, 1.0), (4.0, 0.25)])
@pytest.mark.parametrize("bits", [0, 3])
def test_delta_covers_the_hockey_stick_sum_of_rounded_gaussian_noise(sigma: float, epsilon: float, bits: int) -> None:
    """Rounding is post-processing, so the sum over the lattice is at most the curve; a finer lattice comes close."""
    steps, e = mpmath.mpf(sigma) * 2**bits, mpmath.mpf(epsilon)
    shift = 2**bits

    def mass(k: int) -> mpmath.mpf:
        near = min(abs(k + 0.5), abs(k - 0.5)) if k else mpmath.mpf(-0.5)
        return exact_tail(near / steps) - exact_tail((abs(k) + 0.5) / steps)

    # Beyond 15 standard deviations there is less than 10⁻⁵⁰.
    reach = int(15 * steps) + shift
    brute = sum(max(mass(k - shift) - mpmath.exp(e) * mass(k), 0) for k in range(-reach, reach + 1))
    bound = real(gaussian_delta(1 / Fraction(sigma) ** 2, Fraction(epsilon)))
    assert brute <= bound
    if bits == 3:
        assert brute >= 0.99 * bound


@pytest.mark.parametrize("sigma", [0.5, 1.0, 5.0, 50.0])
def test_delta_agrees_with_the_privacy_loss_distribution_of_a_gaussian(sigma: float) -> None:
    pld = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")
    loss = pld.from_gaussian_mechanism(sigma, value_discretization_interval=1e-4)
    for epsilon in (0.1, 1.0, 5.0):
        theirs = loss.get_delta_for_epsilon(epsilon)
        ours = float(gaussian_delta(1 / Fraction(sigma) ** 2, Fraction(epsilon)))
        # Theirs is rounded up too, by its discretisation, and knows nothing below about 10⁻¹⁵.
        assert ours == pytest.approx(theirs, rel=1e-3, abs=1e-14)
        assert ours >= float(exact_delta(1 / Fraction(sigma) ** 2, Fraction(epsilon)))


@given(epsilon=st.fractions("1/1000000", 10_000, max_denominator=10**6))
def test_prices_are_never_below_the_exact_ones_and_buy_back_what_they_cost(epsilon: Fraction) -> None:
    for price, back, part in (
        (price_of_pure, pure_within, Fraction(1)),
        (price_of_bounded_range, bounded_range_within, Fraction(1, 2)),
    ):
        cost = price(epsilon, Currency.GAUSSIAN)
        # Φ(−μ/2) ≤ 1/(1 + e^{ε}), or ε/2.
        tail = exact_tail(mpmath.sqrt(real(cost)) / 2)
        assert tail * (1 + mpmath.exp(real(part * epsilon))) <= 1
        assert back(cost, Currency.GAUSSIAN) <= epsilon * (1 + Fraction(1, 10**15))
        assert back(cost, Currency.GAUSSIAN) >= epsilon * (1 - Fraction(1, 10**6)) or epsilon > 5000
        assert price(back(cost, Currency.GAUSSIAN), Currency.GAUSSIAN) <= cost


@given(amount=st.fractions("1/1000000", 1000, max_denominator=10**6), currency=st.sampled_from(Currency))
def test_what_an_amount_buys_costs_no_more_than_it(amount: Fraction, currency: Currency) -> None:
    assert price_of_pure(pure_within(amount, currency), currency) <= amount
    assert price_of_bounded_range(bounded_range_within(amount, currency), currency) <= amount
    assert price_of_pure(pure_within(amount, currency) * Fraction(1001, 1000), currency) > amount


def test_conversions_go_one_way() -> None:
    one = Fraction(1)
    assert converted(one, Currency.GAUSSIAN, Currency.ZCDP) == Fraction(1, 2)
    assert converted(one, Currency.PURE, Currency.GAUSSIAN) == mu_squared_of_pure(one)
    for way in (
        (Currency.ZCDP, Currency.GAUSSIAN),
        (Currency.ZCDP, Currency.PURE),
        (Currency.GAUSSIAN, Currency.PURE),
    ):
        assert converted(one, *way) is None


def picking(scores: tuple[int, ...], epsilon: float) -> list[float]:
    """The exponential mechanism on scores that one person moves by at most 1."""
    weights = [math.exp(epsilon * score / 2) for score in scores]
    return [weight / sum(weights) for weight in weights]


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
@pytest.mark.parametrize("candidates", [2, 3, 4])
def test_no_test_tells_apart_two_runs_of_a_choice_better_than_its_price_says(candidates: int, epsilon: float) -> None:
    """Every test of the exponential mechanism on neighbouring scores, by brute force, against the curve of μ-GDP."""
    mu = math.sqrt(price_of_bounded_range(Fraction(epsilon), Currency.GAUSSIAN))
    loudest = 0.0
    for scores in itertools.product(range(-8, 9, 4), repeat=candidates - 1):
        one = picking((0, *scores), epsilon)
        for moves in itertools.product((-1, 1), repeat=candidates):
            other = picking(tuple(s + m for s, m in zip((0, *scores), moves, strict=True)), epsilon)
            for size in range(1, candidates):
                for picked in itertools.combinations(range(candidates), size):
                    false_alarm, power = sum(one[i] for i in picked), sum(other[i] for i in picked)
                    if false_alarm > 1e-9 and power < 1 - 1e-9:
                        loudest = max(loudest, ndtri(power) - ndtri(false_alarm))
    # A test with these errors is possible between N(0, 1) and N(μ, 1) where Φ⁻¹(power) − Φ⁻¹(false alarm) ≤ μ.
    assert 0.8 * mu < loudest <= mu + 1e-6


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
def test_the_price_of_a_choice_is_reached_by_two_evenly_matched_coins(epsilon: float) -> None:
    """logit p − logit q = ε with p = 1 − q: Φ⁻¹(p) − Φ⁻¹(q) is the price, and uneven coins need less."""
    mu = math.sqrt(price_of_bounded_range(Fraction(epsilon), Currency.GAUSSIAN))
    apart = [ndtri(expit(x + epsilon / 2)) - ndtri(expit(x - epsilon / 2)) for x in (0.0, 0.3, 1.0, 3.0, 6.0)]
    assert apart[0] == pytest.approx(mu, rel=1e-9)
    assert apart == sorted(apart, reverse=True)
