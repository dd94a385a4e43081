import pytest

from priory.audit.battery import TESTS
from priory.audit.findings import QUICK, Test
from priory.audit.planted import PLANTED
from priory.audit.replay import replay
from priory.audit.tables import Neighbours, neighbours
from priory.queries.sensitivity import Relation


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
    assert {pair.name.split(":")[0] for pair in pairs} == set(Neighbours.bases)
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
