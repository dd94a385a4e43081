"""Kills: random plans on a ledger file, killed at any moment, two processes at once."""

import os
import random
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

from priory.audit.findings import Effort, Finding
from priory.errors import BudgetError
from priory.privacy.budget import Budget
from priory.privacy.ledger import EntryState, Event, Ledger, Terms

TOTAL = Budget.zcdp(10)
SEED = 5
# Enough to fill a book, so that some plans are refused.
PLANS_A_BOOK = 24
# One plan in so many is killed at a random time; the others kill themselves at a chosen moment, or end by themselves.
_MOMENTS = ("never", "never", "before", "reserved", "paid", "looked", "ending", "any", "any", "any")


def killed_ledgers(effort: Effort) -> Iterator[Finding]:
    """Never above the total; every reservation that was looked at stays charged; nothing else is lost."""
    if not hasattr(os, "fork"):
        yield Finding("ledger: this system cannot fork", "-", "-", passed=True)
        return
    tally = tallied(effort.plans)
    lost, miscounted, overspent = tally["lost"], tally["miscounted"], tally["overspent"] > 0
    yield Finding(
        f"ledger: {effort.plans:,} random plans in two processes at once, {tally['killed']:,} killed",
        f"{lost} looks uncharged, {miscounted} ends miscounted, above the total: {overspent}",
        "0, 0, False",
        passed=not (lost or miscounted or overspent),
    )
    yield _refit()


def tallied(plans: int) -> Counter[str]:
    """Run `plans` plans, two at a time, a new book whenever one is nearly full, and compare their notes with the books.

    Counted are plans that were "killed", looks that are "lost" because they are not charged, plans that are
    "miscounted", and how often a book was "overspent".
    """
    chance = random.Random(SEED)  # noqa: S311 - it decides when to kill, not what to hide
    tally: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for done in range(0, plans, PLANS_A_BOOK):
            book = Ledger.create(folder / f"{done}.ledger", Terms("audit", "", TOTAL))
            notes = folder / f"{done}.notes"
            here = min(plans - done, PLANS_A_BOOK)
            for start in range(0, here, 2):
                pids = [_start(book, notes, chance.random()) for _ in range(min(2, here - start))]
                tally["killed"] += sum(_finish(*pid) for pid in pids)
                tally["overspent"] += book.left() < 0
            tally += _compared(book, notes)
    return tally


def _start(book: Ledger, notes: Path, seed: float) -> tuple[int, float | None]:
    """Fork a plan; returns its process and when to kill it, if at a random time."""
    chance = random.Random(seed)  # noqa: S311 - as above
    moment = chance.choice(_MOMENTS)
    delay = chance.uniform(0, 0.008) if moment == "any" else None
    child = os.fork()
    if child:
        return child, delay
    try:
        _plan(book, notes, chance, moment)
    finally:
        os._exit(0)
    raise AssertionError("unreachable")


def _finish(child: int, delay: float | None) -> bool:
    """Wait for a plan; whether it was killed."""
    if delay is not None:
        time.sleep(delay)
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status)


def _plan(book: Ledger, notes: Path, chance: random.Random, moment: str) -> None:
    """Reserve, look a few times, decide how to go on by what came, end; die at `moment`."""
    _die_at("before", moment)
    asked = Fraction(chance.randint(1, 100), 100)
    try:
        reservation = book.reserve(TOTAL.worth(asked), "plan")
    except BudgetError:
        return
    _die_at("reserved", moment)
    with reservation:
        while reservation.left > 0 and chance.random() < 0.8:
            cost = min(reservation.left, Fraction(chance.randint(1, 30), 100))
            reservation.charge([Event("audit", "a look", cost)])
            _die_at("paid", moment)
            _note(notes, f"looked {reservation.number} {cost}")
            _die_at("looked", moment)
        _die_at("ending", moment)
    _note(notes, f"ended {reservation.number} {reservation.spent}")


def _die_at(here: str, moment: str) -> None:
    if here == moment:
        os.kill(os.getpid(), signal.SIGKILL)


def _note(notes: Path, line: str) -> None:
    """One line, whole: short appends are atomic."""
    handle = os.open(notes, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.write(handle, f"{line}\n".encode())
    os.close(handle)


def _compared(book: Ledger, notes: Path) -> Counter[str]:
    """How many looks are not covered by their charge, and how many ends are charged something else."""
    entries = {entry.number: entry for entry in book.entries()}
    looked: dict[int, Fraction] = {}
    ended: dict[int, Fraction] = {}
    for line in notes.read_text().splitlines() if notes.exists() else []:
        what, number, amount = line.split()
        if what == "looked":
            looked[int(number)] = looked.get(int(number), Fraction(0)) + Fraction(amount)
        else:
            ended[int(number)] = Fraction(amount)
    lost = sum(number not in entries or entries[number].charged < amount for number, amount in looked.items())
    ends = [(entries[number], amount) for number, amount in ended.items()]
    miscounted = sum(entry.charged != amount or entry.state is not EntryState.SPENT for entry, amount in ends)
    # Whoever did not end is charged in full.
    others = [entry for number, entry in entries.items() if number not in ended]
    miscounted += sum(entry.state is EntryState.OPEN and entry.charged != entry.asked for entry in others)
    return Counter(lost=lost, miscounted=miscounted)


def _refit() -> Finding:
    """A second run that does not fit any more is refused."""
    book = Ledger.in_memory(TOTAL)
    with book.reserve(TOTAL, "fit") as reservation:
        reservation.charge([Event("audit", "a look", TOTAL.amount)])
    try:
        book.reserve(TOTAL.part(Fraction(1, 1000)), "refit")
    except BudgetError:
        return Finding("ledger: a refit beyond the total", "refused", "refused", passed=True)
    return Finding("ledger: a refit beyond the total", "allowed", "refused", passed=False)
