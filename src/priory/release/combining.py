"""Combining: several releases of one data set as one, with all their measurements and the sum of their budgets."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import reduce

import numpy as np

from priory.errors import OptionError, ReleaseError
from priory.estimate.first_model import modelled, starts_from_public_data, uniform
from priory.estimate.rows.weigh import WEIGHED
from priory.model.bases import Base
from priory.privacy.budget import Budget, Currency
from priory.privacy.measurement import Measurement
from priory.privacy.prices import converted
from priory.privacy.statement import Statement, sum_as_declared, sum_of
from priory.queries.query import Query
from priory.release.release import Release

_AND, _COMBINED = " and ", ", combined"
# Chance makes the answers of two runs equal less than once in ten thousand times.
_LOG_CHANCE = np.log(1e-4)


def combine(releases: Sequence[Release]) -> Release:
    """One release of all measurements of several; it is modelled anew, and promises what they promise together.

    They are at least two, of the same data set, schema, neighbours and unit, and share no measurement; a `ReleaseError`
    says what is wrong.
    Nothing is spent: whoever has seen all of them knows what this one says.
    """
    releases = list(releases)
    if len(releases) < 2 or not all(isinstance(release, Release) for release in releases):
        raise OptionError("releases", "give at least two releases")
    first = releases[0]
    for i, other in enumerate(releases[1:], start=1):
        _check_alike(first, other)
        for earlier in releases[:i]:
            _check_apart(earlier, other)
    measurements = tuple(m for release in releases for m in release.measurements)
    statement = _statement([release.statement for release in releases])
    combined = Release(first.domain, measurements, statement, first.schema)
    return combined.with_model(modelled(measurements, _base(releases)))


def _check_alike(one: Release, other: Release) -> None:
    differing = {
        "attributes": (one.domain, other.domain),
        "schemas": (one.schema, other.schema),
        "data sets": (one.statement.dataset, other.statement.dataset),
        "units of privacy": (one.statement.unit, other.statement.unit),
        "neighbours": (one.statement.budget.relation, other.statement.budget.relation),
        "rows per person": (one.statement.budget.max_rows, other.statement.budget.max_rows),
    }
    for what, (here, there) in differing.items():
        if here != there:
            shown = f": {here!s} and {there!s}" if what not in ("attributes", "schemas") else ""
            raise ReleaseError(f"the releases have different {what}{shown}; only those of one table can be combined")


def _check_apart(one: Release, other: Release) -> None:
    """Refuse two releases that hold the same answers, in whatever files and combinations: noise is drawn only once.

    Other noise may give the same answer to a question of few cells: equal answers are the same ones where all of a
    release are, or where chance would not have made them equal.
    """
    mine, known = ([m for m in release.measurements if not m.is_public] for release in (one, other))
    answers: dict[Query, list[Measurement]] = {}
    for m in known:
        answers.setdefault(m.query, []).append(m)
    shared = [m for m in mine if any(np.array_equal(m.values, same.values) for same in answers.get(m.query, ()))]
    fewest = min(len(mine), len(known))
    if shared and (len(shared) == fewest or sum(map(_log_chance, shared)) < _LOG_CHANCE):
        many = f"{len(shared)} measurement{'s' if len(shared) > 1 else ''}"
        raise ReleaseError(
            f"the same {many} would be given twice; their noise would be taken for independent: leave out a release "
            "that another one holds, or combine again what they were combined of"
        )


def _log_chance(measurement: Measurement) -> float:
    """The logarithm of about how likely it is that two draws of noise give the same answers."""
    step = 1.0 if measurement.noise is None else float(measurement.noise.step)
    stddev = np.broadcast_to(measurement.stddev, measurement.values.shape) / step
    # Two normal draws on a lattice of steps differ by 0 with probability 1/(2√π σ), for σ of a step or more.
    return -float(np.log(np.maximum(2 * np.sqrt(np.pi) * stddev, 1)).sum())


def _base(releases: Sequence[Release]) -> Base:
    """What the first of them that starts from something public starts from; every possible cell alike otherwise."""
    for model in (release.model for release in releases):
        found = model.diagnostics
        # Rows that were drawn are not public: what they were drawn by is among the measurements.
        is_public = found is not None and found.schedule and found.stop != WEIGHED
        if is_public and starts_from_public_data(model.base):
            return model.base
    return uniform(releases[0].domain, releases[0].schema)


def _statement(statements: Sequence[Statement]) -> Statement:
    """The promises add up; a book on disk keeps them only where it keeps all of them."""
    first = statements[0]
    learnt = list(dict.fromkeys(each.discovered for each in statements if each.discovered is not None))
    return Statement(
        mechanism=_joined(s.mechanism.removesuffix(_COMBINED) for s in statements) + _COMBINED,
        budget=_together(statements),
        spent=_total([(s.budget, s.spent) for s in statements], _currency([s.budget for s in statements])),
        unit=first.unit,
        dataset=first.dataset,
        ledger="file" if all(statement.ledger == "file" for statement in statements) else "memory",
        is_private=all(statement.is_private for statement in statements),
        version=first.version,
        randomness=_joined(f"{s.randomness} {s.randomness_version}".rstrip() for s in statements),
        is_declared=any(statement.is_declared for statement in statements),
        # Releases with one schema share what it cost to learn it.
        discovered=reduce(sum_of, learnt) if learnt else None,
    )


def _joined(words: Iterable[str]) -> str:
    """Each of them once, also of those that were joined before."""
    return _AND.join(dict.fromkeys(word for each in words for word in each.split(_AND)))


def _together(statements: Sequence[Statement]) -> Budget:
    """What all of them promise together. Of a declared (ε, δ) no ρ follows: then every ε and every δ is added up."""
    budgets = [statement.budget for statement in statements]
    declared = any(s.is_declared and s.budget.delta is not None for s in statements)
    return sum_as_declared(budgets) if declared else _added(budgets)


def _currency(budgets: Sequence[Budget]) -> Currency:
    """What the sum is counted in: ε where all are pure, μ² where all others are Gaussian DP, else ρ."""
    used = {budget.currency for budget in budgets}
    if used == {Currency.PURE}:
        return Currency.PURE
    return Currency.ZCDP if Currency.ZCDP in used else Currency.GAUSSIAN


def _total(amounts: Sequence[tuple[Budget, Fraction]], currency: Currency) -> Fraction:
    converted_amounts = [converted(amount, budget.currency, currency) for budget, amount in amounts]
    return sum((amount for amount in converted_amounts if amount is not None), Fraction(0))


def _added(budgets: Sequence[Budget]) -> Budget:
    """What all of them promise together: in ε at the smallest of their δ where they promise at one."""
    first, currency = budgets[0], _currency(budgets)
    amount = _total([(budget, budget.amount) for budget in budgets], currency)
    additive = sum((budget.additive for budget in budgets), Fraction(0))
    whole = Budget(currency, amount, first.relation, first.max_rows, additive=additive)
    # What thresholds may add comes on top of the δ that the amounts are converted at.
    deltas = [budget.delta - budget.additive for budget in budgets if budget.delta is not None]
    if whole.is_pure or not deltas:
        return whole
    delta = min(deltas) + additive
    return replace(whole, epsilon=whole.epsilon_at(delta), delta=delta)
