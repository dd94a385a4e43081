import math
import multiprocessing
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from priory.errors import OptionError
from priory.privacy import noise as noises
from priory.privacy.budget import Budget, Currency
from priory.privacy.noise import Gaussian, Integers, Laplace, Noise, noise_within
from priory.queries.parts import Numbers
from priory.queries.sensitivity import Sensitivity

AMOUNTS = st.fractions(min_value=Fraction(1, 10**6), max_value=10**6)
SENSITIVITIES = st.builds(Sensitivity, st.integers(1, 100).map(Fraction), st.integers(1, 100).map(Fraction))
KINDS = [Laplace(Fraction(1, 2)), Laplace(Fraction(7)), Gaussian(Fraction(1, 2)), Gaussian(Fraction(3))]


def exact_pmf(noise: Noise, reach: int) -> Numbers:
    k = range(-reach, reach + 1)
    weights: Numbers = np.array([math.exp(noise.log_mass(i)) for i in k])
    law: Numbers = weights / weights.sum()
    return law


def p_value(draws: Integers, noise: Noise) -> float:
    """χ² of the draws against the exact probabilities, cells merged until each expects ten."""
    from scipy.stats import chi2

    reach = int(40 * float(noise.scale)) + 40
    expected = exact_pmf(noise, reach) * len(draws)
    observed = np.bincount(np.clip(draws, -reach, reach) + reach, minlength=2 * reach + 1)
    big = np.flatnonzero(expected >= 10)
    low, high = big[0], big[-1]
    e = np.array([expected[: low + 1].sum(), *expected[low + 1 : high], expected[high:].sum()])
    o = np.array([observed[: low + 1].sum(), *observed[low + 1 : high], observed[high:].sum()])
    return float(chi2.sf(((o - e) ** 2 / e).sum(), len(e) - 1))


@given(AMOUNTS, SENSITIVITIES)
def test_the_noise_bought_costs_no_more_than_the_share_and_hardly_less(
    amount: Fraction, sensitivity: Sensitivity
) -> None:
    for budget, kind in [
        (Budget.pure(amount), "laplace"),
        (Budget.zcdp(amount), "laplace"),
        (Budget.zcdp(amount), "gaussian"),
    ]:
        noise = noise_within(budget, sensitivity, kind)  # type: ignore[arg-type]
        cost = noise.cost(sensitivity, budget.currency)
        assert cost is not None
        assert amount * (1 - Fraction(1, 10**12)) <= cost <= amount
        assert Fraction(float(noise.scale)) == noise.scale


def test_a_pure_budget_cannot_pay_for_gaussian_noise() -> None:
    with pytest.raises(OptionError, match="Gaussian"):
        noise_within(Budget.pure(1), Sensitivity(Fraction(1), Fraction(1)), "gaussian")
    assert Gaussian(Fraction(1)).cost(Sensitivity(Fraction(1), Fraction(1)), Currency.PURE) is None


def test_a_budget_too_small_for_any_noise_is_refused() -> None:
    for budget in (Budget.pure("1e-20"), Budget.zcdp("1e-40")):
        with pytest.raises(OptionError, match="too small"):
            noise_within(budget, Sensitivity(Fraction(1), Fraction(1)))


def test_an_answer_nobody_can_move_is_free_and_exact() -> None:
    nothing = Sensitivity(Fraction(0), Fraction(0))
    for budget in (Budget.pure(1), Budget.zcdp(1)):
        noise = noise_within(budget, nothing)
        assert noise.cost(nothing, budget.currency) == 0
        assert noise.add(np.array([41, 42])).tolist() == [41, 42]
        assert noise.variance == 0


@pytest.mark.parametrize("noise", KINDS)
def test_noise_is_refused_on_floats(noise: Noise) -> None:
    with pytest.raises(TypeError, match="int64"):
        noise.add(np.array([1.0]))


@pytest.mark.parametrize("noise", KINDS)
def test_noise_keeps_shape_and_stays_whole(noise: Noise) -> None:
    for shape in [(), (0,), (3, 2), (200, 150)]:
        noisy = noise.add(np.full(shape, 10**12))
        assert noisy.shape == shape
        assert noisy.dtype == np.int64
        assert (np.abs(noisy - 10**12) < 10**4).all()


@pytest.mark.parametrize("scale", [Fraction(1, 60), Fraction(1, 10**6), Fraction(1e-300)])
def test_hardly_any_noise_is_drawn_at_tiny_scales(scale: Fraction) -> None:
    for kind in (Laplace, Gaussian):
        assert not kind(scale).add(np.zeros(noises.TABLE_CELLS, dtype=np.int64)).any()
        assert not kind(scale).add(np.zeros(10, dtype=np.int64)).any()
        assert kind(scale).variance < 1e-6


@pytest.mark.statistical
@pytest.mark.parametrize("size", [10_000, 200_000])  # the first goes to OpenDP, the second to our own sampler
@pytest.mark.parametrize("noise", KINDS)
def test_noise_is_the_noise_that_was_paid_for(noise: Noise, size: int) -> None:
    # A right sampler fails once in a million runs.
    draws = noise.add(np.zeros(size, dtype=np.int64))
    assert p_value(draws, noise) > 1e-6
    if size > noises.TABLE_CELLS:
        # And the test has power: 10 % less or 10 % more noise is rejected.
        for factor in (Fraction(9, 10), Fraction(11, 10)):
            assert p_value(draws, type(noise)(noise.scale * factor)) < 1e-6


@pytest.mark.parametrize("noise", [*KINDS, Laplace(Fraction(20)), Gaussian(Fraction(40))])
def test_variance_is_that_of_the_exact_probabilities(noise: Noise) -> None:
    reach = int(40 * noise.scale) + 60
    k = np.arange(-reach, reach + 1)
    assert noise.variance == pytest.approx((k**2 * exact_pmf(noise, reach)).sum(), rel=1e-6)


@pytest.mark.parametrize("noise", [*KINDS, Gaussian(Fraction(300)), Laplace(Fraction(300))])
def test_tables_of_all_precisions_agree_to_a_unit(noise: Noise) -> None:
    one, three = noises._Table.of(noise, 1), noises._Table.of(noise, 3)
    extra = one.lowest - three.lowest
    fine = np.array([boundary >> 128 for boundary in three.boundaries], dtype=np.uint64)
    matching = fine[extra : extra + len(one.heads)]
    assert int(np.maximum(matching - one.heads, one.heads - matching).min()) == 0
    assert set((matching - one.heads).tolist()) <= {0, 1, 2**64 - 1}
    # Beyond the coarse table there is less than a unit on either side.
    assert fine[:extra].max() == 0
    assert fine[extra + len(one.heads) :].min() == 2**64 - 1


@pytest.mark.parametrize("noise", KINDS)
def test_a_draw_on_a_boundary_is_settled_by_further_bits(noise: Noise) -> None:
    table, fine = noises._Table.of(noise, 1), noises._Table.of(noise, 2)
    place = len(table.heads) // 2
    head = int(table.heads[place])
    # The finer table's boundary with the same first word, or the next where rounding moved it.
    boundary = fine.boundaries[place + table.lowest - fine.lowest]
    assert boundary >> 64 in (head - 1, head, head + 1)
    value = table.lowest + place
    for step, expected in [(-5, value), (5, value + 1)]:
        word, rest = divmod(boundary + step, 2**64)
        assert noises._draw(noise, 1, _bits([word, rest])).tolist() == [expected]
    # On the boundary of the finer table, a third word decides.
    third = noises._Table.of(noise, 3).boundaries[place + table.lowest - noises._Table.of(noise, 3).lowest]
    words = [third >> 128, (third >> 64) % 2**64, third % 2**64 + 5]
    assert noises._draw(noise, 1, _bits(words)).tolist() == [value + 1]


@pytest.mark.parametrize("noise", KINDS)
def test_values_beyond_the_first_table_can_be_drawn(noise: Noise) -> None:
    lowest = noises._Table.of(noise, 1).lowest
    assert noises._draw(noise, 1, _bits([0, 2**20, 0]))[0] < lowest // 2
    assert noises._draw(noise, 1, _bits([2**64 - 1, 2**64 - 2**20, 0]))[0] > -lowest // 2
    far = noises._draw(noise, 1, _bits([0, 0, 0, 2**20, 0]))[0]
    assert far < lowest


def _bits(words: list[int]) -> noises.Bits:
    left = iter(words)
    return lambda n: b"".join(next(left).to_bytes(8, "little") for _ in range(n // 8))


def test_workers_that_fork_never_share_noise() -> None:
    with multiprocessing.get_context("fork").Pool(8) as pool:
        small = pool.map(_draw_small, range(16))
        large = pool.map(_draw_large, range(16))
    assert len(set(small)) == 16
    assert len(set(large)) == 16


def _draw_small(_: int) -> bytes:
    return Gaussian(Fraction(100)).add(np.zeros(50, dtype=np.int64)).tobytes()


def _draw_large(_: int) -> bytes:
    return Gaussian(Fraction(100)).add(np.zeros(noises.TABLE_CELLS, dtype=np.int64)).tobytes()


@given(st.integers(1, 1000), st.integers(1, 50))
def test_our_costs_are_those_of_opendp(scale: int, sensitivity: int) -> None:
    size = Sensitivity(Fraction(sensitivity), Fraction(sensitivity**2))
    laplace, gaussian = Laplace(Fraction(scale)), Gaussian(Fraction(scale))
    assert float(laplace.cost(size, Currency.PURE)) == pytest.approx(noises._opendp("laplace", scale).map(sensitivity))  # type: ignore[attr-defined]
    rho = gaussian.cost(size, Currency.ZCDP)
    assert rho is not None
    assert float(rho) == pytest.approx(noises._opendp("gaussian", scale).map(sensitivity))  # type: ignore[attr-defined]
