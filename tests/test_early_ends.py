"""However a fit ends, what it says it spent is what the ledger charges, and what was answered is not lost."""

import contextlib
import importlib.metadata
import json
import os
import signal
import subprocess
import sys
import time
from fractions import Fraction
from pathlib import Path

import pytest

from command import priory
from houses import DOMAIN, random_rows
from priory.app.fit import fit
from priory.app.recovery import recover
from priory.cli.fit import spending
from priory.cli.printing import Stopped
from priory.data.schema import Schema
from priory.data.sources.files import connect, container_errors
from priory.errors import NOTHING_SPENT, LedgerError, OptionError, PrioryError, ReleaseError, Spent
from priory.mechanisms.independent import Independent
from priory.privacy.budget import Budget
from priory.privacy.curator import Curator
from priory.privacy.ledger import EntryState, Ledger, Terms
from priory.privacy.outputs import partial_path
from priory.privacy.session import Session
from priory.release import Release, load
from priory.release.partial import Partial

SCHEMA = Schema.coded(dict(zip(DOMAIN.attributes, DOMAIN.shape, strict=True)), name="people")

# Where a run can end, in order, and whether private rows were looked at and something was answered by then.
STAGES = {
    "priory.app.fit.recipe_of": (False, False),
    "priory.privacy.outputs.check_place": (False, False),
    "priory.privacy.recorder.RecordFile.create": (False, False),
    "priory.privacy.recorder.RecordFile.make_room": (False, False),
    "priory.app.fit.open_source": (False, False),
    "priory.privacy.recorder.Recorder.begin": (False, False),
    "priory.privacy.recorder.Recorder.make_room": (False, False),
    "priory.privacy.ledger.Reservation.charge": (False, False),
    "priory.privacy.truths.Truths.of": (True, False),
    "priory.privacy.curator.Curator._noisy": (True, False),
    "priory.mechanisms.steps.fitted.estimate": (True, True),
    "priory.privacy.curator.Curator.choose": (True, True),
    "priory.mechanisms.steps.fitted.Fitted.released": (True, True),
    "priory.privacy.ledger.Ledger.close": (True, True),
    "priory.release.release.Release.with_estimate": (True, True),
    "priory.release.release.Release.save": (True, True),
}


@pytest.fixture
def book(tmp_path: Path) -> Ledger:
    return Ledger.create(tmp_path / "a.ledger", Terms("people", SCHEMA.dump(), Budget.pure(2)))


def spent_by(error: BaseException) -> Spent:
    spent = error.spent  # type: ignore[attr-defined]
    assert isinstance(spent, Spent)
    assert spent.text in error.__notes__
    return spent


@pytest.mark.parametrize("kind", [KeyboardInterrupt, OSError, ReleaseError])
@pytest.mark.parametrize("stage", STAGES)
def test_an_error_in_any_stage_says_what_the_ledger_charges_and_loses_nothing_answered(
    stage: str, kind: type[BaseException], book: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked, answered = STAGES[stage]
    output = tmp_path / "a.priory"

    def fail(*_: object, **__: object) -> None:
        raise kind("planted")

    with monkeypatch.context() as patch:
        patch.setattr(stage, fail)
        if (stage, kind) == ("priory.release.release.Release.with_estimate", ReleaseError):
            fit(random_rows(), SCHEMA, epsilon=1, ledger=book, output=output)
            assert load(output).measurements
            return
        with pytest.raises((kind, OptionError) if kind is OSError else kind) as caught:
            fit(random_rows(), SCHEMA, epsilon=1, ledger=book, output=output)
    spent = spent_by(caught.value)
    assert spent.amount == 2 - book.left()
    assert bool(spent) is looked
    assert not output.exists()
    assert partial_path(output).exists() is answered
    if not looked:
        assert spent == NOTHING_SPENT
        assert [entry.charged for entry in book.entries()] in ([], [0])
        return
    assert (spent.currency, spent.entry, spent.ledger) == ("ε", 1, str(book.path))
    assert f"entry 1 of {book.path}" in spent.text
    if answered:
        assert spent.partial == str(partial_path(output))
        assert f"priory estimate {partial_path(output)} -o {output}" in spent.text
        release = recover(partial_path(output))
        assert release.statement.budget == Budget.pure(1)
        assert 0 < release.statement.spent <= spent.amount
        held = caught.value.partial  # type: ignore[attr-defined]
        assert isinstance(held, Partial)
        assert len(held.measurements) == len(release.measurements)


def test_without_an_output_the_error_holds_what_was_answered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(Release, "with_estimate", fail)
        with pytest.raises(MemoryError) as caught:
            fit(random_rows(), SCHEMA, epsilon=1)
    assert spent_by(caught.value).amount == 1
    assert "in memory only" in spent_by(caught.value).text
    assert recover(caught.value.partial).measurements  # type: ignore[attr-defined]
    assert list(tmp_path.iterdir()) == []


def test_an_interrupt_while_reserving_never_says_that_nothing_was_spent(
    book: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reserve = Ledger.reserve

    def interrupted(self: Ledger, budget: Budget, mechanism: str) -> None:
        reserve(self, budget, mechanism)
        raise KeyboardInterrupt

    monkeypatch.setattr(Ledger, "reserve", interrupted)
    with pytest.raises(KeyboardInterrupt) as caught:
        fit(random_rows(), SCHEMA, epsilon=1, ledger=book, output=tmp_path / "a.priory")
    assert spent_by(caught.value).amount == 2 - book.left() == 1
    assert "at most" in spent_by(caught.value).text


def test_a_second_interrupt_never_says_that_less_was_spent(
    book: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("priory.release.release.Release.with_estimate", interrupted)
        patch.setattr("priory.privacy.recorder.Recorder.leave", interrupted)
        with pytest.raises(KeyboardInterrupt) as caught:
            fit(random_rows(), SCHEMA, epsilon=1, ledger=book, output=tmp_path / "a.priory")
    assert spent_by(caught.value).amount >= 2 - book.left()
    assert recover(tmp_path / "a.priory.partial").measurements


def test_every_answer_is_on_disk_before_the_mechanism_has_it(book: Ledger, tmp_path: Path) -> None:
    output = tmp_path / "a.priory"
    seen: list[int] = []

    class Watching:
        def run(self, session: Session, budget: Budget) -> Release:
            first, second = budget.split([1, 1])
            for share in (first, second):
                release = Independent().run(session, share)
                held = Partial.load(partial_path(output))
                assert isinstance(session, Curator)
                assert held.transcript.spent == session.reservation.spent
                for one, two in zip(release.measurements, held.measurements[-3:], strict=True):
                    assert one.values.tolist() == two.values.tolist()
                seen.append(len(held.measurements))
            return release

    fit(random_rows(), SCHEMA, epsilon=1, ledger=book, output=output, mechanism=Watching())
    assert seen == [3, 6]


def test_missing_package_metadata_costs_nothing(book: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> str:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", missing)
    release = fit(random_rows(), SCHEMA, epsilon=1, ledger=book, output=tmp_path / "a.priory")
    assert release.statement.version
    assert book.left() == 1


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_ledger_that_may_only_be_read_spends_nothing(book: Ledger, tmp_path: Path) -> None:
    (tmp_path / "a.ledger").chmod(0o400)
    with pytest.raises(LedgerError) as caught:
        fit(random_rows(), SCHEMA, epsilon=1, ledger=book, output=tmp_path / "a.priory")
    assert spent_by(caught.value) == NOTHING_SPENT
    assert not partial_path(tmp_path / "a.priory").exists()


def test_a_refused_budget_leaves_no_file(book: Ledger, tmp_path: Path) -> None:
    with pytest.raises(PrioryError) as caught:
        fit(random_rows(), SCHEMA, epsilon=3, ledger=book, output=tmp_path / "a.priory")
    assert caught.value.spent == NOTHING_SPENT
    assert [path.name for path in tmp_path.iterdir()] == ["a.ledger"]


# The command line, with a function that waits, fails or fills the disk where it is called.
PLANTED = """
import errno, pathlib, resource, signal, sys, time
from priory.cli import main
from priory.release import release
from priory.privacy import curator
sign, how = pathlib.Path(sys.argv[1]), sys.argv[2]
def planted(*_, **__):
    sign.write_text("here")
    if how == "memory":
        raise MemoryError
    if how == "bug":
        raise ZeroDivisionError("planted")
    time.sleep(60)
if how == "full":
    answer = curator.Curator.choose
    def choose(self, *args, **more):
        resource.setrlimit(resource.RLIMIT_FSIZE, (1, 1))
        return answer(self, *args, **more)
    curator.Curator.choose = choose
else:
    release.modelled = release.constrained = planted
main(sys.argv[3:])
"""


@pytest.fixture
def house(tmp_path: Path) -> Path:
    SCHEMA.save(tmp_path / "schema.yaml")
    rows = "\n".join(",".join(map(str, row)) for row in random_rows().rows.tolist())
    (tmp_path / "table.csv").write_text(",".join(DOMAIN) + f"\n{rows}\n")
    Ledger.create(tmp_path / "a.ledger", Terms("people", SCHEMA.dump(), Budget.pure(2)))
    return tmp_path


def planted(house: Path, how: str, *more: str) -> subprocess.Popen[str]:
    given = ["fit", "table.csv", "--schema", "schema.yaml", "--ledger", "a.ledger", "--epsilon", "1", "-o", "a.priory"]
    return subprocess.Popen(
        [sys.executable, "-c", PLANTED, "sign", how, *given, *more],
        cwd=house,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def recovered(house: Path) -> Release:
    with contextlib.chdir(house):
        made = priory("estimate", "a.priory.partial", "-o", "a.priory")
    assert made.returncode == 0, made.stderr
    assert "promise: ε = 1" in made.stdout
    return load(house / "a.priory")


@pytest.mark.parametrize(
    ("number", "code", "word"), [(signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "terminated")]
)
def test_a_final_estimate_that_is_stopped_after_payment_is_not_lost(
    number: signal.Signals, code: int, word: str, house: Path
) -> None:
    process = planted(house, "wait", "--mechanism", "independent")
    while not (house / "sign").exists():
        assert process.poll() is None, process.stderr and process.stderr.read()
        time.sleep(0.02)
    process.send_signal(number)
    _, err = process.communicate()
    assert process.returncode == code
    # Before it, a slow machine may have said how far it was.
    assert err.count("priory: ") == 1
    assert err.splitlines()[-1].startswith(f"priory: {word}. The run is paid for: ε = 1, entry 1 of ")
    assert "othing was spent" not in err
    assert err.endswith("make the release with: priory estimate a.priory.partial -o a.priory\n")
    assert [(e.state, e.charged) for e in Ledger.open(house / "a.ledger").entries()] == [
        (EntryState.SPENT, Fraction(1))
    ]
    assert len(recovered(house).measurements) == 3


def test_sigterm_while_duckdb_calls_one_of_our_functions_ends_as_terminated() -> None:
    def end(_number: int) -> str:
        signal.raise_signal(signal.SIGTERM)
        return ""

    with connect() as connection:
        connection.create_function("end_it", end, ["BIGINT"], "VARCHAR")
        with pytest.raises(Stopped) as caught, spending(None), container_errors("it"):
            connection.execute("SELECT end_it(range) FROM range(3)").fetchall()
    assert (str(caught.value), caught.value.exit_code) == ("terminated", 143)
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_no_memory_for_the_model_is_one_line_with_the_partial_file(house: Path) -> None:
    process = planted(house, "memory", "--mechanism", "independent", "--json")
    _, err = process.communicate()
    assert process.returncode == 6
    told = json.loads(err)
    assert told["error"] == "OutOfMemory"
    assert told["spent"]["amount"] == "1"
    assert (told["spent"]["currency"], told["spent"]["entry"], told["spent"]["partial"]) == ("ε", 1, "a.priory.partial")
    assert len(recovered(house).measurements) == 3


def test_a_bug_shows_its_traceback_and_then_what_was_spent(house: Path) -> None:
    process = planted(house, "bug", "--mechanism", "independent")
    _, err = process.communicate()
    assert process.returncode == 1
    assert "ZeroDivisionError: planted" in err
    assert "priory estimate a.priory.partial -o a.priory" in err.splitlines()[-1]
    assert len(recovered(house).measurements) == 3


def test_a_disk_that_fails_in_a_run_keeps_the_answers_before(house: Path) -> None:
    """No file may be written any more from the first choice on."""
    process = planted(house, "full")
    _, err = process.communicate()
    assert process.returncode in (8, 9), err
    assert "priory estimate a.priory.partial -o a.priory" in err.splitlines()[-1]
    held = Partial.load(house / "a.priory.partial").transcript
    [entry] = Ledger.open(house / "a.ledger").entries()
    assert held.spent <= entry.charged == Fraction(1)
    assert len(recovered(house).measurements) == len(held.measurements) > 0


def test_a_small_disk_keeps_every_answer_that_was_paid(house: Path) -> None:
    """A disk of 300 kB, which is filled up while the fit runs."""
    disk = house / "disk"
    disk.mkdir()
    if not Path("/bin/mount").exists():
        pytest.skip("this system has no such command")
    mounted = subprocess.run(
        ["/bin/mount", "-t", "tmpfs", "-o", "size=300k", "tmpfs", str(disk)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("this process may not mount a disk")
    output = disk / "a.priory"
    try:
        book = Ledger.open(house / "a.ledger")

        class Filling:
            def run(self, session: Session, budget: Budget) -> Release:
                first, second = budget.split([1, 1])
                handle = os.open(disk / "others", os.O_WRONLY | os.O_CREAT)
                with contextlib.suppress(OSError):
                    while True:
                        os.write(handle, bytes(4096))
                os.close(handle)
                Independent().run(session, first)
                return Independent().run(session, second)

        with pytest.raises(ReleaseError) as caught:
            fit(house / "table.csv", SCHEMA, epsilon=1, ledger=book, output=output, mechanism=Filling())
        assert spent_by(caught.value).amount == 2 - book.left()
        held = Partial.load(partial_path(output))
        # The reserve takes both batches; only the release itself finds no room, and is made elsewhere.
        assert len(held.measurements) == 6
        assert len(recover(partial_path(output)).measurements) == 6
    finally:
        subprocess.run(["/bin/umount", str(disk)], check=True)
