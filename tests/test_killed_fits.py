"""The audit's look at killed fits sees what it is there to see."""

from pathlib import Path

import pytest

from houses import random_rows
from priory.app.fit import fit
from priory.audit.killed_fits import BUDGET, SCHEMA, Tally, _examine
from priory.privacy.ledger import Ledger, Terms
from priory.privacy.outputs import partial_path
from priory.privacy.record_file import RecordFile, read_records
from priory.release import Release

TERMS = Terms(SCHEMA.name, SCHEMA.dump(), BUDGET)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What a fit leaves that is stopped before its release is written."""

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    book = Ledger.create(tmp_path / "a.ledger", TERMS)
    source = random_rows(domain=SCHEMA.domain)
    with monkeypatch.context() as patch:
        patch.setattr(Release, "save", stop)
        with pytest.raises(KeyboardInterrupt):
            fit(source, SCHEMA, rho=BUDGET.amount, mechanism="mst", ledger=book, output=tmp_path / "a.priory")
    return tmp_path


def examined(folder: Path) -> tuple[int, int, int]:
    tally = Tally()
    _examine(folder, tally)
    assert tally.kills == 1
    return tally.uncharged, tally.lost, tally.unreleased


def without(folder: Path, *dropped: int) -> None:
    """Write the partial file again, without some of its records."""
    path = partial_path(folder / "a.priory")
    records = read_records(path)
    path.unlink()
    file = RecordFile.create(path)
    for number, record in enumerate(records):
        if number - len(records) not in dropped:
            file.append(record)
    file.close()


def test_a_fit_that_kept_everything_passes(folder: Path) -> None:
    assert examined(folder) == (0, 0, 0)


def test_the_batch_in_flight_may_be_lost(folder: Path) -> None:
    without(folder, -1)
    assert examined(folder) == (0, 0, 0)
    without(folder, -1)
    assert examined(folder) == (0, 0, 0)


def test_a_second_lost_batch_is_seen(folder: Path) -> None:
    without(folder, -1, -2, -3)
    assert examined(folder) == (0, 1, 0)


def test_a_ledger_that_forgot_a_payment_is_seen(folder: Path) -> None:
    (folder / "a.ledger").unlink()
    Ledger.create(folder / "a.ledger", TERMS)
    assert examined(folder)[0] == 1


def test_a_torn_release_is_seen(folder: Path) -> None:
    (folder / "a.priory").write_bytes(b"PK")
    assert examined(folder) == (0, 0, 1)
