"""One contract for all parts: whatever the part, what it does is what its matrix says."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from priory.privacy.encoding import decode_query, encode_query
from priory.queries.domain import Domain
from priory.queries.parts import PARTS, Identity, Matrix, Mean, Moments, Part, Point, Prefix, Range, Recode, Set, Total
from priory.queries.query import Query
from priory.queries.sensitivity import Relation, sensitivity


def members(kind: type[Part], size: int) -> st.SearchStrategy[Part]:
    codes = st.integers(0, size - 1)
    whole = st.lists(st.lists(st.integers(-3, 3), min_size=size, max_size=size), min_size=1, max_size=3)
    real = st.lists(st.floats(-100, 100, width=32), min_size=size, max_size=size)
    made: dict[type[Part], st.SearchStrategy[Part]] = {
        Identity: st.just(Identity()),
        Total: st.just(Total()),
        Prefix: st.just(Prefix()),
        Point: st.builds(Point, codes),
        Set: st.builds(Set, st.sets(codes, min_size=1)),
        Range: st.builds(lambda a, b: Range(min(a, b), max(a, b)), codes, codes),
        Recode: st.builds(Recode, st.lists(st.integers(0, 2), min_size=size, max_size=size)),
        Mean: st.builds(Mean, real),
        Moments: st.builds(Moments, real, st.integers(1, 3)),
        Matrix: st.builds(Matrix, whole | st.lists(real, min_size=1, max_size=3)),
    }
    return made[kind]


every = pytest.mark.parametrize("kind", PARTS, ids=lambda kind: kind.__name__)


@every
@given(st.data(), st.integers(1, 5))
def test_a_part_has_a_finite_matrix_with_a_row_for_each_answer(kind: type[Part], data: Any, size: int) -> None:
    part = data.draw(members(kind, size))
    part.check(size)
    matrix = part.matrix(size)
    assert matrix.shape == (part.rows(size), size)
    assert np.isfinite(matrix).all()
    assert part.is_integer(size) == (matrix.dtype.kind == "i")
    assert not part.is_counting or set(matrix.ravel().tolist()) <= {0, 1}


@every
@given(st.data(), st.integers(1, 5), st.integers(0, 1))
def test_applying_a_part_and_its_adjoint_is_multiplying_by_its_matrix(
    kind: type[Part], data: Any, size: int, axis: int
) -> None:
    part = data.draw(members(kind, size))
    matrix, rng = part.matrix(size), np.random.default_rng(0)
    counts = rng.integers(0, 100, (size, 3) if axis == 0 else (3, size))
    dense = np.tensordot(matrix, counts, axes=(1, axis))
    np.testing.assert_allclose(part.apply(counts, axis), dense if axis == 0 else dense.T, rtol=1e-12, atol=1e-6)
    answers = rng.normal(size=(len(matrix), 3) if axis == 0 else (3, len(matrix)))
    back = np.tensordot(matrix, answers, axes=(0, axis))
    np.testing.assert_allclose(part.adjoint(answers, axis, size), back if axis == 0 else back.T, rtol=1e-9, atol=1e-6)


@every
@given(st.data(), st.integers(1, 5))
def test_a_row_of_a_part_is_that_row_of_its_matrix(kind: type[Part], data: Any, size: int) -> None:
    part = data.draw(members(kind, size))
    place = data.draw(st.integers(0, part.rows(size) - 1))
    np.testing.assert_array_equal(part.row(size, place).matrix(size), part.matrix(size)[[place]])


@every
@given(st.data(), st.integers(1, 5))
def test_the_sensitivity_of_a_part_is_the_norm_of_its_largest_column(kind: type[Part], data: Any, size: int) -> None:
    part = data.draw(members(kind, size))
    matrix = np.abs(part.matrix(size)).astype(object)
    claimed = sensitivity(Query(Domain.of({"a": size}), (part,)), Relation.ADD_REMOVE, 1)
    l1, l2 = max(sum(column) for column in matrix.T), max(sum(entry * entry for entry in column) for column in matrix.T)
    if part.is_integer(size):
        assert (claimed.l1, claimed.l2_squared) == (l1, l2)
    else:
        # Rounded up, by no more than a double's last digits.
        assert l1 * (1 - 1e-12) <= claimed.l1 <= l1 * (1 + 1e-6) + 1e-12
        assert l2 * (1 - 1e-12) <= claimed.l2_squared <= l2 * (1 + 1e-6) + 1e-12


@every
@given(st.data(), st.integers(1, 5))
def test_a_part_is_the_same_after_it_was_encoded(kind: type[Part], data: Any, size: int) -> None:
    part = data.draw(members(kind, size))
    domain, arrays = Domain.of({"a": size}), dict[str, bytes]()
    query = Query.product(domain, {"a": part})
    again = decode_query(encode_query(query, "0", arrays), arrays, domain)
    assert again == query
    assert hash(again) == hash(query)


@every
@given(st.data())
def test_a_part_equals_its_like_and_nothing_derived_from_it(kind: type[Part], data: Any) -> None:
    part = data.draw(members(kind, 3))
    derived: Any = object.__new__(type("Derived", (kind,), {}))
    derived.__dict__.update(part.__dict__)
    assert part != derived
    assert derived != part
