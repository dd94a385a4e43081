"""One contract for all solvers, selected by what each one's traits declare."""

import dataclasses
import itertools
from collections.abc import Callable

import numpy as np
import pytest

from priory.errors import OptionError
from priory.estimate.estimator import estimate
from priory.estimate.evidence import Evidence
from priory.estimate.loss import L1, CustomLoss
from priory.estimate.problem import Problem, Solver, Start, State, states
from priory.estimate.registry import SOLVERS
from priory.model.bases import Mixture, Product, PublicRows, Uniform
from priory.model.model import Model
from priory.queries.domain import Clique
from problems import DOMAIN, LOOP, TREE, Small, least_squares, small


def solvers(declared: Callable[[Solver], bool] = lambda _: True) -> pytest.MarkDecorator:
    """Every registered solver whose traits fit."""
    chosen = {name: solver for name, solver in SOLVERS.items() if declared(solver)}
    assert chosen
    return pytest.mark.parametrize("solver", chosen.values(), ids=chosen)


every_solver = solvers()
exact_solvers = solvers(lambda solver: solver.traits.reaches_least_loss)
structures = pytest.mark.parametrize("cliques", [TREE, LOOP], ids=["tree", "loop"])


def loss_of(model: Model, task: Small) -> float:
    gaps = [np.sum(((model.answer(m.query) - m.values) / m.stddev) ** 2) for m in task.measurements]
    return 0.5 * float(np.sum(gaps))


def custom(lipschitz: float = 1.0) -> CustomLoss:
    target = np.arange(12.0).reshape(3, 4) + 1

    def squared(marginals: object) -> tuple[float, dict[Clique, np.ndarray]]:
        gap = marginals["a", "b"].values - target  # type: ignore[index]
        return 0.5 * float(np.sum(gap**2)), {("a", "b"): gap}

    return CustomLoss.of(DOMAIN, [("a", "b")], squared, lipschitz=lipschitz)


def problem_of(kind: str) -> Problem:
    task = small(0, LOOP)
    if kind == "l1":
        return task.problem(loss=L1(Evidence.of(DOMAIN, task.measurements)))
    return task.problem() if kind == "l2" else task.problem(loss=custom())


def some_states(solver: Solver, problem: Problem, count: int = 6) -> list[State]:
    return list(itertools.islice(states(solver, problem), count))


@every_solver
def test_a_solver_is_frozen_settings(solver: Solver) -> None:
    field, *_ = vars(solver)
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(solver, field, None)


@every_solver
@pytest.mark.parametrize("kind", ["l2", "l1", "custom"])
def test_a_solver_takes_the_losses_that_it_declares_and_refuses_the_others(solver: Solver, kind: str) -> None:
    problem = problem_of(kind)
    if kind in solver.traits.losses:
        first, *_, last = some_states(solver, problem)
        assert last.value <= first.value
    else:
        with pytest.raises(OptionError, match="solver"):
            solver.init(problem)


@every_solver
def test_the_first_state_is_the_base_and_no_later_one_is_worse(solver: Solver) -> None:
    problem = problem_of("l2")
    first, *_, last = some_states(solver, problem, 30)
    np.testing.assert_allclose(first.marginals, problem.marginals(problem.zero()), rtol=1e-12)
    assert last.value <= first.value


@every_solver
def test_a_step_is_pure_and_counts_itself_and_its_calls(solver: Solver) -> None:
    problem = problem_of("l2")
    for state in some_states(solver, problem, 4):
        theta, marginals = state.theta.copy(), state.marginals.copy()
        once, twice = solver.step(problem, state), solver.step(problem, state)
        np.testing.assert_array_equal(state.theta, theta)
        np.testing.assert_array_equal(state.marginals, marginals)
        np.testing.assert_allclose(once.marginals, twice.marginals, rtol=1e-9, atol=1e-9)
        assert (once.iteration, once.calls) == (twice.iteration, twice.calls)
        assert once.iteration == state.iteration + 1
        assert once.calls > state.calls


@every_solver
def test_it_ends_with_a_reason(solver: Solver) -> None:
    problem = problem_of("l2")
    *_, last = states(solver, problem)
    status = solver.status(problem, last)
    assert status.kind in ("converged", "gave up")
    assert status.reason.endswith(".")


@every_solver
def test_a_finished_state_has_the_marginals_of_its_potentials(solver: Solver) -> None:
    problem = problem_of("l2")
    finished = solver.finish(problem, some_states(solver, problem)[-1])
    np.testing.assert_allclose(problem.marginals(finished.theta), finished.marginals, atol=1e-6 * problem.total)
    assert finished.value == pytest.approx(problem.loss(finished.marginals)[0])


@solvers(lambda solver: solver.traits.has_multipliers)
def test_multipliers_are_those_of_the_potentials(solver: Solver) -> None:
    problem = problem_of("l2")
    for state in some_states(solver, problem):
        np.testing.assert_allclose(problem.evidence.adjoint(state.alpha), state.theta)
    again = solver.init(problem, Start(multipliers=state.alpha))
    np.testing.assert_allclose(again.marginals, state.marginals, atol=1e-9 * problem.total)


@exact_solvers
@structures
def test_it_reaches_the_brute_force_least_squares(solver: Solver, cliques: tuple[Clique, ...]) -> None:
    for seed in range(5):
        task = small(seed, cliques)
        model = estimate(task.measurements, DOMAIN, total=task.total, solver=solver, stop="converged")
        assert loss_of(model, task) == pytest.approx(least_squares(task), rel=solver.traits.accuracy)


@exact_solvers
def test_it_starts_from_any_base_and_stays_on_its_support(solver: Solver) -> None:
    rng = np.random.default_rng(0)
    rows = PublicRows(rng.integers(0, DOMAIN.shape, (60, 4)), DOMAIN)
    prior = Model.of(Uniform(DOMAIN), {("a",): rng.normal(size=3)})
    product = Product([prior.project(("b",))], domain=DOMAIN)
    task = small(6)
    for base in (rows, prior, product, Mixture([(0.9, rows), (0.1, Uniform(DOMAIN))])):
        start = estimate([], DOMAIN, base=base, total=task.total)
        model = estimate(task.measurements, DOMAIN, base=base, total=task.total, solver=solver, stop="converged")
        assert loss_of(model, task) < loss_of(start, task)
        assert model.base is base
        empty = start.project(("a", "b", "c")).values == 0
        assert (model.project(("a", "b", "c")).values[empty] == 0).all()


@exact_solvers
def test_a_warm_start_ends_in_the_same_place(solver: Solver) -> None:
    task = small(7, LOOP)
    options = {"total": task.total, "solver": solver, "stop": "converged"}
    before = estimate(task.measurements[:3], DOMAIN, **options)  # type: ignore[arg-type]
    cold, warm = (estimate(task.measurements, DOMAIN, warm=start, **options) for start in (None, before))  # type: ignore[arg-type]
    assert loss_of(warm, task) == pytest.approx(loss_of(cold, task), rel=2 * solver.traits.accuracy)


@every_solver
def test_where_noise_drowns_everything_stopping_leaves_the_base_alone(solver: Solver) -> None:
    task = small(3)
    drowned = [dataclasses.replace(m, stddev=1e7) for m in task.measurements]
    model = estimate(drowned, DOMAIN, total=task.total, solver=solver)
    base = estimate([], DOMAIN, total=task.total)
    clique = tuple(DOMAIN)
    np.testing.assert_allclose(model.project(clique).values, base.project(clique).values, atol=1e-3 * task.total)


@every_solver
@pytest.mark.filterwarnings("ignore:the estimate stopped early")
def test_an_estimate_explains_what_was_measured_better_than_the_base(solver: Solver) -> None:
    task = small(4, LOOP)
    model = estimate(task.measurements, DOMAIN, total=task.total, solver=solver)
    base = estimate([], DOMAIN, total=task.total)
    assert loss_of(model, task) < loss_of(base, task)
