from dataclasses import dataclass

import numpy as np
import pytest

from houses import DOMAIN, Rows, curated
from priory.app.registry import Mechanism
from priory.errors import SizeError
from priory.mechanisms.dualquery.dualquery import DualQuery
from priory.mechanisms.dualquery.estimates import SampleLoss, records_model, rounds_of, sampled_model
from priory.mechanisms.hdmm.hdmm import HDMM, LeastSquares
from priory.mechanisms.mwem.multiplicative_weights import MultiplicativeWeights
from priory.mechanisms.mwem.mwem import MWEM, Graphical, graphical_model
from priory.mechanisms.privbayes import PrivBayes, network_model
from priory.model.bases import Uniform
from priory.model.model import Model
from priory.privacy.budget import Budget
from priory.privacy.randomness import Replay
from priory.queries.domain import Domain
from priory.queries.factor import Array
from priory.queries.query import Query
from priory.queries.workload import Workload
from priory.release import Release
from problems import at_marginals

PAIRS = Workload.marginals(DOMAIN, 2)
BUDGETS = [Budget.pure(1), Budget.zcdp("1/20", relation="replace-one")]
N = 20_000


def skewed(n: int = N, domain: Domain = DOMAIN) -> Rows:
    rng = np.random.default_rng(3)
    return Rows(domain, np.stack([rng.binomial(size - 1, 0.15, n) for size in domain.shape], axis=1))


SOURCE = skewed()
TRUTHS = [q(SOURCE.count([q.clique])[0].values) for q in PAIRS]


def error(answers: list[Array]) -> float:
    """The share of a uniform table's error that is left."""
    uniform = [np.abs(t.mean() - t).sum() for t in TRUTHS]
    return float(sum(np.abs(a - t).sum() for a, t in zip(answers, TRUTHS, strict=True)) / sum(uniform))


def released(recipe: Mechanism, budget: Budget) -> Release:
    with curated(budget, SOURCE, randomness=Replay(seed=0)) as curator:
        release = recipe.run(curator, budget)
        assert curator.left == 0
    return release


@dataclass(frozen=True)
class Seen:
    own: float
    graphical: float


@pytest.mark.parametrize("budget", BUDGETS)
def test_the_graphical_model_of_hdmms_answers_is_no_worse_than_least_squares(budget: Budget) -> None:
    release = released(HDMM(PAIRS), budget)
    own = LeastSquares.of(DOMAIN, release.measurements)
    # Where signal dominates, stopping early can only lose; the law is about the estimate itself.
    model = graphical_model(release, stop="converged")
    seen = Seen(error([own.answer(q) for q in PAIRS]), error(model.answers(PAIRS.queries)))
    assert seen.graphical < 1.02 * seen.own < 0.05
    assert error(graphical_model(release).answers(PAIRS.queries)) < 2 * seen.own


@pytest.mark.parametrize("budget", BUDGETS)
def test_the_graphical_model_of_privbayes_families_is_better_than_its_own_rows(budget: Budget) -> None:
    release = released(PrivBayes(), budget)
    own = network_model(release, seed=0).answers(PAIRS.queries)
    seen = Seen(error(own), error(graphical_model(release).answers(PAIRS.queries)))
    assert seen.graphical < seen.own < 0.1


@pytest.mark.parametrize("budget", BUDGETS)
def test_the_graphical_model_of_dualquerys_samples_is_better_than_its_records(budget: Budget) -> None:
    release = released(DualQuery(PAIRS), budget)
    own = records_model(release).answers(PAIRS.queries)
    seen = Seen(error(own), error(sampled_model(PAIRS, release).answers(PAIRS.queries)))
    assert seen.graphical < seen.own < 0.6


def test_the_graphical_model_of_samples_makes_them_more_likely_than_uniform_does() -> None:
    release = released(DualQuery(PAIRS), BUDGETS[0])
    loss = SampleLoss(DOMAIN, PAIRS, rounds_of(release), float(release.measurements[0].values))
    fitted = sampled_model(PAIRS, release)
    uniform = Model(Uniform(DOMAIN), {}, fitted.total)
    values = [at_marginals(loss, {c: model.project(c) for c in PAIRS.cliques})[0] for model in (fitted, uniform)]
    assert values[0] < values[1]


@pytest.mark.parametrize("budget", BUDGETS)
def test_mwem_with_a_graphical_model_is_better_than_with_weights_and_both_than_uniform(budget: Budget) -> None:
    found = []
    for update in (MultiplicativeWeights(), Graphical()):
        recipe = MWEM(PAIRS, update, rounds=5)
        release = released(recipe, budget)
        assert release.statement.mechanism == update.name
        found.append(error(recipe.model(release).answers(PAIRS.queries)))
    assert found[1] < found[0] < 0.7


def test_the_public_number_of_rows_is_the_models() -> None:
    release = released(HDMM(PAIRS), Budget.pure(1, relation="replace-one"))
    assert graphical_model(release).total == N
    assert graphical_model(released(HDMM(PAIRS), Budget.pure(1))).total == pytest.approx(N, rel=0.01)


def test_a_budget_so_large_that_noise_vanishes_gives_a_model_still() -> None:
    release = released(HDMM(PAIRS, kind="equal"), Budget.zcdp(10**9))
    assert error(graphical_model(release).answers(PAIRS.queries)) < 0.01


def test_answers_whose_model_would_not_fit_are_not_picked_and_none_is_refused_before_paying() -> None:
    wide = Domain.of({f"x{i}": 10 for i in range(5)})
    workload = Workload.of([Query.marginal(wide, c) for c in (("x0", "x1"), ("x1", "x2", "x3", "x4"))])
    update = Graphical(memory_in_bytes=20_000)
    np.testing.assert_array_equal(update.allowed(wide, [], workload.cliques), [True, False])
    recipe = MWEM(workload, Graphical(memory_in_bytes=1000))
    budget = Budget.pure(1)
    with curated(budget, skewed(100, wide)) as curator:
        with pytest.raises(SizeError, match="bytes"):
            recipe.run(curator, budget)
        assert curator.left == 1
