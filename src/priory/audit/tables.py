"""Tables: made-up private tables and their worst neighbours, as the CSV files people would bring."""

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from priory.data.schema import Schema
from priory.privacy.budget import Budget
from priory.queries.sensitivity import Relation

Cell = str | None
Row = tuple[Cell, ...]

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


@dataclass(frozen=True)
class NeighbouringTables:
    """Two tables that differ in one person.

    Attributes:
        name: what the difference is.
        one: rows of the first table.
        other: rows of the second.
        budget: what is promised about them.
    """

    name: str
    one: tuple[Row, ...]
    other: tuple[Row, ...]
    budget: Budget

    bases: ClassVar[tuple[str, ...]] = ("random", "empty", "one row", "constant", "duplicates")

    @property
    def unit(self) -> str | None:
        """The person column, where persons are protected."""
        return "who" if self.budget.max_rows > 1 else None


def neighbours(count: int, seed: int) -> Iterator[NeighbouringTables]:
    """`count` pairs: every kind of table, of difference, of relation and of budget in turn, then at random."""
    rng = np.random.default_rng(seed)
    for i in range(count):
        base = NeighbouringTables.bases[i % len(NeighbouringTables.bases)]
        relation = list(Relation)[i // 2 % 2]
        max_rows = (1, 1, 3)[i % 3]
        amount = ("1/10", "1", "3")[i // 5 % 3]
        options = {"relation": relation, "max_rows": max_rows}
        budget = Budget.pure(amount, **options) if i % 2 else Budget.zcdp(amount, **options)  # type: ignore[arg-type]
        rows = _base(base, rng, people=max_rows > 1)
        yield _pair(base, rows, budget, rng, i)


def write(rows: tuple[Row, ...], path: Path) -> Path:
    """The rows as a CSV file; a missing cell is empty."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(HEADER)
        writer.writerows([["" if cell is None else cell for cell in row] for row in rows])
    return path


def _pair(base: str, rows: list[Row], budget: Budget, rng: np.random.Generator, number: int) -> NeighbouringTables:
    """One more person, or another one in the place of one."""
    newcomer = _person("newcomer", rng, budget.max_rows, odd=number)
    if budget.relation is Relation.ADD_REMOVE:
        return NeighbouringTables(f"{base}: one more or less", tuple(rows), (*rows, *newcomer), budget)
    leaver = _person("leaver", rng, budget.max_rows, odd=None)
    return NeighbouringTables(f"{base}: one replaced", (*rows, *leaver), (*rows, *newcomer), budget)


def _person(name: str, rng: np.random.Generator, max_rows: int, odd: int | None) -> list[Row]:
    """One row, or more rows than may count."""
    copies = 1 if max_rows == 1 else int(rng.integers(1, 2 * max_rows + 1))
    rows = [_row(name, rng) for _ in range(copies)]
    if odd is not None and odd % 3:
        rows[0] = (name, *ODD_ROWS[odd % len(ODD_ROWS)])
    return [rows[0]] * copies if odd is not None and odd % 4 == 0 else rows


def _base(kind: str, rng: np.random.Generator, *, people: bool) -> list[Row]:
    if kind == "empty":
        return []
    names = [f"p{i // 2 if people else i}" for i in range(1 if kind == "one row" else int(rng.integers(5, 60)))]
    if kind == "duplicates":
        return [_row(names[0], rng)] * len(names) if people else [("p0", "red", "40", "true")] * len(names)
    rows = [_row(name, rng) for name in names]
    return [(row[0], "green", *row[2:]) for row in rows] if kind == "constant" else rows


def _row(name: str, rng: np.random.Generator) -> Row:
    colour = ("red", "green", "blue", None)[rng.integers(4)]
    age = None if rng.random() < 0.1 else str(rng.integers(0, 100))
    return (name, colour, age, (None, "true", "false")[rng.integers(3)])
