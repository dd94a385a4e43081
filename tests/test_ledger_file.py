"""The file of a ledger: damaged, missing, on a full disk, between processes, after a kill."""

import json
import os
import pickle
import resource
import signal
import sqlite3
import stat
import sys
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from fractions import Fraction
from multiprocessing import get_context
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from books import TERMS, TOTAL, event, run
from priory.data.schema import Schema
from priory.errors import BudgetError, LedgerError
from priory.privacy import book_file
from priory.privacy.budget import Budget
from priory.privacy.ledger import EntryState, Ledger, Reservation, Terms, describe


@pytest.fixture
def book(tmp_path: Path) -> Ledger:
    return Ledger.create(tmp_path / "census.ledger", TERMS)


def test_a_payment_that_cannot_be_written_down_is_not_made(book: Ledger) -> None:
    reservation = book.reserve(TOTAL, "test")
    reservation.__enter__()
    connection = sqlite3.connect(book.path or "")
    connection.execute("DROP TABLE events")
    connection.close()
    with pytest.raises(LedgerError):
        reservation.charge([event("1/8")])
    assert reservation.spent == 0
    assert not reservation.events
    with pytest.warns(UserWarning, match="charged in full"):
        reservation.__exit__(None, None, None)


def test_a_ledger_may_have_the_longest_name(tmp_path: Path) -> None:
    assert Ledger.create(tmp_path / ("x" * 255), TERMS).left() == TOTAL.amount


def test_terms_and_lines_survive_closing(book: Ledger) -> None:
    run(book, "1/4", "1/8")
    again = Ledger.open(book.path or "")
    assert again.terms == TERMS
    assert again.entries() == book.entries()
    assert again.secret == book.secret


def test_only_the_owner_may_read_the_file(book: Ledger) -> None:
    assert book.path is not None
    assert stat.S_IMODE(book.path.stat().st_mode) == 0o600


def test_the_key_is_random_and_never_shown(book: Ledger, tmp_path: Path) -> None:
    other = Ledger.create(tmp_path / "other.ledger", TERMS)
    assert len(book.secret) == 32
    assert book.secret != other.secret
    shown = repr(book) + str(book) + json.dumps(describe(book)) + repr(book.reserve(TOTAL.part("1/2"), "test"))
    assert book.secret.hex() not in shown
    assert repr(book.secret) not in shown
    with pytest.raises(TypeError, match="not copied"):
        pickle.dumps(book)


def test_an_existing_file_is_never_replaced(book: Ledger) -> None:
    assert book.path is not None
    before = book.path.read_bytes()
    with pytest.raises(LedgerError, match="exists already"):
        Ledger.create(book.path, TERMS)
    assert book.path.read_bytes() == before
    assert list(book.path.parent.iterdir()) == [book.path]


def test_a_missing_ledger_is_not_made_by_opening_it(tmp_path: Path) -> None:
    with pytest.raises(LedgerError, match="does not exist"):
        Ledger.open(tmp_path / "no.ledger")
    with pytest.raises(LedgerError, match="cannot be made"):
        Ledger.create(tmp_path / "no" / "folder.ledger", TERMS)
    assert list(tmp_path.iterdir()) == []


def test_a_ledger_that_vanishes_is_not_made_anew(book: Ledger) -> None:
    assert book.path is not None
    book.path.unlink()
    with pytest.raises(LedgerError, match="cannot be opened"):
        book.reserve(TOTAL, "test")
    assert not book.path.exists()


def test_a_file_that_is_no_ledger_is_refused(tmp_path: Path) -> None:
    text = tmp_path / "text.ledger"
    text.write_text("age,sex\n" * 1000)
    with pytest.raises(LedgerError):
        Ledger.open(text)
    empty = tmp_path / "empty.ledger"
    empty.touch()
    with pytest.raises(LedgerError, match="empty"):
        Ledger.open(empty)
    other = tmp_path / "other.ledger"
    with sqlite3.connect(other) as connection:
        connection.execute("CREATE TABLE t (x)")
    connection.close()
    with pytest.raises(LedgerError, match="not a ledger"):
        Ledger.open(other)


def test_a_newer_ledger_is_refused(book: Ledger) -> None:
    connection = sqlite3.connect(book.path or "")
    connection.execute("PRAGMA user_version = 3")
    connection.close()
    with pytest.raises(LedgerError, match="upgrade"):
        Ledger.open(book.path or "")


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE reservations SET charged = '0' WHERE number = 1",
        "UPDATE reservations SET state = 'released' WHERE number = 2",
        "UPDATE reservations SET charged = x'00' WHERE number = 1",
        "DELETE FROM reservations WHERE number = 1",
        "DELETE FROM reservations WHERE number = 2",
        "DELETE FROM events WHERE reservation = 2",
        "UPDATE head SET lines = 1",
        "DELETE FROM head",
        "UPDATE terms SET text = replace(text, '1/2', '1/1')",
        "DELETE FROM terms",
        "UPDATE terms SET secret = 'x'",
        "DROP TABLE reservations",
    ],
)
def test_a_changed_line_is_noticed_and_nothing_more_is_spent(book: Ledger, damage: str) -> None:
    run(book, "1/8", "1/8")
    run(book, "1/8", "1/8")
    connection = sqlite3.connect(book.path or "")
    connection.execute(damage)
    connection.commit()
    connection.close()
    with pytest.raises(LedgerError):
        Ledger.open(book.path or "")
    if "terms" not in damage:
        with pytest.raises(LedgerError):
            book.reserve(Budget.zcdp("1/100"), "test")


def test_a_damaged_event_is_an_error_of_the_ledger(book: Ledger) -> None:
    run(book, "1/8", "1/8")
    connection = sqlite3.connect(book.path or "")
    connection.execute("UPDATE events SET text = replace(text, '1/8', '1/9')")
    connection.commit()
    connection.close()
    with pytest.raises(LedgerError, match="damaged"):
        book.entries()


def test_overwritten_bytes_are_an_error_and_never_more_budget(book: Ledger) -> None:
    assert book.path is not None
    for _ in range(20):
        run(book, "1/50", "1/50")
    whole = book.path.read_bytes()
    for start in range(0, len(whole) - 64, 997):
        book.path.write_bytes(whole[:start] + b"\xa5" * 64 + whole[start + 64 :])
        try:
            again = Ledger.open(book.path)
            left = again.left()
            again.entries()
        except LedgerError:
            continue
        assert left == Fraction(1, 10)


def test_a_full_disk_is_a_clear_error_and_nothing_is_spent(book: Ledger) -> None:
    assert book.path is not None
    for _ in range(30):
        run(book, "1/1000", "1/1000")
    before = book.left()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))
        with pytest.raises(LedgerError):
            book.reserve(Budget.zcdp("1/10"), "test")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert book.left() == before


def test_a_full_disk_leaves_no_half_made_ledger(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))
        with pytest.raises(LedgerError, match="cannot be made"):
            Ledger.create(tmp_path / "a.ledger", TERMS)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert list(tmp_path.iterdir()) == []


def test_a_disk_that_fills_up_during_a_run_keeps_the_release_and_the_full_charge(book: Ledger) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        reservation = book.reserve(Budget.zcdp("1/4"), "test").__enter__()
        reservation.charge([event("1/8")])
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))
        with pytest.warns(UserWarning, match="charged in full"):
            reservation.__exit__(None, None, None)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert book.left() == Fraction(1, 4)
    assert book.entries()[0].state is EntryState.OPEN


def test_a_read_only_folder_is_a_clear_error_and_nothing_is_spent(tmp_path: Path) -> None:
    house = tmp_path / "house"
    house.mkdir()
    book = Ledger.create(house / "a.ledger", TERMS)
    # Every folder on the way must let another user through; root itself would not be stopped by a mode.
    for folder in (house, *house.parents):
        if folder.stat().st_uid == os.geteuid() and folder != Path("/"):
            folder.chmod(folder.stat().st_mode | 0o055)
    house.chmod(0o555)
    (house / "a.ledger").chmod(0o666)
    is_root = os.geteuid() == 0
    try:
        if is_root:
            os.seteuid(65534)
        with pytest.raises(LedgerError):
            book.reserve(Budget.zcdp("1/10"), "test")
        with pytest.raises(LedgerError, match="cannot be made"):
            Ledger.create(house / "b.ledger", TERMS)
    finally:
        if is_root:
            os.seteuid(0)
        house.chmod(0o755)
    assert book.left() == Fraction(1, 2)


def _spend(path: str) -> int:
    book = Ledger.open(path)
    paid = 0
    for _ in range(30):
        try:
            with book.reserve(Budget.zcdp("1/100"), "test") as reservation:
                reservation.charge([event("1/100")])
        except BudgetError:
            continue
        paid += 1
    return paid


def _first_fit(path: str, ready: Any, schema: str) -> str:
    book = Ledger.open(path)
    ready.wait(60)
    try:
        with book.reserve(Budget.zcdp("1/100"), "test") as reservation:
            book.bind(schema)
            reservation.charge([event("1/100")])
    except LedgerError as refused:
        return str(refused)
    return "paid"


def test_processes_that_bind_one_schema_at_once_are_none_of_them_refused(tmp_path: Path) -> None:
    path, schema = tmp_path / "a.ledger", Schema.coded({"age": 3}).dump()
    Ledger.create(path, Terms("census", "", TOTAL))
    context = get_context("fork")
    with context.Manager() as manager, ProcessPoolExecutor(3, mp_context=context) as pool:
        ready = manager.Barrier(3)
        # Laid out differently it is the same.
        done = pool.map(_first_fit, [str(path)] * 3, [ready] * 3, [schema, f"# people\n{schema}", schema])
        assert list(done) == ["paid"] * 3
    assert len(Ledger.open(path).entries()) == 3


def test_two_processes_at_once_never_overspend(book: Ledger) -> None:
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        paid = sum(pool.map(_spend, [str(book.path)] * 2))
    assert paid == 50
    assert book.left() == 0
    assert [entry.number for entry in book.entries()] == list(range(1, 51))


def test_a_forked_process_can_neither_spend_nor_settle_its_parents_reservation(book: Ledger) -> None:
    with book.reserve(Budget.zcdp("1/4"), "test") as reservation:
        reservation.charge([event("1/8")])
        child = os.fork()
        if child == 0:
            try:
                reservation.charge([event("1/8")])
            except LedgerError:
                reservation.__exit__(None, None, None)
                os._exit(0)
            os._exit(1)
        assert os.waitpid(child, 0)[1] == 0
        assert book.entries()[0].state is EntryState.OPEN
        reservation.charge([event("1/8")])
    assert book.left() == Fraction(1, 4)


PAYING = {
    function.__code__
    for function in (Reservation.charge, Reservation.__exit__, Ledger.record, Ledger.close, book_file.insert_events)
}


class Interrupting:
    """A trace that interrupts at a line of what pays and settles, the `step`-th that is reached."""

    def __init__(self, step: int) -> None:
        self.left = step

    def __call__(self, frame: FrameType, kind: str, _: object) -> Any:
        if frame.f_code not in PAYING:
            return None
        self.left -= kind == "line"
        if self.left == 0 and kind == "line":
            raise KeyboardInterrupt
        return self


@pytest.mark.filterwarnings("ignore:the run stays charged in full")
@pytest.mark.parametrize("goes_on", [False, True], ids=["ends", "goes on"])
def test_the_book_is_true_wherever_a_run_is_interrupted(*, goes_on: bool) -> None:
    states, step, before, trace = set(), 0, sys.gettrace(), Interrupting(0)
    while trace.left <= 0:
        step, looked, book = step + 1, 0, Ledger.in_memory(TOTAL)
        trace = Interrupting(step)
        with suppress(KeyboardInterrupt), book.reserve(Budget.zcdp("1/4"), "test") as reservation:
            sys.settrace(trace)
            with suppress(*[KeyboardInterrupt] * goes_on):
                for cost in ("1/32", "1/64"):
                    reservation.charge([event(cost)] * 3)
                    looked += 3
            reservation.charge([event("1/128")])
            looked += 1
        sys.settrace(before)
        [entry] = book.entries()
        paid = [each.cost for each in entry.events]
        assert len(paid) >= looked
        match entry.state:
            case EntryState.RELEASED:
                assert not paid
                assert entry.charged == 0
            case EntryState.SPENT:
                assert entry.charged == sum(paid) <= entry.asked
            case _:
                assert entry.charged == entry.asked
        assert book.left() == TOTAL.amount - entry.charged
        states.add(entry.state)
    assert states >= {EntryState.SPENT, EntryState.OPEN}
    assert goes_on or states == set(EntryState)


@pytest.mark.parametrize("moment", ["before", "reserved", "looked", "settling"])
def test_a_killed_run_stays_charged_from_the_moment_it_reserved(book: Ledger, moment: str) -> None:
    child = os.fork()
    if child == 0:
        _run_and_die(book, moment)
    os.waitpid(child, 0)
    assert book.left() == (Fraction(1, 2) if moment == "before" else Fraction(1, 4))
    run(book, "1/4", "1/4")
    assert book.left() == (Fraction(1, 4) if moment == "before" else 0)


def _run_and_die(book: Ledger, moment: str) -> None:
    def die(*_: Any, **__: Any) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    if moment == "before":
        die()
    with book.reserve(Budget.zcdp("1/4"), "test") as reservation:
        if moment == "reserved":
            die()
        reservation.charge([event("1/8")])
        if moment == "looked":
            die()
        sqlite3.connect = None  # type: ignore[assignment]
        book.close = die  # type: ignore[method-assign]
    os._exit(1)
