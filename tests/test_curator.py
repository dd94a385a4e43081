import itertools
import pickle
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from houses import DOMAIN, Rows, curated, random_rows
from priory.data.sources.source import ROW_LIMIT
from priory.errors import BudgetError, DomainError, OptionError, SizeError
from priory.privacy.budget import Budget, Currency
from priory.privacy.curator import Curator
from priory.privacy.ledger import Ledger
from priory.privacy.randomness import OperatingSystem, Replay
from priory.privacy.scores import AbsoluteError, Dependence, L1Error, Neighbours, Payoff
from priory.queries.domain import Domain
from priory.queries.parts import Identity, Matrix, Mean, Numbers, Point, Range, Recode, Set, Total
from priory.queries.query import Query
from priory.queries.sensitivity import Relation, largest_change
from strategies import integer_parts, queries

HALF = Budget.zcdp("1/2")
AGE, PAIR = Query.marginal(DOMAIN, "age"), Query.marginal(DOMAIN, ("age", "sex"))
SMALL = Domain.of({"a": 2, "b": 3})


class Doubled(Query):
    def __call__(self, marginal: Numbers) -> Numbers:
        return 2 * super().__call__(marginal)


@pytest.mark.parametrize(
    "query",
    [
        Query(AGE.domain, (Range(-2, 1),)),
        Query(AGE.domain, (Set([-1, 3]),)),
        Query(AGE.domain, (Matrix([[1, 1]]),)),
        Query(AGE.domain, (Recode([0]),)),
        Query(AGE.domain, (Point(1.0),)),  # type: ignore[arg-type]
        Query(AGE.domain, (Range(0, 1.5),)),  # type: ignore[arg-type]
        Doubled(AGE.domain, AGE.parts),
    ],
)
def test_a_query_that_would_not_answer_its_own_matrix_is_refused_and_costs_nothing(query: Query) -> None:
    with curated(HALF) as curator:
        with pytest.raises((DomainError, OptionError)):
            curator.answer([query], [HALF])
        assert curator.left == HALF.amount


def test_a_relation_by_name_buys_no_less_noise() -> None:
    named = Budget(Currency.PURE, Fraction(1), "replace-one")  # type: ignore[arg-type]
    with curated(named, ledger=Ledger.in_memory(Budget.pure(1, relation="replace-one"))) as curator:
        (measured,) = curator.answer([Query.marginal(DOMAIN, "sex")], [named])
        assert curator.relation is Relation.REPLACE_ONE
    assert measured.noise is not None
    assert measured.noise.scale == 2


def test_answers_are_the_truth_and_the_noise_that_was_paid_for() -> None:
    replay, source = Replay(), random_rows()
    with curated(HALF, source, randomness=replay) as curator:
        (measured,) = curator.answer([PAIR], [HALF])
    truth = source.count([("age", "sex")])[0].values
    np.testing.assert_array_equal(replay.asked[0].truth.reshape(truth.shape), truth)
    assert measured.values.dtype == np.int64
    assert measured.values.shape == PAIR.shape
    # ρ = 1/2 at L2 sensitivity 1 buys σ = 1.
    assert measured.noise is not None
    assert measured.noise.scale == 1
    assert measured.noise.kind == "gaussian"


def test_a_pure_budget_buys_laplace_noise_and_permute_and_flip() -> None:
    one, replay = Budget.pure(2), Replay()
    with curated(one, randomness=replay) as curator:
        (measured,) = curator.answer([AGE], [one.part("1/2")])
        curator.choose([AGE], [np.zeros(4)], AbsoluteError(), one.part("1/2"))
    assert measured.noise is not None
    assert (measured.noise.kind, float(measured.noise.scale)) == ("laplace", 1.0)
    assert replay.asked[1].request.kind == "permute-and-flip"


@pytest.mark.parametrize(
    ("relation", "max_rows", "scale"),
    [("add-remove", 1, 1), ("replace-one", 1, 2), ("add-remove", 3, 3), ("replace-one", 3, 6)],
)
def test_noise_follows_the_relation_and_the_rows_of_a_person(relation: str, max_rows: int, scale: int) -> None:
    budget = Budget.pure(1, relation=relation, max_rows=max_rows)
    with curated(budget) as curator:
        (measured,) = curator.answer([AGE], [budget])
    assert measured.noise is not None
    assert measured.noise.scale == scale


@settings(max_examples=20)
@given(st.integers(1, 60))
def test_the_whole_budget_can_be_spent_in_equal_shares(n: int) -> None:
    ledger = Ledger.in_memory(HALF)
    with curated(HALF, ledger=ledger) as curator:
        curator.answer([AGE] * n, HALF.split([1] * n))
        assert curator.left == 0
    assert ledger.left() == 0


def test_overspending_is_refused_and_nothing_is_looked_at() -> None:
    source, ledger = random_rows(), Ledger.in_memory(HALF)
    with curated(HALF.part("1/2"), source, ledger=ledger) as curator:
        curator.answer([AGE], [HALF.part("1/4")])
        looks = source.looks
        with pytest.raises(BudgetError):
            curator.answer([PAIR, AGE], [HALF.part("1/4"), HALF.part("1/4")])
        with pytest.raises(BudgetError):
            curator.choose([PAIR], [np.zeros((4, 2))], L1Error(), HALF)
        assert source.looks == looks
        assert curator.left == Fraction(1, 8)
    assert ledger.left() == Fraction(3, 8)


class Sly(Identity):
    """It says one thing and answers another."""

    def apply(self, values: Numbers, axis: int) -> Numbers:
        return 1000 * super().apply(values, axis)


class Steep(AbsoluteError):
    """It claims to be flat."""

    def sensitivity(self, queries: Sequence[Query], neighbours: Neighbours, row_limit: int = ROW_LIMIT) -> Fraction:
        return super().sensitivity(queries, neighbours, row_limit) / 1000


BAD_CALLS: list[Any] = [
    lambda c: c.answer([Query.product(DOMAIN, {"age": Sly()})], [HALF]),
    lambda c: c.choose([AGE], [np.zeros(4)], Steep(), HALF),
    lambda c: c.answer([AGE], []),
    lambda c: c.answer([AGE], [Budget.pure(1)]),
    lambda c: c.answer([AGE], [Budget.zcdp("1/9", relation="replace-one")]),
    lambda c: c.answer([AGE], [HALF.part("1/2")], noise="none"),
    lambda c: c.answer([Query.marginal(SMALL, "a")], [HALF]),
    lambda c: c.answer([Query.marginal(Domain.of({"age": 5}), "age")], [HALF]),
    lambda c: c.answer([Query.product(DOMAIN, {"age": Mean([0.5, 1, 2, 3])})], [HALF]),
    lambda c: c.answer([Query.product(DOMAIN, {"age": Matrix([[2**31, 0, 0, 0]])})], [HALF]),
    lambda c: c.answer([AGE], [HALF.worth(Fraction(0))]),
    lambda c: c.choose([], [], AbsoluteError(), HALF),
    lambda c: c.choose([AGE], [], AbsoluteError(), HALF),
    lambda c: c.choose([AGE], [np.zeros(3)], AbsoluteError(), HALF),
    lambda c: c.choose([AGE], [np.full(4, np.nan)], AbsoluteError(), HALF),
    lambda c: c.choose([AGE], [np.full(4, np.inf)], L1Error(), HALF),
    lambda c: c.choose([AGE], [np.full(4, 1e300)], L1Error(), HALF),
    lambda c: c.choose([AGE], [np.zeros(4)], L1Error(weights=(1.0, 2.0)), HALF),
    lambda c: c.choose([AGE], [np.zeros(4)], L1Error(weights=(-1.0,)), HALF),
    lambda c: c.choose([AGE], [np.zeros(4)], L1Error(expected=(float("nan"),)), HALF),
    lambda c: c.choose([AGE], [np.zeros(4)], AbsoluteError(), HALF, draws=0),
    lambda c: c.choose([AGE], [np.zeros(4)], AbsoluteError(), HALF, allowed=np.zeros(4, dtype=bool)),
    lambda c: c.choose([AGE], [np.zeros(4)], AbsoluteError(), HALF, allowed=np.ones(3, dtype=bool)),
    lambda c: c.choose([AGE], [np.zeros(4)], Payoff(0, 10), HALF),
    lambda c: c.choose([AGE], [np.zeros(4)], Payoff(1, float("nan")), HALF),
    lambda c: c.choose([AGE], [], Dependence(("sex",)), HALF),
    lambda c: c.choose([AGE], [], Dependence(()), HALF),
    lambda c: c.choose([AGE], [np.zeros(4)], Dependence(("age",)), HALF),
    lambda c: c.choose([Query.product(DOMAIN, {"age": Matrix([[2**25, 0, 0, 0]])})], [np.zeros(1)], L1Error(), HALF),
]


@pytest.mark.parametrize("call", BAD_CALLS)
def test_bad_requests_cost_nothing_and_see_nothing(call: Any) -> None:
    source = random_rows()
    with curated(HALF, source) as curator:
        with pytest.raises((OptionError, DomainError)):
            call(curator)
        assert source.looks == 0
        assert curator.left == HALF.amount


def test_a_marginal_too_large_to_count_costs_nothing() -> None:
    domain = Domain.of({"a": 10**5, "b": 10**5})
    source = Rows(domain, [[0, 0]])
    with curated(HALF, source) as curator:
        with pytest.raises(SizeError):
            curator.answer([Query.marginal(domain, ("a", "b"))], [HALF])
        assert source.looks == 0
        assert curator.left == HALF.amount


def test_a_curator_shows_and_saves_nothing_private() -> None:
    source = random_rows(n=123_456)
    with curated(HALF, source) as curator:
        curator.answer([AGE], [HALF])
        assert "123456" not in repr(curator) + str(vars(curator.reservation))
        with pytest.raises(TypeError, match="never written"):
            pickle.dumps(curator)


def test_the_number_of_rows_is_public_only_under_replace_one_with_one_row_a_person() -> None:
    cases = [("add-remove", 1, None), ("replace-one", 1, 200), ("replace-one", 2, None)]
    for relation, max_rows, expected in cases:
        with curated(Budget.pure(1, relation=relation, max_rows=max_rows)) as curator:
            assert curator.public_total == expected


def test_a_public_total_is_answered_exactly_and_for_nothing() -> None:
    budget = Budget.zcdp(1, relation="replace-one")
    with curated(budget) as curator:
        (measured,) = curator.answer([Query.product(DOMAIN, {"age": Total()})], [budget])
        assert measured.values.tolist() == [200]
        assert curator.left == 1


def test_the_statement_says_not_private_where_the_randomness_is_for_tests() -> None:
    for randomness, stamped in [(None, False), (Replay(), True), (Replay(seed=1), True)]:
        with curated(HALF, randomness=randomness) as curator:
            statement = curator.statement("test")
            assert statement.is_private is not stamped
            assert ("NOT PRIVATE" in str(statement)) is stamped


def test_randomness_that_calls_itself_private_is_not_believed() -> None:
    class Braggart(OperatingSystem):
        is_private = True

    with curated(HALF, randomness=Braggart()) as curator:
        assert not curator.statement("test").is_private


def test_a_seeded_replay_gives_the_same_answers_again() -> None:
    def values() -> list[int]:
        with curated(HALF, randomness=Replay(seed=3)) as curator:
            pick = curator.choose([AGE], [np.zeros(4)], AbsoluteError(), HALF.part("1/2"))
            (measured,) = curator.answer([AGE], [HALF.part("1/2")])
            return [*measured.values.tolist(), pick[0].cell or 0]

    assert values() == values()


def test_a_forced_transcript_is_returned_whatever_the_truth() -> None:
    first = Replay()
    with curated(HALF, random_rows(seed=1), randomness=first) as curator:
        curator.choose([AGE], [np.zeros(4)], AbsoluteError(), HALF.part("1/2"))
        (one,) = curator.answer([AGE], [HALF.part("1/2")])
    second = Replay(first.transcript)
    with curated(HALF, random_rows(seed=2), randomness=second) as curator:
        curator.choose([AGE], [np.zeros(4)], AbsoluteError(), HALF.part("1/2"))
        (two,) = curator.answer([AGE], [HALF.part("1/2")])
    np.testing.assert_array_equal(one.values, two.values)
    with curated(HALF, randomness=Replay(first.transcript)) as curator, pytest.raises(AssertionError, match="path"):
        curator.answer([AGE], [HALF])


def test_only_allowed_candidates_are_picked() -> None:
    allowed = np.array([False, False, True, False])
    with curated(HALF) as curator:
        for part in HALF.split([1] * 10):
            (pick,) = curator.choose([AGE], [np.zeros(4)], AbsoluteError(), part, allowed=allowed)
            assert (pick.query, pick.cell) == (0, 2)


def test_each_draw_of_a_choice_is_paid_for() -> None:
    replay = Replay()
    with curated(HALF, randomness=replay) as curator:
        assert len(curator.choose([AGE], [np.zeros(4)], AbsoluteError(), HALF, draws=8)) == 8
        assert curator.left == 0
    # ρ = 1/16 a draw at sensitivity 2^10 steps: scale² = Δ²/2ρ.
    assert [float(asked.request.scale) for asked in replay.asked] == [pytest.approx(2**10 * 8**0.5)] * 8


def test_the_largest_error_is_picked_when_the_budget_is_large() -> None:
    source = random_rows()
    truth = source.count([("age", "sex")])[0].values.astype(float)
    estimate = truth.copy()
    estimate[2, 1] += 50
    large = Budget.zcdp(1000)
    with curated(large, source) as curator:
        one, two = large.split([1, 1])
        (pick,) = curator.choose([AGE, PAIR], [truth.sum(axis=1), estimate], AbsoluteError(), one)
        assert (pick.query, pick.cell) == (1, 5)
        (whole,) = curator.choose([AGE, PAIR], [truth.sum(axis=1), estimate], L1Error(), two)
        assert (whole.query, whole.cell) == (1, None)


def test_a_dependence_is_n_times_r_rounded_down() -> None:
    rng = np.random.default_rng(0)
    counts = rng.integers(0, 9, (3, 4))
    n = counts.sum()
    expected = 0.5 * np.abs(counts - np.outer(counts.sum(1), counts.sum(0)) / n).sum()
    query = Query.marginal(Domain.of({"x": 3, "p": 4}), ("x", "p"))
    (scored,) = Dependence(("x",)).scores([query], [counts], [])
    assert 0 <= expected * 2**10 - scored < 1
    # A table too large for 64-bit products is scored exactly too.
    (large,) = Dependence(("x",)).scores([query], [counts * 10**9], [])
    assert large == int(
        Fraction(int(np.abs(n * counts - np.outer(counts.sum(1), counts.sum(0))).sum()), 2 * int(n)) * 10**9 * 2**10
    )


def test_payoffs_are_those_of_dual_query() -> None:
    source = random_rows(50, domain=SMALL)
    query, records = Query.marginal(SMALL, "a"), [0, 1, 1]
    estimate = 48.0 * np.bincount(records, minlength=2)
    answers, total = query(source.count([("a",)])[0].values), np.array(50)
    scores = Payoff(3, 48).scores([query], [answers, total], [estimate])
    plain = -(3 * answers - estimate)
    complement = -(3 * (50 - answers) - (3 * 48 - estimate))
    np.testing.assert_array_equal(scores, 2**10 * np.concatenate([plain, complement]))
    picked = Payoff(3, 48).pick([query], 3)
    assert (picked.query, picked.cell, picked.is_complement) == (0, 1, True)


@given(queries(of=integer_parts, max_cells=12), st.sampled_from(list(Relation)), st.integers(1, 2))
def test_no_person_moves_an_answer_by_more_than_the_largest_change(
    query: Query, relation: Relation, max_rows: int
) -> None:
    columns = query.dense().T.astype(object)
    persons = [
        sum((columns[cell] for cell in cells), np.zeros(query.rows, dtype=object))
        for n in range(max_rows + 1)
        for cells in itertools.combinations_with_replacement(range(len(columns)), n)
        if relation is Relation.ADD_REMOVE or max_rows > 1 or n == 1
    ]
    others = [np.zeros(query.rows, dtype=object)] if relation is Relation.ADD_REMOVE else persons
    worst = max(int(np.abs(a - b).max()) for a in persons for b in others)
    assert worst <= largest_change(query, relation, max_rows)
    if query.rows == 1:
        assert worst == largest_change(query, relation, max_rows)


def test_answers_are_counted_once_and_scored_again() -> None:
    source = random_rows()
    with curated(HALF, source) as curator:
        for part in HALF.split([1] * 5):
            curator.choose([AGE, PAIR], [np.zeros(4), np.zeros((4, 2))], L1Error(), part)
        assert source.looks == 1


def test_the_curator_keeps_its_own_reservation_open_only_inside_the_run() -> None:
    with curated(HALF) as curator:
        pass
    with pytest.raises(Exception, match="settled"):
        Curator.answer(curator, [AGE], [HALF])


class Shifty(list[Query]):
    """A sequence that gives queries of another class once it was read."""

    def __iter__(self) -> Iterator[Query]:
        yield from tuple(super().__iter__())
        self[:] = [Doubled(query.domain, query.parts) for query in super().__iter__()]


def test_queries_are_read_once_so_that_what_was_checked_is_what_is_answered() -> None:
    with curated(HALF) as curator:
        (measured,) = curator.answer(Shifty([AGE]), [HALF.part("1/2")])
        assert type(measured.query) is Query
        with patch.object(curator._truths, "of", return_value=[np.zeros(4, dtype=np.int64)]) as truths:
            curator.choose(Shifty([AGE]), [np.zeros(4)], L1Error(), HALF.part("1/2"))
    [(asked,)] = [call.args for call in truths.call_args_list]
    assert [type(query) for query in asked] == [Query]
