"""Errors by size: the law that errors of answers follow, how it is found, and what it says of answers of any kind."""

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from priory.answer.errors import Errors, SizeLaw, has_all_pairs, law_of
from priory.answer.intervals import Source
from priory.privacy.measurement import Measurement
from priory.queries.domain import Domain
from priory.queries.parts import Matrix
from priory.queries.query import Query

DOMAIN = Domain.of({"a": 3, "b": 4, "c": 5})
laws = st.builds(SizeLaw, st.integers(1, 3), st.floats(1, 1e3), st.floats(1, 100), st.floats(0.01, 3))
answers = st.floats(0, 1e6)


@given(laws, answers, answers)
def test_larger_answers_err_by_more_and_for_their_size_by_less(law: SizeLaw, one: float, other: float) -> None:
    small, large = sorted((one, other))
    errors = law(np.array([small, large]), 100.0)
    assert errors[0] <= errors[1] * (1 + 1e-9)
    assert errors[1] <= law.part * 100.0 * (1 + 1e-9)


@given(laws, answers)
def test_what_was_not_measured_errs_by_a_sample_or_more(law: SizeLaw, answer: float) -> None:
    prior = law.prior(np.array([answer]))
    assert prior[0] >= answer * (1 - 1e-9)
    assert law(np.array([answer]), 100.0)[0] <= prior[0] * (1 + 1e-9)
    assert law.of_unmeasured(0.0).excess >= 1
    assert law.of_unmeasured(1e3).prior(np.array([1e6]))[0] == pytest.approx(1e9)


@pytest.mark.parametrize("wanted", [SizeLaw(2, 20.0, 4.0, 0.4), SizeLaw(1, 50.0, 12.0, 0.8), SizeLaw(2, 5.0, 1.0, 0.2)])
def test_a_law_is_found_again_from_many_answers_that_follow_it(wanted: SizeLaw) -> None:
    sizes = wanted.stddev * np.array([0.05, 0.2, 0.5, 1.5, 4.0, 10.0, 50.0])
    errors = wanted(sizes, wanted.stddev**2) / wanted.stddev**2
    stddevs = np.full(len(sizes), wanted.stddev)
    found = law_of(wanted.attributes, sizes, errors, stddevs, np.full(len(sizes), 1e5))
    for size in sizes[1:]:
        ratio = found(size, wanted.stddev**2) / wanted(size, wanted.stddev**2)
        assert float(ratio) == pytest.approx(1, abs=0.25)
    # Next to nothing is known of few answers: then intervals are rather wider.
    unsure = law_of(wanted.attributes, sizes[:1], errors[:1], stddevs[:1], np.array([1e-6]))
    assert unsure.part > 0.35


def some_errors(*, has_pairs: bool = True, misfit: float = 0.0) -> Errors:
    return Errors(1.0, 1000.0, (SizeLaw(1, 10.0, 3.0, 0.5), SizeLaw(2, 20.0, 5.0, 0.4)), has_pairs, misfit=misfit)


def test_errors_are_kept_as_they_are_and_damaged_ones_are_refused() -> None:
    errors = some_errors(has_pairs=False, misfit=2.5)
    kept = json.loads(json.dumps(errors.plain()))
    found = Errors.of_plain(kept)
    assert found.plain() == errors.plain()
    for damaged in ({**kept, "misfit": -1}, {**kept, "temperature": 0}, {**kept, "laws": [{"part": 1}]}):
        with pytest.raises((ValueError, TypeError)):
            Errors.of_plain(damaged)


def hidden(errors: Errors, query: Query, answer: np.ndarray, shown: float = 0.0) -> np.ndarray:
    measurements = [Measurement.of(Query.marginal(DOMAIN, "a"), np.zeros(3), 10.0)]
    source: Source = "measured" if query.clique == ("a",) else "inferred"
    repeats = np.array([answer + shown, answer - shown])
    return errors.hidden(
        query,
        answer,
        repeats,
        growth=np.zeros(2),
        source=source,
        measurements=measurements,
    )


def test_what_redraws_show_is_not_added_again() -> None:
    query, answer = Query.marginal(DOMAIN, "a"), np.array([5.0, 50.0, 500.0])
    alone = hidden(some_errors(), query, answer)
    beside = hidden(some_errors(), query, answer, shown=2.0)
    np.testing.assert_allclose(beside**2 + 4.0, alone**2)
    assert np.all(hidden(some_errors(), query, answer, shown=100.0) == 0)


def test_that_all_records_are_more_or_fewer_is_no_error_of_cells() -> None:
    query, answer = Query.marginal(DOMAIN, "a"), np.array([5.0, 50.0, 500.0])
    growth = np.array([0.5, -0.5])

    def found(growth: np.ndarray) -> np.ndarray:
        grown = np.multiply.outer(1 + growth, answer)
        return some_errors().hidden(query, answer, grown, growth=growth, source="measured", measurements=[])

    np.testing.assert_allclose(found(growth), found(np.zeros(1)))


def test_nearly_all_records_are_known_as_well_as_nearly_none() -> None:
    query = Query.marginal(DOMAIN, "a")
    few, many = hidden(some_errors(), query, np.array([3.0, 997.0, 1000.0]))[[0, 1]]
    assert many == pytest.approx(few)


def test_answers_in_other_units_have_their_errors_in_these_units() -> None:
    counted = Query.product(DOMAIN, {"b": Matrix(np.array([[0, 1, 1, 0]]))})
    valued = Query.product(DOMAIN, {"b": Matrix(np.array([[0, 7, 7, 0]]))})
    for errors in (some_errors(), some_errors(has_pairs=False)):
        once, times = (
            hidden(errors, query, np.array([answer])) for query, answer in ((counted, 40.0), (valued, 280.0))
        )
        np.testing.assert_allclose(times, 7 * once)


def test_what_no_row_has_may_be_there() -> None:
    errors = some_errors()
    query, nothing = Query.marginal(DOMAIN, "a"), np.zeros(3)
    assert np.all(hidden(errors, query, nothing) == 0)
    of_rows = replace(errors, least=0.5)
    np.testing.assert_allclose(hidden(of_rows, query, nothing), hidden(errors, query, nothing + 0.5), rtol=1e-3)


def test_what_left_out_marginals_miss_is_added_to_answers_that_were_not_measured_alone() -> None:
    blind, seeing = some_errors(has_pairs=False), some_errors(has_pairs=False, misfit=50.0)
    pair, single = Query.marginal(DOMAIN, ("b", "c")), Query.marginal(DOMAIN, "a")
    answer = np.full((4, 5), 50.0)
    assert np.all(hidden(seeing, pair, answer) > 2 * hidden(blind, pair, answer))
    np.testing.assert_array_equal(hidden(seeing, single, answer[0, :3]), hidden(blind, single, answer[0, :3]))
    unknown = replace(blind, laws=())
    assert np.isnan(hidden(unknown, pair, answer)).all()


def test_all_pairs_are_measured_when_each_is_in_some_measurement() -> None:
    def asked(*cliques: str) -> list[Measurement]:
        return [Measurement.of(q := Query.marginal(DOMAIN, tuple(c)), np.zeros(q.shape), 1.0) for c in cliques]

    assert has_all_pairs("abc", asked("ab", "bc", "ac"))
    assert has_all_pairs("abc", asked("abc"))
    assert not has_all_pairs("abc", asked("ab", "bc", "a", "c"))
