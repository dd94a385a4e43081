import contextlib
import copy
import json
import os
import pickle
import resource
import signal
import sqlite3
import stat
import threading
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from fractions import Fraction
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from priory.data.schema import Schema
from priory.errors import BudgetError, LedgerError, OptionError
from priory.privacy.budget import Budget
from priory.privacy.ledger import EntryState, Event, Ledger, Terms, describe

TOTAL = Budget.zcdp("1/2")
TERMS = Terms("census", "abc", TOTAL)


@pytest.fixture
def book(tmp_path: Path) -> Ledger:
    return Ledger.create(tmp_path / "census.ledger", TERMS)


def event(cost: str) -> Event:
    return Event("gaussian", "marginal of (age)", Fraction(cost))


def run(book: Ledger, asked: str, *spent: str) -> None:
    with book.reserve(Budget.zcdp(asked), "test") as reservation:
        for cost in spent:
            reservation.charge([event(cost)])


def run_and_fail(book: Ledger, asked: str, *spent: str) -> None:
    with book.reserve(Budget.zcdp(asked), "test") as reservation:
        reservation.charge([event(cost) for cost in spent])
        raise ZeroDivisionError


@pytest.fixture(params=["file", "memory"])
def either(request: pytest.FixtureRequest, tmp_path: Path) -> Ledger:
    return Ledger.in_memory(TOTAL) if request.param == "memory" else Ledger.create(tmp_path / "a.ledger", TERMS)


@pytest.mark.parametrize("budget", [TOTAL.worth(Fraction(-5)), Budget.pure(1).worth(Fraction(-5))], ids=str)
def test_less_than_nothing_cannot_be_set_aside(either: Ledger, budget: Budget) -> None:
    with pytest.raises(OptionError):
        either.reserve(budget, "test")
    assert either.left() == TOTAL.amount
    assert not either.entries()


def test_a_payment_cannot_slip_in_while_the_reservation_is_settled(either: Ledger) -> None:
    class Slow(Event):
        """A payment whose cost takes its time to be added up: meanwhile the run ends."""

        def __getattribute__(self, name: str) -> object:
            if name == "cost":
                ended.wait(10)
            return super().__getattribute__(name)

    ended = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        with either.reserve(TOTAL, "test") as reservation:
            paying = pool.submit(reservation.charge, [Slow("gaussian", "", Fraction(1, 8))])
        ended.set()
        with pytest.raises(LedgerError):
            paying.result()


def test_a_book_in_memory_cannot_be_spent_by_a_forked_process_too() -> None:
    book = Ledger.in_memory(TOTAL)
    child = os.fork()
    if child == 0:
        try:
            book.reserve(TOTAL, "test")
            os._exit(1)
        except LedgerError:
            os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert book.left() == TOTAL.amount


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


@pytest.mark.parametrize("name", ["", " ", "\udcff"])
def test_a_data_set_has_a_name_that_can_be_written(tmp_path: Path, name: str) -> None:
    with pytest.raises(OptionError):
        Ledger.create(tmp_path / "a.ledger", Terms(name, "abc", TOTAL))


def test_a_ledger_may_have_the_longest_name(tmp_path: Path) -> None:
    assert Ledger.create(tmp_path / ("x" * 255), TERMS).left() == TOTAL.amount


def test_a_run_is_charged_what_it_spent_and_the_rest_is_given_back(either: Ledger) -> None:
    run(either, "1/4", "1/8", "1/16")
    assert either.left() == Fraction(1, 2) - Fraction(3, 16)
    (entry,) = either.entries()
    assert (entry.state, entry.asked, entry.charged) == (EntryState.SPENT, Fraction(1, 4), Fraction(3, 16))
    assert [paid.cost for paid in entry.events] == [Fraction(1, 8), Fraction(1, 16)]


def test_what_exceeds_the_book_is_refused_and_leaves_no_trace(either: Ledger) -> None:
    run(either, "2/5", "2/5")
    with pytest.raises(BudgetError) as caught:
        either.reserve(Budget.zcdp("1/5"), "test")
    assert (caught.value.asked, caught.value.left) == (Fraction(1, 5), Fraction(1, 10))
    assert len(either.entries()) == 1
    assert either.left() == Fraction(1, 10)


def test_an_open_reservation_counts_in_full(either: Ledger) -> None:
    either.reserve(Budget.zcdp("1/3"), "test")
    assert either.left() == Fraction(1, 6)


def test_a_run_never_pays_more_than_it_reserved(either: Ledger) -> None:
    with either.reserve(Budget.zcdp("1/4"), "test") as reservation:
        reservation.charge([event("1/8")])
        with pytest.raises(BudgetError, match="its own"):
            reservation.charge([event("1/16"), event("1/8")])
        assert reservation.left == Fraction(1, 8)
    assert either.left() == Fraction(3, 8)


def test_an_error_before_the_first_look_costs_nothing(either: Ledger) -> None:
    with pytest.raises(ZeroDivisionError), either.reserve(Budget.zcdp("1/4"), "test"):
        _ = 1 // 0
    assert either.left() == Fraction(1, 2)
    assert either.entries()[0].state is EntryState.RELEASED


def test_an_error_after_a_look_is_charged_in_full(either: Ledger) -> None:
    with pytest.raises(ZeroDivisionError):
        run_and_fail(either, "1/4", "1/100")
    assert either.left() == Fraction(1, 4)
    assert either.entries()[0].state is EntryState.INTERRUPTED


def test_a_reservation_is_used_once(either: Ledger) -> None:
    reservation = either.reserve(Budget.zcdp("1/4"), "test")
    with pytest.raises(LedgerError, match="unused"):
        reservation.charge([event("1/8")])
    with reservation:
        pass
    with pytest.raises(LedgerError, match="reserve anew"), reservation:
        pass
    with pytest.raises(LedgerError, match="settled"):
        reservation.charge([event("1/8")])


@given(st.lists(st.tuples(st.fractions(0, 1), st.lists(st.fractions(0, 1), max_size=4), st.booleans()), max_size=8))
def test_the_book_never_gives_more_than_its_total(plans: list[tuple[Fraction, list[Fraction], bool]]) -> None:
    either = Ledger.in_memory(TOTAL)
    paid = Fraction(0)
    for asked, costs, fails in plans:
        with contextlib.suppress(BudgetError), either.reserve(TOTAL.worth(asked), "test") as reservation:
            for cost in costs:
                reservation.charge([Event("k", "w", cost)])
                paid += cost
            if fails:
                reservation.charge([Event("k", "w", reservation.left + 1)])
        assert paid <= TOTAL.amount - either.left() <= TOTAL.amount


# With floats every second n would leave something or ask for too much: 15 of them find that.
@settings(max_examples=15)
@given(st.integers(1, 60))
def test_the_whole_total_can_be_reserved_in_equal_parts(n: int) -> None:
    book = Ledger.in_memory(TOTAL)
    for part in TOTAL.split([1] * n):
        with book.reserve(part, "test") as reservation:
            reservation.charge([Event("k", "w", part.amount)])
    assert book.left() == 0


def test_pure_runs_cost_half_their_square_in_a_zcdp_ledger() -> None:
    book = Ledger.in_memory(TOTAL)
    with book.reserve(Budget.pure("1/2"), "test") as reservation:
        reservation.charge([event("1/4")])
        assert book.left() == Fraction(1, 2) - Fraction(1, 8)
    assert book.left() == Fraction(1, 2) - Fraction(1, 32)


def test_a_pure_ledger_refuses_rho() -> None:
    book = Ledger.in_memory(Budget.pure(1))
    for budget in (Budget.zcdp("1/100"), Budget.approximate("1/100", 1e-9)):
        with pytest.raises(BudgetError, match="pure"):
            book.reserve(budget, "test")
    assert book.entries() == ()


def test_an_approximate_ledger_adds_rho_and_converts_once() -> None:
    total = Budget.approximate(1, 1e-9)
    book = Ledger.in_memory(total)
    for part in total.split([1] * 7):
        run(book, str(part.amount), str(part.amount))
    assert book.left() == 0
    assert float(describe(book)["spent_epsilon"]) <= 1


def test_a_run_for_other_neighbours_is_refused(either: Ledger) -> None:
    for other in (Budget.zcdp("1/9", relation="replace-one"), Budget.zcdp("1/9", max_rows=2)):
        with pytest.raises(LedgerError, match="protects"):
            either.reserve(other, "test")
    assert either.left() == Fraction(1, 2)


def test_a_ledger_of_another_data_set_schema_or_person_is_refused(book: Ledger) -> None:
    book.check(schema="abc")
    book.check(schema="abc", dataset="census")
    for other in ({"schema": "xyz"}, {"schema": "abc", "dataset": "town"}, {"schema": "abc", "person": "id"}):
        with pytest.raises(LedgerError, match=r"of another|another schema|unit must be"):
            book.check(**other)


def test_a_schema_that_is_only_laid_out_differently_is_the_same(tmp_path: Path) -> None:
    text = Schema.coded({"age": 3, "sex": 2}).dump()
    book = Ledger.create(tmp_path / "a.ledger", Terms("census", text, TOTAL))
    book.check(schema="# a comment\n" + text)
    with pytest.raises(LedgerError, match="another schema"):
        book.check(schema=Schema.coded({"age": 4, "sex": 2}).dump())


def test_terms_without_a_name_or_without_persons_are_refused(tmp_path: Path) -> None:
    for terms in (Terms(" ", "abc", TOTAL), Terms("census", "abc", Budget.zcdp(1, max_rows=2))):
        with pytest.raises(OptionError):
            Ledger.create(tmp_path / "a.ledger", terms)
    assert list(tmp_path.iterdir()) == []


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


def test_threads_together_never_pay_more_than_was_reserved() -> None:
    book = Ledger.in_memory(TOTAL)
    with book.reserve(TOTAL, "test") as reservation, ThreadPoolExecutor(8) as pool:

        def pay(_: int) -> bool:
            try:
                reservation.charge([event("1/100")])
            except BudgetError:
                return False
            return True

        assert sum(pool.map(pay, range(200))) == 50
        assert set(pool.map(lambda _: book.left(), range(20))) == {Fraction(0)}
    assert book.left() == 0


def test_a_reservation_is_not_copied_and_a_cost_is_not_negative(either: Ledger) -> None:
    with either.reserve(Budget.zcdp("1/4"), "test") as reservation:
        for copied in (copy.copy, copy.deepcopy, pickle.dumps):
            with pytest.raises(TypeError, match="not copied"):
                copied(reservation)
        with pytest.raises(LedgerError, match="below 0"):
            reservation.charge([event("-1/8")])


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
