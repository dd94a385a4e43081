import itertools

import numpy as np
import pytest

from houses import DOMAIN, Rows, curated, random_rows
from priory.errors import BudgetError, DomainError
from priory.mechanisms.mst import MST
from priory.mechanisms.steps.fitted import Fitted
from priory.model.bases import PublicRows, Uniform
from priory.privacy.budget import Budget
from priory.privacy.scores import L1Error, Neighbours
from priory.queries.domain import Domain
from priory.queries.parts import Identity, Recode
from priory.queries.query import Query
from priory.queries.sensitivity import Relation
from priory.select.spanning_tree import spanning_tree

LARGE = Budget.zcdp(10**6)
FOUR = Domain.of({"a": 3, "b": 2, "c": 3, "d": 2})


def copies(n: int = 400) -> Rows:
    """`b` says whether `a` is 0, `c` is `a`, `d` is apart."""
    rng = np.random.default_rng(2)
    a, d = rng.integers(0, 3, n), rng.integers(0, 2, n)
    return Rows(FOUR, np.stack([a, a == 0, a, d], axis=1))


def test_the_tree_joins_every_attribute_once() -> None:
    queries = [Query.marginal(FOUR, pair) for pair in itertools.combinations(FOUR, 2)]
    with curated(LARGE, copies()) as curator:
        tree = spanning_tree(curator, queries, Fitted.start(curator, Uniform(FOUR)).model, LARGE)
        assert curator.left == 0
    assert len(tree) == 3
    joined = {"a"}
    for _ in tree:
        joined |= {name for query in tree if joined & set(query.clique) for name in query.clique}
    assert joined == set(FOUR)


def test_pairs_that_depend_are_in_the_tree_and_met() -> None:
    source = copies()
    with curated(LARGE, source) as curator:
        release = MST().run(curator, LARGE)
    pairs = [m.query.clique for m in release.measurements if len(m.query.clique) == 2]
    assert ("a", "c") in pairs
    for pair in itertools.combinations("abc", 2):
        np.testing.assert_allclose(release.model.project(pair).values, source.count([pair])[0].values, atol=2)


def test_values_that_noise_drowns_are_measured_together() -> None:
    rows = np.zeros((1_000, 3), dtype=np.int64)
    rows[:500, 1] = 1
    budget = Budget.zcdp("1/10")
    with curated(budget, Rows(DOMAIN, rows)) as curator:
        release = MST().run(curator, budget)
    parts = {
        name: part
        for m in release.measurements
        if len(m.query.clique) == 2
        for name, part in zip(m.query.clique, m.query.parts, strict=True)
    }
    # Only the first age and the first status are there; both sexes are.
    assert parts == {"age": Recode([0, 1, 1, 1]), "sex": Identity(), "marital-status": Recode([0, 1, 1])}


@pytest.mark.parametrize("relation", list(Relation))
def test_merging_moves_no_score_further(relation: Relation) -> None:
    merged = Query.product(DOMAIN, {"age": Recode([0, 1, 1, 1]), "sex": Identity()})
    whole = Query.marginal(DOMAIN, ("age", "sex"))
    people = Neighbours(relation, 1, None)
    assert L1Error().sensitivity([merged], people) == L1Error().sensitivity([whole], people)
    assert L1Error().sensitivity([whole], people) == 2**10 * (1 if relation is Relation.ADD_REMOVE else 2)


def test_pairs_with_too_many_cells_are_left_out() -> None:
    with curated(LARGE) as curator:
        release = MST(most_cells=6).run(curator, LARGE)
        assert curator.left == 0
    assert [m.query.clique for m in release.measurements][3:] == [("sex", "marital-status")]
    with curated(LARGE) as curator:
        alone = MST(most_cells=1).run(curator, LARGE)
        assert curator.left == 0
    assert len(alone.measurements) == 3


def test_what_cannot_be_done_costs_nothing() -> None:
    source = random_rows()
    with curated(LARGE, source) as curator:
        with pytest.raises(DomainError):
            MST(public=PublicRows([[0]], Domain.of({"age": 4}))).run(curator, LARGE)
        with pytest.raises(BudgetError):
            MST().run(curator, Budget.zcdp(10**7))
        assert curator.reservation.spent == 0
    assert source.looks == 0
