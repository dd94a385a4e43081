"""Draws and the decisions they are made of: exact at every scale and size, also where floats cannot tell."""

import itertools
import math
import random
from collections.abc import Callable
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from priory.audit.samplers import Law
from priory.errors import OptionError
from priory.privacy import drawing, uniforms
from priory.privacy.noise import Gaussian, Laplace, Noise, RoundedGaussian
from priory.privacy.normal import upper_tail
from priory.privacy.uniforms import Bits, Uniform

SCALES = [Fraction(1, 2), Fraction(0.7), Fraction(3), Fraction(57, 4), Fraction(100)]
TAILS: list[drawing._Tail] = [
    drawing._geometric(Fraction(1, 2)),
    drawing._geometric(Fraction(7)),
    drawing._half_normal(Fraction(0.7), Fraction(1, 2)),
    drawing._half_normal(Fraction(100), Fraction(1, 2)),
    drawing._half_normal(Fraction(2**20), Fraction(0)),
]
KINDS: dict[Callable[..., np.ndarray], type[Noise]] = {
    drawing.laplace: Laplace,
    drawing.gaussian: Gaussian,
    drawing.rounded_gaussian: RoundedGaussian,
}


def words_as_bits(words: list[int]) -> Bits:
    left = iter(words)
    return lambda n: b"".join(next(left).to_bytes(8, "little") for _ in range(n // 8))


def pseudo_bits(seed: int) -> Bits:
    return random.Random(seed).randbytes  # noqa: S311 - a test wants the same bits again


def constant_bits(n: int) -> bytes:
    return b"\x5a" * n


def tallied(draws: np.ndarray, law: Law) -> np.ndarray:
    return np.bincount(np.clip(draws, -law.reach, law.reach) + law.reach, minlength=2 * law.reach + 1)


# Normal tails.


@pytest.mark.parametrize(
    ("x", "expected"),
    [
        # Q(x) to 45 digits, worked out with mpmath 1.4 at 60 digits.
        ("0", "0.5"),
        ("1", "0.158655253931457051414767454367962077522087033"),
        ("3.9", "0.0000480963440176027171467075231275290282495707972"),
        ("4.1", "0.0000206575069125467387952544594698660555105161664"),
        ("40", "3.65589354091502970374898580268828366505394462e-350"),
    ],
)
def test_normal_tails_are_right_to_all_digits_asked_for(x: str, expected: str) -> None:
    with localcontext(prec=60):
        assert abs(upper_tail(Fraction(x), 40) / Decimal(expected) - 1) < Decimal("1e-40")


@given(st.fractions(0, 60), st.integers(5, 60))
def test_both_expansions_of_the_normal_tail_agree_with_twice_the_digits(x: Fraction, digits: int) -> None:
    with localcontext(prec=200):
        assert abs(upper_tail(x, digits) / upper_tail(x, 2 * digits + 10) - 1) < Decimal(10) ** -digits
        assert abs(upper_tail(x, digits) + upper_tail(-x, digits) - 1) < 2 * Decimal(10) ** -digits


# Uniform numbers whose digits come when they are needed.


@given(st.integers(0, 2**64 - 1), st.integers(0, 2**256 - 1))
def test_a_number_is_compared_as_if_all_its_digits_were_there(head: int, boundary: int) -> None:
    tail = pseudo_bits(boundary)(64)
    whole = head << 512 | int.from_bytes(b"".join(tail[i : i + 8][::-1] for i in range(0, 64, 8)), "big")
    number = Uniform(head, 64, pseudo_bits_of(tail))
    with localcontext(prec=400):
        limit = Decimal(boundary) / 2**256
        expected = Decimal(whole) / Decimal(2) ** 576 < limit
    assert number.is_below(lambda _: limit) == expected


def pseudo_bits_of(stream: bytes) -> Bits:
    left = iter(range(0, len(stream), 8))
    return lambda _: stream[(place := next(left)) : place + 8]


def test_a_coin_on_the_boundary_is_settled_by_further_bits() -> None:
    # exp(−1) in binary to 192 places; a draw just below it is true, just above is not.
    with localcontext(prec=80):
        boundary = int(Decimal(-1).exp() * 2**192)
    for step, expected in [(-(2**10), True), (2**10, False), (-(2**70), True), (2**70, False)]:
        drawn = boundary + step
        words = [drawn >> 128, (drawn >> 64) % 2**64, drawn % 2**64]
        coins = uniforms.coins(np.array([1.0]), lambda _: Fraction(1), words_as_bits(words))
        assert coins.tolist() == [expected]


@given(st.lists(st.fractions(0, 50), min_size=2, max_size=20), st.integers(0, 2**32))
def test_coins_fall_as_they_do_if_none_is_left_to_floats(exponents: list[Fraction], seed: int) -> None:
    first = pseudo_bits(seed)(8 * len(exponents))

    def bits(n: int) -> bytes:
        return first if n == len(first) else constant_bits(n)

    quick = uniforms.coins(np.array(exponents, dtype=float), lambda i: exponents[i], bits)
    numbers = [int.from_bytes(first[i : i + 8], "little") for i in range(0, len(first), 8)]
    slow = [
        exponent == 0 or Uniform(number, 64, bits).is_below(uniforms.exponential(exponent))
        for exponent, number in zip(exponents, numbers, strict=True)
    ]
    assert quick.tolist() == slow


def test_a_coin_that_must_fall_right_needs_no_further_bits() -> None:
    coins = uniforms.coins(np.array([0.0]), lambda _: Fraction(0), words_as_bits([2**64 - 1]))
    assert coins.tolist() == [True]


def test_uniform_numbers_reject_the_bits_that_would_favour_small_ones() -> None:
    # 2⁶⁴ is 1 more than a multiple of three, so that the word 0 would make 0 too likely.
    three = np.array([3])
    assert uniforms.below(three, words_as_bits([0, 5])).tolist() == [2]
    assert uniforms.below(three, words_as_bits([2**64 - 1])).tolist() == [(2**64 - 1) % 3]
    assert uniforms.below(np.array([2**62]), words_as_bits([2**64 - 1])).tolist() == [2**62 - 1]
    assert uniforms.below(np.array([1]), words_as_bits([0])).tolist() == [0]
    assert uniforms.below(np.array([3, 1, 3]), words_as_bits([0, 0, 4, 7])).tolist() == [1, 0, 1]


def test_a_number_at_the_end_of_an_interval_is_settled_by_further_bits() -> None:
    # Thirds: the first end begins with the word 0x5555…, and only the digits after it tell the side.
    third = 0x5555555555555555
    ends = [1, 2, 3]
    for further, expected in [(third - 1, 0), (third + 1, 1)]:
        assert uniforms.intervals(ends, 1, words_as_bits([third, further])).tolist() == [expected]
    assert uniforms.intervals(ends, 2, words_as_bits([0, 2**64 - 1, 0, 2**64 - 1])).tolist() == [0, 2]
    # An end that the first word says exactly; the empty interval between two equal ends is never met.
    assert uniforms.intervals([1, 1, 2], 3, words_as_bits([2**63 - 1, 2**63, 2**63 + 1, 0, 0])).tolist() == [0, 2, 2]


@given(st.lists(st.integers(0, 2**70), min_size=1, max_size=8), st.integers(0, 2**64 - 1))
def test_intervals_are_those_of_whole_numbers(sizes: list[int], word: int) -> None:
    ends = list(itertools.accumulate([1, *sizes]))
    [found] = uniforms.intervals(ends, 1, lambda _: word.to_bytes(8, "little"))
    whole = int.from_bytes(word.to_bytes(8, "big") * 40, "big")
    assert found == sum(whole * ends[-1] >= end << (64 * 40) for end in ends)


# Magnitudes.


@pytest.mark.parametrize("tail", TAILS)
@pytest.mark.parametrize("further", [1, 2, 3])
def test_a_draw_on_a_boundary_is_settled_by_further_bits(tail: drawing._Tail, further: int) -> None:
    places = drawing._PLACES + 64 * further
    for m in (1, 2, math.ceil(2 * tail.scale)):
        with localcontext(prec=120):
            boundary = int(tail.at(m)(100) * (1 << places))
        # Below P(M ≥ m) the magnitude is m, above it is m − 1.
        for step, expected in [(-9, m), (9, m - 1)]:
            number = boundary + step
            head, rest = number >> 64 * further, number % (1 << 64 * further)
            following = [(rest >> 64 * (further - 1 - i)) % 2**64 for i in range(further)]
            drawn = np.array([head << 1], dtype=np.uint64)
            assert drawing._magnitudes(tail, drawn, words_as_bits(following)).tolist() == [expected]


@pytest.mark.parametrize("tail", TAILS)
@given(words=st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=20))
@settings(deadline=None)
def test_floats_give_what_many_digits_give(tail: drawing._Tail, words: list[int]) -> None:
    fast = drawing._magnitudes(tail, np.array(words, dtype=np.uint64), constant_bits)
    slow = [drawing._settled(tail, Uniform(word >> 1, drawing._PLACES, constant_bits)) for word in words]
    assert fast.tolist() == slow


@pytest.mark.parametrize("tail", TAILS)
def test_magnitudes_that_a_word_cannot_tell_are_drawn_with_more(tail: drawing._Tail) -> None:
    first = drawing._magnitudes(tail, np.array([2**42], dtype=np.uint64), pseudo_bits(1))[0]
    deep = drawing._magnitudes(tail, np.array([0], dtype=np.uint64), words_as_bits([2**20, 7]))[0]
    deepest = drawing._magnitudes(tail, np.array([0], dtype=np.uint64), words_as_bits([0, 0, 2**20, 7]))[0]
    assert first < deep < deepest
    with localcontext(prec=50):
        assert tail.at(int(deep))(40) > Decimal(2) ** -(63 + 44)
        assert tail.at(int(deep) + 1)(40) <= Decimal(2**20 + 1) * Decimal(2) ** -(63 + 64)


# Laws.


@pytest.mark.statistical
@pytest.mark.parametrize(("draw", "kind"), KINDS.items())
@pytest.mark.parametrize("scale", SCALES)
def test_draws_follow_the_law(draw: Callable[..., np.ndarray], kind: type[Noise], scale: Fraction) -> None:
    # A right sampler fails once in a million runs.
    size = 300_000
    draws, law = draw(scale, size), Law.of(kind(scale), size)
    assert law.p_value(tallied(draws, law)) > 1e-6
    # And the test has power: 10 % less or 10 % more noise is rejected.
    for factor in (Fraction(9, 10), Fraction(11, 10)):
        other = Law.of(kind(scale * factor), size)
        assert other.p_value(tallied(draws, other)) < 1e-6


@pytest.mark.statistical
@pytest.mark.parametrize(("draw", "kind"), KINDS.items())
@pytest.mark.parametrize("largest", [8, 3, 1])
def test_draws_in_two_steps_follow_the_same_law(
    draw: Callable[..., np.ndarray], kind: type[Noise], largest: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drawing, "_LARGEST_DIRECT", largest)
    size, scale = 300_000, Fraction(57, 4)
    law = Law.of(kind(scale), size)
    assert law.p_value(tallied(draw(scale, size), law)) > 1e-6


@pytest.mark.statistical
@pytest.mark.parametrize(("draw", "kind"), KINDS.items())
@pytest.mark.parametrize(
    "scale", [Fraction(1, 1000), Fraction(0.03), Fraction(2**20), Fraction(3**30), Fraction(2**48)]
)
def test_extreme_scales_have_their_variance(
    draw: Callable[..., np.ndarray], kind: type[Noise], scale: Fraction
) -> None:
    # The relative error of a mean square of n Laplace draws is √(5/n): 5 of those are 0.025.
    draws = draw(scale, 200_000)
    expected = kind(scale).variance
    assert np.mean(np.square(draws, dtype=np.float64)) == pytest.approx(expected, rel=0.025, abs=1e-9)
    # And the lowest bit is a fair coin where the noise is wide.
    if scale > 1000:
        assert abs(np.mean(draws & 1) - 0.5) < 5 * 0.5 / math.sqrt(draws.size)


def test_a_place_in_a_stretch_is_settled_by_further_bits() -> None:
    # u = ½ + a little in stretch 3 of scale 2: the coin's boundary is exp(−(6u + u²)/8).
    place = Uniform(2**63, 64, words_as_bits([5, 5, 5]))
    with localcontext(prec=100):
        u = Decimal(2**63 * 2**64 + 5) / 2**128
        boundary = int((-(6 * u + u * u) / 8).exp() * 2**128)
    for step, expected in [(-(2**8), True), (2**8, False)]:
        number = boundary + step
        head = Uniform(number >> 64, 64, words_as_bits([number % 2**64, 0, 0]))
        place = Uniform(2**63, 64, words_as_bits([5, 5, 5]))
        assert drawing._is_below_density(Fraction(2), 3, place, head) == expected


@pytest.mark.statistical
@pytest.mark.parametrize(("draw", "kind"), KINDS.items())
def test_many_small_draws_follow_the_law_of_a_large_one(draw: Callable[..., np.ndarray], kind: type[Noise]) -> None:
    scale = Fraction(0.7)
    small = np.concatenate([draw(scale, size) for size in [0, 1, 2, 5] * 2_500])
    law = Law.of(kind(scale), small.size)
    assert small.size == 20_000
    assert law.p_value(tallied(small, law)) > 1e-6


@pytest.mark.parametrize("draw", KINDS)
@pytest.mark.parametrize("size", [0, 1, drawing._PIECE, drawing._PIECE + 1])
def test_as_many_are_drawn_as_were_asked_for(draw: Callable[..., np.ndarray], size: int) -> None:
    draws = draw(Fraction(3), size)
    assert draws.shape == (size,)
    assert draws.dtype == np.int64


# Floats.


def test_the_floats_of_this_machine_are_far_better_than_is_assumed() -> None:
    from scipy.special import ndtri

    grid = [2.0**-i * (1 - j / 50) for i in range(1, 64) for j in range(25)]
    for u in grid:
        z = Fraction(-float(ndtri(u)))
        # A sixty-fourth of the error that is allowed for.
        error = Fraction(2) ** -46 * (1 + abs(z))
        assert upper_tail(z + error, 25) < Decimal(u) < upper_tail(z - error, 25)
        with localcontext(prec=40):
            assert abs(Decimal(u).ln() - Decimal(float(np.log(u)))) < Decimal(2) ** -46 * (1 - Decimal(u).ln())


@pytest.mark.parametrize("wrong", ["log", "exp", "ndtri"])
def test_a_machine_whose_floats_are_wrong_sells_no_noise(wrong: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import scipy.special

    module = scipy.special if wrong == "ndtri" else np
    right = getattr(module, wrong)
    monkeypatch.setattr(module, wrong, lambda u: right(u) + 1e-10)
    with pytest.raises(OptionError, match="wrong"):
        drawing.check_floats.__wrapped__()
