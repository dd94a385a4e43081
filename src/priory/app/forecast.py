"""Forecast: what a fit would take and how far off it would be, from rehearsals on made-up tables.

Rehearsals take some of the columns first, then twice as many, until all are taken or the next would take too long: with
as much budget for each column, marginals have the same noise. Each says how far off the one before would have been.
"""

import html
import itertools
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from priory.answer.metrics import total_variation
from priory.app.fit import fit
from priory.app.registry import Mechanism, Registered, chosen
from priory.data.codec import code_type
from priory.data.public import public_codes
from priory.data.schema import Schema
from priory.data.sources.memory import MemorySource
from priory.data.table import html_table, text_table
from priory.errors import DataError, OptionError
from priory.mechanisms.aim import AIM
from priory.mechanisms.prior import Prior
from priory.mechanisms.steps.effort import NORMAL, at_effort
from priory.model.bases import PublicRows
from priory.model.model import Model
from priory.model.structural_zeros import without_zeros
from priory.privacy.budget import Budget, Currency
from priory.privacy.progress import Step, silent
from priory.queries.domain import Clique, Domain
from priory.queries.factor import Array, Factor
from priory.queries.query import Query
from priory.release import Release
from priory.release.estimated import uniform
from priory.select.workloads import MOST_FOR_TRIPLES, default_workload

# Larger tables are rehearsed with so many rows, each of which counts several times.
MOST_ROWS = 1_000_000
_HEADER = ["budget", "CPU s", "MB", "mean error", "worst pair", "its error"]
_UNIT = "Errors are total variation distances of pairs of columns: 0 is exact, 1 is all wrong."
MOST_PAIRS, MOST_CELLS, MOST_TIED = 200, 1_000_000, 100_000
# Of how many kinds values are in made-up tables, and how much those of two columns go together.
FEATURES, STRENGTH = 3, 1.2
# How long all rehearsals together may take, by the clock.
SECONDS = 30.0
# Fewer columns are not rehearsed, where there are more; twice as many take so many times as long, as far as is known.
_FEWEST, _DOUBLED = 8, 2.5
# Twice the columns take between these many times as long, however short the first rehearsals were.
_SLOWER = (2.0, 4.0)
# And have errors between these many times as large.
_WORSE = (0.8, 1.3)
# A rehearsal that goes on for so many seconds after the time is up is stopped.
_LATE = 3.0


class _TooLong(Exception):
    """A rehearsal took longer than the ones before it let expect."""


@dataclass(frozen=True)
class Rehearsal:
    """What fits of one budget took and how far off they were.

    Attributes:
        budget: what they were allowed to spend.
        seconds: the processor time of one with all columns, without reading the table.
        memory_in_bytes: what the model needs.
        columns: for each column, the mean total variation distance of its distribution from the rehearsed table's.
        pairs: the same for pairs of columns.
        rehearsed: with how many columns they were made; the others are reckoned to take and err alike.
        time_off: what rehearsals with half the columns forecast of the time of these, over what it was; None without.
        error_off: the same of the mean error.
    """

    budget: Budget
    seconds: float
    memory_in_bytes: int
    columns: Mapping[str, float]
    pairs: Mapping[tuple[str, str], float]
    rehearsed: int
    time_off: float | None = None
    error_off: float | None = None

    def worse(self, times: float) -> "Rehearsal":
        """With the errors that go on as they did when the columns were doubled, for so many times the columns."""
        growth = 1.0 if self.error_off is None else min(max(1 / self.error_off, _WORSE[0]), _WORSE[1])
        factor = growth ** math.log2(times)
        columns = {name: min(1.0, factor * error) for name, error in self.columns.items()}
        return replace(self, columns=columns, pairs={pair: min(1.0, factor * e) for pair, e in self.pairs.items()})

    @property
    def mean(self) -> float:
        """The mean error over pairs, or over columns where there is only one."""
        return float(np.mean(list(self.pairs.values() or self.columns.values())))

    @property
    def worst(self) -> list[tuple[tuple[str, str], float]]:
        """The pairs with the largest errors, worst first."""
        return sorted(self.pairs.items(), key=lambda pair: -pair[1])


@dataclass(frozen=True)
class Forecast:
    """Rehearsals of a fit at several budgets.

    Attributes:
        schema: what the table's columns are.
        rows: how many rows the private table was said to have.
        mechanism: the recipe.
        rehearsed_on: in words, what the made-up tables were like.
        columns: how many columns there are.
        rehearsals: one for each budget.
    """

    schema: str
    rows: int
    mechanism: str
    rehearsed_on: str
    columns: int
    rehearsals: tuple[Rehearsal, ...]

    def __str__(self) -> str:
        lines = text_table(_HEADER, self._lines, right=[False, True, True, True, False, True])
        return "\n".join([self._about, _UNIT, lines, *self._caveats])

    def _repr_html_(self) -> str:
        return f"<p>{html.escape(self._about)} {_UNIT}</p>{html_table(_HEADER, self._lines)}" + "".join(
            f"<p>{html.escape(each)}</p>" for each in self._caveats
        )

    @property
    def _about(self) -> str:
        return f"{self.mechanism} on {self.rows:,} rows of {self.schema!r}, rehearsed on {self.rehearsed_on}."

    @property
    def _caveats(self) -> list[str]:
        """How far rehearsals went, and how far off the forecasts of each by the one before were."""
        last = self.rehearsals[-1]
        lines = []
        if last.rehearsed < self.columns:
            lines.append(f"Rehearsed with {last.rehearsed} of {self.columns} columns; the rest is reckoned from these.")
        if last.time_off is not None and last.error_off is not None:
            lines.append(
                f"With half as many columns, time was forecast {last.time_off:.2f} times and errors "
                f"{last.error_off:.2f} times what they were with {last.rehearsed}."
            )
        return lines

    @property
    def _lines(self) -> list[list[str]]:
        return [_line(each) for each in self.rehearsals]


def forecast(
    schema: Schema,
    rows: int,
    budgets: Sequence[Budget],
    *,
    mechanism: str | Mechanism | None = None,
    public: object | None = None,
    runs: int = 1,
    seed: int = 0,
    effort: str = NORMAL,
    seconds: float = SECONDS,
    told: Callable[[str], None] = lambda _: None,
) -> Forecast:
    """Rehearse a fit on made-up tables: what it takes, and the error to expect of each column and pair.

    The private table is not an argument. With public data one half of their rows, drawn anew, plays the private table
    and the other half is the public one: errors are those of a table that differs from the public one by chance alone.
    Without, values have uneven shares at random and each column is tied to the next two: such errors show what noise
    does to a table of this shape, and little of what a model cannot express.

    Args:
        schema: what the columns are.
        rows: how many rows the private table has, as far as one may say.
        budgets: what may be spent, one after the other.
        mechanism: which recipe; by default `fit`'s own choice.
        public: a public table with the same columns.
        runs: how many rehearsals of each budget are averaged.
        seed: of the made-up tables; the noise is fresh each time.
        effort: that of the fit.
        seconds: about how long the rehearsals may take; with more columns than can be rehearsed in it, the time and the
            errors of all are reckoned from those of some.
        told: called with a few words as each rehearsal begins.

    Raises:
        OptionError: there are no rows, runs or budgets, or the mechanism has no use for public data.
    """
    if any(budget.currency is Currency.GAUSSIAN and budget.epsilon is None for budget in budgets):
        raise OptionError("budgets", "a fit is asked for epsilon, epsilon and delta, or rho")
    if rows < 1 or runs < 1 or not budgets:
        raise OptionError("rows" if rows < 1 else "runs" if runs < 1 else "epsilon", "at least one is needed")
    entry = chosen(mechanism, has_public=public is not None)
    known = None if public is None else public_codes(schema, public)
    if known is not None and len(known) < 2:
        raise DataError("the public table needs at least two rows, one to play the private table")
    is_whole = mechanism is not None and not isinstance(mechanism, str)
    sizes = [len(schema.domain)] if is_whole else _sizes(len(schema.domain))
    ends = time.monotonic() + seconds
    rehearsals = []
    for i, budget in enumerate(budgets):
        clock = _Clock(time.monotonic() + (ends - time.monotonic()) / (len(budgets) - i), told)
        rehearsals.append(_Rehearsing(schema, rows, known, entry, effort, budget, runs, seed, clock).forecast(sizes))
    made_of = "made-up rows with uneven shares" if public is None else "public rows, drawn anew"
    return Forecast(schema.name, rows, entry.name, made_of, len(schema.domain), tuple(rehearsals))


def _sizes(columns: int) -> list[int]:
    """How many columns are rehearsed, one after the other: halves of all, as long as they are not too few."""
    sizes = [columns]
    while sizes[0] // 2 >= _FEWEST:
        sizes.insert(0, sizes[0] // 2)
    return sizes


@dataclass(frozen=True)
class _Clock:
    """How long the rehearsals of one budget may take, and who is told of them."""

    ends: float
    tell: Callable[[str], None]

    @property
    def left(self) -> float:
        return self.ends - time.monotonic()

    def check(self, _step: Step) -> None:
        """Stop a rehearsal that takes far longer than it should."""
        if self.left < -_LATE:
            raise _TooLong


@dataclass(frozen=True, eq=False)
class _Rehearsing:
    """What is rehearsed for one budget."""

    schema: Schema
    rows: int
    known: NDArray[np.int64] | None  # the codes of public rows
    entry: Registered
    effort: str
    budget: Budget
    runs: int
    seed: int
    clock: _Clock

    def forecast(self, sizes: Sequence[int]) -> Rehearsal:
        """Rehearse with more and more columns while there is time, and reckon what all of them take."""
        every, slower, before = sizes[-1], _DOUBLED, None
        for i, size in enumerate(sizes):
            self.clock.tell(f"{self.budget}: rehearsing with {size} of {every} columns")
            started = time.monotonic()
            try:
                found = self._with(size, can_stop=i > 0)
            except _TooLong:
                break
            took = time.monotonic() - started
            if before is not None:
                found = replace(
                    found,
                    time_off=before.seconds * slower / found.seconds,
                    error_off=before.mean / max(found.mean, 1e-9),
                )
                slower = min(max(found.seconds / before.seconds, _SLOWER[0]), _SLOWER[1])
            before = found
            if size < every and took * slower > self.clock.left:
                break
        assert before is not None  # noqa: S101  the first rehearsal is never stopped
        times = every / before.rehearsed
        seconds = before.seconds * slower ** math.log2(times)
        memory = int(before.memory_in_bytes * times)
        return replace(before.worse(times), budget=self.budget, seconds=seconds, memory_in_bytes=memory)

    def _with(self, size: int, *, can_stop: bool) -> Rehearsal:
        rng = np.random.default_rng(self.seed)
        every = len(self.schema.domain)
        # Evenly: neighbouring columns are often alike.
        places = [i * every // size for i in range(size)]
        schema = self.schema if size == every else _some(self.schema, places)
        known = None if self.known is None else self.known[:, places]
        source, rows = _made_up(schema, self.rows, known, rng)
        recipe = self._recipe(schema, rows)
        progress, options = self.clock.check if can_stop else silent, _options(self.budget, size / every)
        fitted = partial(
            fit, source, schema, mechanism=recipe, relation=self.budget.relation, progress=progress, **options
        )
        return _rehearsed(fitted, source, self.runs)

    def _recipe(self, schema: Schema, rows: PublicRows | None) -> Mechanism:
        with_public = self.entry.with_public
        recipe = self.entry.build(schema.domain) if rows is None or with_public is None else with_public(rows)
        ways = 2 if len(self.schema.domain) > MOST_FOR_TRIPLES else 3
        if len(schema.domain) < len(self.schema.domain) and isinstance(recipe, AIM | Prior):
            recipe = replace(recipe, workload=default_workload(schema.domain, ways))
        return at_effort(recipe, self.effort)


def _some(schema: Schema, places: Sequence[int]) -> Schema:
    """The schema of some columns alone."""
    names = {schema.domain.attributes[i] for i in places}
    columns = [column for column in schema.columns if column.name in names]
    constraints = [each for each in schema.constraints if all(set(clique) <= names for clique in each.cliques)]
    return Schema.of(columns, name=schema.name, constraints=constraints)


def _options(budget: Budget, part: float) -> dict[str, Any]:
    """What a fit is asked for with a part of the columns: as much for each column as with all of them."""
    exact = Fraction(part).limit_denominator(10_000)
    if budget.epsilon is None:
        return {"epsilon" if budget.is_pure else "rho": budget.amount * exact}
    # The noise of k answers grows with √k where a δ is given.
    scale = exact if budget.is_pure else Fraction(math.sqrt(exact)).limit_denominator(10_000)
    return {"epsilon": budget.epsilon * scale, "delta": budget.delta}


@dataclass(frozen=True, eq=False)
class _Repeated:
    """A source each of whose rows counts several times."""

    inner: MemorySource
    times: int

    @property
    def domain(self) -> Domain:
        return self.inner.domain

    @property
    def row_limit(self) -> int:
        return self.inner.row_limit

    def count(self, cliques: Sequence[Clique]) -> list[Factor]:
        return [Factor(counts.domain, counts.values * self.times) for counts in self.inner.count(cliques)]


def _made_up(
    schema: Schema, rows: int, known: NDArray[np.int64] | None, rng: np.random.Generator
) -> tuple[_Repeated, PublicRows | None]:
    times = -(-rows // MOST_ROWS)
    n = max(1, rows // times)
    if known is None:
        return _Repeated(_source(schema, _uneven(schema, rng).sample(n, seed=rng)), times), None
    known = known[rng.permutation(len(known))]
    half = len(known) // 2
    drawn = PublicRows(known[:half], schema.domain)
    return (
        _Repeated(_source(schema, Model(without_zeros(drawn, schema.impossible()), {}).sample(n, seed=rng)), times),
        PublicRows(known[half:], schema.domain),
    )


def _uneven(schema: Schema, rng: np.random.Generator) -> Model:
    """A model without the schema's impossible cells: uneven columns, each tied to the next two by what values share."""
    domain = schema.domain
    names = domain.attributes
    potentials: dict[Clique, Array] = {(name,): rng.normal(0, 1, domain[name]) for name in names}
    near = [names[i : i + 3] for i in range(len(names)) if domain.size_of(names[i : i + 3]) <= MOST_TIED]
    for a, b in dict.fromkeys(pair for each in near for pair in itertools.combinations(each, 2)):
        ours, theirs = (rng.normal(size=(domain[name], FEATURES)) for name in (a, b))
        potentials[a, b] = STRENGTH * ours @ theirs.T
    return Model.of(uniform(domain, schema), potentials)


def _source(schema: Schema, codes: NDArray[np.int32]) -> MemorySource:
    columns = tuple(codes[:, i].astype(code_type(size)) for i, size in enumerate(schema.domain.shape))
    return MemorySource(schema.domain, columns, len(codes))


def _rehearsed(fitted: Callable[[], Release], source: _Repeated, runs: int) -> Rehearsal:
    cliques = [(name,) for name in source.domain] + _pairs(source.domain)
    truth = source.count(cliques)
    distances = np.zeros((runs, len(cliques)))
    seconds, memory = 0.0, 0
    for run in range(runs):
        started = time.process_time()
        release = fitted()
        seconds += time.process_time() - started
        memory = max(memory, release.model.bytes_of())
        answers = release.model.answers([Query.marginal(source.domain, clique) for clique in cliques])
        distances[run] = [total_variation(a, t.values) for a, t in zip(answers, truth, strict=True)]
    means = dict(zip(cliques, distances.mean(axis=0).tolist(), strict=True))
    return Rehearsal(
        release.statement.budget,
        seconds / runs,
        memory,
        {clique[0]: error for clique, error in means.items() if len(clique) == 1},
        {(clique[0], clique[1]): error for clique, error in means.items() if len(clique) == 2},
        len(source.domain),
    )


def _pairs(domain: Domain) -> list[Clique]:
    """All pairs of columns, or some of them, evenly, where there are very many."""
    every: list[Clique] = [pair for pair in itertools.combinations(domain, 2) if domain.size_of(pair) <= MOST_CELLS]
    return every if len(every) <= MOST_PAIRS else every[:: -(-len(every) // MOST_PAIRS)]


def _line(rehearsal: Rehearsal) -> list[str]:
    pair, error = rehearsal.worst[0] if rehearsal.pairs else (("", ""), rehearsal.mean)
    return [
        str(rehearsal.budget),
        f"{rehearsal.seconds:.2f}",
        f"{rehearsal.memory_in_bytes / 1e6:.1f}",
        f"{rehearsal.mean:.4f}",
        " × ".join(pair),
        f"{error:.4f}",
    ]
