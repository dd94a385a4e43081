"""The contract of each family; a new member is tested by its line in the registry."""

import sys
import tempfile
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

import numpy as np

from houses import DOMAIN, Rows, curated, random_rows
from priory.app.registry import Mechanism, Registered
from priory.audit.replay import complaints_about
from priory.audit.settings import DOMAIN as AUDITED
from priory.audit.settings import always
from priory.errors import BudgetError
from priory.mechanisms.independent import Independent
from priory.model.bases import Uniform
from priory.model.model import Model
from priory.privacy.budget import Budget, Currency
from priory.privacy.ledger import Ledger
from priory.privacy.randomness import Replay
from priory.queries.domain import Clique
from priory.queries.factor import Factor
from priory.queries.workload import Workload
from priory.release import Release

RECORDS = 5_000


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
    # Strangers, crowds and a few neighbours: in the quick battery the audit replays it on all that these begin with.
    assert list(complaints_about(always(entry.build(AUDITED)), 3)) == []


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


def dependent_rows() -> Rows:
    """A table in which the first attribute says the second."""
    rng = np.random.default_rng(4)
    ages = rng.choice(4, RECORDS, p=[0.5, 0.3, 0.15, 0.05])
    return Rows(DOMAIN, np.stack([ages, ages // 2, rng.choice(3, RECORDS, p=[0.7, 0.2, 0.1])], axis=1))


def independent_rows() -> Rows:
    """A table in which no attribute says anything of another."""
    rng = np.random.default_rng(5)
    shares = [[0.5, 0.3, 0.15, 0.05], [0.8, 0.2], [0.7, 0.2, 0.1]]
    return Rows(DOMAIN, np.stack([rng.choice(len(each), RECORDS, p=each) for each in shares], axis=1))


def error_of(model: Model, source: Rows, ways: int) -> float:
    """The mean total variation distance over all marginals of so many attributes."""
    queries = Workload.marginals(DOMAIN, ways).queries
    truths = [source.count([query.clique])[0].values / RECORDS for query in queries]
    answers = [model.answer(query) / model.total for query in queries]
    return float(np.mean([np.abs(a - t).sum() / 2 for a, t in zip(answers, truths, strict=True)]))


def released(mechanism: Mechanism, source: Rows) -> Release:
    """What a mechanism makes of a table with a budget of ρ = 1/10, from fixed randomness."""
    budget = Budget.zcdp("1/10")
    with curated(budget, source, randomness=Replay(seed=3)) as curator:
        return mechanism.run(curator, budget)


def check_it_answers_its_workload_better_than_uniform(entry: Registered) -> None:
    source = dependent_rows()
    uniform = Model(Uniform(DOMAIN), {}, RECORDS)
    model = released(entry.build(DOMAIN), source).model
    # Half is far from both: uniform is off by a third or more here, and the noise of ρ = 1/10 by a hundredth.
    assert error_of(model, source, entry.ways) < error_of(uniform, source, entry.ways) / 2


def check_it_is_no_worse_than_independent_where_nothing_depends(entry: Registered) -> None:
    if not entry.measures_every_attribute:
        return
    source = independent_rows()
    alone = error_of(released(Independent(), source).model, source, 2)
    # Rows drawn for a release differ from its model by about 1/√5000 = 0.014.
    assert error_of(released(entry.build(DOMAIN), source).model, source, 2) < alone + 0.02


def check_it_hands_out_its_own_estimate_if_it_says_so(entry: Registered) -> None:
    release = released(entry.build(DOMAIN), dependent_rows())
    assert (release.estimate is not None) == entry.has_own_model


MECHANISM_CHECKS = [
    check_it_spends_no_more_than_it_was_given,
    check_it_stays_within_a_part_of_the_budget,
    check_it_is_refused_more_than_is_left,
    check_it_replays_from_a_forced_transcript,
    check_it_counts_only_through_the_curator,
    check_the_same_randomness_gives_the_same_release,
    check_a_release_survives_its_file,
    check_a_large_budget_gives_the_truth,
    check_it_answers_its_workload_better_than_uniform,
    check_it_is_no_worse_than_independent_where_nothing_depends,
    check_it_hands_out_its_own_estimate_if_it_says_so,
]

# What mechanisms with custom settings or public rows are held to: the money, and repeatability.
BUDGET_CHECKS = [
    check_it_spends_no_more_than_it_was_given,
    check_it_stays_within_a_part_of_the_budget,
    check_it_is_refused_more_than_is_left,
    check_the_same_randomness_gives_the_same_release,
]
