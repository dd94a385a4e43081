"""Bugs: the real code with one thing changed, and the tests of the battery that must complain about it."""

import contextlib
import hashlib
import math
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any, cast
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray

from priory.app.discover import keeping
from priory.app.registry import Mechanism
from priory.audit import accountant as accountant_module
from priory.audit import discovery
from priory.audit.accountant import prices
from priory.audit.discovery import complaints_about_discovery, thresholds
from priory.audit.edges import broken
from priory.audit.findings import BUG_PREFIX, Effort, Finding
from priory.audit.hostile import large_things
from priory.audit.primitives import audited_choice, audited_noise, claim_of
from priory.audit.replay import Setting, complaints_about
from priory.audit.settings import SETTINGS, always, default_setting
from priory.audit.tables import NeighbouringTables
from priory.data import spelling
from priory.data.cells import Cells, is_null
from priory.data.sources import arrow_codes, duckdb, frames, opening, private, raw, same
from priory.errors import DataError, LedgerError
from priory.mechanisms import privbayes
from priory.mechanisms.mwem.mwem import MWEM
from priory.mechanisms.steps.plan import Settings
from priory.mechanisms.weighing import Weighing
from priory.model.bases import PublicRows
from priory.privacy import book_file, recorder
from priory.privacy import curator as curator_module
from priory.privacy import scores as scores_module
from priory.privacy import statement as statement_module
from priory.privacy.budget import Budget
from priory.privacy.choice import Choice, NoisyMax, PermuteAndFlip
from priory.privacy.curator import Curator
from priory.privacy.functionals import LargestCell
from priory.privacy.ledger import Event, Ledger
from priory.privacy.measurement import Measurement
from priory.privacy.noise import Gaussian, Laplace, Noise
from priory.privacy.outputs import partial_path
from priory.privacy.scores import Dependence, L1Error, Neighbours, Payoff
from priory.privacy.session import Session
from priory.privacy.statement import Statement
from priory.queries.domain import Domain
from priory.queries.query import Query
from priory.queries.sensitivity import Relation, Sensitivity, largest_change
from priory.release import Release, archive

# A wrong function takes the right one, and then what that takes.
Wrong = Callable[..., object]
Complaint = Callable[[Effort], str | None]
PURE = Budget.pure(1, relation="replace-one")
ZCDP = Budget.zcdp(Fraction(1, 2), relation="replace-one")


@dataclass(frozen=True)
class Bug:
    """Something wrong, and who must notice."""

    tests: dict[
        str, Complaint
    ]  # the tests of the battery that are run on the changed code, by name; each must complain
    changes: tuple[tuple[object, str, Wrong], ...] = ()  # what is put into the code for a while; see `planted`
    is_in_opening: bool = False  # whether it is about opening tables; those that are open already are right


def caught(name: str, effort: Effort) -> Iterator[Finding]:
    """Run the tests that must notice a planted bug."""
    complaints = complaints_of(BUGS[name], effort)
    words = "; ".join(f"{test}: {complaint or 'nothing noticed'}" for test, complaint in complaints.items())
    yield Finding(f"{BUG_PREFIX}{name}", words, "a complaint", all(complaints.values()))


def complaints_of(bug: Bug, effort: Effort) -> dict[str, str | None]:
    """What each of the tests says about it."""
    with contextlib.ExitStack() as stack:
        if bug.is_in_opening:
            NeighbouringTables.sources.cache_clear()
            stack.callback(NeighbouringTables.sources.cache_clear)
        for change in bug.changes:
            stack.enter_context(planted(*change))
        return {test: complaint(effort) for test, complaint in bug.tests.items()}


def planted(owner: object, name: str, wrong: Wrong) -> AbstractContextManager[object]:
    """Put `wrong` in the place of `owner.name`, for a while."""
    right = vars(owner)[name]
    return patch.object(owner, name, lambda *arguments, **options: wrong(right, *arguments, **options))


@dataclass(frozen=True)
class Planted:
    """A mechanism with a bug, made of one function."""

    measured: Callable[[Curator, Budget], Sequence[Measurement]]

    def run(self, session: Session, budget: Budget) -> Release:
        """Release what it measured."""
        measured = self.measured(cast(Curator, session), budget)
        return Release(session.domain, tuple(measured), session.statement("planted"))


def _colours(curator: Curator) -> Query:
    return Query.marginal(curator.domain, "colour")


def _exact_rows(curator: Curator) -> int:
    """The true number of rows, unpaid: what no mechanism may know."""
    return int(curator._truths.of([Query.marginal(curator.domain, ())])[0])  # noqa: SLF001 - this is the bug


def _peeking(curator: Curator, budget: Budget) -> Sequence[Measurement]:
    """What is asked depends on the number of rows."""
    names = curator.domain.attributes[: 1 + _exact_rows(curator) % 2]
    return curator.answer([Query.marginal(curator.domain, name) for name in names], budget.split([1] * len(names)))


def _raising(curator: Curator, budget: Budget) -> Sequence[Measurement]:
    """Tables with an odd number of rows are refused."""
    if _exact_rows(curator) % 2:
        raise ValueError
    return curator.answer([_colours(curator)], [budget])


def _forgetful(curator: Curator, budget: Budget) -> Sequence[Measurement]:
    """It answers twice and pays once."""
    (measured,) = curator.answer([_colours(curator)], [budget])
    return measured, _unpaid(curator, measured.noise or Laplace(Fraction(1)))


def _understated(curator: Curator, budget: Budget) -> Sequence[Measurement]:
    """Half the noise for the whole price."""
    (measured,) = curator.answer([_colours(curator)], [budget.part(Fraction(1, 2))])
    noise = measured.noise or Laplace(Fraction(1))
    half = type(noise)(Fraction(float(noise.scale) / 2))
    curator.reservation.charge([Event(half.kind, "understated", budget.amount / 2)])
    return [_unpaid(curator, half)]


def _unpaid(curator: Curator, noise: Noise) -> Measurement:
    query = _colours(curator)
    values = curator._randomness.noisy(curator._truths.of([query])[0], noise)  # noqa: SLF001 - this is the bug
    return Measurement(query, values, noise.stddev, noise)


def _telling(curator: Curator, budget: Budget) -> Sequence[Measurement]:
    """The true number of rows stands beside the noisy answers."""
    rows = Measurement.of(Query.marginal(curator.domain, ()), _exact_rows(curator), 0.0)
    return *curator.answer([_colours(curator)], [budget]), rows


PLANTED: dict[str, Mechanism] = {
    "a mechanism that peeks": Planted(_peeking),
    "an error that depends on the rows": Planted(_raising),
    "a second answer without a charge": Planted(_forgetful),
    "noise for half the sensitivity": Planted(_understated),
    "a true count in the release": Planted(_telling),
}


def _halved(right: Callable[..., Fraction], *arguments: Any) -> Fraction:  # noqa: ANN401 - whatever the right one takes
    return right(*arguments) / 2


def _scale_rounded_down(right: Callable[..., Noise], *arguments: Any) -> Noise:  # noqa: ANN401 - as above
    noise = right(*arguments)
    return replace(noise, scale=Fraction(math.nextafter(float(noise.scale), 0.0))) if noise.scale else noise


def _first_in_the_file(
    _right: object, persons: Sequence[str | None], _codes: object, max_rows: int, _key: bytes
) -> NDArray[np.bool_]:
    seen: Counter[str | None] = Counter()
    kept = np.zeros(len(persons), dtype=np.bool_)
    for i, person in enumerate(persons):
        seen[person] += 1
        kept[i] = person is not None and seen[person] <= max_rows
    return kept


def _first_in_the_query(_right: object, query: str, names: Sequence[str], max_rows: int) -> str:
    """The same in the query that DuckDB runs."""
    # A parameter that is given has to be used.
    known = f"SELECT * FROM ({query}) WHERE person IS NOT NULL AND CAST($key AS VARCHAR) IS NOT NULL"
    placed = f"SELECT *, row_number() OVER () AS place FROM ({known})"
    order = f"row_number() OVER (PARTITION BY person ORDER BY place) <= {int(max_rows)}"
    return f"SELECT {', '.join(names)} FROM ({placed}) QUALIFY {order}"


def _by_place_in_the_file(
    right: Callable[..., NDArray[np.bool_]], persons: Sequence[str | None], _codes: object, max_rows: int, key: bytes
) -> NDArray[np.bool_]:
    """The keyed hash is of the record's line rather than of the record."""
    hashes = [hashlib.sha256(key + i.to_bytes(2, "little")).digest()[:4] for i in range(len(persons))]
    return right(persons, [np.array([int.from_bytes(each) for each in hashes], dtype=np.int64)], max_rows, key)


def _as_written(_right: object, cells: Cells) -> list[str | None]:
    """Persons are told apart by how they are written."""
    values = cells.values if cells.index is None else cells.values[cells.index]
    return [None if is_null(value) else str(value) for value in values.tolist()]


def _at_the_other_price(
    right: Callable[..., Choice], share: Budget, sensitivity: Fraction, kind: str | None = None
) -> Choice:
    if kind != "permute-and-flip":
        return right(share, sensitivity, kind)
    return PermuteAndFlip(right(share, sensitivity, "noisy-max").scale)


def _of_one_row(right: Callable[..., Fraction], *arguments: Any) -> Fraction:  # noqa: ANN401 - whatever the right one takes
    """A sensitivity that takes every person for one of a single row."""
    return right(*(replace(each, max_rows=1) if isinstance(each, Neighbours) else each for each in arguments))


def _of_the_answer_alone(_right: object, query: Query, neighbours: Neighbours) -> Fraction:
    """The complement of an answer is taken to move as far as the answer."""
    return largest_change(query, neighbours.relation, neighbours.max_rows)


def _never_without_rows(right: Callable[..., Fraction], query: Query, neighbours: Neighbours) -> Fraction:
    """A person who is replaced is taken to have as many rows as the next."""
    return right(query, replace(neighbours, max_rows=1)) * neighbours.max_rows


@dataclass(frozen=True, eq=False)
class _Exact:
    """A count that says the true number of rows."""

    count: Any
    total: float

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever the count has
        return getattr(self.count, name)


def _counted_exactly(right: Callable[..., Any], curator: Curator, budget: Budget) -> _Exact:
    return _Exact(right(curator, budget), max(1.0, float(_exact_rows(curator))))


def _rounds_by_rows(right: Callable[..., Release], mechanism: MWEM, curator: Curator, budget: Budget) -> Release:
    return right(replace(mechanism, rounds=1 + _exact_rows(curator).bit_length()), curator, budget)


def _cut_by_rows(right: Callable[..., Release], mechanism: Weighing, curator: Curator, budget: Budget) -> Release:
    return right(replace(mechanism, settings=Settings(fewest_runs=0, runs=_exact_rows(curator))), curator, budget)


def _resolved_by_rows(right: Callable[..., Release], mechanism: Weighing, curator: Curator, budget: Budget) -> Release:
    fewest = 2 ** (_exact_rows(curator) % 20)
    return right(replace(mechanism, settings=Settings(fewest_runs=fewest)), curator, budget)


def _replay(name: str) -> dict[str, Complaint]:
    """The replay of a mechanism by default, or of one of the settings."""
    setting = SETTINGS.get(name) or default_setting(name)
    return {f"replay of {name}": partial(_first_complaint, setting)}


def _first_complaint(setting: Setting, effort: Effort) -> str | None:
    return next(complaints_about(setting, effort.neighbours), None)


def _price(effort: Effort) -> str | None:
    return next((f"{finding.test}: {finding.figure}" for finding in prices(effort) if not finding.passed), None)


def _attacked(budget: Budget, change: Callable[[Noise], Noise] | None = None, answers: int = 1) -> Bug:
    def complaint(effort: Effort) -> str | None:
        bound, claim = audited_noise(budget, effort.trials, change, answers=answers), claim_of(budget)
        return f"≥ {bound:.3f} for a claim of {claim:.2f}" if bound > claim else None

    return Bug({"primitive audit": complaint})


def _attacked_choice(effort: Effort) -> str | None:
    bound = audited_choice(PermuteAndFlip(Fraction(1)), effort.picks)
    return f"≥ {bound:.3f} for a claim of 1" if bound > 1 else None


def _discovery(effort: Effort) -> str | None:
    return next(complaints_about_discovery(effort.neighbours), None)


def _thresholds(effort: Effort) -> str | None:
    return next((f"{finding.test}: {finding.figure}" for finding in thresholds(effort) if not finding.passed), None)


def _hostile(kind: str, _: Effort) -> str | None:
    if not hasattr(os, "fork"):
        return "this system cannot fork"
    finding = large_things(kind)
    return None if finding.passed else finding.figure


def _edge(name: str, *changes: tuple[object, str, Wrong]) -> Bug:
    return Bug({f"edges: {name}": partial(broken, name)}, changes)


def _written_out(_right: object, codes: NDArray[np.int64], counts: NDArray[np.int64], domain: Domain) -> PublicRows:
    """Every copy of a public row is made."""
    return PublicRows(np.repeat(codes, counts, axis=0), domain)


def _listing(right: Callable[..., int], have: Sequence[object], name: str) -> int:
    """What columns the data have is said where one is missing."""
    try:
        return right(have, name)
    except DataError:
        raise DataError(f"no column {name!r}; there are {list(have)}") from None


def _untried(_right: object, outputs: Mapping[str, Path | None], *_: object, **__: object) -> dict[str, Path]:
    return {option: partial_path(path) for option, path in outputs.items() if path is not None}


def _bound_once(right: Callable[..., None], book: Ledger, schema: str) -> None:
    """A schema that was bound meanwhile is refused, whatever it is."""
    if book.path is not None and Ledger.open(book.path).terms.schema:
        raise LedgerError("bound already")
    right(book, schema)


def _bound_again(_right: object, book: Ledger, schema: str) -> None:
    """The last schema stands."""
    with book._transaction(writes=True) as connection:  # noqa: SLF001 - this is the bug
        book.terms = book_file.bind_schema(connection, book.secret, schema)


def _half_as_far(right: Callable[..., int], noise: Noise, chance: Fraction) -> int:
    """A threshold half as far above one person as it should be."""
    one = round(1 / noise.step)
    return one + (right(noise, chance) - one) // 2


def _by_rows(
    right: Callable[..., Iterator[raw.Values]], table: raw.RawTable, column: str, reading: raw.Reading
) -> Iterator[raw.Values]:
    """Values are counted by rows, of which a person may have several."""
    return right(replace(table, has_persons=False), column, reading)


def _all_rows(right: Callable[..., str], query: str, names: Sequence[str], _: int) -> str:
    return right(query, names, 10**9)


def _never_replaced(right: Callable[..., Sensitivity], _: Relation, max_rows: int) -> Sensitivity:
    return right(Relation.ADD_REMOVE, max_rows)


def _scaled(kind: type[Noise], factor: float) -> Callable[[Noise], Noise]:
    return lambda noise: kind(Fraction(float(noise.scale) * factor))


BUGS: dict[str, Bug] = {
    "AIM's score sensitivity halved": Bug(_replay("aim"), ((L1Error, "sensitivity", _halved),)),
    "a noise scale rounded down": Bug(_replay("independent"), ((curator_module, "noise_within", _scale_rounded_down),)),
    "the first rows of a person in a frame": Bug(
        _replay("independent"), ((opening, "kept_records", _first_in_the_file),), is_in_opening=True
    ),
    "the first rows of a person in a file that DuckDB reads": Bug(
        _replay("independent"), ((duckdb, "bounded", _first_in_the_query),), is_in_opening=True
    ),
    "rows of a person by their places in a frame": Bug(
        _replay("independent"), ((opening, "kept_records", _by_place_in_the_file),), is_in_opening=True
    ),
    "a person in two spellings as two persons": Bug(
        _replay("independent"), ((spelling, "person_texts", _as_written),), is_in_opening=True
    ),
    "permute-and-flip at the exponential mechanism's zCDP price": Bug(
        {"price": _price, **_replay("choice by absolute error, permute-and-flip")},
        (
            (curator_module, "choice_within", _at_the_other_price),
            (accountant_module, "choice_within", _at_the_other_price),
            (PermuteAndFlip, "cost", lambda _, *arguments: NoisyMax.cost(*arguments)),
        ),
    ),
    "a payoff's sensitivity without the complements of negative entries": Bug(
        _replay("choice by payoff, negative entries, noisy-max"),
        ((scores_module, "_complement_change", _of_the_answer_alone),),
    ),
    "a payoff's sensitivity that forgets persons without rows": Bug(
        _replay("choice by payoff, all entries below 0, noisy-max"),
        ((scores_module, "_complement_change", _never_without_rows),),
    ),
    "a payoff's sensitivity that ignores max_rows": Bug(_replay("dualquery"), ((Payoff, "sensitivity", _of_one_row),)),
    "the exact number of rows in PrivBayes": Bug(_replay("privbayes"), ((privbayes, "counted", _counted_exactly),)),
    "rounds from the exact number of rows in MWEM": Bug(_replay("mwem"), ((MWEM, "run", _rounds_by_rows),)),
    "runs of values cut by the exact number of rows in weighing": Bug(
        _replay("weighing, all pairs"), ((Weighing, "run", _cut_by_rows),)
    ),
    "a resolution from the exact number of rows in weighing": Bug(
        _replay("weighing"), ((Weighing, "run", _resolved_by_rows),)
    ),
    "the sensitivity of a dependence halved": Bug(
        _replay("privbayes, families of any size"), ((Dependence, "sensitivity", _halved),)
    ),
    "a largest cell that ignores max_rows": Bug(
        _replay("best mixture, floor"), ((LargestCell, "sensitivity", _of_one_row),)
    ),
    "a threshold for values half as far as it should be": Bug(
        {"threshold": _thresholds, "replay of discovery": _discovery},
        ((curator_module, "threshold_within", _half_as_far), (discovery, "threshold_within", _half_as_far)),
    ),
    "values counted by rows instead of persons": Bug(
        {"replay of discovery": _discovery}, ((raw.RawTable, "values", _by_rows),)
    ),
    "all rows of a person in a discovery": Bug(
        {"replay of discovery": _discovery}, ((raw, "bounded_cells", _all_rows),)
    ),
    "a person replaced taken for one added in a discovery": Bug(
        {"replay of discovery": _discovery}, ((curator_module, "persons_sensitivity", _never_replaced),)
    ),
    "no bound on what a release unpacks to": Bug(
        {"hostile numbers": partial(_hostile, "release")}, ((archive, "_most_bytes", lambda *_: 2**40),)
    ),
    "public rows of a partial file written out": Bug(
        {"hostile numbers": partial(_hostile, "partial file")}, ((PublicRows, "counted", _written_out),)
    ),
    "the columns of the data listed in a message": _edge(
        "messages", *((module, "position", _listing) for module in (arrow_codes, duckdb, frames, raw))
    ),
    "a library's words about a private table": _edge("messages", (private, "_ours", lambda _, error, __: error)),
    "a statement that is not told what its schema cost": _edge(
        "statements", (Statement, "about", lambda _, statement, __: statement)
    ),
    "a promise without what the schema cost": _edge(
        "statements", (statement_module, "promises_of", lambda _, mine, *__, **___: (mine,))
    ),
    "outputs of a fit that are not tried": _edge("outputs", (recorder, "tried", _untried)),
    "outputs of a discovery that are not tried": _edge("outputs", (keeping, "tried", _untried)),
    "a book that is bound once": _edge("bindings", (Ledger, "bind", _bound_once)),
    "a book that is bound again": _edge("bindings", (Ledger, "bind", _bound_again)),
    "the private table taken for the public one": _edge("public table", (same, "_is_same", lambda *_: False)),
    **{name: Bug({"replay": partial(_first_complaint, always(each))}) for name, each in PLANTED.items()},
    "sensitivity of half the truth, Laplace": _attacked(PURE, _scaled(Laplace, 0.5)),
    "sensitivity of half the truth, Gaussian": _attacked(ZCDP, _scaled(Gaussian, 0.5)),
    "noise × 0.9, Laplace": _attacked(PURE, _scaled(Laplace, 0.9)),
    "noise × 0.9, Gaussian": _attacked(ZCDP, _scaled(Gaussian, 0.9)),
    "σ / 1.2": _attacked(ZCDP, _scaled(Gaussian, 1 / 1.2)),
    "a forgotten charge, Laplace": _attacked(PURE, answers=2),
    "a forgotten charge, Gaussian": _attacked(ZCDP, answers=2),
    "permute-and-flip at half its scale": Bug({"primitive audit": _attacked_choice}),
}
