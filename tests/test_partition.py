"""Partition selection: the threshold keeps its promise exactly, and pays what it says."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from houses import curated
from priory.data.probes import Spellings
from priory.data.sources.raw import Probed, Values, open_raw
from priory.errors import BudgetError, OptionError
from priory.privacy.budget import Budget
from priory.privacy.curator import Curator
from priory.privacy.ledger import Ledger
from priory.privacy.noise import Gaussian, Laplace, Noise, RoundedGaussian
from priory.privacy.partition import kept_values, persons_sensitivity, threshold_within
from priory.privacy.randomness import Replay
from priory.queries.sensitivity import Relation

scales = st.floats(0.3, 60.0).map(Fraction)
noises = st.one_of(st.builds(Gaussian, scales), st.builds(RoundedGaussian, scales, st.integers(0, 4)))


def reached(noise: Noise, threshold: int) -> float:
    """P(1 + noise ≥ threshold), summed from the exact probabilities."""
    least = threshold - round(1 / noise.step)
    steps = math.ceil(40 * float(noise.scale / noise.step))
    return float(np.sort(noise.probabilities(np.arange(least, least + steps + 40))).sum())


@given(noises, st.floats(1e-12, 0.2).map(Fraction))
def test_a_value_of_one_person_is_told_as_rarely_as_was_paid_for(noise: Noise, chance: Fraction) -> None:
    threshold = threshold_within(noise, chance)
    assert reached(noise, threshold) <= float(chance) * (1 + 1e-9)
    # And no lower threshold by two counts would do: it is not far too high.
    if threshold > 3 * round(1 / noise.step):
        assert reached(noise, threshold - 2 * round(1 / noise.step)) > float(chance)


def test_laplace_noise_and_pure_budgets_cannot_pay_for_a_threshold() -> None:
    with pytest.raises(OptionError, match="delta"):
        threshold_within(Laplace(Fraction(1)), Fraction(1, 10**9))
    for chance in (Fraction(0), Fraction(1), Fraction(1, 10**400)):
        with pytest.raises(OptionError):
            threshold_within(Gaussian(Fraction(1)), chance)


@given(st.sampled_from(Relation), st.integers(1, 4), st.data())
def test_one_person_moves_numbers_of_persons_by_no_more_than_the_sensitivity(
    relation: Relation, max_rows: int, data: st.DataObject
) -> None:
    values = st.sets(st.integers(0, 6), max_size=max_rows)
    joins = np.bincount(list(data.draw(values)), minlength=7)
    leaves = np.bincount(list(data.draw(values)), minlength=7) if relation is Relation.REPLACE_ONE else np.zeros(7)
    size = persons_sensitivity(relation, max_rows)
    assert np.abs(joins - leaves).sum() <= size.l1
    assert ((joins - leaves) ** 2).sum() <= size.l2_squared


def test_a_million_values_of_one_person_each_take_little_memory() -> None:
    def chunks() -> object:
        for start in range(0, 10**6, 2**16):
            yield Values([f"v{i}" for i in range(start, start + 2**16)], np.ones(2**16, dtype=np.int64))

    noise = RoundedGaussian(Fraction(10), 0)
    threshold = threshold_within(noise, Fraction(1, 10**12))
    assert kept_values(lambda counts, each: each.add(counts), chunks(), noise, threshold) == {}  # type: ignore[arg-type]


TABLE = {"a": ["common"] * 500 + ["rare"], "b": [str(i % 3) for i in range(501)]}


def budget(additive: str = "1e-9") -> Budget:
    return Budget.approximate(3, "1e-8", additive=additive)


def raw_curator(total: Budget, randomness: Replay | None = None) -> Curator:
    source = Probed(open_raw(TABLE, list(TABLE), None), dict.fromkeys(TABLE, Spellings()))
    reservation = Ledger.in_memory(total).reserve(total, "test")
    reservation.__enter__()
    return Curator(reservation, source, randomness=randomness)


def test_values_of_many_persons_are_told_and_of_one_are_not() -> None:
    curator = raw_curator(budget())
    share = curator.budget.part("1/2")
    found = curator.values("a", "text", share, Fraction(1, 2 * 10**9))
    assert list(found.persons) == ["common"]
    assert abs(found.persons["common"] - 500) < 12 * found.noise.stddev
    numbers = curator.values("b", "number", share, Fraction(1, 2 * 10**9))
    assert list(numbers.persons) == [0.0, 1.0, 2.0]
    assert curator.left == 0
    assert curator.reservation.spent_additive == Fraction(1, 10**9)
    assert [event.additive for event in curator.reservation.events] == [Fraction(1, 2 * 10**9)] * 2


def test_more_than_was_set_aside_is_refused_before_any_look() -> None:
    randomness = Replay()
    curator = raw_curator(budget("1e-10"), randomness)
    with pytest.raises(BudgetError, match="δ′"):
        curator.values("a", "text", curator.budget.part("1/2"), Fraction(1, 10**9))
    with pytest.raises(OptionError):
        curator.values("no such", "text", curator.budget.part("1/2"), Fraction(1, 10**10))
    assert not randomness.asked_values
    assert not curator.reservation.events


def test_values_are_selected_of_raw_tables_alone() -> None:
    with curated(Budget.zcdp(1)) as curator, pytest.raises(OptionError, match="raw"):
        curator.values("age", "text", curator.budget, Fraction(1, 10**9))
