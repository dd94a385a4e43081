import decimal
import time
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from priory.privacy.accounting import delta_at, epsilon_at, rho_of_pure, rho_within

RHOS = st.floats(1e-10, 50).map(Fraction)
EPSILONS = st.floats(1e-3, 50).map(Fraction)
DELTAS = st.floats(-40, -0.05).map(lambda x: Fraction(10.0**x))


def exact_bound(rho: Fraction, delta: Fraction) -> Decimal:
    """The infimum over α by a search in forty digits, ever finer: the slow and obvious way."""
    with decimal.localcontext(prec=40):
        r, d = (Decimal(x.numerator) / Decimal(x.denominator) for x in (rho, delta))

        def bound(log_a: Decimal) -> Decimal:
            a = log_a.exp()
            return r * (1 + a) + (1 / ((1 + a) * d)).ln() / a + (a / (1 + a)).ln()

        low, high = Decimal(-25), Decimal(40)
        for _ in range(8):
            step = (high - low) / 40
            best = min((low + i * step for i in range(41)), key=bound)
            low, high = best - step, best + step
        return bound(best)


@given(RHOS, DELTAS)
def test_epsilon_is_never_below_a_bound_found_by_brute_force(rho: Fraction, delta: Fraction) -> None:
    # The search over α leaves the brute force a last digit above the infimum; both must meet there.
    found, fine = epsilon_at(rho, delta), max(Fraction(0), Fraction(exact_bound(rho, delta)))
    assert abs(found - fine) <= fine * Fraction(1, 10**11) + Fraction(1, 10**13)


@given(EPSILONS, DELTAS)
def test_calibration_rounds_towards_privacy(epsilon: Fraction, delta: Fraction) -> None:
    rho = rho_within(epsilon, delta)
    assert Fraction(exact_bound(rho, delta)) <= epsilon * (1 + Fraction(1, 10**11))
    # And it is the largest: a thousandth more would be too much.
    assert epsilon_at(rho * Fraction(1001, 1000), delta) > epsilon


@given(EPSILONS, DELTAS)
def test_delta_is_the_inverse_of_epsilon(epsilon: Fraction, delta: Fraction) -> None:
    rho = rho_within(epsilon, delta)
    assert abs(delta_at(rho, epsilon) / delta - 1) < Fraction(1, 10**6)


@pytest.mark.parametrize(
    ("n", "references"),
    [(43_944, [1.70e-4, 9.98e-4, 3.80e-3, 1.44e-2]), (27_253, [1.81e-4, 1.06e-3, 4.02e-3, 1.52e-2])],
)
def test_calibration_gives_the_published_values_at_delta_one_over_n_squared(n: int, references: list[float]) -> None:
    for epsilon, reference in zip(["0.1", "0.25", "0.5", "1"], references, strict=True):
        assert float(rho_within(Fraction(epsilon), Fraction(1, n**2))) == pytest.approx(reference, rel=5e-3)


@pytest.mark.parametrize("delta", [1e-3, 1e-6, 1e-9, 1e-12])
@pytest.mark.parametrize("rho", [1e-6, 1e-3, 0.1, 1.0, 10.0])
def test_conversion_agrees_with_opendp(rho: float, delta: float) -> None:
    import opendp.prelude as dp

    dp.enable_features("contrib")
    space = dp.atom_domain(T="i64"), dp.absolute_distance(T="f64")
    gaussian = dp.m.make_gaussian(*space, scale=1.0)
    converted: Any = dp.c.make_zCDP_to_approxDP(gaussian)
    theirs = converted.map((2 * rho) ** 0.5).epsilon(delta)
    assert float(epsilon_at(Fraction(rho), Fraction(delta))) == pytest.approx(theirs, rel=1e-3)


@pytest.mark.parametrize("delta", [1e-3, 1e-6, 1e-9, 1e-12])
@pytest.mark.parametrize("rho", [1e-3, 0.1, 1.0, 10.0])
def test_conversion_agrees_with_dp_accounting(rho: float, delta: float) -> None:
    from dp_accounting import rdp

    orders = [1 + 1.005**i for i in range(-1500, 2500)]
    theirs, _ = rdp.compute_epsilon(orders, [rho * order for order in orders], delta)
    assert float(epsilon_at(Fraction(rho), Fraction(delta))) == pytest.approx(theirs, rel=1e-3)


@pytest.mark.parametrize("sigma", [0.5, 1.0, 4.0, 20.0])
def test_the_bound_is_above_the_exact_epsilon_of_the_gaussian_mechanism(sigma: float) -> None:
    from dp_accounting import GaussianDpEvent, pld

    accountant = pld.PLDAccountant().compose(GaussianDpEvent(sigma))
    rho = 1 / (2 * Fraction(sigma) ** 2)
    assert accountant.get_epsilon(1e-6) <= float(epsilon_at(rho, Fraction(1, 10**6)))


def test_pure_epsilon_costs_half_its_square() -> None:
    assert rho_of_pure(Fraction(1, 3)) == Fraction(1, 18)


def test_nothing_spent_promises_everything() -> None:
    assert epsilon_at(Fraction(0), Fraction(1, 10**9)) == 0
    assert delta_at(Fraction(0), Fraction(1, 10)) == 0


def test_calibration_takes_milliseconds() -> None:
    rho_within(Fraction(1), Fraction(1, 10**9))
    start = time.process_time()
    for i in range(1, 101):
        rho_within(Fraction(i, 100), Fraction(1, 10**9))
    assert (time.process_time() - start) / 100 < 0.01
