import itertools
import math
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from houses import DOMAIN, Rows, curated
from priory.errors import DomainError, OptionError, ReleaseError
from priory.estimate.estimator import estimate
from priory.estimate.loss import CustomLoss
from priory.estimate.papers.mirror_descent import MirrorDescent
from priory.mechanisms.dualquery.data_player import Reward, best_record
from priory.mechanisms.dualquery.dualquery import DualQuery
from priory.mechanisms.dualquery.estimates import SampleLoss, answers, most_likely, records_model, rounds_of
from priory.mechanisms.independent import Independent
from priory.privacy.budget import Budget
from priory.privacy.choice import NoisyMax
from priory.privacy.randomness import Replay
from priory.queries.domain import Domain
from priory.queries.factor import Array, Factor
from priory.queries.parts import Identity, Mean, Prefix
from priory.queries.query import Query
from priory.queries.workload import Workload
from problems import at_marginals
from strategies import binary_parts, queries

PAIRS = Workload.marginals(DOMAIN, 2)
RANGES = Workload.of(
    [
        Query.product(DOMAIN, {"age": Prefix(), "sex": Identity()}),
        Query.marginal(DOMAIN, ("sex", "marital-status")),
    ]
)
BUDGETS = [
    Budget.pure(1),
    Budget.pure(1, relation="replace-one"),
    Budget.zcdp("1/10"),
    Budget.zcdp("1/10", relation="replace-one"),
]


def skewed(n: int = 4000) -> Rows:
    rng = np.random.default_rng(3)
    return Rows(DOMAIN, np.stack([rng.binomial(size - 1, 0.15, n) for size in DOMAIN.shape], axis=1))


@st.composite
def games(draw: st.DrawFn) -> tuple[Domain, list[Reward]]:
    domain = Domain.of({name: draw(st.integers(1, 4)) for name in "abcd"})
    terms = []
    for _ in range(draw(st.integers(1, 8))):
        clique = draw(st.lists(st.sampled_from("abcd"), max_size=3, unique=True))
        query = Query.product(domain, {name: draw(binary_parts(domain[name])) for name in clique})
        terms.append(Reward(query.row(draw(st.integers(0, query.rows - 1))), draw(st.sampled_from([-1.0, 1.0, -2.0]))))
    return domain, terms


def worth(domain: Domain, terms: list[Reward], row: tuple[int, ...]) -> float:
    return sum(term.reward * float(answers(term.query, row, domain).sum()) for term in terms)


@given(games())
def test_the_record_found_is_worth_as_much_as_any(game: tuple[Domain, list[Reward]]) -> None:
    domain, terms = game
    best = max(worth(domain, terms, row) for row in itertools.product(*map(range, domain.shape)))
    found = best_record(domain, terms, np.random.default_rng(0))
    assert worth(domain, terms, tuple(found.tolist())) == pytest.approx(best)


@settings(max_examples=25)
@given(games())
def test_branch_and_bound_finds_one_too(game: tuple[Domain, list[Reward]]) -> None:
    domain, terms = game
    best = max(worth(domain, terms, row) for row in itertools.product(*map(range, domain.shape)))
    found = best_record(domain, terms, np.random.default_rng(0), most_cells=0)
    assert worth(domain, terms, tuple(found.tolist())) == pytest.approx(best)


@given(queries(of=binary_parts), st.data())
def test_the_answers_on_one_record_are_the_querys(query: Query, data: st.DataObject) -> None:
    row = [data.draw(st.integers(0, size - 1)) for size in query.domain.shape]
    table = np.zeros(query.domain.shape)
    table[tuple(row)] = 1
    np.testing.assert_array_equal(answers(query, row, query.domain), query(table))


@pytest.mark.parametrize("budget", BUDGETS)
def test_every_round_samples_as_the_release_says_and_the_whole_budget_is_spent(budget: Budget) -> None:
    source, replay = skewed(), Replay(seed=0)
    with curated(budget, source, randomness=replay) as curator:
        release = DualQuery(RANGES, samples=5).run(curator, budget)
        assert curator.left == 0
    _, *game = rounds_of(release)
    asked = [held for held in replay.asked if isinstance(held.request, NoisyMax)]
    assert len(asked) == 5 * len(game) > 0
    total = max(1.0, float(release.measurements[0].values))
    played = np.zeros(RANGES.rows)
    truth = np.concatenate([np.ravel(q(source.count([q.clique])[0].values)) for q in RANGES])
    for t, held in enumerate(game, start=1):
        row = rounds_of(release)[t - 1].row
        played += np.concatenate([np.ravel(answers(q, row, DOMAIN)) for q in RANGES])
        request = asked[5 * (t - 1)]
        # The curator's scores are on a lattice of 2^−10, so are its scales.
        scores = request.truth[: RANGES.rows] / float(request.request.scale)
        np.testing.assert_allclose(
            scores, held.sharpness * (total * played - t * truth), atol=1e-2 * held.sharpness * t
        )


def test_the_number_of_rounds_is_the_papers_with_zcdp() -> None:
    # n = 48,842, η = 2, s = 50, δ = 10⁻³, ε = 1: about 165 rounds, where advanced composition pays for 58.
    recipe = DualQuery(PAIRS)
    budget = Budget.approximate(1, "0.001")
    assert recipe._affordable(budget, 48_842) == pytest.approx(165, abs=3)
    rounds = recipe._affordable(Budget.pure(1, relation="replace-one"), 48_842)
    assert 2 * rounds * (rounds - 1) * 50 / 48_842 <= 1 < 2 * rounds * (rounds + 1) * 50 / 48_842


@pytest.mark.parametrize("budget", BUDGETS)
def test_the_shares_keep_the_learning_rate(budget: Budget) -> None:
    with curated(budget, skewed()) as curator:
        release = DualQuery(PAIRS, samples=5, learning_rate=1.0).run(curator, budget)
    _, *game = rounds_of(release)
    total = max(1.0, float(release.measurements[0].values))
    rates = [held.sharpness * total for held in game]
    np.testing.assert_allclose(rates, rates[0])
    assert rates[0] >= 1.0


def played_game() -> SampleLoss:
    budget = Budget.zcdp(1)
    with curated(budget, skewed(), randomness=Replay(seed=4)) as curator:
        release = DualQuery(RANGES, samples=10).run(curator, budget)
    return SampleLoss(DOMAIN, RANGES, rounds_of(release), float(release.measurements[0].values))


LOSS = played_game()
CLIQUES = RANGES.cliques


def tables(seed: int) -> dict[tuple[str, ...], Factor]:
    rng = np.random.default_rng(seed)
    found = {}
    for clique in CLIQUES:
        domain = DOMAIN.project(clique)
        found[clique] = Factor(domain, LOSS.total * rng.dirichlet(np.ones(domain.size)).reshape(domain.shape))
    return found


def between(one: dict[tuple[str, ...], Factor], other: dict[tuple[str, ...], Factor], share: float) -> float:
    mixed = {c: Factor(one[c].domain, (1 - share) * one[c].values + share * other[c].values) for c in CLIQUES}
    return at_marginals(LOSS, mixed)[0]


@settings(max_examples=20)
@given(st.integers(0, 10**6))
def test_the_gradient_of_the_loss_equals_finite_differences(seed: int) -> None:
    one, other = tables(seed), tables(seed + 1)
    _, gradient = at_marginals(LOSS, one)
    slope = sum(float((gradient[c] * (other[c].values - one[c].values)).sum()) for c in CLIQUES)
    step = 1e-5
    assert (between(one, other, step) - between(one, other, -step)) / (2 * step) == pytest.approx(
        slope, rel=1e-4, abs=1e-3
    )


@settings(max_examples=20)
@given(st.integers(0, 10**6))
def test_the_loss_is_convex_along_segments(seed: int) -> None:
    one, other = tables(seed), tables(seed + 1)
    values = [between(one, other, share) for share in np.linspace(0, 1, 9)]
    assert (np.diff(values, 2) >= -1e-6 * max(map(abs, values))).all()


def test_the_loss_is_the_likelihood_of_the_samples() -> None:
    marginals = tables(0)
    counts = np.concatenate([np.ravel(q(marginals[q.clique].values)) for q in RANGES])
    starts = [0, *itertools.accumulate(q.rows for q in RANGES)]
    expected, played = 0.0, np.zeros(RANGES.rows)
    for t, held in enumerate(LOSS.game[1:], start=1):
        played += np.concatenate([np.ravel(answers(q, LOSS.game[t - 1].row, DOMAIN)) for q in RANGES])
        plain = held.sharpness * (LOSS.total * played - t * counts)
        both = np.concatenate(
            [plain, held.sharpness * (t * LOSS.total - LOSS.total * played - t * (LOSS.total - counts))]
        )
        for pick in held.picks:
            place = starts[pick.query] + (pick.cell or 0) + pick.is_complement * RANGES.rows
            expected -= both[place] - math.log(np.exp(both - both.max()).sum()) - both.max()
    assert at_marginals(LOSS, marginals)[0] == pytest.approx(expected)


def test_a_game_as_long_and_sharp_as_can_be_overflows_nothing() -> None:
    marginals = tables(0)
    counts = np.concatenate([np.ravel(q(marginals[q.clique].values)) for q in RANGES])
    for factor in (30.0, 3000.0):
        game = [replace(held, sharpness=factor * held.sharpness) for held in LOSS.game]
        loss = SampleLoss(DOMAIN, RANGES, game, LOSS.total)
        expected, played = 0.0, np.zeros(RANGES.rows)
        starts = [0, *itertools.accumulate(q.rows for q in RANGES)]
        for t, held in enumerate(game[1:], start=1):
            played += np.concatenate([np.ravel(answers(q, game[t - 1].row, DOMAIN)) for q in RANGES])
            u = held.sharpness * (LOSS.total * played - t * counts)
            expected += len(held.picks) * float(np.logaddexp.reduce(np.concatenate([u, -u])))
            signs = [(1 - 2 * p.is_complement) * u[starts[p.query] + (p.cell or 0)] for p in held.picks]
            expected -= sum(signs)
        assert loss.near(counts).value == pytest.approx(expected)
        assert np.isfinite(loss.near(counts).slope).all()


@settings(max_examples=20)
@given(st.integers(0, 10**6))
def test_nearby_the_loss_is_below_its_parabola(seed: int) -> None:
    rng = np.random.default_rng(seed)
    here = np.concatenate([np.ravel(q(tables(seed)[q.clique].values)) for q in RANGES])
    near, move = LOSS.near(here), 1e-3 * LOSS.total * rng.normal(size=len(here))
    bent = LOSS.near(here + move).value + LOSS.near(here - move).value - 2 * near.value
    # A little more than the parabola, as the curvature itself changes on the way.
    assert bent <= 1.05 * float(near.curvature @ move**2) + 1e-9


def test_newtons_model_is_nearly_as_likely_as_that_of_many_steps_of_mirror_descent() -> None:
    model = most_likely(LOSS, tolerance=1e-3)
    slow = estimate(
        [],
        DOMAIN,
        total=LOSS.total,
        loss=CustomLoss.of(DOMAIN, CLIQUES, partial(at_marginals, LOSS)),
        solver=MirrorDescent(tolerance=1e-4),
        stop="converged",
    )
    values = [at_marginals(LOSS, {c: found.project(c) for c in CLIQUES})[0] for found in (model, slow)]
    assert values[0] <= 1.002 * values[1]
    assert model.diagnostics is not None
    assert model.diagnostics.has_converged


def test_the_true_marginals_explain_the_samples_better_than_uniform_ones() -> None:
    source = skewed()
    truth = {c: Factor(DOMAIN.project(c), source.count([c])[0].values.astype(float)) for c in CLIQUES}
    uniform = {c: Factor(f.domain, np.full(f.domain.shape, 4000 / f.domain.size)) for c, f in truth.items()}
    assert at_marginals(LOSS, truth)[0] < at_marginals(LOSS, uniform)[0]


def errors(model_answers: list[Array], source: Rows) -> float:
    truths = [q(source.count([q.clique])[0].values) for q in PAIRS]
    uniform = [q(np.full(q.domain.shape, len(source.rows) / q.domain.size)) for q in PAIRS]
    apart = sum(np.abs(a - t).sum() for a, t in zip(model_answers, truths, strict=True))
    return float(apart / sum(np.abs(u - t).sum() for u, t in zip(uniform, truths, strict=True)))


@pytest.mark.parametrize(
    "budget", [Budget.approximate(1, "0.001"), Budget.approximate(1, "0.001", relation="replace-one")]
)
def test_dualquery_answers_its_workload_better_than_uniform(budget: Budget) -> None:
    source = skewed(20_000)
    with curated(budget, source, randomness=Replay(seed=0)) as curator:
        release = DualQuery(PAIRS, learning_rate=4.0).run(curator, budget)
    model = records_model(release)
    assert errors([model.answer(q) for q in PAIRS], source) < 0.6


@pytest.mark.parametrize(
    ("recipe", "error"),
    [
        (DualQuery(Workload.of([])), DomainError),
        (DualQuery(Workload.marginals(Domain.of({"height": 3}), 1)), DomainError),
        (DualQuery(PAIRS, rounds=0), OptionError),
        (DualQuery(PAIRS, rounds=5000), OptionError),
        (DualQuery(PAIRS, samples=0), OptionError),
        (DualQuery(PAIRS, learning_rate=0), OptionError),
        (DualQuery(Workload.of([Query.product(DOMAIN, {"age": Mean([1, 2, 3, 4])})])), OptionError),
    ],
)
def test_what_cannot_be_done_costs_nothing(recipe: DualQuery, error: type[Exception]) -> None:
    budget = Budget.pure(1)
    with curated(budget) as curator:
        with pytest.raises(error):
            recipe.run(curator, budget)
        assert curator.left == 1


def test_a_release_of_another_mechanism_holds_no_game() -> None:
    budget = Budget.pure(1)
    with curated(budget) as curator:
        release = Independent().run(curator, budget)
    assert not release.rounds
    with pytest.raises(ReleaseError, match="DualQuery"):
        rounds_of(release)


def test_rounds_of_a_huge_workload_are_few_and_those_of_others_are_not() -> None:
    huge, usual = (DualQuery(Workload.marginals(Domain.of({"a": size, "b": 2}), 2)) for size in (10**7, 100))
    assert 2 <= huge._most_rounds() <= 20
    assert usual._most_rounds() == usual.most_rounds
