"""Ledger: the book of what may be spent on a data set and what was.

A run reserves its whole budget before it looks at anything. The reservation is on the disk by then and is used once:
after a normal end what was not spent is given back; after a crash, or an error that came once private rows had been
counted, it stays charged in full. What each look costs is on the disk before it happens. The book is one SQLite file,
or memory for a single run; both are this class.

The shares of a run may depend on answers that it got. What it may spend is fixed when it begins and the sum of what it
has spent never exceeds that: such a filter is valid for pure ε and ρ [Rogers et al. 2016; Feldman & Zrnic 2021], and
for the sum of μ² [Smith & Thakurta 2022].
"""

import hashlib
import os
import secrets
import sqlite3
import threading
import warnings
import weakref
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any, Self

from priory.data.schema import Schema
from priory.data.table import html_facts, html_table
from priory.data.writing import sync_folder
from priory.errors import BudgetError, LedgerError, OptionError, PrioryError
from priory.privacy import book_file
from priory.privacy.book import NOTHING, Entry, EntryState, Event, Terms, check_terms, now
from priory.privacy.budget import Budget, Currency, epsilon_of, rounded_down, rounded_up
from priory.privacy.prices import converted
from priory.privacy.statement import cost_of

# The mechanism that learns a schema, as its lines name it.
DISCOVERY = "schema discovery"
# What is shown of an entry, in this order.
ENTRY_KEYS = ("number", "mechanism", "state", "asked", "charged", "opened", "closed")

__all__ = ["ENTRY_KEYS", "Entry", "EntryState", "Event", "Ledger", "Reservation", "Terms", "describe"]


class Ledger:
    """A book of spending, in a file or in memory.

    Attributes:
        path: the file, or None.
        terms: what it was made for.
    """

    def __init__(self, path: Path | None, memory: sqlite3.Connection | None = None) -> None:
        self.path = path
        self._memory = memory
        self._process = os.getpid()
        if memory is not None:
            weakref.finalize(self, memory.close)
        # One connection in memory cannot hold two transactions; files are locked by SQLite.
        self._lock = threading.RLock()
        with self._transaction() as connection:
            self.terms, self._secret = book_file.read_terms(connection)
            book_file.read_lines(connection, self._secret)

    @classmethod
    def create(cls, path: str | Path, terms: Terms) -> Self:
        """Make the file, whole or not at all; a `LedgerError` if something is at `path`, or it cannot be written."""
        path = Path(path).absolute()
        check_terms(terms)
        draft = path.with_name(f".{secrets.token_hex(8)}")
        try:
            # Only the owner may read it: it holds the key of the persons rule.
            os.close(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
            with closing(book_file.connect(draft)) as connection:
                book_file.write_new(connection, terms)
            os.link(draft, path)
            sync_folder(path.parent)
        except FileExistsError:
            raise LedgerError(f"{path} exists already; a ledger is never replaced") from None
        except (OSError, sqlite3.Error) as error:
            raise LedgerError(f"{path} cannot be made: {_reason(error)}") from None
        finally:
            draft.unlink(missing_ok=True)
        return cls(path)

    @classmethod
    def open(cls, path: str | Path) -> Self:
        """The book at `path`; a `LedgerError` if it is missing, damaged, or no ledger."""
        path = Path(path).absolute()
        if not path.is_file():
            raise LedgerError(f"{path} does not exist; make it with: priory ledger init")
        return cls(path)

    @classmethod
    def in_memory(cls, total: Budget, *, dataset: str = "unnamed", schema: str = "", person: str | None = None) -> Self:
        """A book for one run or for tests; it remembers nothing afterwards."""
        terms = Terms(dataset, schema, total, person)
        check_terms(terms)
        connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        book_file.write_new(connection, terms)
        return cls(None, connection)

    def __repr__(self) -> str:
        where = "in memory" if self.path is None else str(self.path)
        return f"Ledger({self.terms.dataset!r}, {where})"

    def _repr_html_(self) -> str:
        book = describe(self)
        facts = {key: str(book[key]) for key in ("unit", "relation", "total", "spent", "left")}
        facts["file"] = "in memory" if self.path is None else self.path.name
        rows = [[str(entry[key] or "") for key in ENTRY_KEYS] for entry in book["entries"]]
        return html_facts(f"Ledger of {self.terms.dataset}", facts) + html_table(ENTRY_KEYS, rows)

    def __reduce__(self) -> str:
        raise TypeError("a ledger is not copied; open its file again")

    @property
    def secret(self) -> bytes:
        """The key of the persons rule: for sources, never for a release, a log or a screen."""
        return self._secret

    def check(self, *, schema: str, dataset: str | None = None, person: str | None = None) -> None:
        """Refuse to be used for another data set, schema or person column; a schema may be laid out differently.

        A book without a schema takes any.
        """
        terms = self.terms
        if dataset is not None and dataset != terms.dataset:
            raise LedgerError(f"this ledger is of another data set: {terms.dataset!r}, not {dataset!r}")
        if terms.schema and not _is_same_schema(schema, terms.schema):
            raise LedgerError(f"this ledger of {terms.dataset!r} was made for another schema")
        if person != terms.person:
            raise LedgerError(f"this ledger protects {terms.unit}, so unit must be {terms.person!r}")

    def bind(self, schema: str) -> None:
        """Fix the schema of a book that was made without one, for good; the same again is fine.

        A `LedgerError` where the book is bound to another, maybe by somebody else since it was opened.
        """
        if not schema.strip():
            raise OptionError("schema", "an empty schema binds nothing")
        with self._transaction(writes=True) as connection:
            self.terms, _ = book_file.read_terms(connection)
            if not self.terms.schema:
                self.terms = book_file.bind_schema(connection, self._secret, schema)
        self.check(schema=schema, person=self.terms.person)

    def left(self) -> Fraction:
        """What remains, in the currency of the total."""
        with self._transaction() as connection:
            return self._left(connection)[0]

    def left_additive(self) -> Fraction:
        """What remains of the additive δ′."""
        with self._transaction() as connection:
            return self._left(connection)[1]

    def entries(self) -> tuple[Entry, ...]:
        """Every line of the book, in order."""
        with self._transaction() as connection:
            lines = book_file.read_lines(connection, self._secret)
            paid = book_file.read_events(connection, self._secret)
        return tuple(replace(line, events=tuple(paid.get(line.number, ()))) for line in lines)

    def price(self, budget: Budget) -> Fraction:
        """What `budget` would be charged here: in the book's own currency as it is, a pure ε at its price, μ² as μ²/2.

        Raises:
            LedgerError: its relation or its records per person are not the ledger's.
            BudgetError: it cannot be turned into the ledger's currency.
        """
        total = self.terms.total
        if (budget.relation, budget.max_rows) != (total.relation, total.max_rows):
            mine = f"this ledger protects {total.relation} neighbours with at most {total.max_rows} rows each"
            raise LedgerError(f"{mine}; the run was to protect {budget.relation} with {budget.max_rows}")
        return self._converted(budget.currency, budget.amount)

    def reserve(self, budget: Budget, mechanism: str) -> "Reservation":
        """Set `budget` aside, durably, before anything is looked at; a `BudgetError` if it is more than is left."""
        asked = self.price(budget)
        if budget.amount < 0 or budget.additive < 0:
            # Less than nothing would add to what is left.
            raise OptionError("budget", f"less than nothing cannot be set aside; got {budget}")
        with self._transaction(writes=True) as connection:
            left, left_additive = self._left(connection)
            _check_left(mechanism, self.terms.total.currency.letter, asked, left, str(self.terms.total))
            _check_left(mechanism, "δ′", budget.additive, left_additive, str(self.terms.total))
            number = 1 + connection.execute("SELECT count(*) FROM reservations").fetchone()[0]
            extra = budget.additive
            line = Entry(number, mechanism, asked, asked, EntryState.OPEN, now(), None, (), extra, extra)
            book_file.insert_line(connection, self._secret, line)
        return Reservation(self, number, budget)

    def record(self, number: int, events: Sequence[Event]) -> None:
        """Write what an open reservation is about to pay for; called by the reservation itself."""
        with self._transaction(writes=True) as connection:
            self._open_line(connection, number)
            book_file.insert_events(connection, self._secret, number, events)

    def close(self, number: int, currency: Currency, *, ended_well: bool) -> None:
        """Settle an open reservation in `currency` by what the book has of its payments; called by the reservation.

        A run that ended well is charged what it paid, one that paid nothing nothing, any other in full.
        """
        with self._transaction(writes=True) as connection:
            line = self._open_line(connection, number)
            paid = book_file.read_events(connection, self._secret, number).get(number, [])
            if paid and not ended_well:
                closed = replace(line, state=EntryState.INTERRUPTED)
            else:
                charged = self._converted(currency, sum((event.cost for event in paid), NOTHING))
                additive = sum((event.additive for event in paid), NOTHING)
                state = EntryState.SPENT if ended_well else EntryState.RELEASED
                closed = replace(line, state=state, charged=charged, charged_additive=additive)
            book_file.write_line(connection, self._secret, replace(closed, closed=now()))

    def _open_line(self, connection: sqlite3.Connection, number: int) -> Entry:
        line = book_file.read_lines(connection, self._secret)[number - 1]
        if line.state is not EntryState.OPEN:
            raise LedgerError(f"reservation {number} is settled already")
        return line

    def _converted(self, currency: Currency, amount: Fraction) -> Fraction:
        total = self.terms.total
        found = converted(amount, currency, total.currency)
        if found is not None:
            return found
        if total.is_pure:
            paid = f"{currency.letter} (Gaussian noise, or a delta)"
            raise BudgetError(f"this ledger counts pure ε, and {paid} cannot be turned into it. Give epsilon alone")
        why = "ρ cannot be turned into it: not all that has a ρ is Gaussian DP"
        hint = "Give epsilon and delta, or epsilon alone, instead of rho"
        raise BudgetError(f"this ledger counts μ² (Gaussian DP), and {why}. {hint}")

    def _left(self, connection: sqlite3.Connection) -> tuple[Fraction, Fraction]:
        """What remains of the amount and of the additive δ′."""
        lines = book_file.read_lines(connection, self._secret)
        total = self.terms.total
        additive = sum((line.charged_additive for line in lines), NOTHING)
        return total.amount - sum((line.charged for line in lines), NOTHING), total.additive - additive

    @contextmanager
    def _transaction(self, *, writes: bool = False) -> Iterator[sqlite3.Connection]:
        """All or nothing, on the disk when it ends, one process and one thread at a time."""
        if self._memory is not None and self._process != os.getpid():
            raise LedgerError("a book in memory is not shared with other processes: each could spend it. Use a file")
        with self._lock:
            try:
                connection = self._memory or book_file.connect(self.path or Path())
            except sqlite3.Error as error:
                raise LedgerError(f"{self.path} cannot be opened: {_reason(error)}") from None
            try:
                connection.execute("BEGIN IMMEDIATE")
                if writes:
                    # What version 0.1 wrote becomes the present format first.
                    book_file.upgrade(connection, self._secret)
                yield connection
                connection.execute("COMMIT")
            except (sqlite3.Error, UnicodeEncodeError) as error:
                raise LedgerError(f"{self.path or 'the ledger'} cannot be used: {_reason(error)}") from None
            finally:
                if connection.in_transaction:
                    connection.rollback()
                if self._memory is None:
                    connection.close()


class Reservation:
    """A part of the book set aside for one run; used once, as a context."""

    def __init__(self, ledger: Ledger, number: int, budget: Budget) -> None:
        self.ledger = ledger
        self.number = number  # of its line there
        self.budget = budget  # what the run may spend
        self.spent = NOTHING  # what it has paid so far, in the budget's currency
        self.spent_additive = NOTHING  # the δ′ it has paid so far
        self.events: list[Event] = []  # what it has paid for
        self._stage = "unused"
        self._process = os.getpid()
        # An interrupt may come before it is let go, and settling needs it again.
        self._lock = threading.RLock()

    def __repr__(self) -> str:
        return f"Reservation({self.number} of {self.ledger!r}, {self.budget}, {self._stage})"

    def __reduce__(self) -> str:
        raise TypeError("a reservation is not copied: each copy could spend it")

    @property
    def left(self) -> Fraction:
        """What the run may still spend."""
        return self.budget.amount - self.spent

    def charge(self, events: Sequence[Event]) -> None:
        """Pay for `events`, all or none of them; private rows may be counted for them afterwards.

        They are in the book, durably, when this returns. Where it raises (a `BudgetError` if they cost more than is
        left, a `LedgerError` if the book cannot be written or the reservation is not in use) nothing was paid.
        """
        if any(event.cost < 0 or event.additive < 0 for event in events):
            raise LedgerError("a cost is never below 0")
        if any(event.currency not in (None, self.budget.currency) for event in events):
            letter = self.budget.currency.letter
            raise LedgerError(f"this run pays in {letter}; a cost in another currency is no part of it")
        asked = sum((event.cost for event in events), NOTHING)
        additive = sum((event.additive for event in events), NOTHING)
        # With the lock, no other thread can settle it between the check and the payment.
        with self._lock:
            self._check_in_use()
            self.check_left(asked)
            _check_left("the run", "δ′", additive, self.budget.additive - self.spent_additive, f"its own {self.budget}")
            so_far = len(self.events), self.spent, self.spent_additive
            # Counted first: an interrupt may come when the book has them already, and then they are paid.
            self.events += events
            self.spent += asked
            self.spent_additive += additive
            try:
                self.ledger.record(self.number, events)
            except LedgerError:
                _, self.spent, self.spent_additive = so_far
                del self.events[so_far[0] :]
                raise

    def check_left(self, asked: Fraction) -> None:
        """Raise a `BudgetError` if it is more than the run may still spend."""
        _check_left("the run", self.budget.currency.letter, asked, self.left, f"its own {self.budget}")

    def _check_in_use(self) -> None:
        if self._stage != "in use" or self._process != os.getpid():
            # A forked process holds a copy, and both could spend it.
            stage = self._stage if self._process == os.getpid() else "another process's"
            raise LedgerError(f"reservation {self.number} is {stage}; a reservation pays only inside its own `with`")

    def __enter__(self) -> Self:
        if self._stage != "unused":
            raise LedgerError(f"reservation {self.number} was used already; reserve anew")
        self._stage = "in use"
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Settle: a normal end is charged what it paid, an error before any payment nothing, any other in full."""
        if self._process != os.getpid():
            self._stage = "settled"
            return
        with self._lock:
            self._stage = "settled"
        try:
            self.ledger.close(self.number, self.budget.currency, ended_well=kind is None)
        except LedgerError as trouble:
            # Raising would lose a release that is paid for; the line stays open, which charges it in full.
            warnings.warn(f"the run stays charged in full: {trouble}", stacklevel=2)


def describe(ledger: Ledger) -> dict[str, Any]:
    """The book as plain data for `priory ledger show`: its terms, its lines, what remains. Never the secret."""
    terms, total = ledger.terms, ledger.terms.total
    left, spent_additive = ledger.left(), total.additive - ledger.left_additive()
    spent = total.amount - left
    summary: dict[str, Any] = {
        "dataset": terms.dataset,
        "schema": hashlib.sha256(terms.schema.encode()).hexdigest()[:16] if terms.schema else "not bound yet",
        "unit": terms.unit,
        "relation": total.relation.value,
        "max_rows": total.max_rows,
        "currency": total.currency.value,
        **_schema_cost(ledger),
        "total": str(total),
        "spent": f"{total.currency.letter} = {rounded_up(spent)}",
        "left": f"{total.currency.letter} = {rounded_down(left)}",
    }
    if total.delta is not None:
        # What thresholds have added is gone from δ; the rest of it is what the amount is converted at.
        summary["spent_epsilon"] = rounded_up(epsilon_of(total.currency, spent, total.delta - spent_additive))
        summary["left_epsilon"] = rounded_down(epsilon_of(total.currency, left, total.delta - total.additive))
        summary["delta"] = rounded_up(total.delta)
    if total.additive:
        summary["spent_additive"] = rounded_up(spent_additive)
    summary["entries"] = [_described(entry) for entry in ledger.entries()]
    return summary


def _schema_cost(ledger: Ledger) -> dict[str, str]:
    """What it cost to learn the schema that the book is bound to, where that says so, and whether the book paid."""
    with suppress(PrioryError):
        cost = cost_of(Schema.parse(ledger.terms.schema).discovered) if ledger.terms.schema else None
        if cost is not None:
            is_here = any(entry.mechanism == DISCOVERY and entry.events for entry in ledger.entries())
            paid = (
                f"what this book paid of it is in the lines {DISCOVERY!r}"
                if is_here
                else "no line of this book paid for it"
            )
            return {"schema_cost": f"{cost}, for learning the schema from the table; {paid}"}
    return {}


def _described(entry: Entry) -> dict[str, Any]:
    facts = {key: getattr(entry, key) for key in ENTRY_KEYS}
    amounts = {key: rounded_up(facts[key]) for key in ("asked", "charged")}
    return {**facts, **amounts, "state": entry.state.value, "events": [_told(event) for event in entry.events]}


def _told(event: Event) -> dict[str, Any]:
    """An event as plain data; what version 0.1 did not write is left out."""
    size = event.sensitivity
    facts = {
        "currency": event.currency and event.currency.value,
        "l1": size and rounded_up(size.l1),
        "l2_squared": size and rounded_up(size.l2_squared),
        "moved": event.moved and rounded_up(event.moved),
        "scale": event.scale and rounded_down(event.scale),
        "draws": event.draws if event.draws > 1 else None,
        "additive": rounded_up(event.additive) if event.additive else None,
    }
    described = {"kind": event.kind, "what": event.what, "cost": rounded_up(event.cost)}
    return described | {key: fact for key, fact in facts.items() if fact is not None}


def _check_left(who: str, letter: str, asked: Fraction, left: Fraction, whole: str) -> None:
    if asked > left:
        both = f"{letter} = {rounded_up(asked)} and {letter} = {rounded_down(left)}"
        said = f"{who} asks for {both} is left of {whole}. Nothing was looked at for it"
        raise BudgetError(said, asked=asked, left=left)


def _is_same_schema(one: str, other: str) -> bool:
    if one == other:
        return True
    try:
        return Schema.parse(one) == Schema.parse(other)
    except PrioryError:
        return False


def _reason(error: Exception) -> str:
    return error.strerror or str(error) if isinstance(error, OSError) else str(error)
