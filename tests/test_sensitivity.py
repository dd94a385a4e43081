import itertools
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from priory.errors import OptionError
from priory.queries.domain import Domain
from priory.queries.parts import Identity, Matrix, Mean, Prefix, Total
from priory.queries.query import Query
from priory.queries.sensitivity import Relation, Sensitivity, largest_change, sensitivity
from strategies import binary_parts, integer_parts, queries

BOTH = list(Relation)


def brute_force(query: Query, relation: Relation, max_rows: int) -> Sensitivity:
    """Look at every neighbour: the records of one person are any multiset of at most max_rows cells."""
    columns = query.dense().T.astype(object)
    persons = [
        sum((columns[cell] for cell in cells), np.zeros(query.rows, dtype=object))
        for n in range(max_rows + 1)
        for cells in itertools.combinations_with_replacement(range(len(columns)), n)
        # One record each: replacing a person replaces a record. With more, only the number of persons is public.
        if relation is Relation.ADD_REMOVE or max_rows > 1 or n == 1
    ]
    empty = np.zeros(query.rows, dtype=object)
    pairs = itertools.product(persons, [empty] if relation is Relation.ADD_REMOVE else persons)
    differences = [a - b for a, b in pairs]
    return Sensitivity(
        Fraction(max(int(np.abs(d).sum()) for d in differences)), Fraction(max(int((d * d).sum()) for d in differences))
    )


@given(queries(of=binary_parts, max_cells=12), st.sampled_from(BOTH), st.integers(1, 2))
def test_sensitivities_of_counting_queries_are_those_of_exhaustive_neighbours(
    query: Query, relation: Relation, max_rows: int
) -> None:
    assert sensitivity(query, relation, max_rows) == brute_force(query, relation, max_rows)


@given(queries(of=integer_parts, max_cells=12), st.sampled_from(BOTH), st.integers(1, 2))
def test_sensitivities_of_small_integer_queries_are_those_of_exhaustive_neighbours(
    query: Query, relation: Relation, max_rows: int
) -> None:
    assert sensitivity(query, relation, max_rows) == brute_force(query, relation, max_rows)


@pytest.mark.parametrize("signed", [[[1, -1]], [[2, -2, 0]], [[1, -1], [0, 1]]])
@pytest.mark.parametrize("plain", [[[1, 0], [0, 1]], [[1, 0, 1], [0, 1, 0]]])
def test_a_part_without_negative_entries_beside_one_with_them_keeps_all_its_pairs(
    signed: list[list[int]], plain: list[list[int]]
) -> None:
    domain = Domain.of({"a": len(signed[0]), "b": len(plain[0])})
    query = Query.product(domain, {"a": Matrix(signed), "b": Matrix(plain)})
    assert sensitivity(query, Relation.REPLACE_ONE) == brute_force(query, Relation.REPLACE_ONE, 1)


@pytest.mark.parametrize("max_rows", [1, 3])
def test_a_relation_may_be_named_and_the_cache_does_not_mind_which_came_first(max_rows: int) -> None:
    query = Query.marginal(Domain.of({"named first": 3 + max_rows}), "named first")
    for known in (sensitivity, largest_change):
        named = [known(query, relation.value, max_rows) for relation in BOTH]
        assert named == [known(query, relation, max_rows) for relation in BOTH]
    assert sensitivity(query, Relation.REPLACE_ONE).l1 == 2
    with pytest.raises(OptionError):
        sensitivity(query, "replace_one")


@given(queries(max_cells=12), st.sampled_from(BOTH))
def test_the_largest_change_of_an_answer_is_never_below_the_truth(query: Query, relation: Relation) -> None:
    dense = query.dense().astype(np.float64)
    truth = np.abs(dense).max() if relation is Relation.ADD_REMOVE else np.ptp(dense, axis=1).max()
    assert float(largest_change(query, relation)) >= truth * (1 - 1e-9)


def test_the_smallest_integer_is_not_taken_for_nothing() -> None:
    query = Query.product(Domain.of({"a": 2}), {"a": Matrix(np.array([[-(2**63), 0], [0, 1]]))})
    assert sensitivity(query, Relation.ADD_REMOVE) == Sensitivity(Fraction(2**63), Fraction(2**126))


@given(queries(max_cells=12), st.sampled_from(BOTH))
def test_sensitivities_of_real_queries_are_never_below_the_truth(query: Query, relation: Relation) -> None:
    columns = [[Fraction(x) for x in column] for column in query.dense().T.tolist()]
    others = [[Fraction(0)] * query.rows] if relation is Relation.ADD_REMOVE else columns
    distances = [[a - b for a, b in zip(x, y, strict=True)] for x in columns for y in others]
    found = sensitivity(query, relation)
    truth_l1 = max(sum(map(abs, d), Fraction(0)) for d in distances)
    truth_l2 = max(sum((x * x for x in d), Fraction(0)) for d in distances)
    # np.kron multiplied the entries in floats already: allow for that rounding, and nothing more.
    tiny = Fraction(1, 10**12)
    assert truth_l1 * (1 - tiny) <= found.l1 <= 2 * truth_l1 + Fraction(1, 10**6) + 2 * _largest(columns, 1)
    assert truth_l2 * (1 - tiny) <= found.l2_squared


def _largest(columns: list[list[Fraction]], power: int) -> Fraction:
    return max(sum((abs(x) ** power for x in column), Fraction(0)) for column in columns)


@pytest.mark.parametrize(("relation", "l1", "l2_squared"), [(Relation.ADD_REMOVE, 1, 1), (Relation.REPLACE_ONE, 2, 2)])
def test_one_marginal_moves_by_one_record_or_two(relation: Relation, l1: int, l2_squared: int) -> None:
    query = Query.marginal(Domain.of({"a": 100, "b": 1001, "c": 42}), ("a", "b", "c"))
    assert sensitivity(query, relation) == Sensitivity(Fraction(l1), Fraction(l2_squared))
    assert sensitivity(query, relation, 7) == Sensitivity(Fraction(7 * l1), Fraction(49 * l2_squared))


def test_diameters_of_parts_are_not_multiplied() -> None:
    query = Query.product(Domain.of({"a": 3, "b": 3}), {"a": Identity(), "b": Total()})
    assert sensitivity(query, Relation.REPLACE_ONE).l1 == 2


def test_a_total_is_public_under_replace_one_unless_persons_have_several_records() -> None:
    query = Query.product(Domain.of({"a": 3}), {"a": Total()})
    assert sensitivity(query, Relation.REPLACE_ONE).l1 == 0
    assert sensitivity(query, Relation.REPLACE_ONE, 5).l1 == 5


def test_large_prefix_products_are_exact_and_instant() -> None:
    domain = Domain.of({"a": 100, "b": 100, "c": 100})
    query = Query.product(domain, {name: Prefix() for name in domain})
    # Cells (0,0,0) and (99,99,99): all 10⁶ prefixes count the first, one counts both.
    assert sensitivity(query, Relation.REPLACE_ONE).l1 == 10**6 - 1
    assert sensitivity(query, Relation.ADD_REMOVE).l1 == 10**6


def test_entries_near_the_end_of_int64_do_not_overflow() -> None:
    query = Query.product(Domain.of({"a": 2, "b": 2}), {name: Matrix([[2**61, 0], [0, 2**61]]) for name in "ab"})
    assert sensitivity(query, Relation.ADD_REMOVE).l2_squared == 2**244


def test_a_mean_moves_by_its_range_under_replace_one() -> None:
    query = Query.product(Domain.of({"age": 3}), {"age": Mean([20, 40, 90])})
    assert sensitivity(query, Relation.REPLACE_ONE) == Sensitivity(Fraction(70), Fraction(4900))
    assert sensitivity(query, Relation.ADD_REMOVE) == Sensitivity(Fraction(90), Fraction(8100))


@pytest.mark.parametrize("max_rows", [0, -1, 1.5, True])
def test_records_per_person_must_be_a_positive_whole_number(max_rows: Any) -> None:
    query = Query.marginal(Domain.of({"a": 2}), "a")
    sensitivity(query, Relation.ADD_REMOVE, 1)
    with pytest.raises(OptionError, match="max_rows"):
        sensitivity(query, Relation.ADD_REMOVE, max_rows)


def test_an_unknown_relation_is_refused() -> None:
    with pytest.raises(OptionError, match="relation"):
        Relation("bounded")
