"""Total: by least squares from any query that determines it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from priory.errors import OptionError
from priory.estimate.estimator import estimate
from priory.estimate.evidence import Evidence
from priory.estimate.total import total_of
from priory.privacy.measurement import Measurement
from priory.queries.domain import Domain
from priory.queries.parts import Identity, Matrix, Point, Prefix, Total
from priory.queries.query import Query
from strategies import domains, parts

DOMAIN = Domain.of({"a": 4, "b": 3})
COUNTS = np.random.default_rng(0).integers(0, 50, DOMAIN.shape).astype(float)


def evidence(*measurements: Measurement) -> Evidence:
    return Evidence.of(DOMAIN, measurements)


@pytest.mark.parametrize(
    "query",
    [
        Query.marginal(DOMAIN, "a"),
        Query.marginal(DOMAIN, ("a", "b")),
        Query.product(DOMAIN, {"a": Prefix()}),
        Query.product(DOMAIN, {"a": Prefix(), "b": Identity()}),
        Query.product(DOMAIN, {"a": Total()}),
        Query.product(DOMAIN, {"a": Matrix([[2, 2, 0, 0], [0, 0, 3, 3]])}),
    ],
    ids=["marginal", "pair", "prefix", "prefix × identity", "total", "matrix"],
)
def test_exact_answers_give_the_exact_total(query: Query) -> None:
    table = COUNTS if len(query.clique) == 2 else COUNTS.sum(1)
    laid_out = evidence(Measurement.of(query, query(table), 2.0))
    assert total_of(laid_out)(laid_out.values) == pytest.approx(COUNTS.sum())


def test_answers_are_weighted_by_the_inverse_of_their_variance() -> None:
    one, two = Query.marginal(DOMAIN, "a"), Query.product(DOMAIN, {"a": Total()})
    found = total_of(evidence(Measurement.of(one, [10, 10, 10, 10], 3.0), Measurement.of(two, [100], 1.0)))
    # Variances 4·9 and 1.
    assert found(np.array([10, 10, 10, 10, 100])) == pytest.approx((40 / 36 + 100) / (1 / 36 + 1))
    assert found.stddev == pytest.approx((1 / 36 + 1) ** -0.5)


@given(st.data())
def test_a_query_determines_the_total_just_when_ones_are_in_its_row_space(data: st.DataObject) -> None:
    domain = data.draw(domains(max_attributes=2).filter(len))
    query = Query.product(domain, {name: data.draw(parts(domain[name])) for name in domain})
    matrix = query.dense().astype(float)
    ones = np.ones(matrix.shape[1])
    solution = np.linalg.lstsq(matrix.T, ones, rcond=None)[0]
    gap = np.abs(matrix.T @ solution - ones).max()
    if 1e-10 < gap < 1e-4:
        return
    laid_out = Evidence.of(domain, [Measurement.of(query, np.zeros(query.shape), 1.0)])
    if gap < 1e-10:
        np.testing.assert_allclose(laid_out.adjoint(total_of(laid_out).weights), ones, atol=1e-6)
    else:
        with pytest.raises(OptionError, match="determines the number of records"):
            total_of(laid_out)


def test_a_total_that_nothing_determines_is_an_error_and_can_be_given() -> None:
    point = Measurement.of(Query.product(DOMAIN, {"a": Point(1)}), [5], 1.0)
    with pytest.raises(OptionError, match="give total="):
        estimate([point], DOMAIN)
    assert estimate([point], DOMAIN, total=20).total == 20


def test_the_total_is_at_least_one() -> None:
    assert estimate([Measurement.of(Query.marginal(DOMAIN, "b"), [-5, -5, -5], 1.0)], DOMAIN).total == 1


@pytest.mark.statistical
def test_the_stated_deviation_of_the_total_is_the_real_one() -> None:
    rng = np.random.default_rng(0)
    query = Query.product(DOMAIN, {"a": Prefix()})
    other = Query.marginal(DOMAIN, "b")
    found = total_of(evidence(Measurement.of(query, np.zeros(4), 3.0), Measurement.of(other, np.zeros(3), 2.0)))
    draws = rng.normal(0, [3.0] * 4 + [2.0] * 3, (20_000, 7)) @ found.weights
    # The deviation of a deviation from 20,000 draws is 0.5 %.
    assert np.std(draws) == pytest.approx(found.stddev, rel=0.03)
