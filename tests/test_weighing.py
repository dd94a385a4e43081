import itertools
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from houses import Rows, curated, random_rows
from priory.app.fit import fit
from priory.data.kinds import Category
from priory.data.schema import Schema
from priory.data.schema.constraints import Condition, Forbid
from priory.estimate.first_model import first_model
from priory.estimate.rows.weigh import weighed
from priory.estimate.rows.work import Work
from priory.mechanisms.steps import weighed_model
from priory.mechanisms.steps.plan import Plan, Settings
from priory.mechanisms.weighing import Weighing
from priory.model import row_sums
from priory.model.bases import PublicRows, Uniform
from priory.model.engine.layout import Layout
from priory.model.fitting import fitting, structure
from priory.model.model import Model
from priory.model.rows import RowsOracle
from priory.privacy.budget import Budget
from priory.privacy.curator import Curator
from priory.privacy.measurement import Measurement
from priory.queries.domain import Clique, Domain
from priory.queries.parts import Identity, Recode
from priory.queries.query import Query
from priory.release import Release
from priory.select.noisy_pairs import joining_pairs, runs, strengths, strong_cliques

BUDGET = Budget.gaussian("1/10")
SIX = Domain.of(dict.fromkeys("abcdef", 3))
# With these pairs are asked about however noisy they are, and never.
DEFAULT = Settings()
PAIRS_ALWAYS, SINGLES = Settings(fewest_runs=0, triple_runs=np.inf), Settings(fewest_runs=np.inf)


def dependent(n: int, domain: Domain = SIX) -> Rows:
    """Rows in which every attribute is mostly the one before."""
    rng = np.random.default_rng(2)
    columns = [rng.integers(0, 3, n)]
    for _ in range(len(domain) - 1):
        columns.append(np.where(rng.random(n) < 0.8, columns[-1], rng.integers(0, 3, n)))
    return Rows(domain, np.stack(columns, axis=1))


def weighed_release(source: Rows, budget: Budget = BUDGET, *, settings: Settings = DEFAULT) -> Release:
    with curated(budget, source) as curator:
        return Weighing(settings=settings).run(curator, budget)


@given(st.lists(st.floats(-5, 100), min_size=1, max_size=30), st.integers(1, 10))
def test_runs_are_neighbours_in_order_and_no_more_than_asked(counts: list[float], most: int) -> None:
    part = runs(np.array(counts), most)
    if isinstance(part, Recode):
        steps = np.diff(part.targets)
        assert set(steps) <= {0, 1}
        assert part.targets[0] == 0
        assert part.targets[-1] < most
    else:
        assert isinstance(part, Identity)
        assert len(counts) <= most


@given(st.lists(st.integers(0, 3), min_size=2, max_size=8), st.integers(1, 3))
def test_merging_neighbours_is_what_the_matrix_of_it_does(steps: list[int], columns: int) -> None:
    part = Recode(np.cumsum([0, *(step > 1 for step in steps)]))
    values = np.arange((len(steps) + 1) * columns).reshape(-1, columns)
    answers = part.apply(values, 0)
    assert answers.dtype == np.int64
    np.testing.assert_array_equal(answers, part.matrix(len(values)) @ values)


@settings(max_examples=10)
@given(st.integers(0, 99))
def test_compiled_sums_are_those_of_the_sparse_matrix(seed: int) -> None:
    rng = np.random.default_rng(seed)
    domain = Domain.of({"a": 3, "b": 300, "c": 300, "d": 2})
    codes = np.stack([rng.integers(0, size, 50, dtype=np.int32) for size in domain.shape], axis=1)
    # The table of b and c has more than 16-bit cells.
    layout = Layout.of(domain, [("a", "d"), ("b", "c"), ("d",), ()])
    oracle = RowsOracle(layout, codes, np.zeros(50))
    theta, shares = rng.normal(size=layout.size), rng.random(50)
    sums = row_sums.CompiledSums(oracle._cells, layout.sizes, len(codes))
    np.testing.assert_allclose(sums.over_cells(shares), oracle._members.sums(shares))
    logs = sum(theta[span].take(cells) for cells, span in zip(oracle._cells, layout.spans, strict=True))
    np.testing.assert_allclose(sums.over_tables(theta), logs)


def test_the_oracle_is_the_same_compiled_or_not(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("numba")
    rows = PublicRows(dependent(300).rows, SIX)
    layout = Layout.of(SIX, [("a", "b"), ("c", "e", "f")])
    theta = np.random.default_rng(0).normal(size=layout.size)
    plain = rows.bind(layout.cliques)(theta)
    monkeypatch.setattr(row_sums, "WORTH_COMPILING", 0)
    compiled = rows.bind(layout.cliques)(theta)
    assert compiled[0] == pytest.approx(plain[0])
    np.testing.assert_allclose(compiled[1], plain[1])


PAIRS = st.lists(st.sampled_from([("a", "b"), ("b", "c"), ("a", "c"), ("d", "e"), ("a", "f")]), unique=True)


@given(PAIRS)
def test_joining_pairs_are_a_forest_that_joins_what_all_pairs_join(pairs: list[Clique]) -> None:
    tree = joining_pairs(SIX, {pair: 10.0 - i for i, pair in enumerate(pairs)}, 9)
    assert set(tree) <= set(pairs)
    assert tree[:1] == pairs[:1]
    # A triangle gives two of its pairs; all other pairs join something.
    triangle = [pair for pair in pairs if set(pair) <= set("abc")]
    assert len(tree) == len(pairs) - (len(triangle) == 3)
    assert joining_pairs(SIX, dict.fromkeys(pairs, 1.0), 8) == []


@given(PAIRS)
def test_chosen_cliques_fit_the_model_and_cover_strong_pairs(pairs: list[Clique]) -> None:
    strength = {pair: 10.0 - i for i, pair in enumerate(pairs)}
    cliques = strong_cliques(SIX, joining_pairs(SIX, strength, 10_000), strength, 10_000)
    assert structure(SIX, cliques).size_in_cells <= 10_000
    assert all(any(set(pair) <= set(clique) for clique in cliques) for pair in pairs)
    assert strong_cliques(SIX, [], strength, 18) == []


def test_triples_never_crowd_out_a_pair_of_the_tree() -> None:
    strength: dict[Clique, float] = {("a", "b"): 9.0, ("b", "c"): 8.0, ("a", "c"): 7.0, ("c", "d"): 1.0}
    # The triple and the last pair together have more cells than there may be.
    cliques = strong_cliques(SIX, [("a", "b"), ("b", "c"), ("c", "d")], strength, 40)
    assert cliques == [("a", "b"), ("b", "c"), ("c", "d")]


def test_a_distance_counts_beyond_as_much_noise_as_it_is_said_to_have() -> None:
    model = Model(Uniform(SIX), {}, 900.0)
    query = Query.marginal(SIX, ("a", "b"))
    # Each answer is one and a half times the mean of |noise| away.
    away = 1.5 * np.sqrt(2 / np.pi) * 10.0
    answer = Measurement.of(query, np.full(query.shape, 100.0 + away), 10.0)
    assert strengths([answer], model) == {("a", "b"): pytest.approx(9 * away / 3)}
    assert strengths([answer], model, noise=1.8) == {}
    # Nine answers' noise has a mean of 9·√(2/π)·10 and a standard deviation of 3·√(1 − 2/π)·10.
    assert strengths([answer], model, spreads=1.9)
    assert strengths([answer], model, spreads=2.1) == {}


def test_cliques_that_would_make_the_tree_too_large_are_left_out() -> None:
    tree = structure(SIX, [("a", "b"), ("b", "c"), ("c", "d")])
    assert fitting(tree, [("a", "d"), ("e", "f")], most=5, most_cells=40) == [("e", "f")]


@given(st.integers(1, 8), st.floats(1, 1e7), st.fractions(Fraction(1, 10**6), 100), st.booleans())
def test_the_shares_of_a_plan_are_what_is_left(columns: int, total: float, amount: Fraction, has_public: bool) -> None:  # noqa: FBT001
    domain = Domain.of(dict.fromkeys("abcdefgh"[:columns], 3))
    plan = Plan.of(domain, Budget.gaussian(amount), total, Settings(), Work(), has_public=has_public)
    assert plan is None or plan.coarse.amount + plan.chosen.amount + plan.everything.amount == amount
    assert plan is None or plan.everything_and_chosen.amount == amount - plan.coarse.amount
    assert plan is None or 2 <= plan.runs <= Settings().most_runs
    assert (plan is not None) or not has_public or columns < 2


@pytest.mark.parametrize(
    ("sizes", "count"),
    [((3,), 100), ((3, 4), 100), ((3, 4, 2), 1), ((3, 4, 2), 0), ((2_000, 20), 400), ((1, 3, 1), 50)],
)
@pytest.mark.parametrize("budget", [Budget.approximate("0.001", "1e-9"), Budget.gaussian(1, relation="replace-one")])
def test_a_table_of_any_size_goes_all_the_way(sizes: tuple[int, ...], count: int, budget: Budget) -> None:
    domain = Domain(tuple("abc"[: len(sizes)]), sizes)
    release = weighed_release(random_rows(count, domain=domain), budget)
    assert release.statement.spent <= budget.amount
    assert release.model.sample(10, seed=0).shape == (10, len(sizes))
    assert np.isfinite(release.model.project(domain.attributes[:2]).values).all()


def test_nothing_is_chosen_privately(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError

    monkeypatch.setattr(Curator, "choose", refuse)
    for settings_ in (PAIRS_ALWAYS, SINGLES):
        assert weighed_release(dependent(500), settings=settings_).statement.mechanism == "weighing"


def test_pairs_are_asked_about_where_they_are_above_the_noise() -> None:
    for count, cliques in ((30, {1}), (20_000, {1, 2, 3})):
        release = weighed_release(dependent(count))
        assert {len(m.query.clique) for m in release.measurements} == cliques


def test_the_pairs_that_depend_are_chosen() -> None:
    release = weighed_release(dependent(20_000))
    pairs = Counter(m.query.clique for m in release.measurements if len(m.query.clique) == 2)
    triples = Counter(m.query.clique for m in release.measurements if len(m.query.clique) == 3)
    # Each pair is asked about coarsely and once by its cells; what was chosen once more, or in a triple.
    for pair in itertools.pairwise("abcdef"):
        assert pairs[pair] == 3 or any(set(pair) <= set(triple) for triple in triples)


def test_a_pure_budget_is_left_to_aim() -> None:
    assert weighed_release(dependent(500), Budget.pure(1)).statement.mechanism == "aim"


@pytest.mark.parametrize(("columns", "is_left"), [(49, False), (50, True)])
def test_very_many_attributes_are_left_to_aim(columns: int, is_left: bool) -> None:  # noqa: FBT001
    assert Weighing().is_left_to_aim(Domain.of({f"a{i}": 2 for i in range(columns)}), BUDGET) == is_left


@pytest.mark.statistical
def test_what_depends_is_told() -> None:
    source = dependent(20_000)
    truth = source.count([("a", "c")])[0].values / 20_000
    for settings_ in (PAIRS_ALWAYS, replace(PAIRS_ALWAYS, triple_runs=0)):
        model = weighed_release(source, settings=settings_).model
        # Independent attributes are 0.28 off; noise of μ² = 1/10 on 20,000 rows is below a hundredth.
        assert np.abs(model.project(("a", "c")).values / model.total - truth).sum() / 2 < 0.05


def test_no_answer_is_believed_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    weighed_by: list[Sequence[Measurement]] = []
    modelled: list[list[Measurement]] = []

    def weigh(measurements: Sequence[Measurement], *rest: object, **options: object) -> Model:
        weighed_by.append(measurements)
        return weighed(measurements, *rest, **options)  # type: ignore[arg-type]

    def model(
        begin: Sequence[Measurement], candidates: Sequence[Measurement], *rest: object
    ) -> tuple[Model, list[Measurement]]:
        found, outside = first_model(begin, candidates, *rest)  # type: ignore[arg-type]
        modelled.append([*begin, *(m for m in candidates if m not in outside)])
        return found, outside

    monkeypatch.setattr(weighed_model, "weighed", weigh)
    monkeypatch.setattr(weighed_model, "first_model", model)
    for settings_ in (PAIRS_ALWAYS, replace(PAIRS_ALWAYS, triple_runs=0)):
        weighed_by.clear()
        release = weighed_release(dependent(5_000), settings=settings_)
        both = Counter(key(m) for m in [*weighed_by[0], *modelled[-1]])
        assert both == Counter(key(m) for m in release.measurements)


def test_a_triple_that_stands_out_is_told_and_the_others_are_left_alone() -> None:
    rng = np.random.default_rng(4)
    one, two = rng.integers(0, 2, (2, 20_000))
    domain = Domain.of(dict.fromkeys("abc", 2) | dict.fromkeys("defghi", 4))
    source = Rows(domain, np.stack([one, two, one ^ two, *rng.integers(0, 4, (6, 20_000))], axis=1))
    model = weighed_release(source, Budget.gaussian("1/30")).model
    # Each two of the first three are independent, and the third is fixed by them: pairs do not tell.
    cliques = list(itertools.combinations(domain, 3))
    truths = source.count(cliques)
    errors = [
        np.abs(model.project(clique).values / model.total - truth.values / 20_000).sum() / 2
        for clique, truth in zip(cliques, truths, strict=True)
    ]
    # Rows weighed by all triples alike are off by about 0.025, as the noise of all is fitted along with the one.
    assert np.mean(errors) < 0.023


def key(measurement: Measurement) -> tuple[Query, bytes]:
    return measurement.query, np.asarray(measurement.values, dtype=np.float64).tobytes()


def test_rows_are_fewer_than_the_caps_on_work() -> None:
    work = Work(rows=1_000, most_rows=4_000, places=30_000, fewest_rows=100)
    assert work.rows_for(10, 1) == 160
    assert work.rows_for(1, 1) == 100
    assert work.rows_for(500, 1) == 1_000
    assert work.rows_for(1_000, 1) == 2_000
    assert work.rows_for(10**6, 1) == 4_000
    assert work.rows_for(10**6, 10) == 3_000
    assert work.rows_for(10**6, 10**6) == 100


@pytest.mark.statistical
@pytest.mark.parametrize("mu_squared", ["1/10", 4])
def test_the_number_of_records_is_as_uncertain_as_it_is_said_to_be(mu_squared: str | int) -> None:
    source = dependent(5_000)
    releases = [weighed_release(source, Budget.gaussian(mu_squared)) for _ in range(8)]
    ends = [
        [float(np.asarray(found.columns[name].values)[0]) for name in ("low", "estimate", "high")]
        for found in (release.count(level=0.9) for release in releases)
    ]
    low, estimate, high = np.transpose(ends)
    # That of eight errors is off by such a factor once in ten thousand times.
    assert 0.3 < np.sqrt(np.mean((estimate - 5_000) ** 2)) / (np.mean(high - low) / 2 / 1.645) < 2


def test_rows_never_break_a_constraint() -> None:
    levels = ("x", "y", "z")
    columns = [Category.of(name, levels, other="z") for name in "abc"]
    never = Forbid(conditions=tuple(Condition(column=name, values=("x",)) for name in "ab"))
    schema = Schema.of(columns, name="three", constraints=[never])
    rng = np.random.default_rng(0)
    frame = {name: rng.choice(levels, 300).tolist() for name in "abc"}
    release = fit(frame, schema, epsilon=1, delta="1e-6", mechanism="weighing")
    assert release.statement.mechanism == "weighing"
    codes = release.model.sample(2_000, seed=0)
    assert not ((codes[:, 0] == 0) & (codes[:, 1] == 0)).any()


def test_rows_that_the_answers_bear_out_are_left_alone() -> None:
    base = PublicRows(dependent(2_000).rows, SIX)
    rng = np.random.default_rng(3)
    queries = [Query.marginal(SIX, pair) for pair in (("a", "b"), ("c", "d"), ("e", "f"))]
    truths = base.tilt({}).answers(queries)
    measured = [
        Measurement.of(q, 2_000 * t + rng.normal(0, 200, q.shape), 200.0) for q, t in zip(queries, truths, strict=True)
    ]
    model = weighed(measured, base, 2_000.0)
    noisy = sum(float(np.abs(m.values - 2_000 * t).sum()) for m, t in zip(measured, truths, strict=True))
    moved = sum(
        float(np.abs(answer - 2_000 * t).sum()) for answer, t in zip(model.answers(queries), truths, strict=True)
    )
    # The noise of 27 answers is fitted hardly at all, where nothing but noise is there to fit.
    assert moved < noisy / 2
