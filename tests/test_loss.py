"""Losses: values and gradients against dense matrices and finite differences."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from priory.errors import DomainError
from priory.estimate.evidence import Evidence
from priory.estimate.loss import L1, L2, CustomLoss, loss_of, top_eigenvalue
from priory.privacy.measurement import Measurement
from priory.queries.domain import Domain
from priory.queries.query import Query
from problems import DOMAIN, LOOP, dense, small
from strategies import domains, parts


@st.composite
def evidences(draw: st.DrawFn) -> Evidence:
    domain = draw(domains(max_attributes=3).filter(len))
    measurements = []
    for _ in range(draw(st.integers(1, 4))):
        names = draw(st.sets(st.sampled_from(list(domain)), min_size=1))
        query = Query.product(domain, {name: draw(parts(domain[name])) for name in names})
        rng = np.random.default_rng(draw(st.integers(0, 99)))
        measurements.append(Measurement.of(query, rng.normal(0, 5, query.shape), float(rng.uniform(0.5, 3))))
    return Evidence.of(domain, measurements)


@given(evidences(), st.integers(0, 99))
def test_predictions_and_their_adjoint_are_those_of_the_dense_matrices(evidence: Evidence, seed: int) -> None:
    rng = np.random.default_rng(seed)
    marginals = rng.normal(size=evidence.layout.size)
    tables = evidence.layout.unpack(marginals)
    expected = [query.dense() @ tables[query.clique].values.reshape(-1) for query in evidence.queries]
    np.testing.assert_allclose(evidence.predicted(marginals), np.concatenate(expected), rtol=1e-9, atol=1e-6)
    answers = rng.normal(size=evidence.size)
    left = float(answers @ evidence.predicted(marginals))
    assert left == pytest.approx(float(evidence.adjoint(answers) @ marginals), rel=1e-7, abs=1e-5)


@pytest.mark.parametrize("kind", ["l2", "l1"])
def test_gradients_are_those_of_finite_differences(kind: str) -> None:
    task = small(0, LOOP)
    loss = loss_of(kind, Evidence.of(DOMAIN, task.measurements))
    rng = np.random.default_rng(1)
    marginals = rng.uniform(0, 50, loss.layout.size)
    value, gradient = loss(marginals)
    for _ in range(10):
        way = rng.normal(size=len(marginals))
        ahead = loss(marginals + 1e-6 * way)[0]
        assert (ahead - value) / 1e-6 == pytest.approx(float(gradient @ way), rel=1e-4)


def test_losses_are_the_formulas_of_the_paper() -> None:
    task = small(2)
    evidence = Evidence.of(DOMAIN, task.measurements)
    table = np.random.default_rng(0).uniform(0, 9, DOMAIN.shape)
    marginals = np.concatenate(
        [np.ravel(dense(Query.marginal(DOMAIN, c), DOMAIN) @ table.ravel()) for c in evidence.layout.cliques]
    )
    gap = (task.matrix @ table.ravel() - task.answers) / task.stddevs
    assert L2(evidence)(marginals)[0] == pytest.approx(0.5 * np.sum(gap**2))
    assert L1(evidence)(marginals)[0] == pytest.approx(np.sum(np.abs(gap)))


def test_each_measurement_counts_by_its_own_noise() -> None:
    query = Query.marginal(DOMAIN, "a")
    evidence = Evidence.of(DOMAIN, [Measurement.of(query, [0, 0, 0], 1.0), Measurement.of(query, [0, 0, 0], 10.0)])
    assert L2(evidence)(np.array([1.0, 0, 0]))[0] == pytest.approx(0.5 * (1 + 0.01))


@given(evidences())
def test_the_lipschitz_constant_bounds_the_dense_gram_matrix(evidence: Evidence) -> None:
    loss = L2(evidence)
    size = evidence.layout.size
    columns = [evidence.adjoint(evidence.predicted(row) / evidence.stddevs**2) for row in np.eye(size)]
    assert np.linalg.eigvalsh(np.array(columns)).max() <= loss.lipschitz * (1 + 1e-9) + 1e-12


@given(st.data())
def test_the_largest_eigenvalue_of_a_query_is_that_of_its_dense_matrix(data: st.DataObject) -> None:
    domain = data.draw(domains(max_attributes=2).filter(len))
    query = Query.product(domain, {name: data.draw(parts(domain[name])) for name in domain})
    expected = np.linalg.norm(query.dense().astype(float), 2) ** 2
    assert top_eigenvalue(query) == pytest.approx(expected, rel=1e-9, abs=1e-9)


def test_only_part_of_the_evidence_can_be_looked_at() -> None:
    evidence = Evidence.of(DOMAIN, small(0, LOOP).measurements)
    part = evidence.only([3, 1])
    assert part.layout.cliques == (("a", "d"), ("b", "c"))
    np.testing.assert_array_equal(part.values[:9], evidence.values[evidence.spans[3]])


def test_a_loss_of_ones_own_that_is_not_finite_is_refused() -> None:
    domain = Domain.of({"a": 2})
    loss = CustomLoss.of(domain, ["a"], lambda _: (np.nan, {("a",): np.zeros(2)}))
    with pytest.raises(DomainError, match="not finite"):
        loss(np.ones(2))
