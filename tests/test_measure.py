from fractions import Fraction

import numpy as np
import pytest

from houses import DOMAIN, curated, random_rows
from priory.data.source import ROW_LIMIT
from priory.errors import BudgetError, DomainError, OptionError
from priory.measure import Measurement, measure, on_lattice
from priory.privacy.budget import Budget
from priory.privacy.randomness import Replay
from priory.privacy.truths import largest_entry
from priory.queries.parts import Mean, Moments
from priory.queries.query import Query
from priory.queries.sensitivity import entry_range

HALF = Budget.zcdp("1/2")
ONE_WAY = [Query.marginal(DOMAIN, name) for name in DOMAIN]


def test_a_budget_is_spent_in_equal_parts_unless_told() -> None:
    with curated(HALF) as curator:
        measured = measure(curator, ONE_WAY, HALF)
        assert curator.left == 0
    assert [m.query for m in measured] == ONE_WAY
    assert [float(m.noise.scale) for m in measured if m.noise] == [pytest.approx(3**0.5)] * 3


def test_shares_decide_the_noise_of_each_query() -> None:
    with curated(HALF) as curator:
        measured = measure(curator, ONE_WAY[:2], HALF, shares=[3, 1])
    assert [round(m.variance, 3) for m in measured] == [round(4 / 3, 3), 4.0]


def test_no_queries_cost_nothing() -> None:
    with curated(HALF) as curator:
        assert measure(curator, [], HALF) == []
        assert curator.left == HALF.amount


def test_too_much_is_refused_before_anything_is_counted() -> None:
    source = random_rows()
    with curated(HALF.part("1/2"), source) as curator, pytest.raises(BudgetError):
        measure(curator, ONE_WAY, HALF)
    assert source.looks == 0


def test_real_queries_are_answered_on_a_lattice() -> None:
    query = Query.product(DOMAIN, {"age": Mean([0.1, 0.2, 0.3, 0.7])})
    source, replay = random_rows(), Replay()
    with curated(HALF, source, randomness=replay) as curator:
        (measured,) = measure(curator, [query], HALF)
    assert measured.query == query.on_lattice(16)
    true = query(source.count([("age",)])[0].values)[0]
    assert replay.asked[0].truth[0] / 2**16 == pytest.approx(true, abs=200 * 2.0**-17)
    # The noise is bought at the sensitivity of the integers that were answered: σ = Δ at ρ = 1/2.
    assert measured.noise is not None
    assert measured.noise.scale == round(0.7 * 2**16)


def test_a_lattice_is_as_fine_as_its_entries_allow() -> None:
    for query in (
        Query.product(DOMAIN, {"age": Mean([0.1, 0.2, 0.3, 1e6])}),
        Query.product(DOMAIN, {"age": Moments([0.5, 1.5, 2.5, 90.5], 3), "sex": Mean([0.25, 1000.5])}),
        Query.product(
            DOMAIN, {"age": Mean([0.5, 1, 2, 3]), "sex": Mean([0.5, 1]), "marital-status": Mean([0.5, 1, 2])}
        ),
    ):
        integer = on_lattice(query)
        assert integer.is_integer
        assert max(map(abs, entry_range(integer))) <= largest_entry(ROW_LIMIT)


def test_a_measurement_checks_what_it_is_given() -> None:
    good = Measurement.of(ONE_WAY[0], [1.0, 2.0, 3.0, 4.0], 2.0)
    assert good.variance == 4.0
    with pytest.raises(DomainError):
        Measurement.of(ONE_WAY[0], [1.0, 2.0], 2.0)
    with pytest.raises(DomainError):
        Measurement.of(ONE_WAY[0], [1.0, 2.0, 3.0, np.nan], 2.0)
    for stddev in (-1.0, float("nan"), float("inf")):
        with pytest.raises(OptionError):
            Measurement.of(ONE_WAY[0], [1, 2, 3, 4], stddev)


def test_a_tiny_epsilon_works_end_to_end() -> None:
    budget = Budget.approximate("0.001", "1e-9")
    with curated(budget) as curator:
        measured = measure(curator, ONE_WAY, budget)
        assert curator.left == 0
    assert all(m.stddev > 1000 for m in measured)
    assert Fraction(float(measured[0].noise.scale)) == measured[0].noise.scale  # type: ignore[union-attr]
