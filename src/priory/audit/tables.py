"""Tables: made-up private tables and their worst neighbours, as the files and frames people would bring."""

import csv
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import ClassVar

import numpy as np

from priory.data.codec import encode
from priory.data.schema import Schema
from priory.data.sources.frames import cells_of
from priory.data.sources.memory import MemorySource
from priory.data.sources.opening import open_source
from priory.data.sources.source import Source
from priory.model.bases import PublicRows
from priory.privacy.budget import Budget, Currency
from priory.privacy.noise import Integers
from priory.queries.domain import Domain
from priory.queries.sensitivity import Relation

Cell = str | None
Row = tuple[Cell, ...]
Rng = np.random.Generator

SCHEMA = Schema.parse(
    """
priory: 1
name: audit
person: who
columns:
  who: {kind: id}
  colour: {kind: category, levels: [red, green, blue], other: rest}
  age: {kind: integer, bounds: [0, 99], bins: {edges: [0, 18, 65, 99]}, nullable: true}
  smoker: {kind: boolean, nullable: true}
"""
)
# Nothing of the kind is in the schema.
ODD_ROWS: tuple[tuple[Cell, ...], ...] = (
    (None, None, None),
    ("ultraviolet", "30", "true"),
    ("red", "-5", "false"),
    ("red", "1000000000000", "true"),
    ("green", "NaN", "maybe"),
    ("", "thirty", ""),
    ("blue", "1e309", "TRUE"),
    ("rouge, ou vert", "17.9", "0"),
)
HEADER = ("who", "colour", "age", "smoker")
# All rows of a lone table are this one, and its newcomer is unlike it in every column.
USUAL: Row = ("red", "40", "true")
UNLIKE: Row = ("blue", None, "false")
KEY = bytes(32)
SEED = 20
PUBLIC_KINDS = ("larger", "smaller", "identical", "disjoint")


@dataclass(frozen=True)
class NeighbouringTables:
    """Two tables that differ in one person, or strangers that differ in any way."""

    name: str  # what the difference is
    one: tuple[Row, ...]  # rows of the first table
    other: tuple[Row, ...]  # rows of the second
    budget: Budget  # what is promised about them
    in_memory: bool = False  # whether they are brought as columns in memory rather than as CSV files
    are_strangers: bool = False  # whether they need not be neighbours; then only what is asked must be the same

    bases: ClassVar[tuple[str, ...]] = ("random", "empty", "one row", "constant", "duplicates", "lone")

    @property
    def unit(self) -> str | None:
        """The person column, where persons are protected."""
        return "who" if self.budget.max_rows > 1 else None

    @property
    def has_public_total(self) -> bool:
        """Whether the number of rows is public."""
        return self.budget.relation is Relation.REPLACE_ONE and self.budget.max_rows == 1

    @lru_cache(maxsize=1024)  # noqa: B019 - the tables are tiny, and every mechanism is replayed on the same ones
    def sources(self) -> tuple[Source, Source]:
        """Both tables, opened."""
        with TemporaryDirectory() as folder:
            return self._opened(self.one, Path(folder)), self._opened(self.other, Path(folder))

    def _opened(self, rows: tuple[Row, ...], folder: Path) -> Source:
        data = columns(rows) if self.in_memory else write(rows, folder / "table.csv")
        return open_source(data, SCHEMA, unit=self.unit, max_rows=self.budget.max_rows, key=KEY)


def neighbours(count: int, seed: int) -> Iterator[NeighbouringTables]:
    """`count` pairs: every kind of table with every relation, bound on rows and currency, then all of them again."""
    rng = np.random.default_rng(seed)
    for i, (base, budget) in enumerate(_settings(count, rng)):
        rows = _base(base, rng, people=budget.max_rows > 1)
        yield _pair(base, rows, budget, rng, i)


def strangers(count: int, seed: int) -> Iterator[NeighbouringTables]:
    """`count` pairs of tables that have nothing in common, where the number of rows is public not even that."""
    # Whatever the tables, the same answers must lead to the same questions: this is where a number of rows that was
    # never paid for shows at once.
    rng = np.random.default_rng(seed)
    for i, (_, budget) in enumerate(_settings(count, rng, amounts=("20",))):
        sizes = [int(rng.integers(0, 4)), int(rng.integers(150, 400))]
        if budget.relation is Relation.REPLACE_ONE and budget.max_rows == 1:
            sizes = sizes[1:] * 2
        one, other = (tuple(_row(f"p{j}", rng) for j in range(size)) for size in sizes)
        lone = tuple(("p", *USUAL) for _ in one) if i % 2 else one
        yield NeighbouringTables("strangers", lone, other, budget, in_memory=True, are_strangers=True)


def crowds(seed: int) -> Iterator[NeighbouringTables]:
    """Persons with twice as many different rows as count, and one more: first, or with all rows in another order."""
    # Which rows of a person count must not depend on where they are, nor on anybody else.
    rng = np.random.default_rng(seed)
    rows = [_row(spelled(str(person), rng), rng) for _ in range(6) for person in range(12)]
    newcomer = [(spelled(_NEWCOMER, rng), *UNLIKE) for _ in range(6)]
    shuffled = [[*newcomer, *rows][i] for i in rng.permutation(len(rows) + len(newcomer))]
    for (way, other), in_memory in itertools.product(
        {"first": [*newcomer, *rows], "all shuffled": shuffled}.items(), (True, False)
    ):
        budget = Budget.zcdp("1", max_rows=3)
        yield NeighbouringTables(f"crowd: one more, {way}", tuple(rows), tuple(other), budget, in_memory)


def write(rows: Sequence[Row], path: Path) -> Path:
    """The rows as a CSV file; a missing cell is empty."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(HEADER)
        writer.writerows([["" if cell is None else cell for cell in row] for row in rows])
    return path


def columns(rows: Sequence[Row]) -> dict[str, list[Cell]]:
    """The rows as columns in memory."""
    return {name: [row[i] for row in rows] for i, name in enumerate(HEADER)}


def coded(domain: Domain, rows: Sequence[Sequence[int]] | Integers) -> MemorySource:
    """A source of coded rows."""
    codes = np.asarray(rows, dtype=np.int64).reshape(-1, len(domain))
    return MemorySource(domain, tuple(codes.T), len(codes))


def public_rows(kind: str, pair: NeighbouringTables) -> PublicRows:
    """Public rows that are many, few, the private ones themselves (if any), or none of the private ones."""
    shape = SCHEMA.domain.shape
    if kind == "disjoint":
        codes = np.array([[size - 1 for size in shape]], dtype=np.int64)
    elif kind == "identical" and pair.one:
        cells = cells_of(columns(pair.one), [column.name for column in SCHEMA.modelled])
        codes = np.stack(list(encode(SCHEMA, cells).values()), axis=1, dtype=np.int64)
    else:
        rng = np.random.default_rng(SEED)
        codes = np.stack([rng.integers(0, size, 500 if kind == "larger" else 2) for size in shape], axis=1)
    return PublicRows(codes, SCHEMA.domain)


def _settings(count: int, rng: Rng, amounts: Sequence[str] = ("1/10", "1", "3")) -> Iterator[tuple[str, Budget]]:
    """Kinds of table and budgets: all combinations in a random order, again and again."""
    every = list(itertools.product(NeighbouringTables.bases, Relation, (1, 3), Currency))
    order = [every[i] for i in rng.permutation(len(every))]
    for i, (base, relation, max_rows, currency) in enumerate(itertools.islice(itertools.cycle(order), count)):
        amount = amounts[(i + i // len(every)) % len(amounts)]
        yield base, Budget(currency, Fraction(amount), relation, max_rows)


def _pair(base: str, rows: list[Row], budget: Budget, rng: Rng, number: int) -> NeighbouringTables:
    """One more person, one less, or another one in the place of one; anywhere, and in any order."""
    newcomer = _newcomer(base, rng, budget.max_rows, number)
    other, way = _with(rows, newcomer, rng)
    if budget.relation is Relation.REPLACE_ONE:
        # Where a person may have several rows, one may have none: then only the number of persons is public.
        has_none = budget.max_rows > 1 and rng.random() < 0.5
        leaver = [] if has_none else _person(_LEAVER, rng, budget.max_rows)
        one, _ = _with(rows, leaver, rng)
        return NeighbouringTables(f"{base}: one replaced, {way}", tuple(one), tuple(other), budget, bool(number % 2))
    if rng.random() < 0.5:
        return NeighbouringTables(f"{base}: one less, {way}", tuple(other), tuple(rows), budget, bool(number % 2))
    return NeighbouringTables(f"{base}: one more, {way}", tuple(rows), tuple(other), budget, bool(number % 2))


# Persons who are numbers, as two tables of two programs would write them.
_NEWCOMER, _LEAVER = "1000", "1001"
SPELLINGS = ("{}", "{}.0", " {}", "{}.00", "0{}", "{} ")


def _with(rows: list[Row], person: list[Row], rng: Rng) -> tuple[list[Row], str]:
    """The rows with those of one more person, and where these are: the order of a table says nothing about anybody."""
    way = ("first", "last", "scattered", "all shuffled", "all shuffled")[rng.integers(5)]
    if way == "first":
        return [*person, *rows], way
    joined = [*rows, *person]
    if way == "scattered":
        for row in person:
            joined.remove(row)
            joined.insert(int(rng.integers(len(joined) + 1)), row)
    if way == "all shuffled":
        joined = [joined[i] for i in rng.permutation(len(joined))]
    return joined, way


def _newcomer(base: str, rng: Rng, max_rows: int, number: int) -> list[Row]:
    """One row, or more rows than may count: ordinary ones, odd ones, or copies of one that is unlike all others."""
    if base == "lone":
        return [(spelled(_NEWCOMER, rng), *UNLIKE) for _ in range(1 if max_rows == 1 else 2 * max_rows)]
    rows = _person(_NEWCOMER, rng, max_rows)
    if number % 3:
        rows[0] = (_NEWCOMER, *ODD_ROWS[number % len(ODD_ROWS)])
    if number % 4 == 0:
        rows = [rows[0]] * len(rows)
    return [(spelled(_NEWCOMER, rng), *row[1:]) for row in rows]


def _person(name: str, rng: Rng, max_rows: int) -> list[Row]:
    copies = 1 if max_rows == 1 else int(rng.integers(1, 2 * max_rows + 1))
    return [_row(name, rng) for _ in range(copies)]


def _base(kind: str, rng: Rng, *, people: bool) -> list[Row]:
    if kind == "empty":
        return []
    names = _names(1 if kind == "one row" else int(rng.integers(5, 60)), rng, people=people)
    if kind == "lone":
        return [(name, *USUAL) for name in names]
    if kind == "duplicates":
        return [_row(names[0], rng)] * len(names) if people else [("p0", *USUAL)] * len(names)
    rows = [_row(name, rng) for name in names]
    return [(row[0], "green", *row[2:]) for row in rows] if kind == "constant" else rows


def _names(count: int, rng: Rng, *, people: bool) -> list[Cell]:
    """Who each row is about: with people, about four rows each, between those of others, and some about nobody."""
    if not people:
        return [f"p{i}" for i in range(count)]
    persons = rng.integers(max(count // 4, 1), size=count)
    return [None if rng.random() < 0.05 else spelled(str(person), rng) for person in persons]


def spelled(person: str, rng: Rng) -> str:
    """One of the ways to write the number of a person."""
    return SPELLINGS[rng.integers(len(SPELLINGS))].format(person)


def _row(name: Cell, rng: Rng) -> Row:
    colour = ("red", "green", "blue", None)[rng.integers(4)]
    age = None if rng.random() < 0.1 else str(rng.integers(0, 100))
    return (name, colour, age, (None, "true", "false")[rng.integers(3)])
