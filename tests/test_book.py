"""The book: what is written of a payment, when, and what older versions wrote."""

import shutil
import sqlite3
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from priory.data.schema import Schema
from priory.errors import BudgetError, LedgerError, OptionError
from priory.privacy.accounting import rho_within
from priory.privacy.budget import Budget, Currency, epsilon_of, rounded_up
from priory.privacy.gaussian import mu_squared_of_pure
from priory.privacy.ledger import EntryState, Event, Ledger, Terms, describe
from priory.queries.sensitivity import Sensitivity
from priory.release import Release

GOLDEN = Path(__file__).parent / "golden"
ONE = Sensitivity(Fraction(1), Fraction(1))

amounts = st.fractions(0, 1000, max_denominator=10**6)
events = st.builds(
    Event,
    kind=st.sampled_from(["laplace", "gaussian", "noisy-max"]),
    what=st.text(max_size=20),
    cost=st.fractions(0, "1/100", max_denominator=10**6),
    currency=st.sampled_from([None, Currency.ZCDP]),
    sensitivity=st.none() | st.builds(Sensitivity, amounts, amounts),
    moved=st.none() | amounts,
    scale=st.none() | amounts,
    draws=st.integers(1, 99),
    additive=st.just(Fraction(0)) | st.fractions(0, "1/1000", max_denominator=10**9),
)


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """A book in (ε, δ) that version 0.1 wrote: three runs, one interrupted, one whose process died."""
    return Path(shutil.copy(GOLDEN / "0.1.ledger", tmp_path / "old.ledger"))


@given(batches=st.lists(st.lists(events, max_size=3), max_size=3))
def test_what_was_paid_for_is_read_as_it_was_written(batches: list[list[Event]]) -> None:
    total = Budget(Currency.ZCDP, Fraction(1), additive=Fraction(1, 10))
    book = Ledger.in_memory(total)
    with book.reserve(total, "test") as reservation:
        for batch in batches:
            reservation.charge(batch)
    [entry] = book.entries()
    assert list(entry.events) == [event for batch in batches for event in batch]
    assert entry.charged == sum((event.cost for event in entry.events), Fraction(0))
    assert entry.charged_additive == sum((event.additive for event in entry.events), Fraction(0))


def test_a_payment_is_in_the_file_before_anything_is_looked_at(tmp_path: Path) -> None:
    total = Budget.gaussian(1)
    book = Ledger.create(tmp_path / "a.ledger", Terms("census", "abc", total))
    paid = Event("rounded-gaussian", "marginal of (age)", Fraction(1, 4), Currency.GAUSSIAN, ONE, scale=Fraction(2))
    with book.reserve(total, "test") as reservation:
        reservation.charge([paid])
        [seen] = Ledger.open(tmp_path / "a.ledger").entries()
    assert seen.state is EntryState.OPEN
    assert seen.events == (paid,)
    assert seen.charged == 1


def test_a_payment_in_another_currency_than_the_runs_is_refused() -> None:
    book = Ledger.in_memory(Budget.gaussian(1))
    with book.reserve(Budget.gaussian(1), "test") as reservation, pytest.raises(LedgerError, match="another currency"):
        reservation.charge([Event("gaussian", "x", Fraction(1, 100), Currency.ZCDP)])


@given(epsilon=st.fractions("1/1000", 10, max_denominator=1000))
def test_a_pure_run_costs_its_price_in_each_currency_and_a_gaussian_one_half_its_square_in_rho(
    epsilon: Fraction,
) -> None:
    assert Ledger.in_memory(Budget.pure(100)).price(Budget.pure(epsilon)) == epsilon
    assert Ledger.in_memory(Budget.zcdp(100)).price(Budget.pure(epsilon)) == epsilon**2 / 2
    assert Ledger.in_memory(Budget.zcdp(100)).price(Budget.gaussian(epsilon)) == epsilon / 2
    assert Ledger.in_memory(Budget.gaussian(100)).price(Budget.gaussian(epsilon)) == epsilon
    assert Ledger.in_memory(Budget.gaussian(100)).price(Budget.pure(epsilon)) == mu_squared_of_pure(epsilon)


@pytest.mark.parametrize(
    ("total", "asked"),
    [
        (Budget.gaussian(10), Budget.zcdp("1/100")),
        (Budget.pure(10), Budget.zcdp("1/100")),
        (Budget.pure(10), Budget.gaussian("1/100")),
    ],
    ids=str,
)
def test_what_cannot_be_converted_is_refused_before_anything_is_spent(total: Budget, asked: Budget) -> None:
    book = Ledger.in_memory(total)
    with pytest.raises(BudgetError, match="Give epsilon"):
        book.reserve(asked, "test")
    assert book.left() == total.amount
    assert not book.entries()


@given(shares=st.lists(st.fractions("1/100", 1, max_denominator=100), min_size=1, max_size=6))
def test_runs_in_mu_squared_add_up_exactly_and_never_exceed_the_total(shares: list[Fraction]) -> None:
    total = Budget.approximate(1, "1e-6", Currency.GAUSSIAN)
    book = Ledger.in_memory(total)
    spent = Fraction(0)
    for share in shares:
        part = total.part(share)
        if spent + part.amount > total.amount:
            with pytest.raises(BudgetError):
                book.reserve(part, "test")
            continue
        with book.reserve(part, "test") as reservation:
            reservation.charge([Event("rounded-gaussian", "x", part.amount, Currency.GAUSSIAN)])
        spent += part.amount
    assert book.left() == total.amount - spent >= 0


def test_additive_delta_is_kept_apart_and_conversions_use_what_remains_of_delta() -> None:
    plain, total = Budget.approximate(1, "1e-6"), Budget.approximate(1, "1e-6", additive="4e-7")
    assert total.amount == rho_within(Fraction(1), Fraction(6, 10**7)) < plain.amount
    book = Ledger.in_memory(total)
    with book.reserve(replace(total.part("1/2"), additive=Fraction(3, 10**7)), "threshold") as reservation:
        reservation.charge([Event("threshold", "x", total.amount / 4, additive=Fraction(1, 10**7))])
        with pytest.raises(BudgetError, match="δ′"):
            reservation.charge([Event("threshold", "x", Fraction(0), additive=Fraction(3, 10**7))])
    assert book.left_additive() == Fraction(3, 10**7)
    told = describe(book)
    assert told["spent_additive"] == "1e-07"
    assert told["spent_epsilon"] == rounded_up(epsilon_of(Currency.ZCDP, total.amount / 4, Fraction(9, 10**7)))
    with pytest.raises(BudgetError, match="δ′"):
        book.reserve(replace(total.part("1/4"), additive=Fraction(4, 10**7)), "threshold")


def test_a_run_that_dies_keeps_its_additive_delta_charged() -> None:
    total = Budget.approximate(1, "1e-6", additive="4e-7")
    book = Ledger.in_memory(total)
    book.reserve(total, "threshold")
    assert book.left() == 0
    assert book.left_additive() == 0


@pytest.mark.parametrize("total", [Budget.pure(1), Budget.zcdp(1), Budget.approximate(1, "1e-6")], ids=str)
def test_a_book_without_additive_delta_refuses_it(total: Budget) -> None:
    with pytest.raises(BudgetError, match="δ′"):
        Ledger.in_memory(total).reserve(replace(total.part("1/2"), additive=Fraction(1, 10**9)), "threshold")


def test_a_schema_is_bound_once(tmp_path: Path) -> None:
    book = Ledger.create(tmp_path / "a.ledger", Terms("census", "", Budget.pure(1)))
    assert describe(book)["schema"] == "not bound yet"
    book.check(schema="abc")
    book.check(schema="any other")
    with pytest.raises(OptionError):
        book.bind(" ")
    other = Ledger.open(tmp_path / "a.ledger")
    book.bind("abc")
    # Who had it open before binds the same again.
    other.bind("abc")
    assert other.terms.schema == "abc"
    Ledger.open(tmp_path / "a.ledger").check(schema="abc")
    for late in (book, other):
        with pytest.raises(LedgerError, match="another schema"):
            late.bind("abd")
    assert Ledger.open(tmp_path / "a.ledger").terms.schema == "abc"


def test_a_ledger_of_version_0_1_is_shown_as_it_was(old: Path) -> None:
    before = old.read_bytes()
    book = Ledger.open(old)
    assert book.terms.total.currency is Currency.ZCDP
    assert book.terms.total.epsilon == 3
    states = [entry.state for entry in book.entries()]
    assert states == [EntryState.SPENT, EntryState.SPENT, EntryState.SPENT, EntryState.INTERRUPTED, EntryState.OPEN]
    assert [entry.charged for entry in book.entries()][1:] == list(map(Fraction, ("1/100", "1/200", "1/200", "1/300")))
    assert [len(entry.events) for entry in book.entries()][2:] == [3, 1, 0]
    assert describe(book)["entries"][3]["events"] == [
        {"kind": "gaussian", "what": "marginal of (colour)", "cost": "0.001"}
    ]
    assert old.read_bytes() == before


def test_a_ledger_of_version_0_1_is_charged_further(old: Path) -> None:
    book = Ledger.open(old)
    shown, left = book.entries(), book.left()
    with book.reserve(Budget.gaussian("1/100"), "new") as reservation:
        reservation.charge([Event("rounded-gaussian", "x", Fraction(1, 100), Currency.GAUSSIAN, ONE)])
    again = Ledger.open(old)
    assert again.entries()[:-1] == shown
    assert again.entries()[-1].charged == Fraction(1, 200)
    assert again.left() == left - Fraction(1, 200)


def test_a_changed_line_of_version_0_1_is_noticed_before_it_is_rewritten(old: Path) -> None:
    book = Ledger.open(old)
    connection = sqlite3.connect(old)
    connection.execute("UPDATE reservations SET charged = '0' WHERE number = 1")
    connection.commit()
    connection.close()
    with pytest.raises(LedgerError, match="damaged"):
        book.reserve(Budget.zcdp("1/1000"), "new")
    with pytest.raises(LedgerError, match="damaged"):
        Ledger.open(old)


def test_a_pure_ledger_of_version_0_1_opens(tmp_path: Path) -> None:
    book = Ledger.open(shutil.copy(GOLDEN / "0.1-pure.ledger", tmp_path / "pure.ledger"))
    assert book.left() == Fraction(3, 2)
    book.check(schema=Schema.load(GOLDEN / "small.yaml").dump())


@pytest.mark.parametrize(
    ("name", "promise"),
    [
        ("0.1-approximate", Budget.approximate(1, "1e-6")),
        ("0.1-rho", Budget.zcdp("1/100")),
        ("0.1-pure", Budget.pure("1/10")),
    ],
)
def test_a_release_of_version_0_1_opens_and_promises_what_it_did(name: str, promise: Budget) -> None:
    release = Release.load(GOLDEN / f"{name}.priory")
    assert release.statement.budget == promise
    assert release.statement.spent == promise.amount
    assert release.schema == Schema.load(GOLDEN / "small.yaml")
