"""The contract of each family; a new member is tested by its line in the registry."""

import sys
import tempfile
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

import numpy as np

from houses import DOMAIN, Rows, curated, random_rows
from priory.app.registry import Registered
from priory.audit.replay import replay
from priory.domain import Clique
from priory.errors import BudgetError
from priory.factor import Factor
from priory.privacy.budget import Budget, Currency
from priory.privacy.ledger import Ledger
from priory.privacy.randomness import Replay
from priory.release import Release


def budgets(entry: Registered) -> list[Budget]:
    """One of every currency, relation and number of rows that the mechanism can be given."""
    found = [
        Budget.approximate(1, 1e-9),
        Budget.approximate(1, 1e-6, Currency.GAUSSIAN),
        Budget.gaussian("1/5", relation="replace-one", max_rows=2),
        Budget.zcdp("1/10", relation="replace-one"),
        Budget.zcdp("1/10", max_rows=3),
        Budget.zcdp("1/10", relation="replace-one", max_rows=2),
    ]
    return found + [Budget.pure(1), Budget.pure("1/100", relation="replace-one")] * entry.is_pure


def check_it_spends_no_more_than_it_was_given(entry: Registered) -> None:
    for budget in budgets(entry):
        ledger = Ledger.in_memory(budget, person="who" if budget.max_rows > 1 else None)
        with curated(budget, ledger=ledger) as curator:
            release = entry.build(DOMAIN).run(curator, budget)
            spent = curator.reservation.spent
        assert 0 < spent <= budget.amount
        assert ledger.left() == budget.amount - spent
        assert release.statement.spent == spent
        assert release.statement.budget == budget


def check_it_stays_within_a_part_of_the_budget(entry: Registered) -> None:
    for budget in budgets(entry):
        part = budget.part(Fraction(1, 3))
        with curated(budget) as curator:
            entry.build(DOMAIN).run(curator, part)
            assert curator.reservation.spent <= part.amount


def check_it_is_refused_more_than_is_left(entry: Registered) -> None:
    budget = Budget.zcdp("1/10")
    source = random_rows()
    with curated(budget, source) as curator:
        try:
            entry.build(DOMAIN).run(curator, Budget.zcdp("1/5"))
        except BudgetError:
            return
    raise AssertionError("it spent more than there was")


def check_it_replays_from_a_forced_transcript(entry: Registered) -> None:
    assert replay(entry.build, 15) == []


class Guarded(Rows):
    """Rows that only the curator may count."""

    def count(self, cliques: Sequence[Clique]) -> list[Factor]:
        assert sys._getframe(1).f_code.co_qualname == "Truths.of"
        return super().count(cliques)


def check_it_counts_only_through_the_curator(entry: Registered) -> None:
    budget = budgets(entry)[0]
    with curated(budget, Guarded(DOMAIN, random_rows().rows)) as curator:
        entry.build(DOMAIN).run(curator, budget)


def check_the_same_randomness_gives_the_same_release(entry: Registered) -> None:
    budget = budgets(entry)[0]

    def values() -> list[bytes]:
        with curated(budget, randomness=Replay(seed=1)) as curator:
            return [m.values.tobytes() for m in entry.build(DOMAIN).run(curator, budget).measurements]

    assert values() == values()


def check_a_release_survives_its_file(entry: Registered) -> None:
    budget = budgets(entry)[0]
    with curated(budget) as curator:
        release = entry.build(DOMAIN).run(curator, budget)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.priory"
        release.save(path)
        again = Release.load(path)
    assert again.statement == release.statement
    for one, two in zip(release.measurements, again.measurements, strict=True):
        np.testing.assert_array_equal(one.values, two.values)


def check_a_large_budget_gives_the_truth(entry: Registered) -> None:
    budget = Budget.zcdp(10**9)
    source = random_rows(5_000)
    with curated(budget, source) as curator:
        release = entry.build(DOMAIN).run(curator, budget)
    assert release.measurements
    for measurement in release.measurements:
        truth = measurement.query(source.count([measurement.query.clique])[0].values)
        np.testing.assert_allclose(measurement.values, truth, atol=1)


MECHANISM_CHECKS = [
    check_it_spends_no_more_than_it_was_given,
    check_it_stays_within_a_part_of_the_budget,
    check_it_is_refused_more_than_is_left,
    check_it_replays_from_a_forced_transcript,
    check_it_counts_only_through_the_curator,
    check_the_same_randomness_gives_the_same_release,
    check_a_release_survives_its_file,
    check_a_large_budget_gives_the_truth,
]
