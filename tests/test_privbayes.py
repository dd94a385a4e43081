import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from houses import Rows, curated, random_rows
from priory.errors import OptionError
from priory.mechanisms.privbayes import PrivBayes, conditional, network_model, network_rows, useful_cells
from priory.privacy.budget import Budget
from priory.privacy.measurement import Measurement
from priory.privacy.noise import noise_within
from priory.privacy.randomness import Replay
from priory.queries.domain import Domain
from priory.queries.query import Query
from priory.queries.sensitivity import sensitivity
from priory.select.parent_sets import parent_sets

DOMAIN = Domain.of({"a": 3, "b": 2, "c": 4, "d": 2})
BUDGETS = [
    Budget.pure(1),
    Budget.pure(1, relation="replace-one"),
    Budget.zcdp("1/10"),
    Budget.zcdp("1/10", relation="replace-one"),
]


def correlated(n: int = 4000, seed: int = 0) -> Rows:
    rng = np.random.default_rng(seed)
    a = rng.choice(3, n, p=[0.7, 0.2, 0.1])
    b = (rng.random(n) < 0.1 + 0.4 * a).astype(int)
    c = (a + 2 * b + (rng.random(n) < 0.1)) % 4
    return Rows(DOMAIN, np.stack([a, b, c, 1 - b], axis=1))


@given(st.lists(st.integers(1, 5), min_size=1, max_size=6), st.floats(0.5, 60))
def test_parent_sets_are_all_the_largest_ones_that_fit(sizes: list[int], room: float) -> None:
    domain = Domain.of({f"x{i}": size for i, size in enumerate(sizes)})
    subsets = [frozenset(s) for k in range(len(sizes) + 1) for s in itertools.combinations(domain, k)]
    fitting = [s for s in subsets if domain.size_of(s) <= room or not s]
    largest = {s for s in fitting if not any(s < other for other in fitting)}
    found = parent_sets(domain, room, 10**6, np.random.default_rng(0))
    assert {frozenset(parents) for parents in found} == largest
    assert len(found) == len(largest)


def test_where_there_are_too_many_parent_sets_some_that_fit_are_drawn() -> None:
    domain = Domain.of({f"x{i}": 2 for i in range(100)})
    found = parent_sets(domain, 16, 50, np.random.default_rng(0))
    assert len(set(found)) == len(found) == 50
    assert all(len(parents) == 4 for parents in found)


def test_usefulness_is_the_papers_rule_for_laplace_and_replace_one() -> None:
    share = Budget.pure(Fraction(1, 2), relation="replace-one").part(Fraction(1, 15))
    assert useful_cells(48842, share, 4) == pytest.approx(48842 * 0.5 / (2 * 15 * 4))


@pytest.mark.parametrize("budget", BUDGETS)
def test_every_family_is_useful(budget: Budget) -> None:
    recipe = PrivBayes(usefulness=2)
    with curated(budget, correlated()) as curator:
        release = recipe.run(curator, budget)
        assert curator.left == 0
    total, *families = release.measurements
    for family in families:
        if len(family.query.clique) == 1:
            continue
        noise = noise_within(budget.part(Fraction(19, 160)), sensitivity(family.query, budget.relation))
        average = float(noise.scale) * (1 if budget.is_pure else math.sqrt(2 / math.pi))
        assert float(total.values) / family.query.rows >= 0.9 * 2 * average


@pytest.mark.parametrize("budget", BUDGETS)
def test_every_family_brings_one_new_attribute_and_all_are_there(budget: Budget) -> None:
    with curated(budget, correlated()) as curator:
        _, *families = PrivBayes().run(curator, budget).measurements
    seen: set[str] = set()
    for family in families:
        assert len(set(family.query.clique) - seen) == 1
        seen.update(family.query.clique)
    assert seen == set(DOMAIN)


def test_with_nothing_useful_the_families_get_the_whole_budget() -> None:
    budget = Budget.pure(1)
    replay = Replay(seed=1)
    with curated(budget, correlated(), randomness=replay) as curator:
        release = PrivBayes(usefulness=10**9).run(curator, budget)
        assert curator.left == 0
    assert all(len(m.query.clique) <= 1 for m in release.measurements)
    # One request for the total and one for all the families; nothing was chosen.
    assert len(replay.asked) == 2


def test_one_attribute_is_a_network_too() -> None:
    domain = Domain.of({"a": 3})
    budget = Budget.pure(1)
    with curated(budget, random_rows(300, domain=domain)) as curator:
        release = PrivBayes().run(curator, budget)
        assert curator.left == 0
    assert network_model(release, seed=0).project("a").values.shape == (3,)


def test_rows_drawn_along_a_network_have_its_distribution() -> None:
    source = correlated(20000)
    cliques = [("a",), ("a", "b"), ("a", "b", "c"), ("b", "d")]
    queries = [Query.marginal(DOMAIN, clique) for clique in cliques]
    families = [Measurement.of(q, source.count([q.clique])[0].values, 1.0) for q in queries]
    rows = Rows(DOMAIN, network_rows(DOMAIN, families, 200_000, np.random.default_rng(0)))
    for query in [*queries, Query.marginal(DOMAIN, ("c", "d"))]:
        truth = source.count([query.clique])[0].values / 20_000
        # c and d are independent given b in this network, and in the table.
        np.testing.assert_allclose(rows.count([query.clique])[0].values / 200_000, truth, atol=0.006)


def test_conditionals_clip_what_is_negative_and_are_uniform_where_nothing_is_left() -> None:
    counts = np.array([[3.0, -1.0, 1.0], [-2.0, 0.0, -5.0]])
    np.testing.assert_allclose(conditional(counts), [[0.75, 0, 0.25], [1 / 3, 1 / 3, 1 / 3]])


@pytest.mark.parametrize("budget", BUDGETS)
def test_privbayes_answers_pairs_better_than_uniform(budget: Budget) -> None:
    source = correlated()
    with curated(budget, source) as curator:
        release = PrivBayes().run(curator, budget)
    model = network_model(release, seed=0)
    errors = []
    for pair in itertools.combinations(DOMAIN, 2):
        truth = source.count([pair])[0].values
        found = np.abs(model.project(pair).values - truth).sum()
        errors.append(found / np.abs(truth.mean() - truth).sum())
    assert np.mean(errors) < 0.4


def test_settings_that_make_no_sense_cost_nothing() -> None:
    budget = Budget.pure(1)
    with curated(budget, correlated()) as curator:
        for recipe in (PrivBayes(usefulness=0), PrivBayes(candidates=0), PrivBayes(structure=Fraction(1))):
            with pytest.raises(OptionError):
                recipe.run(curator, budget)
        assert curator.left == 1
