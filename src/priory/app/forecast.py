"""Forecast: what a fit would take and how far off it would be, from rehearsals on made-up tables."""

import html
import itertools
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from priory.answer.metrics import total_variation
from priory.app.fit import fit
from priory.app.registry import Mechanism, chosen
from priory.data.codec import code_type
from priory.data.public import public_codes
from priory.data.schema import Schema
from priory.data.sources.memory import MemorySource
from priory.data.table import html_table, text_table
from priory.errors import DataError, OptionError
from priory.model.bases import PublicRows
from priory.model.model import Model
from priory.model.structural_zeros import without_zeros
from priory.privacy.budget import Budget, Currency
from priory.queries.domain import Clique, Domain
from priory.queries.factor import Factor
from priory.release import Release
from priory.release.estimated import uniform

# Larger tables are rehearsed with so many rows, each of which counts several times.
MOST_ROWS = 1_000_000
_HEADER = ["budget", "CPU s", "MB", "mean error", "worst pair", "its error"]
_UNIT = "Errors are total variation distances of pairs of columns: 0 is exact, 1 is all wrong."
MOST_PAIRS, MOST_CELLS, MOST_TIED = 200, 1_000_000, 100_000


@dataclass(frozen=True)
class Rehearsal:
    """What fits of one budget took and how far off they were.

    Attributes:
        budget: what they were allowed to spend.
        seconds: the processor time of one, without reading the table.
        memory_in_bytes: what the model needs.
        columns: for each column, the mean total variation distance of its distribution from the rehearsed table's.
        pairs: the same for pairs of columns.
    """

    budget: Budget
    seconds: float
    memory_in_bytes: int
    columns: Mapping[str, float]
    pairs: Mapping[tuple[str, str], float]

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
        rehearsals: one for each budget.
    """

    schema: str
    rows: int
    mechanism: str
    rehearsed_on: str
    rehearsals: tuple[Rehearsal, ...]

    def __str__(self) -> str:
        lines = text_table(_HEADER, self._lines, right=[False, True, True, True, False, True])
        return f"{self._about}\n{_UNIT}\n{lines}"

    def _repr_html_(self) -> str:
        return f"<p>{html.escape(self._about)} {_UNIT}</p>{html_table(_HEADER, self._lines)}"

    @property
    def _about(self) -> str:
        return f"{self.mechanism} on {self.rows:,} rows of {self.schema!r}, rehearsed on {self.rehearsed_on}."

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
) -> Forecast:
    """Rehearse a fit on made-up tables: what it takes, and the error to expect of each column and pair.

    The private table is not an argument. With public data one half of their rows, drawn anew, plays the private table
    and the other half is the public one: errors are those of a table that differs from the public one by chance alone.
    Without, values have uneven shares at random and each column is tied to the next: such errors show what noise does
    to a table of this shape, and little of what a model cannot express.

    Args:
        schema: what the columns are.
        rows: how many rows the private table has, as far as one may say.
        budgets: what may be spent, one after the other.
        mechanism: which recipe; by default `fit`'s own choice.
        public: a public table with the same columns.
        runs: how many rehearsals of each budget are averaged.
        seed: of the made-up tables; the noise is fresh each time.

    Raises:
        OptionError: there are no rows, runs or budgets, or the mechanism has no use for public data.
    """
    if any(budget.currency is Currency.GAUSSIAN and budget.epsilon is None for budget in budgets):
        raise OptionError("budgets", "a fit is asked for epsilon, epsilon and delta, or rho")
    if rows < 1 or runs < 1 or not budgets:
        raise OptionError("rows" if rows < 1 else "runs" if runs < 1 else "epsilon", "at least one is needed")
    entry = chosen(mechanism, has_public=public is not None)
    rng = np.random.default_rng(seed)
    source, known = _made_up(schema, rows, public, rng)
    recipe = (
        entry.with_public(known) if known is not None and entry.with_public is not None else entry.build(schema.domain)
    )
    rehearsals = tuple(_rehearsed(source, schema, recipe, budget, runs) for budget in budgets)
    made_of = "made-up rows with uneven shares" if public is None else "public rows, drawn anew"
    return Forecast(schema.name, rows, entry.name, made_of, rehearsals)


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
    schema: Schema, rows: int, public: object | None, rng: np.random.Generator
) -> tuple[_Repeated, PublicRows | None]:
    times = -(-rows // MOST_ROWS)
    n = max(1, rows // times)
    if public is None:
        return _Repeated(_source(schema, _uneven(schema, rng).sample(n, seed=rng)), times), None
    known = public_codes(schema, public)
    if len(known) < 2:
        raise DataError("the public table needs at least two rows, one to play the private table")
    known = known[rng.permutation(len(known))]
    half = len(known) // 2
    drawn = PublicRows(known[:half], schema.domain)
    return (
        _Repeated(_source(schema, Model(without_zeros(drawn, schema.impossible()), {}).sample(n, seed=rng)), times),
        PublicRows(known[half:], schema.domain),
    )


def _uneven(schema: Schema, rng: np.random.Generator) -> Model:
    """A model without the schema's impossible cells, with normal potentials on columns and on neighbouring ones."""
    domain = schema.domain
    tied = [pair for pair in itertools.pairwise(domain) if domain.size_of(pair) <= MOST_TIED]
    cliques: list[Clique] = [*((name,) for name in domain), *tied]
    potentials = {clique: rng.normal(0, 1, domain.project(clique).shape) for clique in cliques}
    return Model.of(uniform(domain, schema), potentials)


def _source(schema: Schema, codes: NDArray[np.int32]) -> MemorySource:
    columns = tuple(codes[:, i].astype(code_type(size)) for i, size in enumerate(schema.domain.shape))
    return MemorySource(schema.domain, columns, len(codes))


def _rehearsed(source: _Repeated, schema: Schema, recipe: Mechanism, budget: Budget, runs: int) -> Rehearsal:
    cliques = [(name,) for name in schema.domain] + _pairs(schema.domain)
    truth = dict(zip(cliques, source.count(cliques), strict=True))
    distances: dict[Clique, list[float]] = {clique: [] for clique in cliques}
    seconds, memory = 0.0, 0
    for _ in range(runs):
        started = time.process_time()
        release = _fitted(source, schema, recipe, budget)
        seconds += time.process_time() - started
        memory = max(memory, release.model.bytes_of())
        for clique in cliques:
            distances[clique].append(total_variation(release.model.project(clique).values, truth[clique].values))
    means = {clique: float(np.mean(errors)) for clique, errors in distances.items()}
    return Rehearsal(
        release.statement.budget,
        seconds / runs,
        memory,
        {clique[0]: error for clique, error in means.items() if len(clique) == 1},
        {(clique[0], clique[1]): error for clique, error in means.items() if len(clique) == 2},
    )


def _fitted(source: _Repeated, schema: Schema, recipe: Mechanism, budget: Budget) -> Release:
    options = {"epsilon": budget.epsilon, "delta": budget.delta}
    if budget.epsilon is None:
        options = {"epsilon" if budget.is_pure else "rho": budget.amount}
    return fit(source, schema, mechanism=recipe, relation=budget.relation, **options)  # type: ignore[arg-type]


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
