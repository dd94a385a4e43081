"""Units: the scale of a row, its answer and its noise says nothing."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from priory.errors import DomainError, OptionError
from priory.estimate.estimator import estimate
from priory.estimate.evidence import Evidence
from priory.estimate.measured import in_counts
from priory.model.bases import Uniform
from priory.privacy.measurement import Measurement
from priory.queries.domain import Domain
from priory.queries.parts import Identity, Matrix, Part, Prefix
from priory.queries.query import Query
from priory.queries.sensitivity import entry_range
from problems import DOMAIN, LOOP, small
from strategies import parts, queries

WIDE = Domain.of({"x": 12, "y": 9, "z": 4})
PAIRS = (("x", "y"), ("y", "z"))


def strategy(size: int) -> Matrix:
    """Cells and two overlapping sums, each at a weight of its own, as HDMM asks."""
    rows = np.vstack([np.eye(size), np.arange(size) < 2 * size // 3, np.arange(size) >= size // 3])
    return Matrix(rows / np.linspace(1, 3, len(rows))[:, None])


def asked(seed: int, *, noise: float = 20.0) -> tuple[np.ndarray, list[Measurement]]:
    """A table, and products of strategies and prefixes asked of it."""
    rng = np.random.default_rng(seed)
    table = rng.multinomial(4000, rng.dirichlet(np.full(WIDE.size, 0.2))).reshape(WIDE.shape).astype(float)
    kinds: list[dict[str, Part]] = [
        {"x": strategy(12), "y": Identity()},
        {"y": strategy(9), "z": strategy(4)},
        {"x": Prefix()},
    ]
    measurements = []
    for kind in kinds:
        query = Query.product(WIDE, kind)
        answers = query(table.sum(axis=tuple(i for i, name in enumerate(WIDE) if name not in query.clique)))
        measurements.append(Measurement.of(query, answers + rng.normal(0, noise, answers.shape), noise))
    return table, measurements


def scaled(measurement: Measurement, factor: float) -> Measurement:
    """A measurement with rows, answers and noise multiplied by a number."""
    first, *rest = zip(measurement.query.parts, measurement.query.domain.shape, strict=True)
    part = Matrix(factor * first[0].matrix(first[1]))
    query = Query(measurement.query.domain, (part, *(part for part, _ in rest)))
    return replace(measurement, query=query, values=factor * measurement.values, stddev=factor * measurement.stddev)


@given(queries(of=parts))
def test_evidence_in_counts_says_the_same(query: Query) -> None:
    rng = np.random.default_rng(0)
    measurement = Measurement.of(query, rng.normal(size=query.shape), 3.0)
    moved = in_counts(measurement)
    table = rng.random(query.domain.shape)
    misfits = [(m.query(table) - m.values) / m.stddev for m in (measurement, moved)]
    np.testing.assert_allclose(misfits[0], misfits[1], rtol=1e-9, atol=1e-9)
    assert max(map(abs, entry_range(moved.query))) <= 1


@pytest.mark.parametrize("stop", ["fission", "converged"])
@pytest.mark.parametrize("factor", [2.0**30, 1000.0, 1 / 3])
def test_multiplying_a_querys_rows_and_noise_by_a_number_changes_nothing(stop: str, factor: float) -> None:
    _, measurements = asked(1)
    bigger = [scaled(m, factor if i % 2 else 1 / factor) for i, m in enumerate(measurements)]
    one, other = (estimate(ms, WIDE, stop=stop) for ms in (measurements, bigger))  # type: ignore[arg-type]
    for pair in PAIRS:
        # The noise is 20: where both have converged, weak directions may differ by a fifth of it.
        np.testing.assert_allclose(other.project(pair).values, one.project(pair).values, atol=4.0)


@settings(max_examples=20)
@given(queries(of=parts), st.integers(0, 99))
def test_the_variances_are_the_second_derivatives_of_log_z(query: Query, seed: int) -> None:
    rng = np.random.default_rng(seed)
    evidence = Evidence.of(query.domain, [Measurement.of(query, np.zeros(query.shape), 1.0)])
    oracle = Uniform(query.domain).bind(evidence.layout.cliques)
    theta, total, width = rng.normal(size=evidence.layout.size), 50.0, 1e-5
    found = evidence.variances(total * oracle(theta)[1], total)
    for row in rng.permutation(evidence.size)[:5]:
        way = evidence.adjoint(np.eye(evidence.size)[row])
        ahead, behind = (evidence.predicted(total * oracle(theta + s * width * way)[1])[row] for s in (1, -1))
        assert found[row] == pytest.approx((ahead - behind) / (2 * width), rel=1e-4, abs=1e-5)


def test_a_noise_scale_for_each_cell_is_as_good_as_measuring_each_cell_by_itself() -> None:
    task = small(3, LOOP)
    rng = np.random.default_rng(0)
    together, apart = [], []
    for measurement in task.measurements:
        stddevs = rng.uniform(2, 20, measurement.query.shape)
        together.append(Measurement.of(measurement.query, measurement.values, stddevs))
        apart += [
            Measurement.of(row, np.full(row.shape, np.ravel(measurement.values)[i]), float(np.ravel(stddevs)[i]))
            for i in range(measurement.query.rows)
            for row in [measurement.query.row(i)]
        ]
    one, other = (estimate(ms, DOMAIN, total=task.total, stop="converged") for ms in (together, apart))
    for clique in LOOP:
        np.testing.assert_allclose(other.project(clique).values, one.project(clique).values, atol=0.05)


def test_noise_scales_are_checked() -> None:
    query = Query.marginal(DOMAIN, "a")
    with pytest.raises(OptionError, match="one for each answer"):
        Measurement.of(query, [1, 2, 3], [1.0, 2.0])
    with pytest.raises(OptionError, match="0 or more"):
        Measurement.of(query, [1, 2, 3], [1.0, -2.0, 1.0])
    with pytest.raises(OptionError, match="0 or more"):
        Measurement.of(query, [1, 2, 3], [1.0, np.nan, 1.0])
    with pytest.raises(OptionError, match="positive"):
        estimate([Measurement(query, np.ones(3), np.array([1.0, 0.0, 1.0]))], DOMAIN)
    with pytest.raises(DomainError, match="shape"):
        estimate([Measurement(query, np.ones(3), np.ones(2))], DOMAIN)
