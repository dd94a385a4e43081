import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from priory.estimate.dual import Dual
from priory.estimate.evidence import Evidence
from priory.estimate.prior_strength import at_best_temperature, posterior
from priory.estimate.risk import SPLIT, CoupledFits
from priory.estimate.setting import Setting
from priory.estimate.total import TotalEstimate
from priory.model.bases import PublicRows
from priory.model.model import Model
from priory.privacy.measurement import Measurement
from priory.queries.domain import Domain
from priory.queries.factor import Array
from priory.queries.query import Query

DOMAIN = Domain.of({"a": 3, "b": 2})
CELLS = np.indices(DOMAIN.shape).reshape(2, -1).T
BASE = PublicRows(CELLS, DOMAIN, np.array([4.0, 3, 3, 2, 2, 1]))
PAIR = Query.marginal(DOMAIN, ("a", "b"))
TOTAL = 1000.0


def measured(values: Array, stddev: float) -> Measurement:
    return Measurement.of(PAIR, values.reshape(DOMAIN.shape), stddev)


def coupled_fits(measurement: Measurement) -> CoupledFits:
    evidence = Evidence.of(DOMAIN, [measurement])
    signs = np.ones(evidence.size)
    setting = Setting(BASE, evidence, TotalEstimate.known(TOTAL), "l2", Dual(), signs=signs)
    perturbed = evidence.values + SPLIT * evidence.stddevs * signs
    return CoupledFits.of(setting, [0], perturbed, has_estimated_total=False)


@given(st.integers(0, 99), st.sampled_from([1.0, 30.0]), st.sampled_from([10.0, 1000.0]))
def test_the_fit_is_the_mode_of_a_sample_and_noisy_answers(seed: int, stddev: float, records: float) -> None:
    rng = np.random.default_rng(seed)
    values = np.rint(TOTAL * BASE.shares + rng.normal(0, 2 * stddev, 6))
    coupling = coupled_fits(measured(values, stddev))
    found = _at(coupling, records / TOTAL)

    def objective(logs: Array) -> float:
        shares = np.exp(logs - logs.max())
        shares /= shares.sum()
        return float(
            0.5 * np.sum(((TOTAL * shares - values) / stddev) ** 2)
            + records * np.sum(shares * np.log(shares / BASE.shares))
        )

    best = minimize(objective, np.log(BASE.shares), tol=1e-12)
    shares = np.exp(best.x - best.x.max())
    np.testing.assert_allclose(found, TOTAL * shares / shares.sum(), atol=0.3 * stddev)


def _at(coupling: CoupledFits, temperature: float) -> Array:
    from priory.estimate.prior_strength import _fitted

    start = coupling.start()
    return _fitted(coupling, start, start, temperature).fit.marginals


@given(st.integers(0, 99), st.sampled_from([1.0, 30.0]), st.sampled_from([10.0, 1000.0]))
def test_degrees_of_freedom_are_the_derivative_of_the_fit(seed: int, stddev: float, records: float) -> None:
    from priory.estimate.prior_strength import _fitted

    values = np.rint(TOTAL * BASE.shares + np.random.default_rng(seed).normal(0, 2 * stddev, 6))
    coupling = coupled_fits(measured(values, stddev))
    start = coupling.start()
    state = _fitted(coupling, start, start, records / TOTAL)
    # The answers of a step move by C(C + λΣ)⁻¹ times what the noisy ones move by, here by σ each.
    shares = state.fit.marginals / TOTAL
    covariance = TOTAL * (np.diag(shares) - np.outer(shares, shares))
    ridge = records / TOTAL * stddev**2 * np.eye(len(shares))
    moved = covariance @ np.linalg.solve(covariance + ridge, np.full(len(shares), stddev))
    assert state.degrees_of_freedom == pytest.approx(moved.sum() / stddev, abs=0.03 * len(shares))


def test_exact_answers_are_met_whatever_the_base() -> None:
    values = np.array([0.0, 500, 100, 0, 300, 100])
    model = posterior([measured(values, 0.01)], BASE, TOTAL, 100.0)
    np.testing.assert_allclose(model.project(("a", "b")).values.reshape(-1), values, atol=1.0)


def test_drowned_answers_leave_the_base_alone() -> None:
    values = TOTAL * BASE.shares + 3_000 * np.array([1, -1, 1, -1, 1, -1])
    model = posterior([measured(values, 1e5)], BASE, TOTAL, 1000.0)
    np.testing.assert_allclose(model.project(("a", "b")).values.reshape(-1), TOTAL * BASE.shares, atol=0.5)


def test_without_measurements_it_is_the_base() -> None:
    assert posterior([], BASE, TOTAL, 100.0).base is BASE


@pytest.mark.statistical
def test_a_base_of_another_population_gets_less_weight() -> None:
    values = np.array([0.0, 500, 100, 0, 300, 100])
    rng = np.random.default_rng(0)
    for _ in range(5):
        noisy = np.rint(values + rng.normal(0, 20, 6))
        coupling = coupled_fits(measured(noisy, 20.0))
        chosen = at_best_temperature(coupling, coupling.start(), 1.0, 0.01)
        assert chosen.fit.temperature < 0.2
        assert np.abs(chosen.fit.marginals - values).sum() < 200


@pytest.mark.statistical
def test_a_sample_and_noise_are_better_together() -> None:
    rng = np.random.default_rng(1)
    truth = TOTAL * BASE.shares
    together, alone, noise = [], [], []
    for _ in range(40):
        sample = rng.multinomial(400, BASE.shares) + 1e-9
        base = PublicRows(CELLS, DOMAIN, sample)
        values = np.rint(truth + rng.normal(0, 20, 6))
        model = posterior([measured(values, 20.0)], base, TOTAL, 400.0)
        together.append(np.abs(model.project(("a", "b")).values.reshape(-1) - truth).sum())
        alone.append(np.abs(TOTAL * sample / sample.sum() - truth).sum())
        noise.append(np.abs(values - truth).sum())
    assert np.mean(together) < 0.95 * min(np.mean(alone), np.mean(noise))


def test_the_weight_that_thinned_rows_find_serves_all_rows() -> None:
    rng = np.random.default_rng(3)
    domain = Domain.of(dict.fromkeys("abcdef", 8))
    rows = np.cumsum(rng.integers(0, 3, (6_000, 6)), axis=1) % 8
    base = PublicRows(rows, domain)
    records, queries = 50_000.0, [Query.marginal(domain, pair) for pair in itertools.pairwise("abcdef")]
    truth = Model(PublicRows(rows, domain, rng.uniform(0.5, 1.5, 6_000) * (1 + rows[:, 0])), {}, records)
    asked = [
        Measurement.of(query, np.rint(answer + rng.normal(0, 60, answer.shape)), 60.0)
        for query, answer in zip(queries, truth.answers(queries), strict=True)
    ]
    whole = posterior(asked, base, records, 6_000)
    thin = posterior(asked, base, records, 6_000, searched=5 * 2_000)

    def error(model: Model) -> float:
        return float(sum(np.abs(model.answer(q) - truth.answer(q)).sum() for q in queries)) / (2 * 5 * records)

    # The base is off by a tenth, an estimate by about a hundredth.
    assert error(Model(base, {}, records)) > 0.08
    assert error(whole) < 0.03
    assert error(thin) < 0.03


def test_precise_answers_are_fitted_on_all_rows_where_few_rows_cannot_fit_them() -> None:
    rng = np.random.default_rng(4)
    domain = Domain.of(dict.fromkeys("abcdef", 8))
    rows = np.cumsum(rng.integers(0, 3, (6_000, 6)), axis=1) % 8
    base = PublicRows(rows, domain)
    records, queries = 50_000.0, [Query.marginal(domain, pair) for pair in itertools.combinations("abcdef", 2)]
    truth = Model(PublicRows(rows, domain, rng.uniform(0.5, 1.5, 6_000) * (1 + rows[:, 0])), {}, records)
    asked = [
        Measurement.of(query, np.rint(answer + rng.normal(0, 5, answer.shape)), 5.0)
        for query, answer in zip(queries, truth.answers(queries), strict=True)
    ]
    thin = posterior(asked, base, records, 6_000, searched=len(queries) * 60)
    errors = [np.abs(thin.answer(q) - truth.answer(q)).sum() / (2 * records) for q in queries]
    assert np.mean(errors) < 0.02
