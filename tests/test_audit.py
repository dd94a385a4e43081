import numpy as np
import pytest

from priory.audit.attack import Codes, _sampled
from priory.audit.battery import TESTS
from priory.audit.canaries import counts_in
from priory.audit.findings import QUICK, Test
from priory.audit.planted import PLANTED
from priory.audit.replay import replay
from priory.audit.tables import NeighbouringTables, neighbours
from priory.domain import Domain
from priory.mechanisms.dualquery.dualquery import DualQuery
from priory.privacy.budget import Budget
from priory.privacy.curator import Curator
from priory.privacy.ledger import Ledger
from priory.privacy.randomness import Replay
from priory.queries.sensitivity import Relation
from priory.queries.workload import Workload


@pytest.mark.statistical
@pytest.mark.parametrize("test", TESTS, ids=lambda test: test.__name__)
def test_the_quick_battery_passes(test: Test) -> None:
    # Its limits are such that right code fails less than once in a hundred thousand runs; see each test's own.
    findings = list(test(QUICK))
    assert findings
    failed = [
        f"{finding.test}: {finding.figure} (limit: {finding.limit})" for finding in findings if not finding.passed
    ]
    assert not failed


def test_neighbours_come_in_every_kind() -> None:
    pairs = list(neighbours(60, seed=0))
    assert {pair.name.split(":")[0] for pair in pairs} == set(NeighbouringTables.bases)
    assert {pair.budget.relation for pair in pairs} == set(Relation)
    assert {(pair.budget.is_pure, pair.budget.max_rows) for pair in pairs} == {
        (p, m) for p in (True, False) for m in (1, 3)
    }
    cells = {cell for pair in pairs for row in pair.other for cell in row}
    assert {"ultraviolet", "1000000000000", "maybe", None} <= cells
    for pair in pairs:
        difference = len(set(pair.one) ^ set(pair.other))
        assert difference or pair.one != pair.other or pair.budget.relation is Relation.REPLACE_ONE


def test_each_planted_mechanism_is_caught_for_its_own_bug() -> None:
    expected = {
        "a mechanism that peeks": ("path", "requests"),
        "an error that depends on the rows": ("raised ValueError",),
        "a second answer without a charge": ("more than was paid",),
        "noise for half the sensitivity": ("more than was paid",),
        "a true count in the release": ("different releases",),
    }
    assert set(expected) == set(PLANTED)
    for name, words in expected.items():
        complaints = replay(lambda _, name=name: PLANTED[name], 4)  # type: ignore[misc]
        assert complaints
        assert any(word in complaints[0] for word in words)


@pytest.mark.parametrize("budget", [Budget.pure(1), Budget.zcdp("1/2")])
def test_the_attack_reckons_with_the_chances_that_dualquerys_samples_had(budget: Budget) -> None:
    source = Codes(Domain.of({"a": 2, "b": 3}), np.array([[0, 0]] * 5 + [[1, 2]], dtype=np.int64))
    recipe, replay_ = DualQuery(Workload.marginals(source.domain, 1), samples=4, rounds=4), Replay(seed=1)
    with Ledger.in_memory(budget).reserve(budget, "test") as reservation:
        release = recipe.run(Curator(reservation, source, randomness=replay_), budget)
    picked = [asked for asked in replay_.asked if isinstance(asked.result, int)]
    scores = [asked.truth / float(asked.request.scale) for asked in picked]
    chances = [s[asked.result] - np.logaddexp.reduce(s) for s, asked in zip(scores, picked, strict=True)]
    assert len(chances) == 12
    assert _sampled(recipe.workload, release, source) == pytest.approx(sum(chances), abs=0.01)


@pytest.mark.parametrize("text", ["total 1237.", "[1237, 3]", "1,237 rows", "1237.0 2", "total=1237)"])
def test_an_exact_count_is_found_where_it_is_a_number_of_its_own(text: str) -> None:
    assert counts_in(text)


def test_digits_of_other_numbers_are_no_exact_count() -> None:
    assert not counts_in("0.12371 41237 1237.5 a1237f 1237e5 12372 3.1237")
