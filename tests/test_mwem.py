import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from houses import DOMAIN, Rows, curated
from priory.errors import DomainError, OptionError, SizeError
from priory.mechanisms.mwem.multiplicative_weights import MultiplicativeWeights, WeightedTable, components
from priory.mechanisms.mwem.mwem import MWEM
from priory.model.bases import Uniform
from priory.model.model import Model
from priory.privacy.budget import Budget
from priory.privacy.measurement import Measurement
from priory.privacy.randomness import Replay
from priory.queries.domain import Domain
from priory.queries.factor import Factor
from priory.queries.parts import Identity, Point, Prefix
from priory.queries.query import Query
from priory.queries.workload import Workload
from priory.release import Release
from strategies import integer_parts, queries

PAIRS = Workload.marginals(DOMAIN, 2)
BUDGETS = [
    Budget.pure(1),
    Budget.pure(1, relation="replace-one"),
    Budget.zcdp("1/10"),
    Budget.zcdp("1/10", relation="replace-one"),
]


def skewed(n: int = 2000, domain: Domain = DOMAIN) -> Rows:
    rng = np.random.default_rng(3)
    return Rows(domain, np.stack([rng.binomial(size - 1, 0.15, n) for size in domain.shape], axis=1))


def released(budget: Budget, recipe: MWEM, source: Rows | None = None, seed: int | None = None) -> Release:
    randomness = None if seed is None else Replay(seed=seed)
    with curated(budget, skewed() if source is None else source, randomness=randomness) as curator:
        release = recipe.run(curator, budget)
        assert curator.left == 0
    return release


@settings(max_examples=25)
@given(
    places=st.lists(st.integers(0, PAIRS.rows - 1), min_size=1, max_size=6),
    seed=st.integers(0, 100),
    is_average=st.booleans(),
)
def test_tables_for_connected_attributes_give_the_same_model_as_the_full_table(
    *, places: list[int], seed: int, is_average: bool
) -> None:
    rng = np.random.default_rng(seed)
    everything = [query.row(i) for query in PAIRS for i in range(query.rows)]
    measured = [Measurement.of(everything[place], rng.integers(0, 500, (1, 1)), 1.0) for place in places]
    found = []
    for is_factored in (True, False):
        update = MultiplicativeWeights(is_factored=is_factored, sweeps=2, is_average=is_average)
        models = [Model(Uniform(DOMAIN), {}, 1000.0)]
        for last in range(1, len(measured) + 1):
            models.append(update.model(DOMAIN, measured[:last], 1000.0, models[-1]))
        found.append(update.final(models).project(DOMAIN.attributes).values)
    np.testing.assert_allclose(found[0], found[1], atol=1e-8)


@given(queries(of=integer_parts), st.integers(0, 100))
def test_steps_on_the_cells_a_query_reads_are_steps_on_the_whole_table(query: Query, seed: int) -> None:
    rng = np.random.default_rng(seed)
    domain = Domain.of({**dict(zip(query.domain, query.domain.shape, strict=True)), "beside": 3})
    potentials = Factor(domain, rng.normal(size=domain.shape))
    largest = max(float(np.abs(query.dense()).max()), 1e-300)
    measurement = Measurement.of(query, rng.integers(-50, 400, query.shape), 1.0)
    table, moved = WeightedTable.of(potentials), np.zeros(query.shape)
    for _ in range(3):
        moved += table.step(measurement, 1000.0)
    expected = 1000 * np.exp(potentials.values) / np.exp(potentials.values).sum()
    for _ in range(3):
        answer = query.dense() @ expected.sum(axis=-1).ravel()
        step = (measurement.values.ravel() - answer) / (2 * 1000 * largest**2 if query.dense().any() else np.inf)
        expected = expected * np.exp((query.dense().T @ step).reshape(*query.domain.shape, 1))
        expected *= 1000 / expected.sum()
    np.testing.assert_allclose(1000 * table.weights / table.mass, expected, rtol=1e-6)


def test_answers_far_beyond_the_number_of_rows_overflow_nothing() -> None:
    far = [Measurement.of(PAIRS.queries[0].row(place), [[value]], 1.0) for place, value in ((3, 10**7), (2, -(10**8)))]
    model = MultiplicativeWeights().model(DOMAIN, far, 10.0, None)
    assert model.answer(far[0].query).item() == pytest.approx(10)


@pytest.mark.parametrize("answer", [-40.0, -570.0])
def test_a_weight_that_all_but_vanishes_does_not_vanish(answer: float) -> None:
    domain = Domain.of({"a": 1})
    table = WeightedTable.of(Factor(domain, np.zeros(1)))
    far = Measurement.of(Query.product(domain, {"a": Point(0)}), [answer], 3000.0)
    for _ in range(3):
        table.step(far, 1.0)
    assert table.weights / table.mass == pytest.approx(1.0)


def test_one_step_is_the_papers_step() -> None:
    query = PAIRS.queries[0].row(3)
    uniform = np.full(DOMAIN.shape, 1000 / DOMAIN.size)
    inside = np.broadcast_to(query.dense().reshape(4, 2, 1), DOMAIN.shape)
    answer = (inside * uniform).sum()
    expected = uniform * np.exp(inside * (400 - answer) / 2000)
    expected *= 1000 / expected.sum()
    update = MultiplicativeWeights(is_factored=False, sweeps=0)
    model = update.model(DOMAIN, [Measurement.of(query, [[400]], 1.0)], 1000.0, None)
    np.testing.assert_allclose(model.project(DOMAIN.attributes).values, expected)


@pytest.mark.parametrize("budget", BUDGETS)
def test_mwem_answers_its_workload_better_than_uniform(budget: Budget) -> None:
    source = skewed()
    recipe = MWEM(PAIRS, MultiplicativeWeights(), rounds=6)
    model = recipe.model(released(budget, recipe, source, seed=0))
    truths = [source.count([query.clique])[0].values for query in PAIRS]
    errors = [np.abs(model.answer(q) - t).sum() for q, t in zip(PAIRS, truths, strict=True)]
    uniform = [np.abs(t.mean() - t).sum() for t in truths]
    assert sum(errors) < 0.75 * sum(uniform)


def test_with_much_budget_and_many_rounds_the_workload_is_met() -> None:
    source = skewed()
    recipe = MWEM(PAIRS, MultiplicativeWeights(sweeps=12), rounds=20)
    model = recipe.model(released(Budget.pure(10**6), recipe, source, seed=0))
    for query in PAIRS:
        assert np.abs(model.answer(query) - source.count([query.clique])[0].values).max() < 20


def test_ranges_and_one_attribute_can_be_asked_too() -> None:
    ranges = Workload.of([Query.product(DOMAIN, {"age": Prefix(), "sex": Identity()})])
    release = released(Budget.pure(1), MWEM(ranges, MultiplicativeWeights(), rounds=2))
    assert all(m.query.rows == 1 for m in release.measurements)
    alone = Domain.of({"a": 3})
    recipe = MWEM(Workload.marginals(alone, 1), MultiplicativeWeights())
    assert recipe.model(released(Budget.pure(1), recipe, skewed(domain=alone))).project("a").total == pytest.approx(
        2000, abs=200
    )


def test_only_the_total_can_be_asked_too() -> None:
    recipe = MWEM(Workload.marginals(DOMAIN, 0), MultiplicativeWeights(), rounds=1)
    model = recipe.model(released(Budget.pure(1), recipe))
    assert np.ptp(model.project("age").values) == pytest.approx(0)


def test_a_table_that_does_not_fit_is_refused_with_its_size_before_anything_is_spent() -> None:
    large = Domain.of({f"x{i}": 10 for i in range(12)})
    budget = Budget.pure(1)
    recipe = MWEM(Workload.marginals(large, 2), MultiplicativeWeights(is_factored=False))
    with curated(budget, skewed(10, large)) as curator, pytest.raises(SizeError) as refused:
        recipe.run(curator, budget)
    assert refused.value.cells == 10**12
    assert curator.left == 1


def test_answers_whose_tables_would_not_fit_are_not_picked() -> None:
    large = Domain.of({f"x{i}": 10 for i in range(6)})
    recipe = MWEM(Workload.marginals(large, 2), MultiplicativeWeights(most_cells=1000), rounds=8)
    release = released(Budget.zcdp(1), recipe, skewed(500, large))
    groups = components(large, [m.query.clique for m in release.measurements])
    assert sum(large.size_of(group) for group in groups) <= 1000


@pytest.mark.parametrize(
    ("workload", "rounds", "error"),
    [
        (Workload.of([]), 1, DomainError),
        (Workload.marginals(Domain.of({"height": 3}), 1), 1, DomainError),
        (PAIRS, 0, OptionError),
    ],
)
def test_what_cannot_be_done_costs_nothing(workload: Workload, rounds: int, error: type[Exception]) -> None:
    budget = Budget.pure(1)
    with curated(budget) as curator:
        with pytest.raises(error):
            MWEM(workload, MultiplicativeWeights(), rounds=rounds).run(curator, budget)
        assert curator.left == 1
