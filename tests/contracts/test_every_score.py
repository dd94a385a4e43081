"""One contract for all scores: no neighbour moves one by more than is paid for, and the list of them is closed."""

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest

from houses import DOMAIN, Rows, curated
from priory.errors import OptionError
from priory.privacy.budget import Budget
from priory.privacy.noise import Integers
from priory.privacy.scores import SCORES, AbsoluteError, Dependence, L1Error, Neighbours, Payoff, Score
from priory.queries.domain import Domain
from priory.queries.parts import Identity, Matrix, Numbers, Prefix, Total
from priory.queries.query import Query
from priory.queries.sensitivity import Relation

SMALL = Domain.of({"a": 2, "b": 3})
QUERIES = (
    Query.marginal(SMALL, ("a", "b")),
    Query.product(SMALL, {"a": Identity(), "b": Prefix()}),
    Query.product(SMALL, {"a": Total(), "b": Matrix([[1, 0, -2]])}),
)
ESTIMATES = (
    np.array([[0.3, 1.7, 0], [0.1, 2.2, 0.5]]),
    np.array([[0.5, 1.0, 1.25], [0.0, 2.0, 3.0]]),
    np.array([[-0.75]]),
)
# Members of each score, and for each the queries that it is asked about.
MEMBERS: dict[type[Score], list[tuple[Score, tuple[int, ...]]]] = {
    AbsoluteError: [(AbsoluteError(), chosen) for chosen in ((0,), (1,), (2,), (0, 1, 2))],
    L1Error: [
        (L1Error(), (0,)),
        (L1Error(), (2,)),
        (L1Error(weights=(3.0, 1.0, 2.0), expected=(1.5, 0.0, 9.0)), (0, 1, 2)),
    ],
    Dependence: [(Dependence(("a",)), (0,)), (Dependence(("b",)), (0,))],
    Payoff: [(Payoff(3, 2.5), chosen) for chosen in ((0,), (1,), (2,), (0, 1, 2))],
}
CASES = [pytest.param(*member, id=f"{member[0]}-{member[1]}") for kind in SCORES for member in MEMBERS[kind]]


def neighbouring(domain: Domain, relation: Relation, rows: int) -> Iterator[tuple[Rows, Rows]]:
    """Every pair of neighbouring tables of about `rows` rows, with one row a person."""
    cells = list(itertools.product(*(range(size) for size in domain.shape)))
    for table in itertools.combinations_with_replacement(cells, rows):
        for cell in cells:
            if relation is Relation.ADD_REMOVE:
                yield Rows(domain, list(table)), Rows(domain, [*table, cell])
            elif table:
                yield Rows(domain, list(table)), Rows(domain, [*table[:-1], cell])


def scored(score: Score, chosen: Sequence[int], source: Rows, estimates: Sequence[Numbers] = ESTIMATES) -> Integers:
    asked = [QUERIES[i] for i in chosen]
    answers = [query(source.count([query.clique])[0].values) for query in asked]
    truths = [*answers, np.array(len(source.rows))] if score.needs_rows else answers
    return score.scores(asked, truths, [estimates[i] for i in chosen] if score.needs_estimates else [])


def claimed(score: Score, chosen: Sequence[int], relation: Relation, rows: int) -> int:
    public = rows if score.knows_total and relation is Relation.REPLACE_ONE else None
    return int(score.sensitivity([QUERIES[i] for i in chosen], Neighbours(relation, 1, public)))


def test_every_score_of_the_closed_list_is_tried() -> None:
    assert set(MEMBERS) == set(SCORES)
    assert len({kind.kind for kind in SCORES}) == len(SCORES)


@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize("rows", [0, 1, 2, 3])
@pytest.mark.parametrize(("score", "chosen"), CASES)
def test_no_neighbour_moves_a_score_by_more_than_its_sensitivity(
    score: Score, chosen: tuple[int, ...], rows: int, relation: Relation
) -> None:
    # Without rows there is no dependence.
    rows = max(rows, 1) if score.knows_total else rows
    most = claimed(score, chosen, relation, rows)
    for one, other in neighbouring(SMALL, relation, rows):
        assert np.abs(scored(score, chosen, one) - scored(score, chosen, other)).max() <= most


@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize("kind", [kind for kind in SCORES if kind.needs_estimates], ids=lambda kind: kind.__name__)
def test_the_sensitivity_of_a_score_is_reached_by_some_neighbours(kind: type[Score], relation: Relation) -> None:
    score, pairs = MEMBERS[kind][0][0], list(neighbouring(SMALL, relation, 1))
    reached = max(
        int(np.abs(scored(score, (0,), one, [estimate]) - scored(score, (0,), other, [estimate])).max())
        for estimate in (np.zeros((2, 3)), np.eye(2, 3) * 50)
        for one, other in pairs
    )
    assert reached >= 0.99 * claimed(score, (0,), relation, 1)


@pytest.mark.parametrize(("score", "chosen"), CASES)
def test_scores_are_integers_one_for_each_candidate_and_each_can_be_picked(
    score: Score, chosen: tuple[int, ...]
) -> None:
    asked = [QUERIES[i] for i in chosen]
    scores = scored(score, chosen, Rows(SMALL, [(0, 1), (1, 2)]))
    assert scores.dtype == np.int64
    assert len(scores) == score.candidates(asked)
    picks = [score.pick(asked, place) for place in range(len(scores))]
    assert len(set(picks)) == len(picks)
    assert all(0 <= pick.query < len(asked) for pick in picks)


@pytest.mark.parametrize(("score", "chosen"), CASES)
def test_scores_lie_on_a_lattice_that_sensitivities_are_whole_steps_of(score: Score, chosen: tuple[int, ...]) -> None:
    for relation in Relation:
        moved = score.sensitivity([QUERIES[i] for i in chosen], Neighbours(relation, 1, None))
        assert moved.denominator == 1
        assert moved > 0


@pytest.mark.parametrize("kind", SCORES, ids=lambda kind: kind.__name__)
def test_a_score_derived_from_one_of_the_list_is_refused(kind: type[Score]) -> None:
    score = MEMBERS[kind][0][0]
    derived: Any = object.__new__(type("Derived", (kind,), {}))
    derived.__dict__.update(score.__dict__)
    half = Budget.zcdp("1/2")
    with curated(half) as curator:
        with pytest.raises(OptionError, match="closed"):
            curator.choose([Query.marginal(DOMAIN, "age")], [np.zeros(4)], derived, half)
        assert curator.left == half.amount
