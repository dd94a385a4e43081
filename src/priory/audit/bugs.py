"""Bugs: the real code with one thing changed, and the tests of the battery that must complain about it."""

import contextlib
import hashlib
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from priory.app.registry import MECHANISMS, Mechanism
from priory.audit import discovery
from priory.audit import prices as prices_module
from priory.audit.discovery import complaints_about_discovery, thresholds
from priory.audit.findings import BUG_PREFIX, Effort, Finding
from priory.audit.planted import PLANTED, exact_rows
from priory.audit.prices import prices
from priory.audit.primitives import audited_choice, audited_noise, claim_of
from priory.audit.replay import complaints_about
from priory.audit.settings import complaints_about_setting
from priory.audit.tables import NeighbouringTables
from priory.data import spelling
from priory.data.cells import Cells, is_null
from priory.data.sources import duckdb, opening, raw
from priory.mechanisms import privbayes
from priory.mechanisms.mwem.mwem import MWEM
from priory.privacy import curator as curator_module
from priory.privacy import scores as scores_module
from priory.privacy.budget import Budget
from priory.privacy.choice import NoisyMax, PermuteAndFlip
from priory.privacy.curator import Curator
from priory.privacy.functionals import LargestCell
from priory.privacy.noise import Gaussian, Laplace, Noise
from priory.privacy.scores import Dependence, L1Error, Payoff
from priory.queries.query import Query
from priory.queries.sensitivity import Relation, largest_change

Make = Callable[[Any], Any]
Change = Callable[[], AbstractContextManager[object]]
Complaint = Callable[[Effort], str | None]
PURE = Budget.pure(1, relation="replace-one")
ZCDP = Budget.zcdp(Fraction(1, 2), relation="replace-one")


@dataclass(frozen=True)
class Bug:
    """Something wrong, and who must notice.

    Attributes:
        change: puts it into the code, for a while.
        tests: the tests of the battery that are run on the changed code, by name; each must complain.
    """

    change: Change
    tests: dict[str, Complaint]


def caught(name: str, effort: Effort) -> Iterator[Finding]:
    """Run the tests that must notice a planted bug."""
    complaints = complaints_of(BUGS[name], effort)
    words = "; ".join(f"{test}: {complaint or 'nothing noticed'}" for test, complaint in complaints.items())
    yield Finding(f"{BUG_PREFIX}{name}", words, "a complaint", all(complaints.values()))


def complaints_of(bug: Bug, effort: Effort) -> dict[str, str | None]:
    """What each of the tests says about it."""
    with bug.change():
        return {test: complaint(effort) for test, complaint in bug.tests.items()}


@contextlib.contextmanager
def planted(owner: object, name: str, make: Make) -> Iterator[None]:
    """Put what `make` makes of `owner.name` in its place, for a while."""
    right = vars(owner)[name]
    setattr(owner, name, make(right))
    try:
        yield
    finally:
        setattr(owner, name, right)


def _all_planted(*changes: tuple[object, str, Make]) -> Change:
    @contextlib.contextmanager
    def change() -> Iterator[None]:
        with contextlib.ExitStack() as stack:
            for each in changes:
                stack.enter_context(planted(*each))
            yield

    return change


def _opened_anew(*changes: tuple[object, str, Make]) -> Change:
    """For what is wrong in opening tables: those that are open already are right."""

    @contextlib.contextmanager
    def change() -> Iterator[None]:
        NeighbouringTables.sources.cache_clear()
        try:
            with _all_planted(*changes)():
                yield
        finally:
            NeighbouringTables.sources.cache_clear()

    return change


def _halved(right: Callable[..., Fraction]) -> Callable[..., Fraction]:
    return lambda *arguments: right(*arguments) / 2


def _scale_rounded_down(right: Callable[..., Noise]) -> Callable[..., Noise]:
    def noise_within(*arguments: Any, **options: Any) -> Noise:  # noqa: ANN401 - whatever the right one takes
        noise = right(*arguments, **options)
        return replace(noise, scale=Fraction(math.nextafter(float(noise.scale), 0.0))) if noise.scale else noise

    return noise_within


def _first_in_the_file(right: object) -> Callable[..., NDArray[np.bool_]]:  # noqa: ARG001
    def kept_records(persons: Sequence[str | None], codes: object, max_rows: int, key: bytes) -> NDArray[np.bool_]:  # noqa: ARG001
        seen: dict[str, int] = {}
        kept = np.zeros(len(persons), dtype=np.bool_)
        for i, person in enumerate(persons):
            if person is not None:
                seen[person] = seen.get(person, 0) + 1
                kept[i] = seen[person] <= max_rows
        return kept

    return kept_records


def _first_in_the_query(right: object) -> Callable[..., str]:  # noqa: ARG001
    """The same in the query that DuckDB runs."""

    def bounded(query: str, names: Sequence[str], max_rows: int) -> str:
        # A parameter that is given has to be used.
        known = f"SELECT * FROM ({query}) WHERE person IS NOT NULL AND CAST($key AS VARCHAR) IS NOT NULL"
        placed = f"SELECT *, row_number() OVER () AS place FROM ({known})"
        order = f"row_number() OVER (PARTITION BY person ORDER BY place) <= {int(max_rows)}"
        return f"SELECT {', '.join(names)} FROM ({placed}) QUALIFY {order}"

    return bounded


def _by_place_in_the_file(right: Callable[..., NDArray[np.bool_]]) -> Callable[..., NDArray[np.bool_]]:
    """The keyed hash is of the record's line rather than of the record."""

    def kept_records(
        persons: Sequence[str | None],
        codes: object,  # noqa: ARG001
        max_rows: int,
        key: bytes,
    ) -> NDArray[np.bool_]:
        lines = [
            int.from_bytes(hashlib.sha256(key + bytes([i % 256, i // 256])).digest()[:4]) for i in range(len(persons))
        ]
        return right(persons, [np.array(lines, dtype=np.int64)], max_rows, key)

    return kept_records


def _as_written(right: object) -> Callable[..., list[str | None]]:  # noqa: ARG001
    """Persons are told apart by how they are written."""

    def person_texts(cells: Cells) -> list[str | None]:
        values = cells.values if cells.index is None else cells.values[cells.index]
        return [None if is_null(value) else str(value) for value in values.tolist()]

    return person_texts


def _at_the_other_price(right: Callable[..., Any]) -> Callable[..., Any]:
    def choice_within(share: Budget, sensitivity: Fraction, kind: Any = None) -> Any:  # noqa: ANN401 - as the right one
        if kind != "permute-and-flip":
            return right(share, sensitivity, kind)
        return PermuteAndFlip(right(share, sensitivity, "noisy-max").scale)

    return choice_within


def _of_one_row(right: Callable[..., Fraction]) -> Callable[..., Fraction]:
    """A sensitivity that takes every person for one of a single row."""

    def sensitivity(*arguments: Any) -> Fraction:  # noqa: ANN401 - whatever the right one takes
        return right(*(replace(a, max_rows=1) if isinstance(a, scores_module.Neighbours) else a for a in arguments))

    return sensitivity


def _of_the_answer_alone(right: object) -> Callable[..., Fraction]:  # noqa: ARG001
    """The complement of an answer is taken to move as far as the answer."""
    return lambda query, neighbours: largest_change(query, neighbours.relation, neighbours.max_rows)


def _never_without_rows(right: Callable[..., Fraction]) -> Callable[..., Fraction]:
    """A person who is replaced is taken to have as many rows as the next."""

    def change(query: Query, neighbours: scores_module.Neighbours) -> Fraction:
        return right(query, replace(neighbours, max_rows=1)) * neighbours.max_rows

    return change


@dataclass(frozen=True, eq=False)
class _Exact:
    """A count that says the true number of rows."""

    count: Any
    total: float

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever the count has
        return getattr(self.count, name)


def _counted_exactly(right: Callable[..., Any]) -> Callable[..., Any]:
    def counted(curator: Curator, *arguments: Any) -> Any:  # noqa: ANN401 - as the right one
        return _Exact(right(curator, *arguments), max(1.0, float(exact_rows(curator))))

    return counted


def _rounds_by_rows(right: Callable[..., Any]) -> Callable[..., Any]:
    def run(self: MWEM, curator: Curator, budget: Budget) -> Any:  # noqa: ANN401 - as the right one
        return right(replace(self, rounds=1 + exact_rows(curator).bit_length()), curator, budget)

    return run


def _replay(name: str) -> dict[str, Complaint]:
    return {f"replay of {name}": lambda effort: next(complaints_about(MECHANISMS[name].build, effort.neighbours), None)}


def _replay_setting(name: str) -> dict[str, Complaint]:
    return {f"replay of {name}": lambda effort: next(complaints_about_setting(name, effort.neighbours), None)}


def _price(effort: Effort) -> str | None:
    return next((f"{finding.test}: {finding.figure}" for finding in prices(effort) if not finding.passed), None)


def _replay_planted(mechanism: Mechanism) -> Bug:
    def complaint(effort: Effort) -> str | None:
        return next(complaints_about(lambda _: mechanism, effort.neighbours), None)

    return Bug(contextlib.nullcontext, {"replay": complaint})


def _attacked(budget: Budget, change: Callable[[Noise], Noise] | None = None, answers: int = 1) -> Bug:
    def complaint(effort: Effort) -> str | None:
        bound, claim = audited_noise(budget, effort.trials, change, answers=answers), claim_of(budget)
        return f"≥ {bound:.3f} for a claim of {claim:.2f}" if bound > claim else None

    return Bug(contextlib.nullcontext, {"primitive audit": complaint})


def _attacked_choice(effort: Effort) -> str | None:
    bound = audited_choice(PermuteAndFlip(Fraction(1)), effort.picks)
    return f"≥ {bound:.3f} for a claim of 1" if bound > 1 else None


def _discovery(effort: Effort) -> str | None:
    return next(complaints_about_discovery(effort.neighbours), None)


def _thresholds(effort: Effort) -> str | None:
    return next((f"{finding.test}: {finding.figure}" for finding in thresholds(effort) if not finding.passed), None)


def _half_as_far(right: Callable[..., int]) -> Callable[..., int]:
    """A threshold half as far above one person as it should be."""

    def threshold_within(noise: Noise, chance: Fraction) -> int:
        one = round(1 / noise.step)
        return one + (right(noise, chance) - one) // 2

    return threshold_within


def _by_rows(right: object) -> Callable[..., Any]:  # noqa: ARG001
    """Values are counted by rows, of which a person may have several."""

    def values(self: raw.RawTable, column: str, reading: raw.Reading) -> Any:  # noqa: ANN401 - as the right one
        return RIGHT_VALUES(replace(self, has_persons=False), column, reading)

    return values


RIGHT_VALUES = raw.RawTable.values


def _scaled(kind: type[Noise], factor: float) -> Callable[[Noise], Noise]:
    return lambda noise: kind(Fraction(float(noise.scale) * factor))


BUGS: dict[str, Bug] = {
    "AIM's score sensitivity halved": Bug(_all_planted((L1Error, "sensitivity", _halved)), _replay("aim")),
    "a noise scale rounded down": Bug(
        _all_planted((curator_module, "noise_within", _scale_rounded_down)), _replay("independent")
    ),
    "the first rows of a person in a frame": Bug(
        _opened_anew((opening, "kept_records", _first_in_the_file)), _replay("independent")
    ),
    "the first rows of a person in a file that DuckDB reads": Bug(
        _opened_anew((duckdb, "bounded", _first_in_the_query)), _replay("independent")
    ),
    "rows of a person by their places in a frame": Bug(
        _opened_anew((opening, "kept_records", _by_place_in_the_file)), _replay("independent")
    ),
    "a person in two spellings as two persons": Bug(
        _opened_anew((spelling, "person_texts", _as_written)), _replay("independent")
    ),
    "permute-and-flip at the exponential mechanism's zCDP price": Bug(
        _all_planted(
            (curator_module, "choice_within", _at_the_other_price),
            (prices_module, "choice_within", _at_the_other_price),
            (PermuteAndFlip, "cost", lambda _: NoisyMax.cost),
        ),
        {"price": _price, **_replay_setting("choice by absolute error, permute-and-flip")},
    ),
    "a payoff's sensitivity without the complements of negative entries": Bug(
        _all_planted((scores_module, "_complement_change", _of_the_answer_alone)),
        _replay_setting("choice by payoff, negative entries, noisy-max"),
    ),
    "a payoff's sensitivity that forgets persons without rows": Bug(
        _all_planted((scores_module, "_complement_change", _never_without_rows)),
        _replay_setting("choice by payoff, all entries below 0, noisy-max"),
    ),
    "a payoff's sensitivity that ignores max_rows": Bug(
        _all_planted((Payoff, "sensitivity", _of_one_row)), _replay("dualquery")
    ),
    "the exact number of rows in PrivBayes": Bug(
        _all_planted((privbayes, "counted", _counted_exactly)), _replay("privbayes")
    ),
    "rounds from the exact number of rows in MWEM": Bug(_all_planted((MWEM, "run", _rounds_by_rows)), _replay("mwem")),
    "the sensitivity of a dependence halved": Bug(
        _all_planted((Dependence, "sensitivity", _halved)), _replay_setting("privbayes, families of any size")
    ),
    "a largest cell that ignores max_rows": Bug(
        _all_planted((LargestCell, "sensitivity", _of_one_row)), _replay_setting("best mixture, floor")
    ),
    "a threshold for values half as far as it should be": Bug(
        _all_planted((curator_module, "threshold_within", _half_as_far), (discovery, "threshold_within", _half_as_far)),
        {"threshold": _thresholds, "replay of discovery": _discovery},
    ),
    "values counted by rows instead of persons": Bug(
        _all_planted((raw.RawTable, "values", _by_rows)), {"replay of discovery": _discovery}
    ),
    "all rows of a person in a discovery": Bug(
        _all_planted((raw, "bounded_cells", lambda right: lambda query, names, _: right(query, names, 10**9))),
        {"replay of discovery": _discovery},
    ),
    "a person replaced taken for one added in a discovery": Bug(
        _all_planted(
            (curator_module, "persons_sensitivity", lambda right: lambda _, rows: right(Relation.ADD_REMOVE, rows))
        ),
        {"replay of discovery": _discovery},
    ),
    **{name: _replay_planted(mechanism) for name, mechanism in PLANTED.items()},
    "sensitivity of half the truth, Laplace": _attacked(PURE, _scaled(Laplace, 0.5)),
    "sensitivity of half the truth, Gaussian": _attacked(ZCDP, _scaled(Gaussian, 0.5)),
    "noise × 0.9, Laplace": _attacked(PURE, _scaled(Laplace, 0.9)),
    "noise × 0.9, Gaussian": _attacked(ZCDP, _scaled(Gaussian, 0.9)),
    "σ / 1.2": _attacked(ZCDP, _scaled(Gaussian, 1 / 1.2)),
    "a forgotten charge, Laplace": _attacked(PURE, answers=2),
    "a forgotten charge, Gaussian": _attacked(ZCDP, answers=2),
    "permute-and-flip at half its scale": Bug(contextlib.nullcontext, {"primitive audit": _attacked_choice}),
}
