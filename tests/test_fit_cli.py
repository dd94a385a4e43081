"""Fits that are killed, interrupted, refused or run twice: the ledger stays right and the message says so."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from command import priory
from priory.data.schema import Schema
from priory.privacy.budget import Budget
from priory.privacy.ledger import EntryState, Ledger, Terms
from priory.release import Release

resource = pytest.importorskip("resource", reason="limits of processes are not known to this system")
SCHEMA = Schema.coded({"age": 3, "sex": 2, "job": 4}, name="people")
# The command line with a mechanism that says when it has paid for its first round and then waits.
WAITING = """
import pathlib, sys, time
from priory.app import registry
from priory.measure import measure
from priory.queries.query import Query
from priory.release import Release
class Waiting:
    def run(self, curator, budget):
        first, rest = budget.split([1, 1])
        curator.report_progress(1, 2)
        measure(curator, [Query.marginal(curator.domain, "age")], first)
        curator.report_progress(2, 2)
        pathlib.Path(sys.argv.pop()).write_text("paid")
        time.sleep(60)
registry.MECHANISMS["waiting"] = registry.Registered("waiting", "", lambda _: Waiting())
from priory.cli import main
sign = sys.argv[-1]
main(sys.argv[1:-1])
"""


@pytest.fixture
def house(tmp_path: Path) -> Path:
    SCHEMA.save(tmp_path / "schema.yaml")
    (tmp_path / "table.csv").write_text("age,sex,job\n" + "0,1,3\n2,0,1\n" * 20)
    Ledger.create(tmp_path / "a.ledger", Terms("people", SCHEMA.dump(), Budget.pure(1)))
    return tmp_path


def arguments(house: Path, *more: object) -> list[str]:
    table, schema = house / "table.csv", house / "schema.yaml"
    return [str(each) for each in ("fit", table, "--schema", schema, "--ledger", house / "a.ledger", *more)]


def started(house: Path) -> subprocess.Popen[str]:
    """A fit that has paid for its first round."""
    sign = house / "paid"
    command = arguments(house, "--epsilon", "0.5", "--mechanism", "waiting", "-o", house / "w.priory")
    process = subprocess.Popen(
        [sys.executable, "-c", WAITING, *command, str(sign)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    while not sign.exists():
        assert process.poll() is None, process.stderr and process.stderr.read()
        time.sleep(0.02)
    return process


def entries(house: Path) -> list[tuple[EntryState, float]]:
    return [(entry.state, float(entry.charged)) for entry in Ledger.open(house / "a.ledger").entries()]


def test_a_fit_that_is_killed_in_a_round_stays_charged_and_the_next_one_counts_it(house: Path) -> None:
    process = started(house)
    process.kill()
    process.communicate()
    assert entries(house) == [(EntryState.OPEN, 0.5)]
    refused = priory(*arguments(house, "--epsilon", "0.75", "-o", house / "a.priory"))
    assert refused.returncode == 7
    assert "ε = 0.5 is left" in refused.stderr
    assert refused.stderr.endswith("Nothing was spent\n")
    assert refused.stderr.count("othing was spent") == 1
    fitted = priory(*arguments(house, "--epsilon", "0.5", "-o", house / "a.priory"))
    assert fitted.returncode == 0, fitted.stderr
    assert entries(house) == [(EntryState.OPEN, 0.5), (EntryState.SPENT, 0.5)]
    assert not (house / "w.priory").exists()


def test_ctrl_c_in_a_round_ends_with_one_line_that_says_what_stays_charged(house: Path) -> None:
    process = started(house)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate()
    assert process.returncode == 130
    # Before it, a slow machine may have said how far it was.
    assert err.count("priory: ") == 1
    assert err.splitlines()[-1].startswith("priory: interrupted. ")
    assert "stays charged: ε = 0.5, entry 1 of" in err
    assert f"make the release with: priory estimate {house / 'w.priory.partial'} -o {house / 'w.priory'}" in err
    assert entries(house) == [(EntryState.INTERRUPTED, 0.5)]
    assert priory("estimate", house / "w.priory.partial", "-o", house / "w.priory").returncode == 0
    release = Release.load(house / "w.priory")
    assert [m.query.clique for m in release.measurements] == [("age",)]
    assert entries(house) == [(EntryState.INTERRUPTED, 0.5)]


def test_two_fits_at_the_same_time_cannot_spend_more_than_there_is(house: Path) -> None:
    process = started(house)
    refused = priory(*arguments(house, "--epsilon", "0.75", "-o", house / "a.priory"))
    assert refused.returncode == 7
    fitted = priory(*arguments(house, "--epsilon", "0.25", "-o", house / "a.priory"))
    assert fitted.returncode == 0, fitted.stderr
    assert entries(house) == [(EntryState.OPEN, 0.5), (EntryState.SPENT, 0.25)]
    process.kill()
    process.communicate()


def test_an_exhausted_budget_is_refused_with_what_is_left(house: Path) -> None:
    assert priory(*arguments(house, "--epsilon", 1, "-o", house / "a.priory")).returncode == 0
    refused = priory(*arguments(house, "--epsilon", "0.01", "-o", house / "b.priory", "--json"))
    told = json.loads(refused.stderr)
    assert (refused.returncode, told["error"]) == (7, "BudgetError")
    assert "ε = 0 is left" in told["message"]
    assert not (house / "b.priory").exists()


def test_a_disk_that_fills_up_does_not_lose_what_was_paid_for(house: Path) -> None:
    """The release cannot be written any more in the output's folder; the partial file stays there."""
    (house / "small").mkdir()
    script = (
        "import errno, pathlib, sys\n"
        "from priory.cli import main\n"
        "write = pathlib.Path.write_bytes\n"
        "def full(path, data):\n"
        "    if path.parent.name == 'small':\n"
        "        raise OSError(errno.ENOSPC, 'No space left on device')\n"
        "    return write(path, data)\n"
        "pathlib.Path.write_bytes = full\n"
        "main(sys.argv[1:])\n"
    )
    command = arguments(house, "--epsilon", "0.5", "-o", house / "small" / "a.priory", "--json")
    done = subprocess.run([sys.executable, "-c", script, *command], capture_output=True, text=True, check=False)
    assert done.returncode == 9
    told = json.loads(done.stderr)
    assert "No space left" in told["message"]
    assert told["spent"]["partial"] == str(house / "small" / "a.priory.partial")
    assert [path.name for path in (house / "small").iterdir()] == ["a.priory.partial"]
    assert priory("estimate", told["spent"]["partial"], "-o", house / "a.priory").returncode == 0
    assert len(Release.load(house / "a.priory").measurements) > 0
    assert entries(house) == [(EntryState.SPENT, 0.5)]


def test_a_ledger_that_cannot_grow_spends_nothing(house: Path) -> None:
    """A disk that is full when the reservation is written: it fails, and nothing was looked at."""
    size = (house / "a.ledger").stat().st_size

    def limit() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size // 2, size // 2))

    script = "import priory as pr, sys; pr.fit(sys.argv[1], sys.argv[2], epsilon=1, ledger=sys.argv[3])"
    command = [sys.executable, "-c", script, *(str(house / name) for name in ("table.csv", "schema.yaml", "a.ledger"))]
    refused = subprocess.run(command, capture_output=True, text=True, check=False, preexec_fn=limit)
    assert refused.returncode == 1
    assert "LedgerError" in refused.stderr
    assert refused.stderr.endswith("Nothing was spent\n")
    assert entries(house) == []


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_may_only_be_read_is_refused_before_anything_is_spent(house: Path) -> None:
    (house / "sealed").mkdir(mode=0o500)
    refused = priory(*arguments(house, "--epsilon", "0.5", "-o", house / "sealed" / "a.priory"))
    assert refused.returncode == 2
    assert entries(house) == []


def test_a_workload_gets_the_whole_budget_and_is_refused_before_anything_is_spent(house: Path) -> None:
    aimed = ("--mechanism", "hdmm", "--epsilon", "1", "-o", house / "a.priory")
    wrong = priory(*arguments(house, *aimed, "--workload", "age,shoe"))
    assert wrong.returncode == 5
    assert "Nothing was spent" in wrong.stderr
    made = priory(*arguments(house, *aimed, "--workload", '"sex",age', "--workload", "job"))
    assert made.returncode == 0, made.stderr
    release = Release.load(house / "a.priory")
    assert {measurement.query.clique for measurement in release.measurements} == {("age", "sex"), ("job",)}
