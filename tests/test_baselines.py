"""Baselines and metrics: against dense algebra and by hand."""

import numpy as np
import pytest
from experiments.metrics import cell_errors, mean_total_variation, workload_error
from hypothesis import given
from hypothesis import strategies as st

from priory.answer.metrics import total_variation
from priory.errors import DomainError
from priory.mechanisms.hdmm.hdmm import local_least_squares
from priory.privacy.measurement import Measurement
from priory.queries.domain import Domain
from priory.queries.parts import Prefix
from priory.queries.query import Query
from strategies import domains, parts

DOMAIN = Domain.of({"a": 3, "b": 4})


@given(st.data())
def test_local_least_squares_is_the_dense_pseudo_inverse(data: st.DataObject) -> None:
    domain = data.draw(domains(max_attributes=2).filter(len))
    query = Query.product(domain, {name: data.draw(parts(domain[name])) for name in domain})
    values = np.random.default_rng(data.draw(st.integers(0, 99))).normal(0, 10, query.shape)
    found = local_least_squares(Measurement.of(query, values, 1.0)).values
    matrix = query.dense().astype(float)
    # Real-valued parts can be so nearly singular that ranks are a matter of rounding.
    sizes = np.linalg.svd(matrix, compute_uv=False)
    entries = np.abs(matrix[matrix != 0])
    is_uneven = entries.min(initial=1.0) < 1e-6 * entries.max(initial=0.0)
    if is_uneven or ((sizes > 1e-13 * sizes.max()) & (sizes < 1e-5 * sizes.max())).any():
        return
    np.testing.assert_allclose(found.ravel(), np.linalg.pinv(matrix, rcond=1e-9) @ values.ravel(), rtol=1e-4, atol=1e-6)


def test_local_least_squares_recovers_a_table_from_its_prefix_sums() -> None:
    table = np.arange(12.0).reshape(3, 4)
    query = Query.product(DOMAIN, {"a": Prefix(), "b": Prefix()})
    np.testing.assert_allclose(local_least_squares(Measurement.of(query, query(table), 1.0)).values, table, atol=1e-9)


def test_metrics_are_the_papers_formulas() -> None:
    a, b = np.array([1.0, 3.0]), np.array([3.0, 1.0])
    assert total_variation(a, b) == 0.5
    assert total_variation(10 * a, b) == 0.5
    assert mean_total_variation([a, a], [a, b]) == 0.25
    # The factor ½ of the Private-PGM paper, on counts as they are.
    assert workload_error([a], [b]) == pytest.approx(4 / 8)
    errors = cell_errors([a], [b], total=4.0)
    assert (errors.largest, errors.mean, errors.rms) == (0.5, 0.5, 0.5)


def test_metrics_refuse_what_cannot_be_compared() -> None:
    with pytest.raises(DomainError, match="shapes"):
        total_variation(np.ones(2), np.ones(3))
    with pytest.raises(DomainError, match="without mass"):
        total_variation(np.zeros(2), np.ones(2))
    with pytest.raises(DomainError, match="all zero"):
        workload_error([np.ones(2)], [np.zeros(2)])
