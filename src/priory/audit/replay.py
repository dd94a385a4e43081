"""Replay: run a mechanism on a table, force what it was answered on a run with a neighbour, and compare.

A mechanism that sees private data only through the curator then asks the same things at the same scales, and what the
true answers differ by is paid for, by the audit's own prices. Tables that are no neighbours must lead to the same
questions too.
"""

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from priory.app.registry import Mechanism
from priory.audit.findings import Finding
from priory.audit.laws import price
from priory.audit.tables import SEED, NeighbouringTables, crowds, neighbours, public_rows, strangers
from priory.data.sources.source import Source
from priory.model.bases import PublicRows
from priory.privacy.budget import Budget
from priory.privacy.curator import Curator
from priory.privacy.ledger import Event, Ledger
from priory.privacy.randomness import Asked, Replay
from priory.release import Release


@dataclass(frozen=True)
class Run:
    """One recorded run."""

    asked: list[Asked]  # what the randomness was asked, with the truth
    # What was paid before each request, in the budget's currency: (place in `asked`, amount).
    payments: list[tuple[int, Fraction]]
    release: Release  # what came out


@dataclass(frozen=True)
class Setting:
    """A mechanism with some settings."""

    build: Callable[[PublicRows], Mechanism]  # the mechanism, from public rows where it uses them
    public: str = "smaller"  # which kind of public rows it is given
    needs_total: bool = False  # whether it can only be asked for where the number of rows is public


def replayed(name: str, setting: Setting, count: int) -> Finding:
    """The first thing that is wrong with a setting, if any."""
    complaint = next(complaints_about(setting, count), None)
    figure = complaint or "same requests, differences paid for"
    return Finding(f"replay: {name}", figure, "no complaint", passed=complaint is None)


def complaints_about(setting: Setting, count: int) -> Iterator[str]:
    """What is wrong with a setting, in public words, as it is found."""
    for pair in pairs(count):
        if pair.has_public_total or not setting.needs_total:
            complaint = replay_pair(setting.build(public_rows(setting.public, pair)), pair)
            if complaint:
                yield f"{complaint} ({pair.name})"


def pairs(count: int) -> Iterator[NeighbouringTables]:
    """Strangers and crowds, which are few and tell at once, then `count` neighbours."""
    return itertools.chain(strangers(strange(count), SEED), crowds(SEED), neighbours(count, SEED))


def strange(count: int) -> int:
    """How many pairs of strangers go with `count` pairs of neighbours."""
    return max(2, count // 8)


def replay_pair(mechanism: Mechanism, pair: NeighbouringTables) -> str | None:
    """What is wrong with a mechanism on one pair of tables, in public words; None if it replays."""
    one, other = pair.sources()
    try:
        first = recorded(mechanism, pair.budget, one, Replay(), person=pair.unit)
        forced = Replay([asked.result for asked in first.asked])
        second = recorded(mechanism, pair.budget, other, forced, person=pair.unit)
    except AssertionError as error:
        return f"it took another path ({error})"
    except Exception as error:  # noqa: BLE001 - whatever it is, an error that depends on the rows is a leak
        return f"it raised {type(error).__name__} on one of two neighbours"
    return _compare(first, second, pair)


def recorded(
    mechanism: Mechanism, budget: Budget, source: Source, randomness: Replay, *, person: str | None = None
) -> Run:
    """Run `mechanism`, noting what was paid before each request."""
    payments: list[tuple[int, Fraction]] = []
    with Ledger.in_memory(budget, person=person).reserve(budget, "audit") as reservation:
        pay = reservation.charge

        def charge(events: Sequence[Event]) -> None:
            pay(events)
            payments.append((len(randomness.asked), sum((event.cost for event in events), Fraction(0))))

        reservation.charge = charge  # type: ignore[method-assign]
        release = mechanism.run(Curator(reservation, source, randomness=randomness), budget)
    return Run(randomness.asked, payments, release)


def _compare(first: Run, second: Run, pair: NeighbouringTables) -> str | None:
    if [asked.request for asked in first.asked] != [asked.request for asked in second.asked]:
        return "requests or scales differ between neighbours"
    if [asked.truth.shape for asked in first.asked] != [asked.truth.shape for asked in second.asked]:
        return "candidates differ between neighbours"
    if first.payments != second.payments:
        return "payments differ between neighbours"
    if first.release.files() != second.release.files():
        return "the same answers gave different releases"
    if first.asked and (not first.payments or first.payments[0][0] > 0):
        return "something was answered before anything was paid"
    return None if pair.are_strangers else _overspent(first, second, pair.budget)


def _overspent(first: Run, second: Run, budget: Budget) -> str | None:
    """Whether the true answers differ by more than each payment was for."""
    places = [place for place, _ in first.payments] + [len(first.asked)]
    for (start, paid), end in zip(first.payments, places[1:], strict=True):
        both = zip(first.asked[start:end], second.asked[start:end], strict=True)
        cost = sum(price(a.request, np.abs(a.truth - b.truth).astype(np.float64), budget) for a, b in both)
        # A thousandth of a millionth covers the floats of the comparison, not of what is compared.
        if cost > float(paid) * (1 + 1e-9):
            return "true answers differ by more than was paid for"
    return None
