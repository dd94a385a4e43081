import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from priory.errors import DomainError, OptionError, SizeError
from priory.queries.domain import Domain
from priory.queries.parts import (
    Identity,
    Matrix,
    Mean,
    Moments,
    Numbers,
    Part,
    Point,
    Prefix,
    Range,
    Recode,
    Set,
    Total,
)
from priory.queries.query import Query
from priory.queries.workload import Workload
from strategies import queries

DOMAIN = Domain.of({"age": 4, "sex": 2, "marital-status": 3})


@given(queries(), st.randoms(use_true_random=False))
def test_a_query_equals_its_dense_matrix(query: Query, random: object) -> None:
    counts = np.random.default_rng(abs(hash(random)) % 2**32).integers(0, 100, query.domain.shape)
    np.testing.assert_allclose(query(counts).ravel(), query.dense() @ counts.ravel(), rtol=1e-12, atol=1e-6)


@given(queries())
def test_the_adjoint_is_the_transpose_of_the_dense_matrix(query: Query) -> None:
    answers = np.random.default_rng(0).normal(size=query.shape)
    np.testing.assert_allclose(query.adjoint(answers).ravel(), query.dense().T @ answers.ravel(), rtol=1e-9, atol=1e-6)


@given(queries(), st.data())
def test_a_row_of_a_query_gives_that_answer_alone(query: Query, data: st.DataObject) -> None:
    place = data.draw(st.integers(0, query.rows - 1))
    np.testing.assert_array_equal(query.row(place).dense(), query.dense()[[place]])
    with pytest.raises(OptionError, match="answers"):
        query.row(query.rows)


@given(queries())
def test_integer_counts_give_integer_answers_exactly_when_the_query_is_integer(query: Query) -> None:
    answers = query(np.ones(query.domain.shape, dtype=np.int64))
    assert (answers.dtype.kind == "i") == query.is_integer
    assert answers.shape == query.shape
    assert math.prod(query.shape) == query.rows == query.dense().shape[0]


@given(queries(), st.integers(0, 10))
def test_on_a_lattice_every_query_is_integer_and_near_its_multiple(query: Query, bits: int) -> None:
    for part, rounded, size in zip(query.parts, query.on_lattice(bits).parts, query.domain.shape, strict=True):
        assert rounded.is_integer(size)
        scale = 1 if part.is_integer(size) else 2**bits
        assert np.abs(rounded.matrix(size) - scale * part.matrix(size)).max() <= 0.5


TABLE_2: list[tuple[Part, list[list[float]]]] = [
    (Identity(), [[1, 0, 0], [0, 1, 0], [0, 0, 1]]),
    (Total(), [[1, 1, 1]]),
    (Point(1), [[0, 1, 0]]),
    (Set([0, 2]), [[1, 0, 1]]),
    (Range(1, 2), [[0, 1, 1]]),
    (Prefix(), [[1, 0, 0], [1, 1, 0], [1, 1, 1]]),
    (Recode([1, 0, 1]), [[0, 1, 0], [1, 0, 1]]),
    (Mean([17.5, 30, 70]), [[17.5, 30, 70]]),
    (Moments([1, 2, 3], 2), [[1, 2, 3], [1, 4, 9]]),
    (Matrix([[0.5, 0, -1]]), [[0.5, 0, -1]]),
]


@pytest.mark.parametrize(("part", "matrix"), TABLE_2, ids=lambda x: type(x).__name__)
def test_parts_are_the_matrices_of_table_2(part: Part, matrix: list[list[float]]) -> None:
    np.testing.assert_array_equal(part.matrix(3), matrix)
    assert part.rows(3) == len(matrix)


@pytest.mark.parametrize(
    "part",
    [
        Point(4), Point(-1), Set([]), Set([4]), Range(2, 1), Range(0, 4), Recode([0, 1]), Recode([0, 1, -1, 0]),
        Mean([1, 2]), Mean([1, 2, 3, math.nan]), Moments([1, 2, 3, 4], 0), Matrix([[1, 2]]),
    ],
)  # fmt: skip
def test_a_part_that_does_not_fit_is_refused_by_name_of_the_attribute(part: Part) -> None:
    with pytest.raises(DomainError, match="attribute 'age'"):
        Query.product(DOMAIN, {"age": part})


@pytest.mark.parametrize("entries", [[1, 2], [[math.inf]], [["x"]], np.zeros((0, 3))])
def test_a_matrix_must_be_two_dimensional_and_finite(entries: object) -> None:
    with pytest.raises(DomainError):
        Matrix(entries)  # type: ignore[arg-type]


def test_a_query_over_unknown_attributes_is_refused() -> None:
    with pytest.raises(DomainError, match="unknown attributes"):
        Query.marginal(DOMAIN, ["agee"])
    with pytest.raises(DomainError, match="needs a part"):
        Query.product(DOMAIN, {"age": 3})  # type: ignore[dict-item]


def test_values_of_another_shape_are_refused() -> None:
    query = Query.product(DOMAIN, {"age": Prefix(), "sex": Total()})
    with pytest.raises(DomainError, match=r"\(2, 4\)"):
        query(np.zeros((2, 4)))
    with pytest.raises(DomainError, match=r"\(4, 2\)"):
        query.adjoint(np.zeros((4, 2)))


def test_a_dense_matrix_too_large_is_refused_with_its_size() -> None:
    domain = Domain.of({"a": 1000, "b": 1000})
    with pytest.raises(SizeError, match=r"1e\+12") as caught:
        Query.marginal(domain, ["a", "b"]).dense()
    assert caught.value.cells == 10**12


def test_the_query_of_nothing_is_the_total() -> None:
    assert Query.marginal(DOMAIN, ())(np.array(7)) == 7


def test_all_marginals_are_every_clique_once() -> None:
    assert Workload.marginals(DOMAIN, 2).cliques == tuple(itertools.combinations(DOMAIN, 2))
    assert Workload.marginals(DOMAIN, 0).rows == 1


def test_the_papers_workload_has_prefixes_on_numeric_attributes_only() -> None:
    domain = Domain.of({f"x{i}": 3 + i for i in range(8)})
    workload = Workload.prefix_ranges(domain, ["x0", "x5"], seed=7)
    assert len(workload) == len(workload.cliques) == 15
    for query in workload:
        for name, part in zip(query.clique, query.parts, strict=True):
            assert part == (Prefix() if name in {"x0", "x5"} else Identity())
    assert (
        workload == Workload.prefix_ranges(domain, ["x0", "x5"], seed=7) != Workload.prefix_ranges(domain, [], seed=7)
    )


def test_random_subsets_of_many_attributes_are_distinct() -> None:
    domain = Domain.of({f"x{i}": 2 for i in range(110)})
    assert len(Workload.prefix_ranges(domain, [], count=200, seed=0).cliques) == 200


def test_bad_workloads_are_refused() -> None:
    with pytest.raises(OptionError, match="weights"):
        Workload.of([Query.marginal(DOMAIN, "age")], [0.0])
    with pytest.raises(OptionError, match="weights"):
        Workload.of([Query.marginal(DOMAIN, "age")], [1.0, 2.0])
    with pytest.raises(OptionError, match="k:"):
        Workload.marginals(DOMAIN, 4)
    with pytest.raises(OptionError, match="count"):
        Workload.prefix_ranges(DOMAIN, [], k=3, count=2, seed=0)
    with pytest.raises(DomainError, match="empty"):
        Workload.of([]).checked(DOMAIN)
    with pytest.raises(DomainError, match="sizes"):
        Workload.marginals(DOMAIN, 1).checked(Domain.of({"age": 5, "sex": 2, "marital-status": 3}))


def test_a_query_over_a_million_values_never_forms_its_matrix() -> None:
    assert Query.marginal(Domain.of({"a": 10**6}), "a").is_integer


class Louder(Matrix):
    """A matrix that answers something else than it says."""

    def apply(self, values: Numbers, axis: int) -> Numbers:
        return 1000 * super().apply(values, axis)


def test_parts_and_queries_equal_only_their_exact_types() -> None:
    plain, derived = Matrix([[1, 0, 2]]), Louder([[1, 0, 2]])
    assert plain != derived
    assert derived != plain
    assert plain == Matrix([[1, 0, 2]])
    domain = Domain.of({"a": 3})
    assert Query(domain, (plain,)) != Query(domain, (derived,))
    assert len({Query(domain, (plain,)), Query(domain, (derived,))}) == 2
    for kind in (Identity, Total, Prefix):
        assert kind() != type("Derived", (kind,), {})()


@given(st.lists(st.sampled_from([-1.0, -0.0, 0.0, 0.5, 1.0]), min_size=1, max_size=4), st.booleans())
def test_equal_matrices_have_equal_hashes(row: list[float], whole: bool) -> None:  # noqa: FBT001 - drawn
    one, other = Matrix([row]), Matrix([[-entry if entry == 0 else entry for entry in row]])
    assert one == other
    assert hash(one) == hash(other)
    if whole and all(entry == int(entry) for entry in row):
        assert one != Matrix([[int(entry) for entry in row]])
