import itertools
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import pytest

from priory import town
from priory.app.fit import fit
from priory.app.forecast import Planner, Rehearsal, forecast
from priory.app.forecast.clock import Clock, OutOfTime
from priory.app.forecast.reckoning import Reckoning
from priory.app.forecast.rehearsal import interpolated
from priory.app.forecast.stand_in import stand_in
from priory.app.forecast.tables import Played
from priory.app.forecast.trial import Trial, Trials, _options
from priory.app.registry import Registered, registered
from priory.data.kinds import Category
from priory.data.schema import Schema
from priory.errors import OptionError
from priory.measure import measure
from priory.privacy.budget import Budget
from priory.privacy.even_noise import even_stddev
from priory.privacy.measurement import Measurement
from priory.privacy.session import Session
from priory.queries.domain import Clique, Domain
from priory.queries.query import Query
from priory.release import Release

SMALL, MIDDLE, LARGE = (Budget.of(epsilon=epsilon, delta="1e-9") for epsilon in ("0.1", "1", "10"))


def schema_of(columns: int, size: int = 4) -> Schema:
    levels = [f"l{i}" for i in range(size)]
    return Schema.of([Category.of(f"c{i}", levels=levels, other="l0") for i in range(columns)], name="made up")


def test_a_clock_gives_the_seconds_it_was_made_with() -> None:
    time = iter((0.0, 0.0, 4.0, 5.0, 5.5, 6.5))
    clock = Clock.of(5, now=lambda: next(time))
    assert clock.left == 5
    assert clock.used == 4 / 5
    clock.check()
    clock.check(late=1)
    with pytest.raises(OutOfTime):
        clock.check(late=1)
    with pytest.raises(OutOfTime):
        Clock.of(5, is_stopped=lambda: True).check()


def test_a_stand_in_has_the_domain_and_depends() -> None:
    domain = Domain.of({"a": 3, "b": 1, "c": 200, "d": 7, "e": 7})
    codes = stand_in(domain, 5_000, np.random.default_rng(0))
    assert codes.shape == (5_000, 5)
    assert (codes >= 0).all()
    assert (codes.max(axis=0) < np.array(domain.shape)).all()
    assert (codes == stand_in(domain, 5_000, np.random.default_rng(0))).all()
    strengths = [
        _dependence(stand_in(Domain.of(dict.fromkeys("abcdefgh", 6)), 5_000, np.random.default_rng(i)))
        for i in range(3)
    ]
    # Typical tables have 0.02 to 0.13; with independent columns chance alone gives 0.02.
    assert 0.03 < np.mean(strengths) < 0.2


def _dependence(codes: np.ndarray) -> float:
    distances = []
    for i, j in itertools.combinations(range(codes.shape[1]), 2):
        shares = np.histogram2d(codes[:, i], codes[:, j], bins=(6, 6))[0] / len(codes)
        distances.append(0.5 * np.abs(shares - np.outer(shares.sum(1), shares.sum(0))).sum())
    return float(np.mean(distances))


def test_a_played_table_keeps_constraints_and_some_of_its_columns() -> None:
    schema = Schema.load(town.SCHEMA)
    played = Played.of(schema, 300_000, None, np.random.default_rng(0))
    assert (len(played.private), played.times) == (150_000, 2)
    for clique, mask in schema.impossible():
        [counts] = played.source.count([clique])
        assert not counts.values[mask].any()
    some = played.some(6)
    assert len(some.schema.domain) == 6
    [whole], [part] = (each.source.count([some.schema.domain.attributes[:2]]) for each in (played, some))
    assert (whole.values == part.values).all()


def test_public_rows_are_drawn_so_that_tables_differ_as_two_samples_do() -> None:
    schema, m, n = schema_of(1), 400, 200
    known = np.random.default_rng(0).integers(0, 4, (m, 1))
    shares = []
    for seed in range(400):
        played = Played.of(schema, n, known, np.random.default_rng(seed))
        assert played.public is known
        shares.append(np.mean(played.private == 0) - np.mean(known == 0))
    share = float(np.mean(known == 0))
    assert np.var(shares) == pytest.approx(share * (1 - share) * (1 / m + 1 / n), rel=0.3)


def test_a_stand_in_keeps_constraints_without_repeating_a_few_rows() -> None:
    schema = Schema.load(town.SCHEMA)
    impossible = list(schema.impossible())
    for seed in range(4):
        free, kept = (
            stand_in(schema.domain, 5_000, np.random.default_rng(seed), impossible=each) for each in ([], impossible)
        )
        allowed = [
            ~np.any(
                [mask[tuple(codes[:, schema.domain.axis[name]] for name in clique)] for clique, mask in impossible], 0
            )
            for codes in (free, kept)
        ]
        assert allowed[0].mean() < 0.3
        assert allowed[1].mean() > 0.85
        assert len(np.unique(kept[allowed[1]], axis=0)) > 3 * len(np.unique(free[allowed[0]], axis=0))


def trial(size: int, seconds: float, error: float = 0.1) -> Trial:
    errors: Mapping[Clique, float] = {("a",): error / 2, ("a", "b"): error}
    return Trial(size, seconds, 1_000 * size, errors)


def test_times_and_errors_go_on_as_they_grew() -> None:
    one = Reckoning(MIDDLE, 40).with_trial(trial(10, 1.0))
    assert one.rehearsal().seconds == pytest.approx(4**1.3)
    assert one.rehearsal().time_off is None
    two = one.with_trial(trial(20, 3.0, 0.09))
    power = np.log2(3.0)
    assert two.rehearsal().seconds == pytest.approx(3 * 2**power)
    assert two.rehearsal().mean == pytest.approx(0.09 * 0.9)
    assert two.rehearsal().time_off == pytest.approx(2**1.3 / 3)
    assert two.rehearsal().error_off == pytest.approx(0.1 / 0.09)
    # Errors that grew with some of the columns are not taken to grow on.
    assert one.with_trial(trial(20, 3.0, 0.2)).rehearsal().mean == pytest.approx(0.2)
    # A fit of all columns that was stopped says how long it is, and nothing of errors.
    stopped = two.with_trial(Trial(40, 7.0, 0, {}))
    assert stopped.rehearsal().seconds == 7
    assert stopped.rehearsal().mean == pytest.approx(0.09 * 0.9)
    whole = two.with_trial(trial(40, 8.0, 0.2)).with_trial(trial(40, 10.0, 0.3))
    assert whole.rehearsal().seconds == 9
    assert whole.rehearsal().mean == pytest.approx(0.25)


def rehearsal(budget: Budget, seconds: float, error: float) -> Rehearsal:
    return Rehearsal(budget, seconds, 1_000, {"a": error}, {("a", "b"): error}, 5, 5)


def test_budgets_in_between_are_interpolated() -> None:
    known = [rehearsal(SMALL, 1.0, 0.4), rehearsal(LARGE, 9.0, 0.1)]
    found = interpolated(MIDDLE, known)
    assert found is not None
    assert found.is_interpolated
    assert 1 < found.seconds < 9
    assert 0.1 < found.mean < 0.4
    same = interpolated(LARGE, known)
    assert same is not None
    assert same.mean == pytest.approx(0.1)
    assert interpolated(MIDDLE, known[:1]) is None
    assert interpolated(Budget.of(rho=1), known) is None


def test_forecasts_come_for_each_budget_and_end_with_final_ones() -> None:
    planner = Planner.of(schema_of(10), 2_000, mechanism="independent")
    found = list(planner.forecasts([SMALL, LARGE], runs=2))
    assert [each.rehearsed for each in found] == [5, 5, 10, 10, 10, 10, 10, 10]
    assert [each.budget for each in found if each.is_final] == [SMALL, LARGE]
    assert found[-1].mean < found[-2].mean
    # What was rehearsed is not rehearsed again, and budgets in between need no work.
    again = list(planner.forecasts([SMALL, LARGE], runs=2))
    assert [each.is_final for each in again] == [False, False, True, True]
    between = planner.at(MIDDLE)
    assert between is not None
    assert found[-1].mean <= between.mean <= found[-2].mean
    assert next(iter(planner.forecasts([MIDDLE]))).is_interpolated
    assert set(found[-1].to_dict()) >= {"budget", "cpu_seconds", "mean_error", "pairs", "is_final", "time_off"}


@dataclass(frozen=True, eq=False)
class Slow:
    """A mechanism whose rounds take as long as a clock says they do."""

    clock: "Hands"
    asked: list[int]

    def run(self, session: Session, budget: Budget) -> Release:
        domain = session.domain
        measured: tuple[Measurement, ...] = ()
        self.asked.append(len(domain))
        for number in range(ROUNDS):
            session.report_progress(number + 1)
            # Later rounds take longer, as those of AIM do.
            self.clock.seconds += slowness(len(domain)) * (2 * number + 1) / ROUNDS**2
            queries = [Query.marginal(domain, (name,)) for name in domain]
            measured = (*measured, *measure(session, queries, budget.part(Fraction(1, ROUNDS))))
        return Release(domain, measured, session.statement("slow"))


class Hands:
    """A clock that stands still unless somebody moves it."""

    seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


ROUNDS = 20


def slowness(columns: int) -> float:
    return float(0.1 * columns**1.5)


def slow_planner(columns: int) -> tuple[Planner, Hands, list[int]]:
    clock, asked = Hands(), list[int]()
    entry = Registered("slow", "", lambda _: Slow(clock, asked))
    usual = Planner.of(schema_of(columns, 2), 50, mechanism="independent")
    return replace(usual, trials=Trials(entry, "normal", columns, now=clock)), clock, asked


def test_rehearsals_keep_their_bound_and_a_stopped_one_says_how_long_all_of_it_is() -> None:
    planner, clock, asked = slow_planner(40)
    [*_, last] = planner.forecasts([MIDDLE], seconds=30)
    assert asked == [5, 10, 20, 40]
    assert clock.seconds <= 30 + 2 * slowness(40) / ROUNDS
    assert (last.rehearsed, last.of, last.is_final) == (20, 40, True)
    assert last.seconds == pytest.approx(slowness(40), rel=0.25)
    assert last.time_off == pytest.approx(1, rel=0.1)
    # With twice the time nothing is stopped, and what is left goes into other tables.
    planner, clock, asked = slow_planner(40)
    [*_, last] = planner.forecasts([MIDDLE], seconds=70)
    assert asked == [5, 10, 20, 40, 40]
    assert last.seconds == pytest.approx(slowness(40), rel=1e-6)


def test_every_budget_is_rehearsed_even_where_there_is_little_time() -> None:
    planner, _, asked = slow_planner(40)
    found = list(planner.forecasts([SMALL, MIDDLE, LARGE], seconds=2))
    assert [each.budget for each in found if each.is_final] == [SMALL, MIDDLE, LARGE]
    assert asked == [5, 5, 5]


@pytest.mark.parametrize("terms", [{"rho": "0.01"}, {"epsilon": "1", "delta": "1e-9"}, {"epsilon": "1"}])
def test_k_rows_of_a_person_need_k_times_the_noise(terms: dict[str, str]) -> None:
    one, three = (Budget.of(**terms, max_rows=rows) for rows in (1, 3))
    asked = _options(three, 1.0)
    scaled = Budget.of(**asked)
    # Discrete noise is a little less than continuous noise, the more so the smaller it is.
    assert even_stddev(scaled, 5) == pytest.approx(3 * even_stddev(one, 5), rel=0.01)
    assert even_stddev(three, 5) == pytest.approx(3 * even_stddev(one, 5), rel=0.01)


def test_nothing_at_all_is_refused() -> None:
    with pytest.raises(OptionError):
        Planner.of(schema_of(2), 0)
    planner = Planner.of(schema_of(2), 10, mechanism="independent")
    with pytest.raises(OptionError):
        list(planner.forecasts([]))
    with pytest.raises(OptionError):
        list(planner.forecasts([MIDDLE], runs=0))
    with pytest.raises(OptionError):
        planner.at(replace(Budget.gaussian(1)))


def test_whoever_has_moved_on_is_told_nothing_more() -> None:
    planner = Planner.of(schema_of(12), 100, mechanism="independent")
    wanted = iter((False, True))
    found = list(planner.forecasts([MIDDLE], is_stopped=lambda: next(wanted, True)))
    assert len(found) <= 1
    assert not any(each.is_final for each in found)


def test_a_forecast_says_what_it_is_made_of() -> None:
    told = str(forecast(schema_of(12), 500, [MIDDLE], mechanism="independent", runs=1))
    assert "independent on 500 rows" in told
    assert "typical dependences" in told
    assert "of the largest rehearsal" in told
    assert "Forecasts for independent like this one were not compared" in told


def test_rehearsals_of_some_columns_have_the_noise_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Release] = []

    def fitted(*arguments: object, **options: object) -> Release:
        made.append(fit(*arguments, **options))  # type: ignore[arg-type]
        return made[-1]

    monkeypatch.setattr("priory.app.forecast.trial.fit", fitted)
    schema, rows = schema_of(30, 2), np.random.default_rng(0).integers(0, 2, (500, 30))
    played = Played.of(schema, 500, rows, np.random.default_rng(1))
    for size in (15, 30):
        trials = Trials(registered("independent"), "normal", 30)
        trials.run(played.some(size), size, MIDDLE, lambda: None)
    noise = [next(m.stddev for m in release.measurements if len(m.query.clique) == 1) for release in made]
    assert noise[0] == pytest.approx(noise[1], rel=0.05)
