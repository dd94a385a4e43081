"""Book file: how a book is kept in SQLite, with seals against damage.

Every line and every event carries a seal, a keyed hash of its contents. One more row, the head, says how many there are
and is sealed too, so that a line that was taken away is missed, the last one included.

What version 0.1 wrote is format 1. It is read as it is, and rewritten as format 2 in one transaction before the first
new line is written.
"""

import hashlib
import hmac
import json
import math
import re
import secrets
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from priory import bounded
from priory.errors import LedgerError
from priory.privacy.book import Entry, EntryState, Event, Terms, now
from priory.privacy.budget import Budget, Currency, encoded
from priory.queries.sensitivity import Sensitivity

FORMAT = 2
# "prio" in ASCII marks the file as ours.
_APPLICATION = 0x7072696F
_WAIT_IN_SECONDS = 60.0

_TERMS = "CREATE TABLE terms (text TEXT NOT NULL, secret BLOB NOT NULL, seal TEXT NOT NULL)"
_LINES = (
    """CREATE TABLE reservations (
        number INTEGER PRIMARY KEY, mechanism TEXT NOT NULL, asked TEXT NOT NULL, charged TEXT NOT NULL,
        asked_additive TEXT NOT NULL, charged_additive TEXT NOT NULL, state TEXT NOT NULL, opened TEXT NOT NULL,
        closed TEXT, seal TEXT NOT NULL
    )""",
    """CREATE TABLE events (
        reservation INTEGER NOT NULL REFERENCES reservations (number), number INTEGER NOT NULL, text TEXT NOT NULL,
        seal TEXT NOT NULL, PRIMARY KEY (reservation, number)
    )""",
    "CREATE TABLE head (lines INTEGER NOT NULL, events INTEGER NOT NULL, seal TEXT NOT NULL)",
)
# What of a line is stored and sealed; in format 1 and now.
_FIRST_COLUMNS = ("number", "mechanism", "asked", "charged", "state", "opened", "closed")
_COLUMNS = (*_FIRST_COLUMNS[:4], "asked_additive", "charged_additive", *_FIRST_COLUMNS[4:])
# A table of ours declares names and types. Expressions and views would be computed whenever the file is read.
_PLAIN_TABLE = re.compile(r"CREATE TABLE (?!.*\b(?:AS|CHECK|DEFAULT)\b)[\w\s(),]+", re.DOTALL | re.IGNORECASE)
# Exact sums of amounts have no larger denominators; those of ours have some hundreds of bits.
_MOST_BITS = 30_000


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
    known = {"dataset": terms.dataset, "schema": terms.schema, "person": terms.person}
    text = json.dumps({**known, **terms.total.encoded(), "made": now()})
    connection.execute(f"PRAGMA application_id = {_APPLICATION}")
    connection.execute(f"PRAGMA user_version = {FORMAT}")
    connection.execute("BEGIN IMMEDIATE")
    connection.execute(_TERMS)
    connection.execute("INSERT INTO terms VALUES (?, ?, ?)", (text, secret, _seal(secret, (text,))))
    _make_tables(connection, secret)
    connection.execute("COMMIT")


def read_terms(connection: sqlite3.Connection) -> tuple[Terms, bytes]:
    """The terms and the key; a file that is no ledger, is newer than this version or is damaged is refused."""
    if connection.execute("PRAGMA application_id").fetchone()[0] != _APPLICATION:
        is_empty = not connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        raise LedgerError("this file is empty" if is_empty else "this file is not a ledger")
    if _format(connection) > FORMAT:
        said = f"this ledger has format {_format(connection)}; this version of priory reads up to {FORMAT}"
        raise LedgerError(f"{said}: upgrade it")
    for kind, sql in connection.execute("SELECT type, sql FROM sqlite_master").fetchall():
        if not (_PLAIN_TABLE.fullmatch(sql or "") if kind == "table" else kind == "index" and sql is None):
            raise _damaged()
    if connection.execute("PRAGMA quick_check").fetchone()[0] != "ok":
        raise _damaged()
    rows = connection.execute("SELECT text, secret, seal FROM terms").fetchall()
    if len(rows) != 1 or not _is_sealed(rows[0][1], rows[0][:1], rows[0][2]):
        raise _damaged()
    return _terms_of(rows[0][0]), rows[0][1]


def bind_schema(connection: sqlite3.Connection, secret: bytes, schema: str) -> Terms:
    """Write the schema into terms that have none yet."""
    [(text,)] = connection.execute("SELECT text FROM terms").fetchall()
    bound = json.dumps({**bounded.json_of(text), "schema": schema})
    connection.execute("UPDATE terms SET text = ?, seal = ?", (bound, _seal(secret, (bound,))))
    return _terms_of(bound)


def read_lines(connection: sqlite3.Connection, secret: bytes) -> list[Entry]:
    """Every line, in order, without its events; a book in which one is missing or was changed is refused."""
    is_first = _format(connection) == 1
    columns, mark = (_FIRST_COLUMNS, ()) if is_first else (_COLUMNS, ("line",))
    rows = connection.execute(f"SELECT {', '.join(columns)}, seal FROM reservations ORDER BY number").fetchall()
    if not all(_is_sealed(secret, (*mark, *row[:-1]), row[-1]) for row in rows):
        raise _damaged()
    if [row[0] for row in rows] != list(range(1, len(rows) + 1)):
        raise _damaged()
    if not is_first:
        events = connection.execute("SELECT count(*) FROM events").fetchone()[0]
        if _head(connection, secret) != (len(rows), events):
            raise _damaged()
    lines = [_line(dict(zip(columns, row, strict=False))) for row in rows]
    common = 1
    for denominator in {each.denominator for line in lines for each in (line.charged, line.charged_additive)}:
        common = math.lcm(common, denominator)
        if common.bit_length() > _MOST_BITS:
            raise _damaged()
    return lines


def read_events(connection: sqlite3.Connection, secret: bytes, number: int | None = None) -> dict[int, list[Event]]:
    """What each line paid for, or the one of that number; a book in which that was changed is refused."""
    if _format(connection) == 1:
        return _first_events(connection)
    paid: dict[int, list[Event]] = {}
    found = connection.execute(
        "SELECT reservation, number, text, seal FROM events WHERE reservation = ? OR ? IS NULL "
        "ORDER BY reservation, number",
        (number, number),
    )
    for reservation, place, text, seal in found.fetchall():
        events = paid.setdefault(reservation, [])
        if place != len(events) or not _is_sealed(secret, ("event", reservation, place, text), seal):
            raise _damaged()
        events.append(_event_of(text))
    return paid


def insert_line(connection: sqlite3.Connection, secret: bytes, entry: Entry) -> None:
    """Write a new line."""
    lines, events = _head(connection, secret)
    write_line(connection, secret, entry)
    _count(connection, secret, lines + 1, events)


def write_line(connection: sqlite3.Connection, secret: bytes, entry: Entry) -> None:
    """Write a line, over itself where it is there already."""
    fields = tuple(encoded({name: getattr(entry, name) for name in _COLUMNS}).values())
    places = ", ".join("?" * (len(fields) + 1))
    sealed = (*fields, _seal(secret, ("line", *fields)))
    connection.execute(f"INSERT OR REPLACE INTO reservations VALUES ({places})", sealed)


def insert_events(connection: sqlite3.Connection, secret: bytes, reservation: int, events: Sequence[Event]) -> None:
    """Write further events of a line."""
    lines, so_far = _head(connection, secret)
    [[first]] = connection.execute("SELECT count(*) FROM events WHERE reservation = ?", (reservation,)).fetchall()
    keyed = [(reservation, number, _event_text(event)) for number, event in enumerate(events, start=first)]
    connection.executemany(
        "INSERT INTO events VALUES (?, ?, ?, ?)", [(*fields, _seal(secret, ("event", *fields))) for fields in keyed]
    )
    _count(connection, secret, lines, so_far + len(events))


def upgrade(connection: sqlite3.Connection, secret: bytes) -> None:
    """Rewrite format 1 as format 2, in the transaction at hand; does nothing to format 2."""
    if _format(connection) == FORMAT:
        return
    lines, paid = read_lines(connection, secret), _first_events(connection)
    connection.execute("DROP TABLE events")
    connection.execute("DROP TABLE reservations")
    _make_tables(connection, secret)
    for entry in lines:
        insert_line(connection, secret, entry)
        insert_events(connection, secret, entry.number, paid.get(entry.number, []))
    connection.execute(f"PRAGMA user_version = {FORMAT}")


def _make_tables(connection: sqlite3.Connection, secret: bytes) -> None:
    for table in _LINES:
        connection.execute(table)
    connection.execute("INSERT INTO head VALUES (0, 0, ?)", (_seal(secret, ("head", 0, 0)),))


def _format(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


@contextmanager
def _as_written() -> Iterator[None]:
    """Take what cannot be read for damage."""
    try:
        yield
    except (KeyError, TypeError, ValueError, AttributeError):
        raise _damaged() from None


@_as_written()
def _line(fields: dict[str, Any]) -> Entry:
    amounts = {name: bounded.amount(text) for name, text in fields.items() if name.startswith(("asked", "charged"))}
    return Entry(**{**fields, **amounts, "state": EntryState(fields["state"])})


def _head(connection: sqlite3.Connection, secret: bytes) -> tuple[int, int]:
    """How many lines and events there are, as they were counted when they were written."""
    rows = connection.execute("SELECT lines, events, seal FROM head").fetchall()
    if len(rows) != 1 or not _is_sealed(secret, ("head", *rows[0][:2]), rows[0][2]):
        raise _damaged()
    return rows[0][0], rows[0][1]


def _count(connection: sqlite3.Connection, secret: bytes, lines: int, events: int) -> None:
    seal = _seal(secret, ("head", lines, events))
    connection.execute("UPDATE head SET lines = ?, events = ?, seal = ?", (lines, events, seal))


def _first_events(connection: sqlite3.Connection) -> dict[int, list[Event]]:
    """The events of format 1, which had no seals."""
    paid: dict[int, list[Event]] = {}
    found = connection.execute("SELECT reservation, kind, what, cost FROM events ORDER BY reservation, number")
    for reservation, kind, what, cost in found.fetchall():
        with _as_written():
            paid.setdefault(reservation, []).append(Event(kind, what, bounded.amount(cost)))
    return paid


def _event_text(event: Event) -> str:
    size = event.sensitivity
    norms = {"l1": size and size.l1, "l2_squared": size and size.l2_squared}
    return json.dumps(encoded({name: fact for name, fact in vars(event).items() if name != "sensitivity"} | norms))


@_as_written()
def _event_of(text: str) -> Event:
    fields = bounded.json_of(text)
    names = ("l1", "l2_squared", "moved", "scale")
    numbers = {name: None if fields[name] is None else bounded.amount(fields[name]) for name in names}
    l1, l2_squared = numbers.pop("l1"), numbers.pop("l2_squared")
    size = None if l1 is None or l2_squared is None else Sensitivity(l1, l2_squared)
    currency = None if fields["currency"] is None else Currency(fields["currency"])
    named = {name: bounded.text(fields[name]) for name in ("kind", "what")}
    draws = bounded.whole(fields["draws"])
    cost, additive = (bounded.amount(fields[name]) for name in ("cost", "additive"))
    return Event(**named, **numbers, cost=cost, additive=additive, draws=draws, currency=currency, sensitivity=size)  # type: ignore[arg-type]


@_as_written()
def _terms_of(text: str) -> Terms:
    made = bounded.json_of(text)
    person = None if made["person"] is None else bounded.text(made["person"])
    return Terms(bounded.text(made["dataset"]), bounded.text(made["schema"]), Budget.decoded(made), person)


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
    return LedgerError("this ledger is damaged: restore its latest backup")
