from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from priory.estimate.rows import device, weights
from priory.estimate.rows.answers import RowAnswers
from priory.estimate.rows.weigh import weighed
from priory.estimate.rows.weights import RowFits
from priory.estimate.rows.worth import random_signs
from priory.model import row_sums
from priory.model.bases import PublicRows
from priory.privacy.measurement import Measurement
from priory.queries.domain import Domain
from priory.queries.parts import Prefix, Recode, Total
from priory.queries.query import Query

DOMAIN = Domain.of({"a": 3, "b": 4, "c": 2})
QUERIES = (
    Query.marginal(DOMAIN, ("a", "b")),
    Query.product(DOMAIN, {"b": Recode([0, 1, 1, 0]), "c": Total()}),
    Query.product(DOMAIN, {"a": Prefix(), "c": Recode([1, 0])}),
    Query.marginal(DOMAIN, ()),
)


def rows_of(seed: int, count: int = 12) -> PublicRows:
    rng = np.random.default_rng(seed)
    codes = np.stack([rng.integers(0, size, count) for size in DOMAIN.shape], axis=1)
    return PublicRows(codes, DOMAIN, rng.random(count) + 0.1)


def measured(seed: int, stddev: float = 2.0, queries: tuple[Query, ...] = QUERIES) -> list[Measurement]:
    rng = np.random.default_rng(seed)
    return [Measurement.of(query, rng.normal(10, 5, query.shape), stddev) for query in queries]


def exact(query: Query, rows: PublicRows, shares: np.ndarray) -> np.ndarray:
    """The answers of weighted rows, by the whole table."""
    table = np.zeros(query.domain.shape)
    for row, share in zip(rows.codes, shares, strict=True):
        table[tuple(row[rows.domain.axis[name]] for name in query.clique)] += share
    return np.asarray(query(table)).reshape(-1)


@given(st.integers(0, 200))
def test_the_objective_is_that_of_all_answers_kept_or_not(seed: int) -> None:
    rows, ms = rows_of(seed), measured(seed)
    fits = RowFits(RowAnswers.of(ms, rows, 50.0), np.log(rows.shares))
    logs = np.random.default_rng(seed).normal(size=len(rows.codes))
    point = fits.at(logs, 7.0)
    shares = rows.shares * np.exp(logs)
    shares /= shares.sum()
    np.testing.assert_allclose(point.shares, shares)
    misfit = sum(np.sum(((50 * exact(m.query, rows, shares) - m.values.reshape(-1)) / m.stddev) ** 2) for m in ms)
    assert point.misfit == pytest.approx(misfit)
    assert fits.answers.size == sum(m.query.rows for m in ms)


@given(st.integers(0, 200))
def test_the_natural_gradient_is_the_gradient_over_the_weights(seed: int) -> None:
    rows = rows_of(seed)
    fits = RowFits(RowAnswers.of(measured(seed), rows, 50.0), np.log(rows.shares))
    rng = np.random.default_rng(seed)
    logs, direction = rng.normal(size=(2, len(rows.codes)))
    here = fits.at(logs, 7.0)
    ahead, behind = (fits.at(logs + step * direction, 7.0).value for step in (1e-5, -1e-5))
    slope = float(np.sum(here.shares * here.pull * direction))
    assert (ahead - behind) / 2e-5 == pytest.approx(slope, rel=1e-4, abs=1e-4)


@settings(max_examples=20)
@given(st.integers(0, 200))
def test_a_fit_is_stationary_and_follows_its_answers_by_its_degrees_of_freedom(seed: int) -> None:
    rows, ms = rows_of(seed), measured(seed)
    base, answers = np.log(rows.shares), RowAnswers.of(ms, rows, 50.0)
    fits = RowFits(answers, base)
    monkey = pytest.MonkeyPatch()
    with monkey.context() as patched:
        patched.setattr(weights, "_FLAT", 0.0)
        fit = fits.fitted(fits.start(30.0), 500)
        assert np.abs(fit.shares * fit.pull).max() < 1e-4
        # Answers moved along the signs of noise move the fit along, by as much as the degrees of freedom say.
        signs = random_signs(answers)
        beside = RowFits(replace(answers, values=answers.values + 1e-3 * signs * answers.precision**-0.5), base)
        other = beside.fitted(beside.at(fit.logs, 30.0), 500)
    change = (answers.predicted(other.shares) - answers.predicted(fit.shares)) * answers.precision**0.5
    assert fits.degrees_of_freedom(fit, signs) == pytest.approx(float(change @ signs) / 1e-3, rel=0.02, abs=0.02)


def test_cells_without_rows_change_nothing() -> None:
    rows = PublicRows([[0, 0, 0], [1, 1, 1]], DOMAIN)
    query = Query.marginal(DOMAIN, ("a", "b", "c"))
    answers = RowAnswers.of([Measurement.of(query, np.full(query.shape, 3.0), 1.5)], rows, 10.0)
    assert len(answers.values) == 2
    assert answers.outside == pytest.approx(22 * 4.0)
    assert answers.size == 24


@pytest.mark.parametrize("kind", [row_sums.CompiledSums, row_sums.PlainSums])
def test_sums_of_many_tables_are_those_of_each(kind: type) -> None:
    # More than four tables, and one of more than 16-bit cells.
    rng = np.random.default_rng(0)
    sizes = [3, 5, 70_000, 2, 9, 4, 7]
    tables = [rng.integers(0, size, 40) for size in sizes]
    sums, shares, numbers = kind(tables, sizes, 40), rng.random(40), rng.random(sum(sizes))
    np.testing.assert_allclose(
        sums.over_cells(shares),
        np.concatenate([np.bincount(t, shares, n) for t, n in zip(tables, sizes, strict=True)]),
    )
    starts = np.cumsum([0, *sizes[:-1]])
    np.testing.assert_allclose(
        sums.over_tables(numbers), sum(numbers[start + t] for start, t in zip(starts, tables, strict=True))
    )


def test_rows_that_fit_stay_as_they_are() -> None:
    rows = rows_of(3, 400)
    true = [exact(q, rows, rows.shares).reshape(q.shape) for q in QUERIES]
    ms = [Measurement.of(q, 1000 * answer, 30.0) for q, answer in zip(QUERIES, true, strict=True)]
    model = weighed(ms, rows, 1000.0)
    assert model.diagnostics is not None
    np.testing.assert_allclose(model.project(("a", "b")).values, 1000 * true[0], rtol=0.02)


def test_a_sample_counts_for_as_many_records_as_it_is_and_for_fewer_where_answers_surely_say_so() -> None:
    rows, rng = rows_of(3, 400), np.random.default_rng(1)
    counts = []
    for tilt in (0.0, 3.0):
        population = rows.shares * np.exp(tilt * rows.codes[:, 0])
        population = population / population.sum()
        answers = [exact(q, rows, population).reshape(q.shape) for q in QUERIES]
        noisy = [1000 * answer + rng.normal(0, 10, answer.shape) for answer in answers]
        ms = [Measurement.of(q, answer, 10.0) for q, answer in zip(QUERIES, noisy, strict=True)]
        diagnostics = weighed(ms, rows, 1000.0, records=400.0).diagnostics
        assert diagnostics is not None
        counts.append(1000 * diagnostics.schedule[0].temperatures[0])
    assert counts[0] == pytest.approx(400)
    assert counts[1] < 100


def test_a_search_on_fewer_rows_ends_on_all_of_them() -> None:
    rows = rows_of(4, 300)
    model = weighed(measured(1), rows, 100.0, searched=4 * 10)
    assert isinstance(model.base, PublicRows)
    assert len(model.base.codes) == len(rows.codes)


def test_a_device_gives_the_same_weights() -> None:
    pytest.importorskip("torch", reason="the extra [gpu] is not installed")
    rows = rows_of(5, 300)
    ms = measured(1, queries=(QUERIES[0], QUERIES[1]))
    plain, there = weighed(ms, rows, 100.0), weighed(ms, rows, 100.0, device="cpu")
    np.testing.assert_allclose(there.project(("a", "b")).values, plain.project(("a", "b")).values, rtol=1e-3)


def test_answers_on_a_device_are_those_here(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch", reason="the extra [gpu] is not installed")
    # Two tables at once, the last one by itself; not every cell has rows.
    rows, ms = rows_of(5, 7), measured(1, queries=(QUERIES[0], QUERIES[1], QUERIES[0]))
    monkeypatch.setattr(device, "_PLACES", 2 * len(rows.codes))
    here, there = RowAnswers.of(ms, rows, 100.0), device.DeviceAnswers(ms, rows, 100.0, device="cpu")
    shares = np.random.default_rng(0).random(len(rows.codes))
    np.testing.assert_allclose(there.predicted(there.tensor(shares)), here.predicted(shares))
    np.testing.assert_allclose(there.pulled(there.values), here.pulled(here.values))
    np.testing.assert_allclose(there.values, here.values)
    np.testing.assert_allclose(there.precision, here.precision)
    assert there.outside == pytest.approx(here.outside)
    assert (there.size, len(there.values)) == (here.size, len(here.values))
    assert len(here.values) < here.size


def test_rows_that_are_all_in_one_cell_stay_as_they_are() -> None:
    rows = PublicRows([[0, 0, 0], [0, 0, 1]], DOMAIN, [1.0, 3.0])
    model = weighed(measured(1, queries=(QUERIES[0],)), rows, 5.0)
    np.testing.assert_allclose(model.project(("c",)).values, [1.25, 3.75])


def test_moves_too_small_to_be_squared_have_no_degrees_of_freedom() -> None:
    rows = rows_of(1)
    fits = RowFits(RowAnswers.of(measured(1, stddev=1e100), rows, 1e-60), np.log(rows.shares))
    assert fits.degrees_of_freedom(fits.start(1e-5), random_signs(fits.answers)) == 0
