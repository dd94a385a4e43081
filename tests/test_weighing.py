import itertools
from collections import Counter
from collections.abc import Sequence
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
from priory.errors import SizeError
from priory.estimate.weighed_rows import weighed
from priory.mechanisms import weighing
from priory.mechanisms.steps import few_runs, resolution
from priory.mechanisms.steps.fitted import Fitted
from priory.mechanisms.steps.resolution import (
    LEAST_FOR_ONE_WAYS,
    MOST_FOR_ONE_WAYS,
    Coarse,
    Everything,
    resolution_for,
    share_of_one_ways,
)
from priory.mechanisms.weighing import Explained, Weighing
from priory.model import row_sums
from priory.model.bases import PublicRows, Uniform
from priory.model.engine.layout import Layout
from priory.model.model import Model
from priory.model.rows import RowsOracle
from priory.privacy.budget import Budget
from priory.privacy.curator import Curator
from priory.privacy.measurement import Measurement
from priory.queries.domain import Clique, Domain
from priory.queries.parts import Identity, Recode
from priory.queries.query import Query
from priory.release import Release, dense
from priory.select.candidates import structure
from priory.select.noisy_pairs import fitting, joining_pairs, runs, strengths, strong_cliques, surprises

BUDGET = Budget.gaussian("1/10")
SIX = Domain.of(dict.fromkeys("abcdef", 3))
# The limits with which each way to go on after one-way marginals is taken.
EVERYTHING = {"fewest_runs": 0.0}
TREE = {"fewest_runs": np.inf, "fewest_for_a_tree": 0.0}
FOREST = {"fewest_runs": np.inf, "fewest_for_a_tree": np.inf, "fewest_for_a_forest": 0.0}
SINGLES = dict.fromkeys(FOREST, np.inf)


def dependent(n: int, domain: Domain = SIX) -> Rows:
    """Rows in which every attribute is mostly the one before."""
    rng = np.random.default_rng(2)
    columns = [rng.integers(0, 3, n)]
    for _ in range(len(domain) - 1):
        columns.append(np.where(rng.random(n) < 0.8, columns[-1], rng.integers(0, 3, n)))
    return Rows(domain, np.stack(columns, axis=1))


def weighed_release(source: Rows, budget: Budget = BUDGET, **options: float) -> Release:
    with curated(budget, source) as curator:
        return Weighing(**options).run(curator, budget)  # type: ignore[arg-type]


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


@given(st.floats(1, 1e7), st.fractions(Fraction(1, 10**6), 100))
def test_the_shares_add_up_and_one_way_marginals_get_theirs(total: float, amount: Fraction) -> None:
    budget = Budget.gaussian(amount)
    assert LEAST_FOR_ONE_WAYS <= share_of_one_ways(SIX, budget, total) <= MOST_FOR_ONE_WAYS
    plan = resolution_for(SIX, budget, total)
    if plan is None:
        return
    for each in (plan, plan.without_choice()) if isinstance(plan, Everything) else (plan,):
        parts = [part for part in vars(each).values() if isinstance(part, Budget)]
        assert sum(part.amount for part in parts) == amount
    assert getattr(plan, "choosing", budget.part(Weighing.choice_share)).amount <= Weighing.choice_share * amount
    assert not isinstance(plan, Coarse) or 2 <= plan.runs <= 16


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


def test_nothing_but_a_tree_is_chosen_privately(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError

    monkeypatch.setattr(Curator, "choose", refuse)
    for limits in (EVERYTHING, SINGLES):
        assert weighed_release(dependent(500), BUDGET, **limits).statement.mechanism == "weighing"
    for limits in (TREE, FOREST):
        with pytest.raises(PermissionError):
            weighed_release(dependent(500), BUDGET, **limits)


def test_a_tree_is_chosen_where_cells_drown() -> None:
    release = weighed_release(dependent(2_000), BUDGET, **TREE)
    # The pairs of the tree come last; every attribute is mostly the one before.
    assert {m.query.clique for m in release.measurements[-5:]} == set(itertools.pairwise("abcdef"))


def test_the_rest_of_a_tree_is_chosen_where_its_first_pairs_tie_attributes() -> None:
    tree, free = set(itertools.pairwise("abcdef")), np.random.default_rng(0).integers(0, 3, (2_000, 6))
    free[:, 1] = np.where(free[:, 2] > 0, free[:, 1], free[:, 0])
    for rows, cliques in ((dependent(2_000), tree), (Rows(SIX, free), None)):
        chosen = [
            m.query.clique for m in weighed_release(rows, BUDGET, **FOREST).measurements if len(m.query.clique) == 2
        ]
        # Two of six attributes' pairs are measured first, and then all of the tree or the same two.
        assert set(chosen[2:]) == (cliques or set(chosen[:2]))
        assert len(set(chosen[:2])) == 2


def test_a_pure_budget_is_left_to_aim() -> None:
    assert weighed_release(dependent(500), Budget.pure(1)).statement.mechanism == "aim"


@pytest.mark.parametrize(
    ("columns", "limits", "mechanism"),
    [(49, EVERYTHING, "weighing"), (50, EVERYTHING, "aim"), (50, TREE, "aim"), (50, FOREST, "weighing"),
     (111, FOREST, "aim"), (111, SINGLES, "weighing")],
)  # fmt: skip
def test_very_many_attributes_are_left_to_aim(columns: int, limits: dict[str, float], mechanism: str) -> None:
    wide = Domain.of({f"a{i}": 2 for i in range(columns)})
    assert Weighing(**limits).is_left_to_aim(wide, BUDGET, 500) == (mechanism == "aim")  # type: ignore[arg-type]


@pytest.mark.parametrize("columns", [50, 111])
def test_single_attributes_of_any_number_are_measured_where_nothing_else_can_be_heard(columns: int) -> None:
    rows = random_rows(20, domain=Domain.of({f"a{i}": 2 for i in range(columns)}))
    release = weighed_release(rows, Budget.gaussian("1/1000000"))
    assert release.statement.mechanism == "weighing"
    assert {len(m.query.clique) for m in release.measurements} == {1}


def test_where_every_pair_is_too_large_for_a_tree_none_is_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(few_runs, "MOST_CELLS", 8)
    release = weighed_release(dependent(500), BUDGET, **TREE)
    pairs = [m.query.clique for m in release.measurements if len(m.query.clique) == 2]
    assert pairs == list(itertools.combinations(SIX, 2))


def test_what_is_left_goes_to_aim_where_there_are_very_many_records(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weighing, "MOST_PLACES", 3 * 20_000 * 15)
    monkeypatch.setattr(resolution, "MOST_TRIPLE_CELLS", 0)
    few, many = (weighed_release(dependent(count), BUDGET) for count in (15_000, 30_000))
    assert (few.statement.mechanism, many.statement.mechanism) == ("weighing", "aim")
    assert many.statement.spent <= BUDGET.amount
    # The first one-way marginals are in the release, and are not asked for again before their share is spent.
    assert {m.query.clique for m in many.measurements[:6]} == {(name,) for name in SIX}


def test_what_depends_is_told_however_it_is_measured() -> None:
    source = dependent(20_000)
    truth = source.count([("a", "c")])[0].values / 20_000
    for limits in (EVERYTHING, TREE, FOREST):
        model = weighed_release(source, BUDGET, **limits).model
        # Independent attributes are 0.28 off; noise of μ² = 1/10 on 20,000 rows is below a hundredth.
        assert np.abs(model.project(("a", "c")).values / model.total - truth).sum() / 2 < 0.05


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
    # Rows weighted by all triples alike are off by about 0.025, as the noise of all is fitted along with the one.
    assert np.mean(errors) < 0.02


def test_no_clique_is_chosen_where_only_chance_ties_attributes() -> None:
    for rows, is_chosen in ((dependent(20_000), True), (random_rows(20_000, domain=SIX), False)):
        release = weighed_release(rows, Budget.gaussian(1), **EVERYTHING)
        times = Counter(m.query.clique for m in release.measurements if len(m.query.clique) > 1)
        # All pairs, and then all triples, are measured alike; what is chosen is measured once more.
        assert {len(clique) for clique in times} == {2, 3}
        assert (len(set(times.values())) > 1) == is_chosen


@pytest.mark.parametrize(("records", "is_tested"), [(10_000, False), (20_000, True)])
def test_triples_are_explained_only_by_about_as_many_records(records: int, is_tested: bool) -> None:  # noqa: FBT001
    asked = []

    def queries(_one_ways: Fitted, tested: Sequence[Measurement], least: float) -> list[Query]:
        asked.append((len(tested), least))
        return []

    budget, mechanism = Budget.gaussian(1), Weighing()
    with curated(budget, dependent(20_000)) as curator:
        first = mechanism.begun(curator, budget)
        answered = mechanism.answered(curator, budget, first, Explained(queries, records))
    assert answered.has_triples
    assert asked == ([(15, weighing.PARTLY)] if is_tested else [])
    assert len(answered.tested) == (15 if is_tested else 0)


def test_as_many_rows_are_weighted_by_triples_where_one_of_them_is_in_the_first_model(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, count in (("FEWEST_ROWS", 10), ("MOST_PLACES", 1_000), ("MOST_TRIPLE_PLACES", 10_000)):
        monkeypatch.setattr(dense, name, count)
    queries = [Query.marginal(SIX, clique) for clique in itertools.combinations(SIX, 3)]
    triples = [Measurement.of(query, np.zeros(query.shape), 1.0) for query in queries]
    first = Model.of(Uniform(SIX), {}, 10.0)
    # Sixteen rows a record, of which a few are the same; of 19 or 20 marginals that are no triples 50 rows would be.
    assert all(len(dense.Dense().drawn(first, some).codes) > 100 for some in (triples, triples[1:]))


def test_rows_answer_what_a_first_model_cannot(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fit that has paid never ends for lack of memory."""
    compared: list[Model] = []

    def refuse(measured: list[Measurement], model: Model, **options: float) -> dict[Clique, float]:
        compared.append(model)
        if not isinstance(model.base, PublicRows):
            raise SizeError("too large", cells=10**12, limit=10**9)
        return strengths(measured, model, **options)

    monkeypatch.setattr(dense, "strengths", refuse)
    domain = Domain.of(dict.fromkeys("abcdefghijkl", 3))
    source = dependent(20_000, domain)
    model = weighed_release(source, fewest_runs=0.0).model
    assert [isinstance(each.base, PublicRows) for each in compared] == [False, True]
    truth = source.count([("a", "c")])[0].values / 20_000
    assert np.abs(model.project(("a", "c")).values / model.total - truth).sum() / 2 < 0.05


def test_the_error_of_drawn_rows_is_no_surprise() -> None:
    triple = Query.marginal(SIX, ("a", "b", "c"))
    truth = np.full(triple.shape, 100.0)
    rows = np.random.default_rng(1).multinomial(500, truth.reshape(-1) / truth.sum())
    codes = np.repeat(np.indices(SIX.shape).reshape(6, -1).T[:: 3**3], rows, axis=0)
    drawn = Model(PublicRows(codes, SIX), {}, float(truth.sum()))
    exact = Measurement.of(triple, truth, 1.0)
    assert surprises([exact], drawn) == [("a", "b", "c")]
    assert surprises([exact], drawn, drawn=500) == []


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


@pytest.mark.parametrize("fewest_runs", [2, np.inf])
def test_a_tree_that_ties_all_attributes_is_measured_again(fewest_runs: float) -> None:
    rng = np.random.default_rng(0)
    column, domain = rng.integers(0, 8, 40_000), Domain.of(dict.fromkeys("abcdef", 8))
    tied = np.stack([rng.permutation(8)[column] for _ in domain], axis=1)
    release = weighed_release(Rows(domain, tied), Budget.gaussian("1/400"), fewest_runs=fewest_runs)
    # They come last, and twice.
    pairs = [m.query for m in release.measurements][-10:]
    assert pairs[:5] == pairs[5:]
    assert {len(query.clique) for query in pairs} == {2}


def test_single_attributes_are_measured_again_where_nothing_ties_them() -> None:
    domain = Domain.of(dict.fromkeys("abcdef", 4))
    free = np.random.default_rng(0).integers(0, 4, (40_000, 6))
    release = weighed_release(Rows(domain, free), Budget.gaussian("1/400"), fewest_runs=np.inf)
    sizes = [len(m.query.clique) for m in release.measurements]
    # Five pairs of a tree and no others; what these would have cost went to single attributes.
    assert sizes.count(2) == 5
    assert sizes.count(1) == 12
