"""Solvers: what is special to one of them; their common contract is in contracts/test_every_solver.py."""

from typing import Any

import numpy as np
import pytest

from priory.errors import DomainError, OptionError
from priory.estimate.dual import Dual
from priory.estimate.estimator import estimate
from priory.estimate.evidence import Evidence
from priory.estimate.lbfgs import minimised
from priory.estimate.loss import L1, CustomLoss
from priory.estimate.papers.direct import LBFGS
from priory.estimate.papers.dual_averaging import DualAveraging, recovered
from priory.estimate.papers.mirror_descent import MirrorDescent
from priory.estimate.papers.multiplicative_weights import MultiplicativeSweeps
from priory.estimate.papers.raking import Raking
from priory.estimate.problem import Solver, states
from priory.model.bases import PublicRows, Uniform
from priory.model.model import Model
from priory.privacy.measurement import Measurement
from priory.queries.domain import Domain
from priory.queries.parts import Prefix
from priory.queries.query import Query
from problems import DOMAIN, LOOP, TREE, Small, least_squares, small


def loss_of(model: Model, task: Small) -> float:
    gaps = [np.sum(((model.answer(m.query) - m.values) / m.stddev) ** 2) for m in task.measurements]
    return 0.5 * float(np.sum(gaps))


def test_twenty_random_problems_give_the_same_loss_by_the_default_and_by_brute_force() -> None:
    for seed in range(20):
        task = small(seed, LOOP if seed % 2 else TREE, noise=3.0)
        model = estimate(task.measurements, DOMAIN, total=task.total, stop="converged")
        assert loss_of(model, task) == pytest.approx(least_squares(task), rel=1e-4)


@pytest.mark.parametrize("cliques", [TREE, LOOP], ids=["tree", "loop"])
def test_the_averages_of_algorithm_2_are_the_marginals_of_the_recovered_potentials(
    cliques: tuple[tuple[str, ...], ...],
) -> None:
    task = small(1, cliques)
    problem = task.problem()
    *_, last = states(DualAveraging(iterations=60), problem)
    theta, _ = recovered(problem, last.marginals)
    np.testing.assert_allclose(problem.marginals(theta), last.marginals, atol=1e-6 * task.total)


def test_a_tree_needs_no_fitting_to_recover_potentials() -> None:
    problem = small(2, TREE).problem()
    *_, last = states(MirrorDescent(iterations=5), problem)
    _, calls = recovered(problem, last.marginals)
    assert calls == 0


@pytest.mark.parametrize(
    "solver", [Dual.exact(1e-8), MirrorDescent(tolerance=1e-12), LBFGS()], ids=lambda s: type(s).__name__
)
def test_noise_free_measurements_of_a_tree_distribution_are_recovered_exactly(solver: Solver) -> None:
    ab, bc, d = (
        small(3)
        .problem()
        .loss.layout.unpack(small(3).problem().marginals(np.random.default_rng(0).normal(size=23)))
        .values()
    )
    measurements = [Measurement.of(Query.marginal(DOMAIN, f.domain.attributes), f.values, 1.0) for f in (ab, bc, d)]
    model = estimate(measurements, DOMAIN, solver=solver, stop="converged")
    truth = np.einsum(
        "ab,bc,d->abcd", ab.values, bc.values / bc.values.sum(1, keepdims=True), d.values / d.values.sum()
    )
    np.testing.assert_allclose(model.project(tuple(DOMAIN)).values, truth, atol=1e-3)


def test_the_estimate_is_the_distribution_of_most_entropy_among_those_with_its_marginals() -> None:
    task = small(4, LOOP)
    model = estimate(task.measurements, DOMAIN, total=task.total, stop="converged")
    table = model.project(tuple(DOMAIN)).values / model.total
    # Moves that keep every measured marginal lower the entropy, in both directions.
    null = np.linalg.svd(task.matrix)[2][np.linalg.matrix_rank(task.matrix) :]
    entropy = -np.sum(table * np.log(table))
    for move in null[:10].reshape(-1, *DOMAIN.shape):
        for length in (-0.05, 0.05):
            other = table + length * table.min() / np.abs(move).max() * move
            assert -np.sum(other * np.log(other)) < entropy + 1e-12


def test_l1_by_the_dual_equals_linear_programming() -> None:
    from scipy.optimize import linprog

    for seed in range(4):
        task = small(seed, LOOP, noise=3.0)
        A, y, s = task.matrix, task.answers, task.stddevs
        rows, cells = A.shape
        # Variables: cells x, then bounds e on |Ax − y|.
        cost = np.concatenate([np.zeros(cells), 1 / s])
        above = np.hstack([A, -np.eye(rows)])
        below = np.hstack([-A, -np.eye(rows)])
        total = np.concatenate([np.ones(cells), np.zeros(rows)])[None]
        best = linprog(cost, np.vstack([above, below]), np.concatenate([y, -y]), total, [task.total])
        model = estimate(task.measurements, DOMAIN, total=task.total, loss="l1", stop="converged")
        value = sum(np.abs(model.answer(m.query) - m.values).sum() / m.stddev for m in task.measurements)
        assert value == pytest.approx(best.fun, rel=1e-3)


def test_mirror_descent_lowers_the_l1_loss_towards_that_of_the_dual() -> None:
    task = small(0, LOOP, noise=3.0)
    kinked = L1(Evidence.of(DOMAIN, task.measurements))
    passed = list(states(MirrorDescent(iterations=1000), task.problem(loss=kinked)))
    model = estimate(task.measurements, DOMAIN, total=task.total, loss="l1", stop="converged")
    best = sum(np.abs(model.answer(m.query) - m.values).sum() / m.stddev for m in task.measurements)
    assert best * (1 - 1e-3) <= min(state.value for state in passed) < 1.05 * best


def test_multiplicative_weights_lower_the_loss_in_every_sweep_of_a_gentle_problem() -> None:
    passed = list(states(MultiplicativeSweeps(iterations=10), small(0).problem()))
    values = [state.value for state in passed]
    assert values == sorted(values, reverse=True)
    assert values[-1] < 0.5 * values[0]


def test_one_step_of_multiplicative_weights_is_equation_2_of_the_paper() -> None:
    task = small(5, (("a", "b"),))
    problem = task.problem()
    first = MultiplicativeSweeps().init(problem)
    state = MultiplicativeSweeps().step(problem, first)
    p, y = first.marginals, np.ravel(task.measurements[0].values)
    expected = p * np.exp((y - p) / (2 * task.total))
    np.testing.assert_allclose(state.marginals, task.total * expected / expected.sum(), rtol=1e-10)


def test_range_queries_are_fitted_like_any_others() -> None:
    domain = Domain.of({"x": 8, "y": 3})
    rng = np.random.default_rng(0)
    truth = rng.poisson(30, domain.shape).astype(float)
    query = Query.product(domain, {"x": Prefix()})
    measurements = [
        Measurement.of(query, query(truth.sum(1)), 1.0),
        Measurement.of(Query.marginal(domain, "y"), truth.sum(0), 1.0),
    ]
    model = estimate(measurements, domain, stop="converged")
    np.testing.assert_allclose(model.answer(query), query(truth.sum(1)), atol=0.05)


def test_a_custom_loss_is_minimised() -> None:
    target = {("a", "b"): np.arange(12.0).reshape(3, 4) + 1}

    def squared(marginals: object) -> tuple[float, dict[tuple[str, ...], np.ndarray]]:
        gap = marginals["a", "b"].values - target["a", "b"]  # type: ignore[index]
        return 0.5 * float(np.sum(gap**2)), {("a", "b"): gap}

    loss = CustomLoss.of(DOMAIN, [("a", "b")], squared, lipschitz=1.0)
    for solver in (None, DualAveraging()):
        model = estimate([], DOMAIN, total=78.0, loss=loss, solver=solver)
        np.testing.assert_allclose(model.project(("a", "b")).values, target["a", "b"], atol=0.01)


def calls_of(model: Model) -> int:
    assert model.diagnostics is not None
    return model.diagnostics.oracle_calls


def test_a_warm_start_of_mirror_descent_carries_potentials_and_step_and_takes_fewer_calls() -> None:
    warm_calls, cold_calls = 0, 0
    for seed in range(6):
        task = small(seed, LOOP)
        options: dict[str, Any] = {"total": task.total, "solver": MirrorDescent(), "stop": "converged"}
        before = estimate(task.measurements[:3], DOMAIN, **options)
        cold, warm = (estimate(task.measurements, DOMAIN, warm=start, **options) for start in (None, before))
        assert loss_of(warm, task) == pytest.approx(loss_of(cold, task), rel=1e-4)
        warm_calls, cold_calls = warm_calls + calls_of(warm), cold_calls + calls_of(cold)
    assert warm_calls < 0.9 * cold_calls


def test_accelerated_steps_start_at_the_lipschitz_constant_that_was_found_to_hold() -> None:
    task = small(0, LOOP)
    options: dict[str, Any] = {"total": task.total, "stop": "converged"}
    daring = DualAveraging(optimism=1e-3)
    before = estimate(task.measurements, DOMAIN, solver=daring, **options)
    again = estimate(task.measurements, DOMAIN, solver=daring, warm=before, **options)
    assert before.diagnostics is not None
    assert before.diagnostics.pace > 1e-3
    assert calls_of(again) < calls_of(before)
    assert loss_of(again, task) == pytest.approx(loss_of(before, task), rel=1e-4)


def test_one_measurement_more_takes_the_default_fewer_calls_from_a_warm_start() -> None:
    domain = Domain.of({f"x{i}": 6 for i in range(8)})
    rng = np.random.default_rng(0)
    rows = np.cumsum(rng.integers(0, 3, (50_000, 8)), axis=1) % 6
    cliques = [*((name,) for name in domain), *zip(domain.attributes, domain.attributes[1:], strict=False)]
    measurements = []
    for clique in cliques:
        codes = [rows[:, domain.axis[name]] for name in clique]
        counts = np.zeros(domain.project(clique).shape)
        np.add.at(counts, tuple(codes), 1)
        measurements.append(
            Measurement.of(Query.marginal(domain, clique), counts + rng.normal(0, 20, counts.shape), 20.0)
        )
    before = estimate(measurements[:-1], domain)
    cold, warm = (estimate(measurements, domain, warm=start) for start in (None, before))
    # How many fewer depends on the machine's rounding.
    assert calls_of(warm) < calls_of(cold)
    last = cliques[-1]
    np.testing.assert_allclose(warm.project(last).values, cold.project(last).values, atol=0.02 * cold.total)


def test_bad_input_is_refused_with_a_reason() -> None:
    good = Measurement.of(Query.marginal(DOMAIN, "a"), [1, 2, 3], 1.0)
    with pytest.raises(OptionError, match="positive standard deviation"):
        estimate([Measurement(good.query, good.values, 0.0)], DOMAIN)
    with pytest.raises(OptionError, match="positive standard deviation"):
        estimate([Measurement(good.query, good.values, -1.0)], DOMAIN)
    with pytest.raises(DomainError, match="not finite"):
        estimate([Measurement(good.query, np.array([1, np.nan, 3]), 1.0)], DOMAIN)
    with pytest.raises(DomainError, match=r"shape \(2,\)"):
        estimate([Measurement(good.query, np.array([1, 2]), 1.0)], DOMAIN)
    with pytest.raises(DomainError, match="sizes"):
        estimate([Measurement.of(Query.marginal(Domain.of({"a": 2}), "a"), [1, 2], 1.0)], DOMAIN)
    with pytest.raises(DomainError, match="unknown attributes"):
        estimate([Measurement.of(Query.marginal(Domain.of({"z": 2}), "z"), [1, 2], 1.0)], DOMAIN)
    with pytest.raises(OptionError, match="stop"):
        estimate([good], DOMAIN, stop="soon")  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="loss"):
        estimate([good], DOMAIN, loss="l3")
    with pytest.raises(OptionError, match="total"):
        estimate([good], DOMAIN, total=-3)
    with pytest.raises(DomainError, match="base"):
        estimate([good], DOMAIN, base=Uniform(Domain.of({"a": 3})))
    for solver in (LBFGS(), DualAveraging()):
        with pytest.raises(OptionError, match="smooth"):
            estimate([good], DOMAIN, loss="l1", solver=solver, stop="converged")


def test_no_measurements_give_the_base_itself() -> None:
    rows = PublicRows(np.zeros((5, 4), dtype=int), DOMAIN)
    model = estimate([], DOMAIN, base=rows, total=50)
    assert model.base is rows
    assert model.project("a").values.tolist() == [50, 0, 0]
    assert estimate([], DOMAIN).total == 1


def test_giving_up_is_said_and_not_raised() -> None:
    task = small(0, LOOP)
    with pytest.warns(UserWarning, match="still falling"):
        model = estimate(task.measurements, DOMAIN, solver=MirrorDescent(iterations=2), stop="converged")
    assert model.diagnostics is not None
    assert not model.diagnostics.has_converged


def test_raking_refuses_queries_whose_rows_overlap() -> None:
    query = Query.product(DOMAIN, {"b": Prefix()})
    with pytest.raises(OptionError, match="disjoint"):
        estimate([Measurement.of(query, [1, 2, 3, 4], 1.0)], DOMAIN, total=4, solver=Raking(), stop="converged")


def test_gradients_beyond_single_precision_are_followed_without_a_warning() -> None:
    curvatures = np.array([1.0, 2.0, 5.0])

    def bowl(x: np.ndarray) -> tuple[float, np.ndarray]:
        return 0.5 * float(curvatures @ x**2), curvatures * x

    found = minimised(bowl, np.array([1e60, -3e60, 2e60]), goal=1e90, iterations=50)
    assert found.steepness <= 1e90
    assert found.calls < 30
