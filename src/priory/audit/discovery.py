"""Discovery: replays of learning a schema on neighbours, and the exact law of the threshold for values."""

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from priory.app.discover.job import looks
from priory.audit.findings import Effort, Finding
from priory.audit.laws import Pair, log_masses, price
from priory.audit.replay import pairs
from priory.audit.tables import HEADER, KEY, NeighbouringTables, columns, write
from priory.data.persons import PersonRule
from priory.data.schema.open import OpenSchema
from priory.data.sources.raw import open_raw
from priory.privacy.budget import Budget, Currency
from priory.privacy.ledger import Event, Ledger
from priory.privacy.noise import Gaussian, Noise, RoundedGaussian
from priory.privacy.partition import threshold_within
from priory.privacy.randomness import Asked, AskedValues, Replay
from priory.queries.sensitivity import Relation

ADDITIVE = Fraction(1, 1000)
# Budgets of the tables are made so much larger that something is learnt of tables so small.
LARGER = 200
ROUNDING = 1e-9


@dataclass(frozen=True)
class Learnt:
    """One recorded discovery."""

    asked: list[Asked]  # what the randomness was asked, with the truth
    values: list[AskedValues]  # the selections of values it was asked for
    # What was paid, and how many requests of either kind came before: (asked, values, cost, δ′).
    payments: list[tuple[int, int, Fraction, Fraction]]
    text: str  # what came out


def discoveries(effort: Effort) -> Iterator[Finding]:
    """Discoveries on random and worst neighbours, and on strangers."""
    complaint = next(complaints_about_discovery(effort.neighbours), None)
    figure = complaint or "same requests, differences paid for"
    yield Finding("replay: schema discovery", figure, "no complaint", passed=complaint is None)


def complaints_about_discovery(count: int) -> Iterator[str]:
    """What is wrong with discovery, in public words, as it is found."""
    for pair in itertools.chain(_swaps(), pairs(count)):
        complaint = _replayed(pair)
        if complaint:
            yield f"{complaint} ({pair.name})"


def _swaps() -> Iterator[NeighbouringTables]:
    """One person replaced by another, whose values others have, too, as they have those of the first."""
    rows = [(f"p{i}", colour, "40", "true") for i in range(10) for colour in ("red", "blue")]
    one, other = ((*rows, ("q", colour, "40", "true")) for colour in ("red", "blue"))
    for make in (Budget.zcdp, Budget.gaussian):
        budget = make(1, relation=Relation.REPLACE_ONE)
        yield NeighbouringTables("one value for another", one, other, budget, in_memory=True)


def _replayed(pair: NeighbouringTables) -> str | None:
    additive = Fraction(0) if pair.budget.is_pure else ADDITIVE
    budget = replace(pair.budget, amount=LARGER * pair.budget.amount, additive=additive)
    try:
        first = _learnt(pair, pair.one, budget, Replay())
        forced = Replay([each.result for each in first.asked], values=[each.result for each in first.values])
        second = _learnt(pair, pair.other, budget, forced)
    except AssertionError as error:
        return f"it took another path ({error})"
    except Exception as error:  # noqa: BLE001 - whatever it is, an error that depends on the rows is a leak
        return f"it raised {type(error).__name__} on one of two neighbours"
    if _requests(first) != _requests(second):
        return "requests, scales or thresholds differ between neighbours"
    if first.payments != second.payments:
        return "payments differ between neighbours"
    if first.text != second.text:
        return "the same answers gave different schemas"
    return None if pair.are_strangers else _overspent(first, second, budget)


def _learnt(pair: NeighbouringTables, rows: Sequence[Any], budget: Budget, randomness: Replay) -> Learnt:
    names = [name for name in HEADER if name != "who"]
    rule = None if pair.unit is None else PersonRule(pair.unit, budget.max_rows, KEY)
    payments: list[tuple[int, int, Fraction, Fraction]] = []
    with TemporaryDirectory() as folder:
        table = open_raw(columns(rows) if pair.in_memory else write(rows, Path(folder) / "table.csv"), names, rule)
    with Ledger.in_memory(budget, person=pair.unit).reserve(budget, "audit") as reservation:
        pay = reservation.charge

        def charge(events: Sequence[Event]) -> None:
            pay(events)
            cost, additive = (sum((getattr(e, key) for e in events), Fraction(0)) for key in ("cost", "additive"))
            payments.append((len(randomness.asked), len(randomness.asked_values), cost, additive))

        reservation.charge = charge  # type: ignore[method-assign]
        found = looks(reservation, table, OpenSchema.of("audit", names), randomness)
    return Learnt(randomness.asked, randomness.asked_values, payments, str(found))


def _requests(run: Learnt) -> list[object]:
    answers = [(each.request, each.truth.shape) for each in run.asked]
    return [*answers, *((each.place, each.noise, each.threshold) for each in run.values)]


def _overspent(first: Learnt, second: Learnt, budget: Budget) -> str | None:
    """Whether the truths differ by more than each payment was for, by the audit's own prices."""
    ends = [(asked, values) for asked, values, _, _ in first.payments[1:]] + [(len(first.asked), len(first.values))]
    for (asked, values, cost, additive), (last_asked, last_values) in zip(first.payments, ends, strict=True):
        both = zip(first.asked[asked:last_asked], second.asked[asked:last_asked], strict=True)
        spent = sum(price(a.request, np.abs(a.truth - b.truth).astype(float), budget) for a, b in both)
        told = 0.0
        for one, other in zip(first.values[values:last_values], second.values[values:last_values], strict=True):
            common = sorted(one.truth.keys() & other.truth.keys(), key=str)
            gap = np.array([abs(one.truth[value] - other.truth[value]) for value in common], dtype=float)
            spent += price(one.noise, gap, budget)
            told += max(_chance_of_telling(one, other), _chance_of_telling(other, one))
        if spent > float(cost) * (1 + ROUNDING):
            return "true answers differ by more than was paid for"
        if told > float(additive) * (1 + ROUNDING):
            return "values of one person are told more often than was paid for"
    return None


def _chance_of_telling(one: AskedValues, other: AskedValues) -> float:
    """A bound on the probability that a value is told which only the first table has."""
    alone = [persons for value, persons in one.truth.items() if value not in other.truth]
    return sum(reached(one.noise, one.threshold - round(persons / one.noise.step)) for persons in alone)


def reached(noise: Noise, steps: int) -> float:
    """P(noise ≥ steps), summed from the audit's own law."""
    reach = math.ceil(40 * float(noise.scale / noise.step)) + 40 + abs(steps)
    k = np.arange(-reach, reach + 1)
    logs = log_masses(noise, k)
    return float(np.exp(np.logaddexp.reduce(logs[k >= steps]) - np.logaddexp.reduce(logs)))


def thresholds(effort: Effort) -> Iterator[Finding]:  # noqa: ARG001 - nothing here is drawn
    """The exact probability of telling a value of one person, and the exact cost of telling those of several."""
    for kind in (Gaussian, RoundedGaussian):
        noises = [kind(Fraction(scale)) for scale in (0.4, 1.0, 3.7, 20.0, 150.0)]
        chances = [Fraction(1, 10**power) for power in (1, 3, 6, 9, 12)]
        cases = [(noise, chance, threshold_within(noise, chance)) for noise in noises for chance in chances]
        told = [reached(noise, threshold - round(1 / noise.step)) / float(chance) for noise, chance, threshold in cases]
        yield Finding(
            f"threshold: a value of one person, {kind.kind} noise, {len(cases)} scales and chances",
            f"told with {min(told):.3g} to {max(told):.6f} of the probability paid for",
            "≤ 1",
            max(told) <= 1 + ROUNDING,
        )
        currency = Currency.ZCDP if kind is Gaussian else Currency.GAUSSIAN
        ratios = [_telling_cost(noise, threshold, currency) for noise, _, threshold in cases if 1 < noise.scale < 100]
        # Beyond, sums in floats are no longer exact to six digits of a μ so small.
        yield Finding(
            f"threshold: the cost of values of several persons, {kind.kind} noise",
            f"{max(ratios):.6f} of the charge",
            "≤ 1",
            max(ratios) <= 1 + 1e-6,
        )


def _telling_cost(noise: Noise, threshold: int, currency: Currency) -> float:
    """The exact cost of one person more beside some, of which noisy numbers below the threshold are not told."""
    charge = 1 / float(noise.scale) ** 2 / (2 if currency is Currency.ZCDP else 1)
    worst = 0.0
    for persons in (1, max(threshold // 2, 1), threshold):
        reach = threshold + math.ceil(40 * float(noise.scale)) + 40
        k = np.arange(-reach, reach + 1)
        laws = []
        for count in (persons, persons + 1):
            logs = log_masses(noise, k - count)
            logs = logs - np.logaddexp.reduce(logs)
            laws.append(np.append(logs[k >= threshold], np.logaddexp.reduce(logs[k < threshold])))
        worst = max(worst, Pair(*laws).amount(currency))
    return worst / charge
