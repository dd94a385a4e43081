import contextlib
import copy
import os
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from books import TERMS, TOTAL, event, run, run_and_fail
from priory.app.fit import fit
from priory.data.schema import Schema
from priory.errors import BudgetError, LedgerError, OptionError
from priory.privacy.budget import Budget
from priory.privacy.ledger import EntryState, Event, Ledger, Terms, describe


@pytest.fixture
def book(tmp_path: Path) -> Ledger:
    return Ledger.create(tmp_path / "census.ledger", TERMS)


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


@pytest.mark.parametrize("name", ["", " ", "\udcff"])
def test_a_data_set_has_a_name_that_can_be_written(tmp_path: Path, name: str) -> None:
    with pytest.raises(OptionError):
        Ledger.create(tmp_path / "a.ledger", Terms(name, "abc", TOTAL))


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


def test_first_fits_at_once_of_one_schema_are_all_paid_and_those_of_another_refused(tmp_path: Path) -> None:
    schema, other = Schema.coded({"age": 3}, name="people"), Schema.coded({"age": 4}, name="people")
    path = tmp_path / "a.ledger"
    Ledger.create(path, Terms("people", "", Budget.pure(10)))
    # All were opened before any is bound.
    books = [Ledger.open(path) for _ in range(11)]

    def fitted(book: Ledger) -> None:
        fit({"age": [0, 1, 2]}, schema, epsilon="1/10", mechanism="independent", ledger=book)

    with ThreadPoolExecutor(10) as pool:
        list(pool.map(fitted, books[:10]))
    with pytest.raises(LedgerError, match="another schema"):
        fit({"age": [0, 1, 2]}, other, epsilon="1/10", mechanism="independent", ledger=books[10])
    assert [entry.state for entry in books[0].entries()] == [*[EntryState.SPENT] * 10, EntryState.RELEASED]
