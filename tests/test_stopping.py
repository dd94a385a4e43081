"""Stopping: the estimated error is the true one, and the prior is left only for good reason."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
from experiments.refitting import refitted
from hypothesis import given
from hypothesis import strategies as st

from priory.errors import PrioryError
from priory.estimate.dual import Dual, interpolated
from priory.estimate.estimator import estimate
from priory.estimate.evidence import Evidence, Implied
from priory.estimate.papers.dual_averaging import DualAveraging
from priory.estimate.papers.mirror_descent import MirrorDescent
from priory.estimate.papers.raking import Raking
from priory.estimate.path import levels, share_to_go
from priory.estimate.problem import State
from priory.estimate.risk import CoupledState
from priory.model.bases import Product, PublicRows
from priory.model.diagnostics import Diagnostics
from priory.model.model import Model
from priory.privacy.measurement import Measurement
from priory.privacy.noise import Laplace
from priory.queries.domain import Domain
from priory.queries.query import Query
from problems import DOMAIN, LOOP, Small, small

WIDE = Domain.of({"x": 30, "y": 40, "z": 3})


def diagnostics(model: Model) -> Diagnostics:
    assert model.diagnostics is not None
    return model.diagnostics


def wide(
    seed: int, stddev: float, *, noise: str = "gaussian", records: int = 20_000
) -> tuple[np.ndarray, list[Measurement]]:
    """A table with structure in its pair, measured with so much noise that most cells are mostly noise."""
    rng = np.random.default_rng(0)
    shares = np.outer(rng.dirichlet(np.ones(30)), rng.dirichlet(np.ones(40))) * np.exp(rng.normal(0, 1, (30, 40)))
    table = records * (shares / shares.sum())[:, :, None] * np.array([0.5, 0.3, 0.2])
    chance = np.random.default_rng(seed + 1)
    measurements = []
    for clique, counts in (
        (("x",), table.sum((1, 2))),
        (("y",), table.sum((0, 2))),
        (("x", "y"), table.sum(2)),
        (("z",), table.sum((0, 1))),
    ):
        if noise == "laplace":
            added = chance.laplace(0, stddev / 2**0.5, counts.shape)
            kind = Laplace(Fraction(stddev / 2**0.5))
        else:
            added, kind = chance.normal(0, stddev, counts.shape), None
        measurements.append(Measurement.of(Query.marginal(WIDE, clique), counts + added, stddev, kind))
    return table, measurements


def squared_error(model: Model, table: np.ndarray, measurements: list[Measurement]) -> float:
    """The mean over answers of ((Qμ − truth)/σ)²."""
    gaps = []
    for m in measurements:
        gone = tuple(i for i, name in enumerate(WIDE) if name not in m.query.clique)
        gaps.append(np.ravel((model.answer(m.query) - table.sum(axis=gone)) / m.stddev))
    return float(np.mean(np.concatenate(gaps) ** 2))


@pytest.mark.statistical
@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
def test_the_estimated_error_is_the_true_one(noise: str) -> None:
    estimated, true = [], []
    for seed in range(12):
        table, measurements = wide(seed, 20.0, noise=noise)
        model = estimate(measurements, WIDE)
        chosen = [point for point in diagnostics(model).path if point.is_chosen]
        estimated.append(chosen[-1].error)
        true.append(squared_error(model, table, measurements))
    # The estimate of one draw has a deviation of about √(2/1273) = 0.04, of which 12 draws leave 0.012; choosing its
    # minimum costs about as much again.
    assert np.mean(estimated) == pytest.approx(np.mean(true), abs=0.04)
    assert np.mean(true) < 0.6


@pytest.mark.statistical
@pytest.mark.parametrize("stddev", [2.0, 20.0, 100.0])
def test_stopping_is_never_worse_than_convergence_and_better_where_noise_is_large(stddev: float) -> None:
    stopped, converged = [], []
    for seed in range(6):
        table, measurements = wide(seed, stddev)
        stopped.append(squared_error(estimate(measurements, WIDE), table, measurements))
        converged.append(squared_error(estimate(measurements, WIDE, stop="converged"), table, measurements))
    assert np.mean(stopped) <= 1.01 * np.mean(converged)
    if stddev >= 20:
        assert np.mean(stopped) < 0.8 * np.mean(converged)


@pytest.mark.statistical
def test_a_true_prior_is_left_untouched_where_there_is_only_noise() -> None:
    table, _ = wide(0, 1.0)
    prior = Model.of(Product([], domain=WIDE), {("x", "y"): np.log(table.sum(2)), ("z",): np.log(table.sum((0, 1)))})
    moved = []
    for seed in range(20):
        _, measurements = wide(seed, 300.0)
        model = estimate(measurements, WIDE, base=prior, total=float(table.sum()))
        moved.append(squared_error(model, table, measurements))
    # A gain above its own standard error appears by chance in about one draw of six at each of three levels.
    assert np.mean(np.array(moved) < 1e-12) >= 0.4
    assert np.mean(moved) < 0.02


def test_a_wrong_prior_is_left_where_the_evidence_is_strong() -> None:
    table, measurements = wide(0, 5.0)
    rng = np.random.default_rng(0)
    wrong = PublicRows(rng.integers(0, WIDE.shape, (5000, 3)), WIDE)
    before = squared_error(estimate([], WIDE, base=wrong, total=float(table.sum())), table, measurements)
    after = squared_error(estimate(measurements, WIDE, base=wrong), table, measurements)
    assert after < 0.05 * before


@given(
    st.floats(-2, 2),
    st.floats(0.1, 50),
    st.integers(0, 10**6),
)
def test_a_part_of_a_step_is_where_the_parabola_of_the_estimated_error_is_least(
    least: float, length: float, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    fitted, way = rng.normal(size=20), rng.normal(size=20)
    way *= length / np.linalg.norm(way)
    state = Dual().init(small(0).problem())

    def at(t: float) -> CoupledState:
        return CoupledState(state, state, fitted + t * way, length**2 * (t - least) ** 2 + 7, degrees_of_freedom=3.0)

    start, end = at(0.0), at(1.0)
    assert end.share_from(start, caution=0.0) == pytest.approx(least, abs=1e-6)
    # Caution takes off half the standard error of the gain, √(1 + 4‖F − F₀‖²).
    assert end.share_from(start) == pytest.approx(least - 0.5 * np.sqrt(1 + 4 * length**2) / length**2, abs=1e-6)


def test_no_chosen_point_has_a_higher_estimated_error_than_where_its_level_began() -> None:
    for stddev in (2.0, 20.0, 100.0):
        _, measurements = wide(0, stddev)
        told = diagnostics(estimate(measurements, WIDE))
        for _, group in itertools.groupby(told.path, key=lambda point: point.level):
            first, *rest = list(group)
            [chosen] = [point for point in (first, *rest) if point.is_chosen]
            assert chosen.error <= first.error
        assert all(0 < level.share <= 1 for level in told.schedule)
    # With much noise some step is taken in part.
    assert any(level.share < 1 for level in told.schedule)


def test_between_two_states_lie_the_marginals_of_multipliers_between_theirs() -> None:
    task = small(0, LOOP, noise=3.0)
    problem = task.problem()
    start = Dual().init(problem)
    end = Dual().step(problem, start)
    whole, none, half = (interpolated(problem, start, end, share) for share in (1.0, 0.0, 0.5))
    np.testing.assert_allclose(whole.marginals, end.marginals)
    np.testing.assert_allclose(none.marginals, start.marginals)
    np.testing.assert_allclose(half.theta, 0.5 * (start.theta + end.theta))
    np.testing.assert_allclose(half.marginals, problem.marginals(half.theta))


def test_levels_order_queries_by_their_precision_and_not_by_their_noisiest_answer() -> None:
    noise = np.full((30, 40), 10.0)
    noise[0, 0] = 1e9
    pair = Measurement.of(Query.marginal(WIDE, ("x", "y")), np.zeros((30, 40)), noise)
    blunt = Measurement.of(Query.marginal(WIDE, ("x", "z")), np.zeros((30, 3)), 10_000.0)
    first, *_ = levels(Evidence.of(WIDE, [blunt, pair]))
    assert first == [1]


def test_levels_add_weaker_evidence_after_stronger() -> None:
    _, measurements = wide(0, 10.0)
    evidence = Evidence.of(WIDE, measurements)
    found = levels(evidence)
    assert found[-1] == [0, 1, 2, 3]
    assert all(set(a) < set(b) for a, b in itertools.pairwise(found))
    assert 3 in found[0]
    assert 2 not in found[0]
    # Known queries are in every level.
    assert all(2 in level for level in levels(evidence, known=[2]))
    assert levels(evidence, known=[0, 1, 2, 3]) == [[0, 1, 2, 3]]


def test_the_path_and_the_stop_are_told() -> None:
    _, measurements = wide(0, 20.0)
    told = diagnostics(estimate(measurements, WIDE))
    assert told.stop == "fission"
    assert told.solver == "Dual"
    assert told.has_converged
    assert "stopped falling" in told.reason
    assert [point.calls for point in told.path] == sorted(point.calls for point in told.path)
    assert told.oracle_calls >= told.path[-1].calls
    assert {point.level for point in told.path if point.is_chosen} == {point.level for point in told.path}
    assert 0 < told.estimated_error < 1
    assert told.total_stddev == pytest.approx(
        (1 / (3 * 400) + 1 / (30 * 400) + 1 / (40 * 400) + 1 / (1200 * 400)) ** -0.5
    )
    assert told.notes == ()


def test_noise_that_is_not_gaussian_or_too_small_is_noted() -> None:
    _, measurements = wide(0, 20.0, noise="laplace")
    assert "not Gaussian" in diagnostics(estimate(measurements, WIDE)).notes[0]
    _, measurements = wide(0, 1.0)
    assert "two lattice units" in diagnostics(estimate(measurements, WIDE)).notes[0]


def test_the_same_measurements_give_the_same_model() -> None:
    _, measurements = wide(0, 20.0)
    once, again = estimate(measurements, WIDE), estimate(measurements, WIDE)
    np.testing.assert_array_equal(once.project(("x", "y")).values, again.project(("x", "y")).values)


@pytest.mark.parametrize("solver", [MirrorDescent(), DualAveraging(), Raking()], ids=lambda s: type(s).__name__)
def test_any_solver_can_be_stopped_at_the_noise(solver: MirrorDescent | DualAveraging | Raking) -> None:
    table, measurements = wide(0, 100.0)
    stopped = squared_error(estimate(measurements, WIDE, solver=solver), table, measurements)
    start = squared_error(estimate([], WIDE, total=20_000), table, measurements)
    assert stopped < start
    if not isinstance(solver, Raking):
        converged = squared_error(estimate(measurements, WIDE, stop="converged"), table, measurements)
        assert stopped < 0.8 * converged


def test_a_warm_start_takes_fewer_calls_than_a_cold_one_and_is_about_as_good() -> None:
    table, measurements = wide(0, 20.0)
    order = [measurements[i] for i in (0, 1, 3, 2)]
    before = estimate(order[:3], WIDE)
    warm, cold = estimate(order, WIDE, warm=before), estimate(order, WIDE)
    assert diagnostics(warm).oracle_calls < 0.8 * diagnostics(cold).oracle_calls
    assert squared_error(warm, table, measurements) < 1.1 * squared_error(cold, table, measurements)


@given(st.floats(0.5, 30.0), st.floats(0.0, 1.0))
def test_a_step_from_far_off_that_gains_is_taken_whole(off: float, beside: float) -> None:
    # From answers that miss theirs by `off` to answers that meet them, while as many others come to be `beside` theirs.
    begin, end = np.repeat([off, 0.0], 100), np.repeat([0.0, beside], 100)
    state = State(np.empty(0), np.empty(0), 0.0)
    before, last = (CoupledState(state, state, fitted, float(fitted @ fitted), 0.0) for fitted in (begin, end))
    discrepancy = float(np.mean(begin**2))
    share = share_to_go(before, last, 1.0, discrepancy)
    if discrepancy > 4 and beside < off:
        assert share >= 1
    else:
        assert share == last.share_from(before)
    if beside < off:
        # Back again nothing is gained.
        assert share_to_go(last, before, 1.0, 1e6) < 1


def test_a_warm_start_from_other_measurements_is_ignored() -> None:
    _, measurements = wide(0, 20.0)
    other = estimate(measurements[2:], WIDE)
    warm = estimate(measurements[:2], WIDE, warm=other)
    np.testing.assert_array_equal(warm.project("x").values, estimate(measurements[:2], WIDE).project("x").values)


def test_a_colder_path_fits_more_closely() -> None:
    task: Small = small(0, LOOP, noise=3.0)
    path = diagnostics(estimate(task.measurements, DOMAIN, solver=Dual.exact(), stop="converged")).path
    losses = [point.loss for point in path]
    assert all(after < before * (1 + 1e-6) for before, after in itertools.pairwise(losses))
    assert losses[-1] < 0.1 * losses[0]


def test_the_path_can_be_drawn() -> None:
    _, measurements = wide(0, 20.0)
    try:
        chart = diagnostics(estimate(measurements, WIDE)).plot()
    except PrioryError as error:
        pytest.skip(str(error))
    drawn = chart.to_dict()
    assert len(drawn["layer"]) == 2


def test_implied_one_way_marginals_are_the_best_averages_of_what_was_measured() -> None:
    rng = np.random.default_rng(0)
    tables = {("x", "z"): rng.normal(50, 9, (30, 3)), ("y", "z"): rng.normal(50, 9, (40, 3))}
    measurements = [
        Measurement.of(Query.marginal(WIDE, c), t, s) for (c, t), s in zip(tables.items(), (2.0, 3.0), strict=True)
    ]
    evidence = Evidence.of(WIDE, measurements)
    implied = Implied.of(evidence)
    assert implied is not None
    # z is said twice: with variances 4·30 and 9·40.
    weights = np.array([1 / 120, 1 / 360])
    expected = (weights[0] * tables["x", "z"].sum(0) + weights[1] * tables["y", "z"].sum(0)) / weights.sum()
    place = implied.evidence.spans[implied.evidence.layout.cliques.index(("z",))]
    np.testing.assert_allclose(implied.evidence.values[place], expected)
    np.testing.assert_allclose(implied.evidence.stddevs[place], weights.sum() ** -0.5)
    # Their order, by which answers are perturbed, is that of the queries in every run.
    assert implied.evidence.layout.cliques == (("x",), ("z",), ("y",))
    # Their multipliers give the same potentials when lifted to the measured answers.
    alpha = rng.normal(size=implied.evidence.size)
    lifted = implied.multipliers(alpha, evidence.size)
    assert float(lifted @ evidence.values) == pytest.approx(float(alpha @ implied.evidence.values))
    assert Implied.of(Evidence.of(WIDE, wide(0, 1.0)[1])) is None


@pytest.mark.statistical
def test_starting_from_implied_marginals_helps_where_only_large_ones_were_measured(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with_them, without = [], []
    for seed in range(4):
        table, measurements = wide(seed, 60.0)
        pair = [measurements[2]]
        with_them.append(squared_error(estimate(pair, WIDE), table, pair))
        with monkeypatch.context() as patch:
            patch.setattr(Implied, "of", lambda _: None)
            without.append(squared_error(estimate(pair, WIDE), table, pair))
    assert np.mean(with_them) < 0.95 * np.mean(without)


def test_an_estimate_that_began_with_implied_marginals_can_be_repeated() -> None:
    _, measurements = wide(0, 20.0)
    model = estimate(measurements[2:3], WIDE)
    again = refitted(model, measurements[2:3])
    np.testing.assert_allclose(
        again.project(("x", "y")).values, model.project(("x", "y")).values, atol=1e-6 * model.total
    )
