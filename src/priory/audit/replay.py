"""Replay: run a mechanism on a table, force what it was answered upon a run on a neighbour, and compare.

A mechanism that sees private data only through the curator then asks the same things at the same scales, and what the
true answers differ by is paid for. Both are checked, for every registered mechanism, and on planted ones that must be
caught.
"""

import math
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np

from priory.app.registry import MECHANISMS, Mechanism
from priory.audit.findings import Effort, Finding
from priory.audit.planted import PLANTED
from priory.audit.tables import SCHEMA, NeighbouringTables, neighbours, write
from priory.data.opening import open_source
from priory.data.source import Source
from priory.domain import Domain
from priory.privacy.budget import Budget
from priory.privacy.choice import Choice
from priory.privacy.curator import Curator
from priory.privacy.ledger import Event, Ledger
from priory.privacy.randomness import Asked, Replay
from priory.queries.sensitivity import Sensitivity
from priory.release import Release

SEED = 20


@dataclass(frozen=True)
class Run:
    """One recorded run.

    Attributes:
        asked: what the randomness was asked, with the truth.
        payments: what was paid before each request, in the budget's currency: (place in `asked`, amount).
        release: what came out.
    """

    asked: list[Asked]
    payments: list[tuple[int, Fraction]]
    release: Release


def replayed(effort: Effort) -> Iterator[Finding]:
    """Every registered mechanism on random and worst neighbours."""
    for entry in MECHANISMS.values():
        complaints = replay(entry.build, effort.neighbours)
        yield Finding(
            f"replay: {entry.name}, {effort.neighbours} pairs of neighbours",
            complaints[0] if complaints else "same requests, differences paid for",
            "no complaint",
            not complaints,
        )


def planted_mechanisms(effort: Effort) -> Iterator[Finding]:
    """Mechanisms with bugs; replay must complain about each."""
    for name, mechanism in PLANTED.items():
        complaint = next(complaints_about(_always(mechanism), effort.neighbours), None)
        yield Finding(f"planted bug: {name}", complaint or "nothing noticed", "a complaint", complaint is not None)


def _always(mechanism: Mechanism) -> Callable[[Domain], Mechanism]:
    return lambda _: mechanism


def replay(build: Callable[[Domain], Mechanism], count: int) -> list[str]:
    """What is wrong with a mechanism, in public words; nothing if it replays."""
    return list(complaints_about(build, count))


def complaints_about(build: Callable[[Domain], Mechanism], count: int) -> Iterator[str]:
    """The same, as it is found."""
    with tempfile.TemporaryDirectory() as folder:
        for pair in neighbours(count, SEED):
            complaint = replay_pair(build(SCHEMA.domain), pair, Path(folder))
            if complaint:
                yield f"{complaint} ({pair.name})"


def replay_pair(mechanism: Mechanism, pair: NeighbouringTables, folder: Path) -> str | None:
    """What is wrong with a mechanism on one pair of neighbours, in public words; None if it replays."""
    key = bytes(32)
    sources = [
        open_source(write(rows, folder / name), SCHEMA, unit=pair.unit, max_rows=pair.budget.max_rows, key=key)
        for name, rows in (("one.csv", pair.one), ("other.csv", pair.other))
    ]
    try:
        first = _recorded(mechanism, pair, sources[0], Replay())
        second = _recorded(mechanism, pair, sources[1], Replay([asked.result for asked in first.asked]))
    except AssertionError:
        return "it took another path"
    except Exception as error:  # noqa: BLE001 - whatever it is, an error that depends on the rows is a leak
        return f"it raised {type(error).__name__} on one of two neighbours"
    return _compare(first, second, pair.budget)


def _recorded(mechanism: Mechanism, pair: NeighbouringTables, source: Source, randomness: Replay) -> Run:
    """Run `mechanism`, noting what was paid before each request."""
    payments: list[tuple[int, Fraction]] = []
    with Ledger.in_memory(pair.budget, person=pair.unit).reserve(pair.budget, "audit") as reservation:
        pay = reservation.charge

        def charge(events: Sequence[Event]) -> None:
            pay(events)
            payments.append((len(randomness.asked), sum((event.cost for event in events), Fraction(0))))

        reservation.charge = charge  # type: ignore[method-assign]
        release = mechanism.run(Curator(reservation, source, randomness=randomness), pair.budget)
    return Run(randomness.asked, payments, release)


def _compare(first: Run, second: Run, budget: Budget) -> str | None:
    if [asked.request for asked in first.asked] != [asked.request for asked in second.asked]:
        return "requests or scales differ between neighbours"
    if first.payments != second.payments:
        return "payments differ between neighbours"
    if _released(first.release) != _released(second.release):
        return "the same answers gave different releases"
    places = [place for place, _ in first.payments] + [len(first.asked)]
    if first.asked and (not places or places[0] > 0):
        return "something was answered before anything was paid"
    for (start, paid), end in zip(first.payments, places[1:], strict=True):
        pairs = zip(first.asked[start:end], second.asked[start:end], strict=True)
        # A thousandth of a millionth covers the floats of the comparison, not of what is compared.
        if sum(_difference(a, b, budget) for a, b in pairs) > float(paid) * (1 + 1e-9):
            return "true answers differ by more than was paid for"
    return None


def _difference(one: Asked, other: Asked, budget: Budget) -> float:
    """What telling the two truths apart costs, in the budget's currency."""
    gap = np.abs(one.truth - other.truth).astype(np.float64)
    scale = float(one.request.scale)
    if not gap.any():
        return 0.0
    if scale == 0:
        return math.inf
    if isinstance(one.request, Choice):
        return float(one.request.cost(Fraction(int(gap.max())), budget.currency))
    size = Sensitivity(Fraction(int(gap.sum())), Fraction(int((gap**2).sum())))
    cost = one.request.cost(size, budget.currency)
    return math.inf if cost is None else float(cost)


def _released(release: Release) -> dict[str, dict[str, bytes]]:
    """The bytes that would be saved."""
    return {name: dict(files) for name, files in release.files().items()}
