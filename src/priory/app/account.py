"""Account: what a run has cost and left behind, attached to whatever error ends it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from priory.errors import NOTHING_SPENT, PrioryError, Spent
from priory.privacy.budget import Budget, rounded_up
from priory.privacy.ledger import Entry, EntryState, Ledger, Reservation


@contextmanager
def accounted() -> Iterator["Account"]:
    """Give every exception that leaves the block `spent`, `partial` (what was answered, or None) and a note of them."""
    account = Account()
    try:
        yield account
    except BaseException as error:
        try:
            _attach(error, *account.settled(error))
        except BaseException as again:
            # A second interrupt while the first is dealt with: what is known without another look at any file.
            _attach(again, NOTHING_SPENT if account.asked is None else _perhaps(*account.asked), None)
            raise
        raise


def _attach(error: BaseException, spent: Spent, partial: object) -> None:
    # Exceptions of Python and of other libraries take these attributes, too.
    error.spent = spent  # type: ignore[attr-defined]
    error.partial = partial  # type: ignore[attr-defined]
    error.add_note(spent.text)


class Keeper(Protocol):
    """What writes down what a run is answered."""

    @property
    def recorded(self) -> object:
        """What was answered so far; None where nothing was."""

    def leave(self) -> Path | None:
        """Leave the partial file where it holds anything, and say where that is; remove it otherwise."""

    def how_to_go_on(self, path: Path) -> str:
        """What whoever reads of an early end can do with the file that it left."""


@dataclass
class Account:
    """How far a run has come."""

    keeper: Keeper | None = None  # what writes down what it was answered
    result: Callable[[Any], object] | None = None  # what makes a `partial` of that, where it is none yet
    # Known before the ledger's line is written: an interrupt may fall between that and our knowing of it.
    asked: tuple[Ledger, Budget] | None = None
    reservation: Reservation | None = None

    def settled(self, error: BaseException) -> tuple[Spent, object]:
        """What the run has cost, and what it was answered; the partial file stays if it holds anything."""
        if self.keeper is None:
            return self._spent(error), None
        recorded = self.keeper.recorded
        recorded = recorded if recorded is None or self.result is None else self.result(recorded)
        path = self.keeper.leave()
        if path is None:
            return self._spent(error), recorded
        return self._spent(error, path, self.keeper.how_to_go_on(path)), recorded

    def _spent(self, error: BaseException, partial: Path | None = None, hint: str = "") -> Spent:
        if self.asked is None:
            return NOTHING_SPENT
        book, budget = self.asked
        if self.reservation is None:
            # A refusal reserved nothing; an interrupt may have come after the ledger's line was written.
            return NOTHING_SPENT if isinstance(error, PrioryError) else _perhaps(book, budget)
        entry = _entry(book, self.reservation)
        if not entry.charged and not entry.events:
            return NOTHING_SPENT
        charged, letter = entry.charged, book.terms.total.currency.letter
        is_settled = entry.state is EntryState.SPENT
        why = f"the run is paid for: {letter} = {rounded_up(charged)}" if is_settled else _why(entry, self.reservation)
        where = "in memory only" if book.path is None else f"entry {self.reservation.number} of {book.path}"
        words = [f"{why}, {where}", *([hint] if hint else [])]
        number, path = (None, None) if book.path is None else (self.reservation.number, str(book.path))
        return Spent(charged, letter, ". ".join(words), number, path, None if partial is None else str(partial))


def _entry(book: Ledger, reservation: Reservation) -> Entry:
    """The run's line in the ledger; if that cannot be read, one that is charged in full."""
    try:
        return book.entries()[reservation.number - 1]
    except PrioryError:
        price, events = book.price(reservation.budget), tuple(reservation.events)
        return Entry(reservation.number, "", price, price, EntryState.OPEN, "", None, events)


def _why(entry: Entry, reservation: Reservation) -> str:
    if not entry.events:
        return f"nothing was looked at, but the ledger could not give back what was reserved: {reservation.budget}"
    return f"the run had looked at private data, so that all it reserved stays charged: {reservation.budget}"


def _perhaps(book: Ledger, budget: Budget) -> Spent:
    """What a run may have cost that was interrupted while it reserved, or again while it ended."""
    is_kept = book.path is not None
    where = f"; what the ledger charges is shown by: priory ledger show {book.path}" if is_kept else ", in memory only"
    letter = book.terms.total.currency.letter
    words = f"at most {budget} was spent{where}"
    return Spent(book.price(budget), letter, words, ledger=str(book.path) if is_kept else None)
