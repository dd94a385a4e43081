from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from priory.model.herding import MOST_VALUES, Herd
from priory.model.sampling import Chance, Codes, drawn_alike
from priory.queries.parts import Numbers

SHAPE = (2, 3, 5, 12)


def rows(n: int, seed: int) -> Codes:
    """Rows whose attributes lean on each other."""
    rng = np.random.default_rng(seed)
    first = rng.random(n)
    return np.stack([(size * (first + rng.random(n)) / 2).astype(np.int32) for size in SHAPE], axis=1)


def distance(found: Codes, codes: Codes, weights: Numbers) -> float:
    """The mean L1 distance of pairs."""
    gaps = []
    for a, b in combinations(range(len(SHAPE)), 2):
        size = SHAPE[a] * SHAPE[b]
        one = np.bincount(found[:, a] * SHAPE[b] + found[:, b], minlength=size) / len(found)
        two = np.bincount(codes[:, a] * SHAPE[b] + codes[:, b], weights=weights, minlength=size)
        gaps.append(np.abs(one - two).sum())
    return float(np.mean(gaps))


@settings(max_examples=20)
@given(st.integers(0, 99), st.lists(st.integers(0, 400), min_size=1, max_size=4), st.integers(1, 30))
def test_every_group_gets_its_rows_and_no_row_without_weight(seed: int, counts: list[int], n: int) -> None:
    codes = rows(n, seed)
    weights = np.random.default_rng(seed).random(n) * (np.arange(n) % 3 != 1)
    herd = Herd.of(codes, SHAPE)
    found = list(herd.drawn(weights / weights.sum(), counts, Chance.of(seed, "rounding")))
    assert [len(places) for places in found] == counts
    assert (weights[np.concatenate(found)] > 0).all()


@pytest.mark.parametrize("seed", range(3))
def test_picked_rows_miss_pairs_by_half_of_what_drawn_ones_do(seed: int) -> None:
    codes = rows(5_000, seed)
    weights = np.random.default_rng(seed).random(5_000)
    weights /= weights.sum()
    chance = Chance.of(seed, "rounding")
    picked = next(Herd.of(codes, SHAPE).drawn(weights, [100], chance))
    at_random = drawn_alike(weights, 100, chance)
    assert distance(codes[picked], codes, weights) < 0.5 * distance(codes[at_random], codes, weights)


def test_values_too_rare_for_any_group_occur_in_all_of_them_together() -> None:
    # One row in two hundred: a group of fifty should have a quarter of one, and two hundred groups 50.
    codes = rows(2_000, 0)
    codes[:, 3] = np.arange(2_000) % 200 == 0
    herd = Herd.of(codes, SHAPE)
    found = np.concatenate(list(herd.drawn(np.full(2_000, 1 / 2_000), [50] * 200, Chance.of(0, "rounding"))))
    assert codes[found, 3].sum() == pytest.approx(50, abs=7)


def test_neighbouring_values_are_merged_where_there_are_too_many() -> None:
    shape = (5_000, 2, 900)
    codes = np.stack([np.arange(100) * 50, np.arange(100) % 2, np.arange(100) * 9], axis=1).astype(np.int32)
    herd = Herd.of(codes, shape)
    assert herd.size <= MOST_VALUES
    assert (np.diff(herd.values[:, 0]) >= 0).all()
    assert herd.values.max() < herd.size
