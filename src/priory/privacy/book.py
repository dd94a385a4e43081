"""Book: how a ledger is kept in SQLite, with seals against damage."""

import datetime as dt
import hashlib
import hmac
import json
import secrets
import sqlite3
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from pathlib import Path
from typing import Any

from priory.errors import LedgerError, OptionError
from priory.privacy.budget import Budget, Currency
from priory.queries.sensitivity import Relation

FORMAT = 1
# "prio" in ASCII marks the file as ours.
_APPLICATION = 0x7072696F
_WAIT_IN_SECONDS = 60.0

_TABLES = """
CREATE TABLE terms (text TEXT NOT NULL, secret BLOB NOT NULL, seal TEXT NOT NULL);
CREATE TABLE reservations (
    number INTEGER PRIMARY KEY, mechanism TEXT NOT NULL, asked TEXT NOT NULL, charged TEXT NOT NULL,
    state TEXT NOT NULL, opened TEXT NOT NULL, closed TEXT, seal TEXT NOT NULL
);
CREATE TABLE events (
    reservation INTEGER NOT NULL REFERENCES reservations (number), number INTEGER NOT NULL, kind TEXT NOT NULL,
    what TEXT NOT NULL, cost TEXT NOT NULL, PRIMARY KEY (reservation, number)
);
"""


@dataclass(frozen=True)
class Terms:
    """What a ledger was made for; fixed for good.

    Attributes:
        dataset: the declared name of the data set. A new version of the table with the same persons keeps it.
        schema: the schema, as YAML text.
        total: what may be spent in all.
        person: the column that names the person, or None if rows are what is protected.
    """

    dataset: str
    schema: str
    total: Budget
    person: str | None = None

    @property
    def unit(self) -> str:
        """What one neighbour is, in words."""
        if self.person is None:
            return "a row"
        return f"a person (column {self.person!r}), with at most {self.total.max_rows} of their rows"


class State(StrEnum):
    """How a reservation stands."""

    OPEN = "open"
    SPENT = "spent"
    INTERRUPTED = "interrupted"
    RELEASED = "released"


@dataclass(frozen=True)
class Event:
    """One payment of a run.

    Attributes:
        kind: the noise or the choice that was paid for.
        what: the public description of what was asked.
        cost: in the reservation's currency.
    """

    kind: str
    what: str
    cost: Fraction


@dataclass(frozen=True)
class Entry:
    """One line of the book.

    Attributes:
        number: counted from 1.
        mechanism: who asked.
        asked: what was set aside, in the ledger's currency.
        charged: what counts against the total.
        state: how it stands. One that is still open after its process has died is charged in full.
        opened: when, in UTC.
        closed: when, in UTC, or None.
        events: what was paid for.
    """

    number: int
    mechanism: str
    asked: Fraction
    charged: Fraction
    state: State
    opened: str
    closed: str | None
    events: tuple[Event, ...]


@dataclass(frozen=True)
class Row:
    """A line of the book as it is stored.

    Attributes are those of an `Entry`, with fractions as text; a seal is stored with them.
    """

    number: int
    mechanism: str
    asked: str
    charged: str
    state: State
    opened: str
    closed: str | None

    @property
    def fields(self) -> tuple[Any, ...]:
        """What is stored and sealed."""
        return (self.number, self.mechanism, self.asked, self.charged, self.state.value, self.opened, self.closed)

    def closed_as(self, state: State, charged: str) -> "Row":
        """The same line, settled."""
        return Row(self.number, self.mechanism, self.asked, charged, state, self.opened, now())

    def insert(self, connection: sqlite3.Connection, secret: bytes) -> None:
        """Write it as a new line."""
        connection.execute(
            "INSERT INTO reservations VALUES (?, ?, ?, ?, ?, ?, ?, ?)", (*self.fields, _seal(secret, self.fields))
        )

    def update(self, connection: sqlite3.Connection, secret: bytes) -> None:
        """Write it over its own line."""
        connection.execute(
            "UPDATE reservations SET charged = ?, state = ?, closed = ?, seal = ? WHERE number = ?",
            (self.charged, self.state.value, self.closed, _seal(secret, self.fields), self.number),
        )

    def entry(self, events: tuple[Event, ...]) -> Entry:
        """The line for people, with what was paid for."""
        return Entry(
            self.number,
            self.mechanism,
            Fraction(self.asked),
            Fraction(self.charged),
            self.state,
            self.opened,
            self.closed,
            events,
        )


def check_terms(terms: Terms) -> None:
    """Raise an `OptionError` if no ledger can be made for `terms`."""
    if not terms.dataset.strip():
        raise OptionError("dataset", "a data set needs a name")
    if any("\ud800" <= letter <= "\udfff" for letter in terms.dataset):
        # It would fail to be written into a release that is paid for.
        raise OptionError("dataset", "the name of a data set is text that can be written as UTF-8")
    if terms.person is None and terms.total.max_rows > 1:
        raise OptionError("max_rows", "more than one row a person needs a person column")


def connect(path: Path) -> sqlite3.Connection:
    """Open an existing file for durable writes."""
    connection = sqlite3.connect(f"{path.as_uri()}?mode=rw", uri=True, isolation_level=None, timeout=_WAIT_IN_SECONDS)
    try:
        # EXTRA also syncs the folder after a journal is removed: a committed line survives a power cut.
        connection.execute("PRAGMA synchronous = EXTRA")
        connection.execute("PRAGMA fullfsync = ON")
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def write_new(connection: sqlite3.Connection, terms: Terms) -> None:
    """Write `terms` and a new key into an empty file."""
    secret = secrets.token_bytes(32)
    text = _terms_text(terms)
    connection.executescript(
        f"PRAGMA application_id = {_APPLICATION}; PRAGMA user_version = {FORMAT}; BEGIN IMMEDIATE; {_TABLES}"
    )
    connection.execute("INSERT INTO terms VALUES (?, ?, ?)", (text, secret, _seal(secret, (text,))))
    connection.execute("COMMIT")


def read_terms(connection: sqlite3.Connection) -> tuple[Terms, bytes]:
    """The terms and the key.

    Raises:
        LedgerError: the file is no ledger, newer than this version reads, or damaged.
    """
    if connection.execute("PRAGMA application_id").fetchone()[0] != _APPLICATION:
        raise LedgerError("this file is not a ledger. Nothing was spent")
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if version > FORMAT:
        raise LedgerError(f"this ledger has format {version}; this version of priory reads up to {FORMAT}: upgrade it")
    if connection.execute("PRAGMA quick_check").fetchone()[0] != "ok":
        raise _damaged()
    rows = connection.execute("SELECT text, secret, seal FROM terms").fetchall()
    if len(rows) != 1 or not _is_sealed(rows[0][1], rows[0][:1], rows[0][2]):
        raise _damaged()
    return _terms_of(rows[0][0]), rows[0][1]


def read_rows(connection: sqlite3.Connection, secret: bytes) -> list[Row]:
    """Every line, in order.

    Raises:
        LedgerError: one is missing or was changed.
    """
    rows = connection.execute(
        "SELECT number, mechanism, asked, charged, state, opened, closed, seal FROM reservations ORDER BY number"
    ).fetchall()
    if [row[0] for row in rows] != list(range(1, len(rows) + 1)):
        raise _damaged()
    if not all(_is_sealed(secret, row[:-1], row[-1]) for row in rows):
        raise _damaged()
    return [
        Row(number, mechanism, asked, charged, State(state), opened, closed)
        for number, mechanism, asked, charged, state, opened, closed, _ in rows
    ]


def read_events(connection: sqlite3.Connection) -> dict[int, list[Event]]:
    """What each line paid for.

    Raises:
        LedgerError: a cost is no number.
    """
    paid: dict[int, list[Event]] = {}
    found = connection.execute("SELECT reservation, kind, what, cost FROM events ORDER BY reservation, number")
    for reservation, kind, what, cost in found:
        try:
            paid.setdefault(reservation, []).append(Event(kind, what, Fraction(cost)))
        except (ValueError, TypeError, ZeroDivisionError):
            raise _damaged() from None
    return paid


def _terms_text(terms: Terms) -> str:
    total = terms.total
    return json.dumps(
        {
            "dataset": terms.dataset,
            "schema": terms.schema,
            "person": terms.person,
            "currency": total.currency.value,
            "amount": str(total.amount),
            "epsilon": None if total.epsilon is None else str(total.epsilon),
            "delta": None if total.delta is None else str(total.delta),
            "relation": total.relation.value,
            "max_rows": total.max_rows,
            "made": now(),
        }
    )


def _terms_of(text: str) -> Terms:
    made = json.loads(text)
    total = Budget(
        Currency.of(made["currency"]),
        Fraction(made["amount"]),
        Relation(made["relation"]),
        made["max_rows"],
        None if made["epsilon"] is None else Fraction(made["epsilon"]),
        None if made["delta"] is None else Fraction(made["delta"]),
    )
    return Terms(made["dataset"], made["schema"], total, made["person"])


def _seal(secret: bytes, fields: tuple[Any, ...]) -> str:
    return hmac.new(secret, json.dumps(fields).encode(), hashlib.sha256).hexdigest()


def _is_sealed(secret: object, fields: tuple[Any, ...], seal: object) -> bool:
    if not isinstance(secret, bytes) or not isinstance(seal, str):
        return False
    try:
        return hmac.compare_digest(_seal(secret, tuple(fields)), seal)
    except TypeError:
        # Damage can turn text into bytes, which have no place in JSON.
        return False


def _damaged() -> LedgerError:
    return LedgerError("this ledger is damaged: restore its latest backup. Nothing was spent")


def now() -> str:
    """The time in UTC, to the second."""
    return dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
