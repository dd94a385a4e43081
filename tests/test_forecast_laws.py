import pytest
from hypothesis import given
from hypothesis import strategies as st

from priory.app.forecast import Forecast, Planner, forecast
from priory.app.forecast.approach import Approach, does_the_work
from priory.app.forecast.law import LAWS, Accuracy, Facts
from priory.app.forecast.reckoning import Reckoning
from priory.app.forecast.trial import Trial, Trials
from priory.app.registry import registered
from priory.data.schema import Schema
from priory.mechanisms.weighing import Weighing
from priory.privacy.budget import Budget
from priory.privacy.even_noise import even_stddev
from priory.queries.domain import Domain

SMALL, MIDDLE, LARGE = (Budget.of(epsilon=epsilon, delta="1e-9") for epsilon in ("0.1", "1", "10"))
SCHEMA = Schema.coded({"a": 3, "b": 4, "c": 2, "d": 3})
WEIGHING = LAWS["weighing"]

domains = st.lists(st.integers(1, 200), min_size=1, max_size=30).map(
    lambda sizes: Domain.of({f"c{i}": size for i, size in enumerate(sizes)})
)


@given(domains, st.integers(1, 10**7), st.sampled_from(sorted(LAWS)))
def test_errors_are_shares_and_fall_with_records_and_with_the_budget(domain: Domain, rows: int, name: str) -> None:
    errors = [LAWS[name].error(Facts.of(domain, rows, budget)) for budget in (SMALL, MIDDLE, LARGE)]
    assert 0 < errors[2] < errors[1] < errors[0] < 1
    assert LAWS[name].error(Facts.of(domain, 2 * rows, MIDDLE)) < errors[1]


def test_the_noise_of_pairs_is_that_of_pairs_which_share_the_budget() -> None:
    domain = Domain.of(dict.fromkeys("abcdefg", 4))
    assert Facts.of(domain, 1_000, MIDDLE).stddev == pytest.approx(even_stddev(MIDDLE, 21), rel=1e-3)


@given(domains, st.integers(1, 10**7))
def test_errors_are_less_than_the_noise_of_all_pairs(domain: Domain, rows: int) -> None:
    facts = Facts.of(domain, rows, MIDDLE)
    assert WEIGHING.error(facts) < facts.noise * sum(facts.cells) / len(facts.cells)


def by_rows(*trials: Trial, is_by_law: bool = True) -> Reckoning:
    approach = Approach.of(Trials(registered("weighing"), "normal", 4), SCHEMA.domain, 50_000, is_custom=False)
    facts = approach.facts(SCHEMA.domain, 50_000, MIDDLE)
    assert sorted(facts) == list(approach.sizes) == [400, 2_000, 10_000, 50_000]
    return Reckoning(MIDDLE, 4, 50_000, approach.laws, facts, is_by_law, trials)


def trial(size: int, seconds: float, error: float) -> Trial:
    return Trial(size, seconds, 1_000, {("a",): error / 2, ("a", "b"): error, ("a", "c"): 2 * error})


def test_a_law_says_how_large_errors_are_and_trials_say_where() -> None:
    found = by_rows(trial(2_000, 1.0, 0.03)).rehearsal()
    law = WEIGHING.error(Facts.of(SCHEMA.domain, 50_000, MIDDLE))
    assert found.mean == pytest.approx(law)
    assert found.pairs["a", "c"] == pytest.approx(2 * found.pairs["a", "b"])
    assert (found.rehearsed_rows, found.of_rows) == (2_000, 50_000)
    assert found.error_off == pytest.approx(WEIGHING.error(Facts.of(SCHEMA.domain, 2_000, MIDDLE)) / 0.045)
    # Of public rows, trials say how large errors are, and the law how they fall.
    public = by_rows(trial(2_000, 1.0, 0.03), is_by_law=False)
    assert public.rehearsal().mean == pytest.approx(0.045 * law / by_rows().mean(2_000))
    assert by_rows(trial(50_000, 1.0, 0.03), is_by_law=False).rehearsal().mean == pytest.approx(0.045)


def test_times_grow_with_rows_as_the_law_says_at_the_pace_of_this_machine() -> None:
    once, twice = (by_rows(trial(2_000, 1.0 * slow, 0.03)) for slow in (1, 2))
    assert once.seconds(50_000) > once.seconds(10_000) > once.seconds(2_000) == pytest.approx(1.0)
    assert twice.rehearsal().seconds == pytest.approx(2 * once.rehearsal().seconds)
    # The largest trials say what the pace is.
    assert by_rows(trial(400, 9.0, 0.1), trial(2_000, 1.0, 0.03)).seconds(2_000) == pytest.approx(1.0)


def test_a_budget_without_time_for_its_own_rehearsal_follows_another() -> None:
    planner = Planner.of(SCHEMA, 50_000)
    found = [each for each in planner.forecasts([SMALL, MIDDLE, LARGE], seconds=0) if each.is_final]
    assert [each.budget for each in found] == [SMALL, MIDDLE, LARGE]
    assert [each.is_interpolated for each in found] == [False, True, True]
    assert [each.mean for each in found] == sorted((each.mean for each in found), reverse=True)
    assert str(Forecast.of(planner, found)).count("reckoned from rehearsals with other budgets") == 2
    for each in found:
        assert each.mean == pytest.approx(WEIGHING.error(Facts.of(SCHEMA.domain, 50_000, each.budget)), rel=0.05)
    rehearsed = list(planner.forecasts([LARGE], seconds=60))
    assert rehearsed[0].is_interpolated
    assert (rehearsed[-1].is_interpolated, rehearsed[-1].rehearsed_rows) == (False, 50_000)


def test_what_weighing_leaves_to_aim_is_rehearsed_as_such() -> None:
    weighing, aim = registered("weighing"), registered("aim")
    many = Domain.of({f"c{i}": 2 for i in range(60)})
    assert does_the_work(weighing, SCHEMA.domain, MIDDLE) is weighing
    assert does_the_work(weighing, SCHEMA.domain, Budget.of(epsilon=1)) is aim
    assert does_the_work(weighing, many, MIDDLE) is aim
    assert does_the_work(aim, many, MIDDLE) is aim
    told = str(forecast(SCHEMA, 500, [Budget.of(epsilon=1)], runs=1))
    assert "weighing on 500 rows" in told
    # No law was fitted to pure budgets.
    assert "Forecasts for aim like this one were not compared" in told


def test_places_are_rows_times_marginals() -> None:
    domain = Domain.of({f"c{i}": 8 for i in range(8)})
    pairs, triples = (Weighing().places(domain, budget, 25_000) for budget in (SMALL, LARGE))
    assert triples == 2 * pairs == 56 * 400_000
    # Of a small table every cell is a row, and where no pair is asked about none are weighed.
    assert Weighing().places(SCHEMA.domain, LARGE, 2_000) == 4 * SCHEMA.domain.size
    assert Weighing().places(SCHEMA.domain, SMALL, 10) == 1


def test_a_forecast_says_how_near_such_forecasts_were() -> None:
    told = str(forecast(SCHEMA, 500, [MIDDLE], runs=1))
    assert str(WEIGHING.accuracy) in told
    told = str(Accuracy(20, 15, 18))
    assert told.startswith("In 20 fits of other tables errors were within a factor of 1.3 of the forecast in 15, times")
    assert told.endswith("within a factor of 2 in 18.")
    for laws in LAWS.values():
        assert 0 < laws.accuracy.near_errors <= laws.accuracy.fits
        assert 0 < laws.accuracy.near_times <= laws.accuracy.fits
