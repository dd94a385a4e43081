from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from priory.mechanisms.ide.budget_plan import BudgetPlan, CandidateMarginals, budget_plan
from priory.mechanisms.ide.groups import expected_counts, likely_counts
from priory.mechanisms.ide.hierarchy import Level, levels
from priory.model.bases import PublicRows
from priory.privacy.budget import Budget
from priory.privacy.measurement import Measurement
from priory.privacy.noise import Laplace
from priory.queries.domain import Domain
from priory.queries.query import Query

DOMAIN = Domain.of({"area": 50, "year": 3, "sex": 2, "age": 10})
SINGLES = CandidateMarginals((("sex",), ("age",)), 0.5)
PAIR = CandidateMarginals((("sex", "age"),), 0.0)
HIERARCHY = levels(DOMAIN, [(), ("area",)], None, [(), ()])


def noisy(counts: np.ndarray, scale: int, seed: int) -> Measurement:
    noise = np.rint(np.random.default_rng(seed).laplace(0, scale, counts.shape)).astype(np.int64)
    laplace = Laplace(Fraction(scale))
    return Measurement(Query.marginal(DOMAIN, ("area",)), counts + noise, laplace.stddev, laplace)


@given(st.integers(0, 99))
def test_likely_counts_are_nearer_than_noisy_ones_and_never_negative(seed: int) -> None:
    counts = np.random.default_rng(seed).gamma(10, 20, 50).astype(np.int64)
    measured = noisy(counts, 150, seed)
    found = likely_counts(HIERARCHY[1], measured, np.full(50, 1 / 50))
    assert (found >= 0).all()
    assert np.square(found - counts).sum() < np.square(measured.values - counts).sum()


def test_counts_with_little_noise_are_left_as_they_are() -> None:
    counts = np.random.default_rng(0).gamma(10, 2_000, 50).astype(np.int64)
    measured = noisy(counts, 2, 0)
    np.testing.assert_allclose(likely_counts(HIERARCHY[1], measured, np.full(50, 1 / 50)), measured.values, atol=1)


def test_public_counts_of_the_same_groups_help_and_wrong_ones_do_not_hurt() -> None:
    counts = np.random.default_rng(1).gamma(2, 200, 50).astype(np.int64) + 1
    measured = noisy(counts, 300, 1)
    apart = [
        float(np.square(likely_counts(HIERARCHY[1], measured, parts / parts.sum()) - counts).sum())
        for parts in (counts.astype(float), np.ones(50), np.roll(counts, 7).astype(float))
    ]
    assert apart[0] < 0.1 * apart[1]
    assert apart[2] == pytest.approx(apart[1])


def test_values_that_public_rows_lack_are_taken_for_average_ones() -> None:
    public = PublicRows([[0, 0, 0, 0]] * 3 + [[1, 0, 0, 0]], DOMAIN)
    level = Level(("area", "year"), (), (0,) * 3, ((0, 2), (1, 2), (2, 2)))
    np.testing.assert_allclose(expected_counts(public, level), np.array([3, 1, 2]) / 6)


def shared(budget: Budget, total: float) -> BudgetPlan:
    return budget_plan(budget, DOMAIN, HIERARCHY, [[None, SINGLES, PAIR]] * 2, total)


@given(st.integers(-3, 4), st.integers(0, 7), st.booleans())
def test_the_whole_budget_is_shared_out(power: int, size: int, pure: bool) -> None:  # noqa: FBT001 - drawn
    budget = (Budget.pure if pure else Budget.zcdp)(Fraction(10) ** power)
    found = shared(budget, 10.0**size)
    assert found.counting.amount + sum(share.amount for share in found.shares if share) == budget.amount
    assert [bool(cliques) for cliques in found.workloads] == [share is not None for share in found.shares]


def test_what_can_tell_nothing_gets_nothing_and_what_can_tell_all_is_told() -> None:
    poor, middling, rich = (shared(Budget.pure(epsilon), 2_000) for epsilon in ("1/1000", "1/2", 10**4))
    assert (poor.counts_groups, poor.workloads) == (False, ((), ()))
    assert middling.counts_groups
    assert middling.workloads[1] == ()
    assert rich.workloads == (PAIR.cliques, PAIR.cliques)


def test_workloads_that_are_given_are_told_whatever_they_promise() -> None:
    found = budget_plan(Budget.pure("1/1000"), DOMAIN, HIERARCHY, [[None], [PAIR]], 1_000.0)
    assert found.workloads == ((), PAIR.cliques)
    assert found.shares[0] is None
    assert found.shares[1] is not None
