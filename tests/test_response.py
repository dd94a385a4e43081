"""Response: how answers move with noise, against the same problem solved on all cells of all tables at once."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from priory.answer.neighbours import Neighbours
from priory.answer.redraws import Redraws
from priory.estimate.estimator import estimate
from priory.estimate.response import Response
from priory.model.bases import Uniform
from priory.model.diagnostics import Diagnostics, ScheduledLevel
from priory.model.model import Model
from priory.privacy.measurement import Measurement
from priory.queries.domain import Clique, Domain
from priory.queries.parts import Matrix, Prefix
from priory.queries.query import Query
from problems import DOMAIN, LOOP, TREE, small

MERGED = Matrix(np.array([[1, 0, 0, 0], [0, 1, 1, 1]]))


def model_on(cliques: tuple[Clique, ...], seed: int) -> Model:
    rng = np.random.default_rng(seed)
    potentials = {clique: rng.normal(0, 1, DOMAIN.project(clique).shape) for clique in cliques}
    return Model.of(Uniform(DOMAIN), potentials, 1000.0)


def measured(model: Model, queries: list[Query], stddev: float = 5.0) -> list[Measurement]:
    return [Measurement.of(query, model.answer(query), stddev) for query in queries]


def by_brute_force(response: Response, draws: int) -> list[np.ndarray]:
    """The least Σ((δ − z)/σ)² + λΣδ²/F over tables whose columns agree and add up to what the total moves by.

    What the tables charge for a column more than once is taken off, and so is what those that close a loop charge for
    their columns at all.
    """
    tables = [table for table in response.tables if table.query.clique]
    sizes = [table.query.rows for table in tables]
    ends = np.cumsum([0, *sizes])
    columns = {name: slice(0, 0) for name in DOMAIN}
    unknowns = int(ends[-1])
    for name in DOMAIN:
        columns[name] = slice(unknowns, unknowns + DOMAIN[name])
        unknowns += DOMAIN[name]
    quadratic, linear = np.zeros((unknowns, unknowns)), np.zeros((unknowns, draws))
    rows, rights = [], []
    records = response.records(draws, 0)
    for table, start in zip(tables, ends, strict=False):
        precision = (table.stddevs.reshape(-1) ** -2.0, response.temperature / table.fitted.reshape(-1))
        span = np.arange(start, start + table.query.rows)
        quadratic[span, span] += sum(precision)
        linear[span] += precision[0][:, None] * response.added(table, draws, 0).reshape(len(span), draws)
        assert table.rows is not None
        for axis, name in enumerate(table.query.clique):
            places = np.indices(table.query.shape)[axis].reshape(-1)
            for place in range(table.query.shape[axis]):
                row = np.zeros(unknowns)
                row[span[places == place]] = 1
                row[np.arange(DOMAIN[name])[table.rows[axis] == place] + columns[name].start] = -1
                rows.append(row)
                rights.append(np.zeros(draws))
    in_tree = {id(tied) for tied in response.columns.tree}
    for tied in response.columns.tied:
        if tied is not None and id(tied) not in in_tree:
            of_columns = np.zeros((sum(map(len, tied.maps)), unknowns))
            for name, part, rows_of in zip(tied.names, tied.maps, tied.parts, strict=True):
                of_columns[rows_of, columns[name]] = part
            quadratic -= of_columns.T @ tied.charged(response.temperature) @ of_columns
    for name in {name for table in tables for name in table.query.clique}:
        quadratic[columns[name], columns[name]] -= response.columns.repeated.get(name, 0.0)
        row = np.zeros(unknowns)
        row[columns[name]] = 1
        rows.append(row)
        rights.append(records)
    constraints = np.array(rows)
    zeros = np.zeros((len(rows), len(rows)))
    system = np.block([[quadratic, constraints.T], [constraints, zeros]])
    found = np.linalg.lstsq(system, np.vstack([linear, np.array(rights)]), rcond=None)[0]
    return [found[a:b] for a, b in itertools.pairwise(ends)]


def responding(cliques: tuple[Clique, ...], seed: int, temperature: float) -> Response:
    """How a model on these cliques responds to noise on them, and every other time to noise on merged values, too."""
    model = model_on(cliques, seed)
    queries = [Query.marginal(DOMAIN, clique) for clique in cliques]
    if seed % 2:
        queries.append(Query.product(DOMAIN, {"b": MERGED}))
    return Response.of(model, measured(model, queries), temperature)


@settings(max_examples=25)
@given(st.integers(0, 50), st.sampled_from([TREE, LOOP, (("a", "b", "c"), ("c", "d"), ("a",))]), st.floats(0.01, 10))
def test_tables_move_as_the_whole_problem_solved_at_once(
    seed: int, cliques: tuple[Clique, ...], temperature: float
) -> None:
    response = responding(cliques, seed, temperature)
    counts = response.counts(3, 0)
    expected = by_brute_force(response, 3)
    for index, wanted in enumerate(expected):
        found = response.moved(index, counts, 0).reshape(wanted.shape)
        # Sums are tied by weights of a thousand and a million, not exactly; the noise is about 5.
        np.testing.assert_allclose(found, wanted, atol=0.05)


def on_the_joint(response: Response, draws: int) -> list[np.ndarray]:
    """The least Σ((Qδ − z)/σ)² + λΣδ²/F over all cells of the joint table, which add up to what the total moves by."""
    joint = response.model.project(tuple(DOMAIN)).values.reshape(-1)
    cells = np.indices(DOMAIN.shape).reshape(len(DOMAIN.shape), -1)
    quadratic, linear, maps = np.diag(response.temperature / joint), np.zeros((len(joint), draws)), []
    for table in response.tables:
        axes = [DOMAIN.axis[name] for name in table.query.clique]
        assert table.rows is not None
        places = [rows[cells[axis]] for rows, axis in zip(table.rows, axes, strict=True)]
        rows = np.ravel_multi_index(places, table.query.shape)
        maps.append(np.eye(table.query.rows)[:, rows])
        precision = table.stddevs.reshape(-1, 1) ** -2.0
        quadratic += maps[-1].T @ (precision * maps[-1])
        linear += maps[-1].T @ (precision * response.added(table, draws, 0).reshape(-1, draws))
    ones = np.ones((1, len(joint)))
    system = np.block([[quadratic, ones.T], [ones, np.zeros((1, 1))]])
    found = np.linalg.solve(system, np.vstack([linear, response.records(draws, 0)[None]]))
    return [m @ found[:-1] for m in maps]


@settings(max_examples=15)
@given(st.integers(0, 50), st.sampled_from([TREE, (*TREE, ("b",)), (("a", "b"), ("b", "c"))]), st.floats(0.01, 1))
def test_on_a_tree_tables_move_as_the_joint_table_does(
    seed: int, cliques: tuple[Clique, ...], temperature: float
) -> None:
    response = responding(cliques, seed, temperature)
    counts = response.counts(3, 0)
    for index, wanted in enumerate(on_the_joint(response, 3)):
        np.testing.assert_allclose(response.moved(index, counts, 0).reshape(wanted.shape), wanted, atol=0.05)


def test_more_draws_begin_with_fewer() -> None:
    model = model_on(TREE, 0)
    response = Response.of(model, measured(model, [Query.marginal(DOMAIN, c) for c in TREE]), 0.1)
    few, many = response.counts(3, 0), response.counts(7, 0)
    np.testing.assert_allclose(few, many[:, :3], atol=1e-4)
    np.testing.assert_allclose(response.moved(0, few, 0), response.moved(0, many, 0)[..., :3], atol=1e-4)


def test_a_query_measured_twice_moves_as_one_with_half_the_variance() -> None:
    model = model_on((("a",),), 0)
    query = Query.marginal(DOMAIN, "a")
    once = Response.of(model, measured(model, [query], 5 / 2**0.5), 0.01)
    twice = Response.of(model, measured(model, [query, query], 5.0), 0.01)
    [table] = twice.tables
    assert table.numbers == (0, 1)
    spreads = [np.std(each.moved(0, each.counts(400, 0), 0), axis=-1) for each in (once, twice)]
    # 400 draws tell a deviation within 4 % of itself; five of those.
    np.testing.assert_allclose(spreads[0], spreads[1], rtol=0.2)


def degrees_of(response: Response, draws: int = 1000) -> float:
    counts = response.counts(draws, 0)
    degrees = 0.0
    for index, table in enumerate(response.tables):
        moved = response.moved(index, counts, 0)
        for number in table.numbers:
            stddevs = response.evidence.stddevs[response.evidence.spans[number]].reshape(table.query.shape)
            degrees += float(np.sum(np.mean(response.noise(number, draws, 0) * moved, axis=-1) / stddevs**2))
    return degrees


def test_the_degrees_of_freedom_are_those_of_the_estimate() -> None:
    measurements = small(0, LOOP).measurements
    model = estimate(measurements, DOMAIN)
    assert model.diagnostics is not None
    response, wanted = Response.of(model, measurements), model.diagnostics.degrees_of_freedom
    # By the same signs, so that chance enters both numbers alike.
    assert response._degrees_of_freedom(response.temperature) == pytest.approx(wanted, rel=0.05)
    # The trace itself lies within twice the deviation √(2·degrees) of what one vector of signs says of it.
    assert degrees_of(response) == pytest.approx(wanted, abs=2 * (2 * wanted) ** 0.5)


def test_degrees_of_freedom_that_cannot_be_are_not_followed() -> None:
    measurements = small(0, LOOP).measurements
    model = estimate(measurements, DOMAIN)
    assert model.diagnostics is not None
    usual = Response.of(model, measurements)
    for impossible in (-400.0, 4000.0):
        wrong = replace(model, diagnostics=replace(model.diagnostics, degrees_of_freedom=impossible))
        found = Response.of(wrong, measurements).temperature
        assert 0.1 < found / usual.temperature < 10


def test_tables_that_say_nothing_charge_nothing_for_their_columns() -> None:
    model = model_on(tuple((name,) for name in DOMAIN), 2)
    singles = measured(model, [Query.marginal(DOMAIN, name) for name in DOMAIN], 20.0)
    pairs = measured(model, [Query.marginal(DOMAIN, pair) for pair in itertools.combinations(DOMAIN, 2)], 1e5)
    alone, beside = (Response.of(model, each, 1.0) for each in (singles, [*singles, *pairs]))
    wanted = alone.moved(0, alone.counts(20, 0), 0)
    found = beside.moved(0, beside.counts(20, 0), 0)
    # In a product each column moves by itself, however many tables have it.
    np.testing.assert_allclose(found, wanted, atol=0.02 * float(np.std(wanted)))


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 20), st.lists(st.sampled_from([0.01, 1.0, 100.0]), min_size=6, max_size=6))
def test_no_table_moves_further_than_its_noise_however_differently_tables_were_fitted(
    seed: int, temperatures: list[float]
) -> None:
    chain: tuple[Clique, ...] = (("a", "b"), ("b", "c"), ("c", "d"), ("a", "d"), ("b",), ("c",))
    model = model_on(tuple(c for c in chain if len(c) > 1), seed)
    measurements = measured(model, [Query.marginal(DOMAIN, clique) for clique in chain], 20.0)
    levels = tuple(ScheduledLevel((i,), (temperature,)) for i, temperature in enumerate(temperatures))
    fitted = replace(model, diagnostics=Diagnostics("Dual", "fission", "", schedule=levels))
    response = Response.of(fitted, measurements, 1.0)
    counts = response.counts(50, 0)
    for index in range(len(response.tables)):
        # A shrunk answer has no more than the variance of its noise; of fifty draws and many answers 1.8 times at most.
        assert np.max(np.mean(response.moved(index, counts, 0) ** 2, axis=-1)) < 1.8 * 20.0**2


def test_what_was_fitted_in_more_steps_follows_its_noise_further() -> None:
    model = model_on((("a",), ("c",)), 0)
    measurements = measured(model, [Query.marginal(DOMAIN, "a"), Query.marginal(DOMAIN, "c")], 20.0)
    levels = (ScheduledLevel((0,), (1.0,) * 9), ScheduledLevel((0, 1), (1.0,)))
    for order in (levels, tuple(replace(level, members=tuple(1 - m for m in level.members)) for level in levels)):
        diagnostics = Diagnostics("Dual", "fission", "", schedule=order)
        response = Response.of(replace(model, diagnostics=diagnostics), measurements, 1.0)
        long, short = order[0].members[0], 1 - order[0].members[0]
        kept = [float(np.mean(response.columns.tied[i].kept)) for i in (long, short)]  # type: ignore[union-attr]
        assert kept[0] > kept[1] + 0.1
        # Ten steps at one temperature are about one at a tenth of it.
        assert response.tables[short].stiffness == pytest.approx(10 * response.tables[long].stiffness)


@pytest.mark.parametrize(
    "query", [Query.product(DOMAIN, {"b": Prefix()}), Query.product(DOMAIN, {"a": Prefix(), "b": Prefix()})]
)
def test_a_query_that_is_no_table_moves_as_its_covariance_says(query: Query) -> None:
    model = model_on((("a", "b"),), 3)
    response = Response.of(model, measured(model, [query]), 0.05)
    counts = response.counts(4, 0)
    assert response.tables[0].rows is None
    noise = response.added(response.tables[0], 4, 0).reshape(-1, 4)
    mass = model.project(query.clique).values.reshape(-1)
    covariance = np.diag(mass) - np.outer(mass, mass) / mass.sum()
    dense = query.dense() @ covariance @ query.dense().T
    grown = response.grown(response.tables[0].fitted.reshape(-1), response.records(4, 0))
    wanted = grown + dense @ np.linalg.solve(dense + 0.05 * 25 * np.eye(len(dense)), noise - grown)
    np.testing.assert_allclose(response.moved(0, counts, 0).reshape(-1, 4), wanted, atol=0.3)


def test_what_is_read_from_a_merged_table_adds_up_to_the_table() -> None:
    model = model_on((("a", "b"), ("b",)), 1)
    merged = Query.product(DOMAIN, {"a": Matrix(np.eye(3)), "b": MERGED})
    measurements = measured(model, [merged, Query.marginal(DOMAIN, "b")])
    redraws = Redraws.of(model, measurements, draws=5)
    table = Query.marginal(DOMAIN, ("a", "b"))
    cells = redraws.repeats(table, model.answer(table), 5)
    together = redraws.repeats(merged, model.answer(merged), 5)
    np.testing.assert_allclose([merged(each) for each in cells], together, atol=1e-6)


def test_on_a_chain_a_pair_left_out_is_predicted_through_the_middle() -> None:
    domain = Domain.of({"a": 4, "b": 5, "c": 6})
    rng = np.random.default_rng(0)
    potentials = {clique: rng.normal(0, 1, domain.project(clique).shape) for clique in (("a", "b"), ("b", "c"))}
    model = Model.of(Uniform(domain), potentials, 100.0)
    cliques: list[Clique] = [("a", "b"), ("b", "c"), ("a", "c"), ("a",)]
    neighbours = Neighbours(model, {clique: model.project(clique).values for clique in cliques})
    np.testing.assert_allclose(neighbours.predicted(("a", "c")), model.project(("a", "c")).values, atol=0.01)


def test_far_ends_of_a_chain_are_predicted_step_by_step() -> None:
    names = "abcdef"
    domain = Domain.of(dict.fromkeys(names, 12))
    rng = np.random.default_rng(1)
    pairs = list(itertools.pairwise(names))
    model = Model.of(Uniform(domain), {pair: rng.normal(0, 1, (12, 12)) for pair in pairs}, 100.0)
    neighbours = Neighbours(model, {pair: model.project(pair).values for pair in pairs})
    np.testing.assert_allclose(neighbours.predicted(("f", "a")), model.project(("f", "a")).values, atol=1e-6)
