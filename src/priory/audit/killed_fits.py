"""Killed fits: the command line with a ledger on disk, killed at any point from the first look to the saved file."""

import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path

from priory.app.recovery import recover
from priory.app.registry import MECHANISMS
from priory.audit.findings import Effort, Finding
from priory.data.schema import Schema
from priory.errors import PrioryError
from priory.privacy.budget import Budget
from priory.privacy.journal import Answered, Entry, Numbered, Paid, Picked
from priory.privacy.ledger import Ledger, Terms
from priory.privacy.outputs import partial_path
from priory.privacy.record_file import is_record_file, read_records
from priory.release import load
from priory.release.partial import Partial

SEED = 7
SCHEMA = Schema.coded({"age": 4, "sex": 2, "job": 3, "town": 5}, name="audit")
ROWS = 300
BUDGET = Budget.zcdp(1)
# Before a mechanism was seen to end by itself, it is taken to need so long from its first look, in seconds, and to
# write so many records.
USUAL_SPAN, USUAL_RECORDS = 0.4, 8
# Kills that come too late are tried again, so often in all for each that is wanted.
TRIES = 4


@dataclass
class Tally:
    """What was on disk after fits were killed."""

    # How many kills came where: "before the first payment", "in a look", "after an answer" (while it was estimated or
    # the next one prepared) or "after the release" (which was saved, but the process had not ended).
    places: Counter[str] = field(default_factory=Counter)
    uncharged: int = 0  # how many had looked at more than the ledger charges
    lost: int = 0  # how many had lost more than the batch of answers in flight
    unreleased: int = 0  # how many had an answer and led to no release

    @property
    def kills(self) -> int:
        """How many there were."""
        return self.places.total()


def killed_fits(effort: Effort) -> Iterator[Finding]:
    """The ledger covers every look, at most one batch is lost, and a release can be made of the rest."""
    tally = tallied(effort.kills)
    places = ", ".join(f"{count} {place}" for place, count in sorted(tally.places.items()))
    yield Finding(
        f"fits: {tally.kills} killed, {places}",
        f"{tally.uncharged} looks uncharged, {tally.lost} lost more than a batch, {tally.unreleased} without a release",
        "0, 0, 0",
        passed=tally.kills == effort.kills and not (tally.uncharged or tally.lost or tally.unreleased),
    )


def tallied(kills: int) -> Tally:
    """Kill `kills` fits, of every mechanism in turn."""
    chance = random.Random(SEED)  # noqa: S311 - it decides when to kill, not what to hide
    tally = Tally()
    paces: dict[str, _Pace] = {}
    with tempfile.TemporaryDirectory() as name:
        house = _house(Path(name), chance)
        for attempt in range(TRIES * kills):
            if tally.kills == kills:
                break
            mechanism = list(MECHANISMS)[attempt % len(MECHANISMS)]
            folder = house / str(attempt)
            folder.mkdir()
            if _was_killed(_Fit(house, folder, mechanism), paces.setdefault(mechanism, _Pace()), chance):
                _examine(folder, tally)
    return tally


@dataclass
class _Pace:
    """How long a mechanism takes from its first look to its end, and how many records it writes until then."""

    span: float = USUAL_SPAN
    records: int = USUAL_RECORDS


@dataclass(frozen=True)
class _Fit:
    """A fit by the command line, in a folder of its own."""

    house: Path
    folder: Path
    mechanism: str

    @property
    def partial(self) -> Path:
        return partial_path(self.folder / "a.priory")

    def started(self) -> subprocess.Popen[bytes]:
        Ledger.create(self.folder / "a.ledger", Terms(SCHEMA.name, SCHEMA.dump(), BUDGET))
        given = [self.house / "table.csv", "--schema", self.house / "schema.yaml", "--ledger", self.folder / "a.ledger"]
        given += ["--rho", BUDGET.amount, "--mechanism", self.mechanism, "-o", self.folder / "a.priory"]
        if MECHANISMS[self.mechanism].with_public is not None:
            given += ["--public", self.house / "public.csv"]
        command = [sys.executable, "-m", "priory", "fit", *map(str, given)]
        # The command is our own, of this very Python.
        return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # noqa: S603

    def records(self) -> int:
        """How many records the partial file has by now."""
        try:
            return len(read_records(self.partial)) if is_record_file(self.partial) else 0
        except PrioryError:
            return 0


def _was_killed(fit: _Fit, pace: _Pace, chance: random.Random) -> bool:
    """Run a fit and kill it after some time, or after some record; whether it was still running then."""
    # The first record is the job, the second the first payment: what comes after is the first look.
    is_timed = chance.random() < 0.6
    wanted = 2 if is_timed else chance.randint(2, pace.records)
    delay = chance.uniform(0, pace.span) if is_timed else chance.uniform(0, 0.005)
    process = fit.started()
    seen, first = 0, None
    while process.poll() is None and seen < wanted:
        time.sleep(0.001)
        seen = max(seen, fit.records())
        first = time.monotonic() if seen > 1 and first is None else first
    until = time.monotonic() + delay
    while process.poll() is None and time.monotonic() < until:
        time.sleep(0.001)
        seen = max(seen, fit.records()) if is_timed else seen
    has_ended = process.poll() is not None
    process.kill()
    process.wait()
    if has_ended and first is not None:
        pace.span, pace.records = max(time.monotonic() - first, 0.05), max(seen, 2)
    elif not has_ended and is_timed and delay > 0.8 * pace.span:
        pace.span *= 1.5
    return not has_ended


def _examine(folder: Path, tally: Tally) -> None:
    """Compare what is on disk after a kill with what the ledger says."""
    output, partial = folder / "a.priory", partial_path(folder / "a.priory")
    lines = Ledger.open(folder / "a.ledger").entries()
    charged = sum((line.charged for line in lines), Fraction(0))
    entries = _entries(partial)
    answered = [entry for entry in entries if isinstance(entry, Answered | Picked | Numbered)]
    paid = [entry for entry in entries if isinstance(entry, Paid)]
    tally.places[_place(entries, output)] += 1
    written = sum((event.cost for line in lines for event in line.events), Fraction(0))
    looked = paid[-1].spent if paid else Fraction(0)
    tally.uncharged += charged < looked or written < looked
    if output.exists():
        tally.unreleased += not _is_whole(output, charged)
        return
    in_flight = len(paid) - len(answered) + (written > looked)
    tally.lost += in_flight > 1
    if answered:
        tally.unreleased += not _leads_to_a_release(partial, folder / "recovered.priory", charged)


def _entries(partial: Path) -> tuple[Entry, ...]:
    try:
        return Partial.load(partial).transcript.entries
    except PrioryError:
        return ()


def _place(entries: tuple[Entry, ...], output: Path) -> str:
    if output.exists():
        return "after the release"
    if not any(isinstance(entry, Paid) for entry in entries):
        return "before the first payment"
    return "in a look" if isinstance(entries[-1], Paid) else "after an answer"


def _is_whole(output: Path, charged: Fraction) -> bool:
    try:
        return load(output).statement.spent <= charged
    except PrioryError:
        return False


def _leads_to_a_release(partial: Path, output: Path, charged: Fraction) -> bool:
    try:
        release = recover(partial)
        release.save(output)
    except PrioryError:
        return False
    return _is_whole(output, charged) and release.statement.budget == BUDGET


def _house(folder: Path, chance: random.Random) -> Path:
    """A private table, a public one and their schema."""
    SCHEMA.save(folder / "schema.yaml")
    for name, rows in (("table.csv", ROWS), ("public.csv", ROWS // 2)):
        cells = [[chance.randrange(size) for size in SCHEMA.domain.shape] for _ in range(rows)]
        lines = [SCHEMA.domain.attributes, *cells]
        (folder / name).write_text("\n".join(",".join(map(str, line)) for line in lines) + "\n")
    return folder
