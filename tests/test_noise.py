import itertools
import math
import multiprocessing
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from priory.audit.samplers import Biased, Law
from priory.errors import OptionError
from priory.privacy.budget import Budget, Currency
from priory.privacy.noise import Floats, Gaussian, Laplace, Noise, NoiseKind, RoundedGaussian, noise_within
from priory.privacy.normal import upper_tail
from priory.privacy.randomness import OpenDP, OperatingSystem, Randomness, opendp_measurement
from priory.queries.sensitivity import Sensitivity

AMOUNTS = st.fractions(min_value=Fraction(1, 10**6), max_value=10**6)
SENSITIVITIES = st.builds(Sensitivity, st.integers(1, 100).map(Fraction), st.integers(1, 100).map(Fraction))
ONE = Sensitivity(Fraction(1), Fraction(1))
KIND_OR_DEFAULT: list[NoiseKind | None] = ["laplace", None]
KINDS: list[Noise] = [
    Laplace(Fraction(1, 2)),
    Laplace(Fraction(7)),
    Gaussian(Fraction(1, 2)),
    Gaussian(Fraction(3)),
    RoundedGaussian(Fraction(0.7)),
    RoundedGaussian(Fraction(3), 2),
    RoundedGaussian(Fraction(100)),
]


def defined_law(noise: Noise, reach: int) -> Floats:
    """The probabilities of −reach … reach from their definitions."""
    k = range(-reach, reach + 1)
    scale = noise.scale / noise.step
    if isinstance(noise, RoundedGaussian):
        halves = [upper_tail((2 * i - 1) / (2 * scale), 30) for i in range(-reach, reach + 2)]
        return np.array([float(a - b) for a, b in itertools.pairwise(halves)])
    exponents = [abs(i) / scale if isinstance(noise, Laplace) else i * i / (2 * scale**2) for i in k]
    weights: Floats = np.array([math.exp(-exponent) for exponent in exponents])
    law: Floats = weights / weights.sum()
    return law


@given(AMOUNTS, SENSITIVITIES)
def test_the_noise_bought_costs_no_more_than_the_share_and_hardly_less(
    amount: Fraction, sensitivity: Sensitivity
) -> None:
    bought: list[tuple[Budget, NoiseKind]] = [
        (Budget.pure(amount), "laplace"),
        (Budget.zcdp(amount), "laplace"),
        (Budget.zcdp(amount), "gaussian"),
        (Budget.gaussian(amount), "laplace"),
        (Budget.gaussian(amount), "gaussian"),
    ]
    for budget, kind in bought:
        noise = noise_within(budget, sensitivity, kind)
        cost = noise.cost(sensitivity, budget.currency)
        assert cost is not None
        assert amount * (1 - Fraction(1, 10**12)) <= cost <= amount
        assert Fraction(float(noise.scale)) == noise.scale


def test_each_currency_has_its_own_kind_of_noise() -> None:
    assert isinstance(noise_within(Budget.pure(1), ONE), Laplace)
    assert isinstance(noise_within(Budget.zcdp(1), ONE), Gaussian)
    assert isinstance(noise_within(Budget.gaussian(1), ONE), RoundedGaussian)


def test_gaussian_noise_is_charged_only_where_it_has_a_price() -> None:
    with pytest.raises(OptionError, match="Gaussian"):
        noise_within(Budget.pure(1), ONE, "gaussian")
    two = Fraction(2)
    assert Gaussian(two).cost(ONE, Currency.PURE) is None
    # Discrete Gaussian noise is not Gaussian DP: the Gaussian curve is no bound for it.
    assert Gaussian(two).cost(ONE, Currency.GAUSSIAN) is None
    assert Gaussian(two).cost(ONE, Currency.ZCDP) == Fraction(1, 8)
    assert RoundedGaussian(two).cost(ONE, Currency.PURE) is None
    assert RoundedGaussian(two).cost(ONE, Currency.ZCDP) == Fraction(1, 8)
    assert RoundedGaussian(two).cost(ONE, Currency.GAUSSIAN) == Fraction(1, 4)


@given(st.fractions(Fraction(1, 10**6), 10**8))
def test_rounding_adds_less_than_a_fifth_of_a_percent_to_the_variance(amount: Fraction) -> None:
    noise = noise_within(Budget.gaussian(amount), ONE)
    assert isinstance(noise, RoundedGaussian)
    assert float(noise.scale) ** 2 <= noise.variance <= 1.002 * float(noise.scale) ** 2
    assert noise.bits == 0 or noise.scale * 2 ** (noise.bits - 1) < 8


def test_a_budget_too_small_for_any_noise_is_refused() -> None:
    for budget in (Budget.pure("1e-20"), Budget.zcdp("1e-40"), Budget.gaussian("1e-40")):
        for kind in KIND_OR_DEFAULT:
            with pytest.raises(OptionError, match="too small"):
                noise_within(budget, ONE, kind)


def test_an_answer_nobody_can_move_is_free_and_exact() -> None:
    nothing = Sensitivity(Fraction(0), Fraction(0))
    for budget in (Budget.pure(1), Budget.zcdp(1), Budget.gaussian(1)):
        noise = noise_within(budget, nothing)
        assert noise.cost(nothing, budget.currency) == 0
        assert noise.add(np.array([41, 42])).tolist() == [41, 42]
        assert noise.step == 1
        assert noise.variance == 0


@pytest.mark.parametrize("noise", KINDS)
def test_noise_is_refused_on_floats(noise: Noise) -> None:
    with pytest.raises(TypeError, match="int64"):
        noise.add(np.array([1.0]))


@pytest.mark.parametrize("noise", KINDS)
def test_noise_keeps_shape_and_stays_on_its_lattice(noise: Noise) -> None:
    for shape in [(), (0,), (3, 2), (200, 150)]:
        noisy = noise.add(np.full(shape, 10**12))
        assert noisy.shape == shape
        assert noisy.dtype == np.int64
        counts = noise.in_counts(noisy)
        assert (np.abs(counts - 10**12) < 10**4).all()
        assert (counts.dtype == np.int64) == (noise.step == 1)
        assert np.array_equal(counts / float(noise.step), noisy)


def test_answers_too_large_for_a_finer_lattice_are_cut_off_one_by_one() -> None:
    noise = RoundedGaussian(Fraction(1), 4)
    values = np.array([2**60, -(2**62), 5])
    assert noise.on_lattice(values).tolist() == [2**61, -(2**61), 80]
    assert noise.in_counts(noise.add(values))[2] == pytest.approx(5, abs=12)


@pytest.mark.parametrize("scale", [Fraction(1, 60), Fraction(1, 10**6), Fraction(1e-300)])
def test_hardly_any_noise_is_drawn_at_tiny_scales(scale: Fraction) -> None:
    for kind in (Laplace, Gaussian, RoundedGaussian):
        assert not kind(scale).add(np.zeros(20_000, dtype=np.int64)).any()
        assert kind(scale).variance < 1e-6


@pytest.mark.parametrize("noise", [*KINDS, Laplace(Fraction(20)), Gaussian(Fraction(40)), Gaussian(Fraction(9, 2))])
def test_probabilities_and_variance_are_those_of_the_definition(noise: Noise) -> None:
    reach = int(40 * noise.scale / noise.step) + 60 if noise.scale < 50 else 1000
    k = np.arange(-reach, reach + 1)
    law = defined_law(noise, reach)
    np.testing.assert_allclose(noise.probabilities(k), law, rtol=1e-9, atol=1e-25)
    assert noise.variance == pytest.approx((k**2 * law).sum() * float(noise.step) ** 2, rel=1e-9)


@given(st.floats(0.01, 3))
def test_the_variance_of_narrow_rounded_noise_is_that_of_its_probabilities(scale: float) -> None:
    noise = RoundedGaussian(Fraction(scale))
    k = np.arange(-60, 61)
    assert noise.variance == pytest.approx(float((k**2 * noise.probabilities(k)).sum()), rel=1e-9)


def test_workers_that_fork_never_share_noise() -> None:
    with multiprocessing.get_context("fork").Pool(8) as pool:
        drawn = pool.map(_draw, [50] * 16 + [20_000] * 16)
    assert len(set(drawn)) == 32


def _draw(size: int) -> bytes:
    return Gaussian(Fraction(100)).add(np.zeros(size, dtype=np.int64)).tobytes()


# OpenDP as the reference.


@given(st.integers(1, 1000), st.integers(1, 50))
def test_our_costs_are_those_of_opendp(scale: int, sensitivity: int) -> None:
    size = Sensitivity(Fraction(sensitivity), Fraction(sensitivity**2))
    laplace: Any = opendp_measurement("laplace", Fraction(scale))
    gaussian: Any = opendp_measurement("gaussian", Fraction(scale))
    epsilon, rho = (
        Laplace(Fraction(scale)).cost(size, Currency.PURE),
        Gaussian(Fraction(scale)).cost(size, Currency.ZCDP),
    )
    assert rho is not None
    assert float(epsilon) == pytest.approx(laplace.map(sensitivity))
    assert float(rho) == pytest.approx(gaussian.map(sensitivity))


@pytest.mark.statistical
@pytest.mark.parametrize(
    "noise", [Laplace(Fraction(1, 2)), Laplace(Fraction(7)), Gaussian(Fraction(0.7)), Gaussian(Fraction(3))]
)
def test_our_draws_and_those_of_opendp_have_one_law(noise: Noise) -> None:
    from scipy.stats import chi2

    # Each fails once in a million runs.
    law = Law.of(noise, 20_000)
    ours, theirs = (_tallied(source, noise, 20_000, law) for source in (OperatingSystem(), OpenDP()))
    for observed in (ours, theirs):
        assert law.p_value(observed) > 1e-6
    # And against each other: Σ(o − t)²/(o + t) over values that are drawn a hundred times or more is χ².
    edges = Law.of(noise, 200).edges
    ours, theirs = np.add.reduceat(ours, edges), np.add.reduceat(theirs, edges)
    assert chi2.sf(((ours - theirs) ** 2 / (ours + theirs)).sum(), len(edges) - 1) > 1e-6


def _tallied(source: Randomness, noise: Noise, size: int, law: Law) -> np.ndarray:
    draws = source.noisy(np.zeros(size, dtype=np.int64), noise)
    return np.bincount(np.clip(draws, -law.reach, law.reach) + law.reach, minlength=2 * law.reach + 1)


# The tests of samplers themselves.


@given(st.sampled_from([0.5, 0.7, 3.0, 10.0]), st.sampled_from([1e-3, 1e-2]))
def test_so_many_draws_as_are_worked_out_show_a_bias_at_any_value(scale: float, bias: float) -> None:
    from scipy.stats import binom

    noise = Gaussian(Fraction(scale))
    draws = Law.of(noise, 10**8).draws_to_find(bias)
    law = Law.of(noise, draws)
    limit = 1e-6 / (2 * len(law.cells))
    for p in law.cells:
        for biased in (p + bias, p - bias):
            if 0 <= biased <= 1:
                # Exactly: the counts that are refused, and how likely they are if the value is biased.
                low, high = binom.ppf(limit, draws, p) - 1, binom.isf(limit, draws, p) + 1
                assert binom.cdf(low, draws, biased) + binom.sf(high, draws, biased) >= 0.99


def test_the_draws_for_a_bias_of_a_thousandth_are_about_fifteen_million() -> None:
    assert Law.of(Gaussian(Fraction(0.7)), 10**8).draws_to_find(1e-3) == pytest.approx(1.45e7, rel=0.05)


@pytest.mark.statistical
def test_a_sampler_that_moves_a_hundredth_is_caught_and_a_right_one_is_not() -> None:
    noise = RoundedGaussian(Fraction(0.7))
    law = Law.of(noise, 400_000)
    draws = law.draws_to_find(1e-2, power=1 - 1e-6)
    assert draws < 400_000
    assert law.p_value(_tallied(Biased(1e-2), noise, draws, law)) < 1e-6
    assert law.p_value(_tallied(OperatingSystem(), noise, draws, law)) > 1e-6


def test_rounded_noise_is_within_the_gaussian_curve_where_discrete_noise_is_not() -> None:
    # The hockey-stick divergence of neighbours that differ by 1, by brute force, against that of the Gaussian.
    sigma, k = 2.0, np.arange(-200, 201)
    gaps = {}
    for noise in (Gaussian(Fraction(2)), RoundedGaussian(Fraction(2))):
        p, q = noise.probabilities(k), noise.probabilities(k - 1)
        ratios = []
        for epsilon in (0.5, 1.0, 2.0, 3.0):
            a, b = epsilon * sigma - 1 / (2 * sigma), epsilon * sigma + 1 / (2 * sigma)
            gaussian = float(upper_tail(Fraction(a), 30) - Decimal(math.exp(epsilon)) * upper_tail(Fraction(b), 30))
            ratios.append(float(np.maximum(q - math.exp(epsilon) * p, 0).sum()) / gaussian)
        gaps[noise.kind] = max(ratios)
    assert gaps["rounded-gaussian"] <= 1 + 1e-9
    assert gaps["gaussian"] > 1.01
