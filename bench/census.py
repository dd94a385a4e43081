"""Census: a made-up table as wide as a real census, with real dependencies; the same for the same seed.

Each column leans on one or two earlier ones, some are recodes of another, ten are binned numbers. `Census.made` gives
the private table, another year of it for public rows, or public rows whose first columns have drifted to values that
no private row has. `python -m bench.census FOLDER` writes all three with their schema.
"""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from priory.data.codec import code_type
from priory.data.kinds import Category, Number
from priory.data.schema import Schema
from priory.data.sources.memory import MemorySource
from priory.model.bases import PublicRows
from priory.queries.domain import Domain

Codes = NDArray[np.int32]
Floats = NDArray[np.float64]

# How many levels each column has, and which are binned numbers; further columns have the same again.
LEVELS = (
    *(53, 6, 2, 9, 5, 24, 16, 7, 3, 28, 2, 2, 12, 20, 4, 8, 18, 2, 30, 5, 11, 2, 24, 6, 25, 2, 3, 32, 9, 2, 22),
    *(4, 15, 20, 2, 7, 26, 10, 2, 3, 28, 5),
)
NUMBERS = frozenset((5, 9, 13, 18, 22, 24, 27, 33, 36, 40))
# A column that only says which part of an earlier one a row is in: its own place and the other's.
RECODES = {1: 0, 14: 12, 26: 24}
# Questions that are not asked of some: those with the first two levels of one column have level 0 of these.
ASKED_BY, NOT_ASKED = 4, frozenset((6, 7, 10, 15, 16, 18, 19, 22, 25, 27, 31, 35, 36, 39))
# Columns of which rows have the lower half of the levels only, and drifted public rows the upper half.
DRIFTING = (3, 12, 20, 29)
# How far back the columns are that a column may lean on, and how strong that is.
REACH, STRENGTH, FEATURES = 12, 2.0, 3
# How much the shares of another year differ, as the standard deviation of their logarithms.
DRIFT = 0.1
WIDTH = 10
BATCH = 100_000


@dataclass(frozen=True, eq=False)
class Census:
    """Rows of codes and what they mean.

    Attributes:
        schema: the columns.
        codes: one row a record.
    """

    schema: Schema
    codes: Codes

    @classmethod
    def made(
        cls, rows: int = 100_000, *, columns: int = len(LEVELS), seed: int = 0, year: int = 0, drifted: bool = False
    ) -> "Census":
        """Draw the rows of a year; the shares and the ties of all years of one seed are nearly the same."""
        rng = np.random.default_rng([seed, year, 1])
        makers = [_Column.of(place, seed, year) for place in range(columns)]
        batches = [_batch(makers, min(BATCH, rows - start), rng) for start in range(0, rows, BATCH)]
        codes = np.concatenate(batches)
        for place in [place for place in range(columns) if drifted and place % len(LEVELS) in DRIFTING]:
            codes[:, place] += makers[place].size // 2
        return cls(schema_of(columns), codes)

    @property
    def domain(self) -> Domain:
        """The columns and how many levels each has."""
        return self.schema.domain

    @property
    def source(self) -> MemorySource:
        """The rows as something a curator can count."""
        columns = zip(self.codes.T, self.domain.shape, strict=True)
        codes = tuple(np.ascontiguousarray(column, dtype=code_type(size)) for column, size in columns)
        return MemorySource(self.domain, codes, len(self.codes))

    @property
    def public(self) -> PublicRows:
        """The rows as public ones."""
        return PublicRows(self.codes, self.domain)

    def write(self, path: Path) -> None:
        """Write a CSV file with the schema's own words."""
        rng = np.random.default_rng(0)
        with path.open("w") as file:
            file.write(",".join(self.domain) + "\n")
            for start in range(0, len(self.codes), BATCH):
                part = self.codes[start : start + BATCH]
                cells = [_words(column, codes, rng) for column, codes in zip(self.schema.columns, part.T, strict=True)]
                file.writelines(",".join(row) + "\n" for row in zip(*cells, strict=True))


def schema_of(columns: int = len(LEVELS)) -> Schema:
    """What the columns are: categories, and whole numbers in bins of ten."""
    return Schema.of([_declared(place) for place in range(columns)], name="census")


def _declared(place: int) -> Category | Number:
    size = LEVELS[place % len(LEVELS)]
    if place % len(LEVELS) in NUMBERS:
        edges = [float(WIDTH * i) for i in range(size + 1)]
        return Number.of(f"n{place}", whole=True, low=0, high=WIDTH * size - 1, edges=edges, other=0)
    return Category.of(f"c{place}", levels=[f"l{i}" for i in range(size)], other="l0")


def _words(column: object, codes: Codes, rng: np.random.Generator) -> list[str]:
    if isinstance(column, Number):
        return [str(value) for value in (WIDTH * codes + rng.integers(0, WIDTH, len(codes))).tolist()]
    return [f"l{code}" for code in codes.tolist()]


@dataclass(frozen=True, eq=False)
class _Column:
    """How the codes of one column follow from those of earlier ones.

    Attributes:
        size: how many levels it has.
        parents: the places of the columns that it leans on.
        is_recode: whether it says only which part of its parent a row is in.
        logs: the logarithm of each level's share, but for a constant.
        ties: for each parent, what each pair of levels adds to that.
        asked_by: the place of the column that says of whom it is asked, or −1 where it is asked of all.
    """

    size: int
    parents: tuple[int, ...]
    is_recode: bool
    logs: Floats
    ties: tuple[Floats, ...]
    asked_by: int = -1

    @classmethod
    def of(cls, place: int, seed: int, year: int) -> "_Column":
        rng, drift = np.random.default_rng([seed, place, 2]), np.random.default_rng([seed, place, year, 3])
        kind = place % len(LEVELS)
        size = LEVELS[kind]
        if kind in RECODES:
            return cls(size, (place - kind + RECODES[kind],), True, np.zeros(size), ())  # noqa: FBT003
        near = np.arange(max(0, place - REACH), place)
        parents = tuple(int(p) for p in rng.choice(near, min(len(near), 1 + int(rng.random() < 0.6)), replace=False))
        logs = rng.normal(0, 1.2, size) + (DRIFT * drift.normal(size=size) if year else 0.0)
        if kind in DRIFTING:
            logs[size // 2 :] = -np.inf
        own = _features(size, rng, is_number=kind in NUMBERS)
        ties = []
        for parent in parents:
            other = LEVELS[parent % len(LEVELS)]
            theirs = _features(other, rng, is_number=parent % len(LEVELS) in NUMBERS)
            ties.append(STRENGTH / np.sqrt(FEATURES) * theirs @ own.T)
        asked_by = place - kind + ASKED_BY if kind in NOT_ASKED else -1
        return cls(size, parents, False, logs, tuple(ties), asked_by)  # noqa: FBT003

    def drawn(self, columns: Sequence[Codes], rows: int, rng: np.random.Generator) -> Codes:
        """A code for each row, given the columns before."""
        if self.is_recode:
            parent = columns[self.parents[0]]
            return np.asarray(parent * self.size // LEVELS[self.parents[0] % len(LEVELS)], dtype=np.int32)
        logs = np.broadcast_to(self.logs, (rows, self.size)).copy()
        for place, tie in zip(self.parents, self.ties, strict=True):
            logs += tie[columns[place]]
        shares = np.exp(logs).cumsum(axis=1)
        points = rng.random(rows) * shares[:, -1]
        codes = np.asarray((shares <= points[:, None]).sum(axis=1), dtype=np.int32)
        return codes if self.asked_by < 0 else np.where(columns[self.asked_by] < 2, 0, codes)


def _features(size: int, rng: np.random.Generator, *, is_number: bool) -> Floats:
    """Levels as points; those of neighbouring bins lie near each other."""
    if not is_number:
        return rng.normal(size=(size, FEATURES))
    turns = np.linspace(0, 1, size)[:, None] * rng.uniform(0.3, 1.2, FEATURES) + rng.random(FEATURES)
    return np.asarray(1.4 * np.sin(2 * np.pi * turns))


def _batch(makers: Sequence[_Column], rows: int, rng: np.random.Generator) -> Codes:
    columns: list[Codes] = []
    for maker in makers:
        columns.append(maker.drawn(columns, rows, rng))
    return np.stack(columns, axis=1)


def main() -> None:
    """Write the private table, the year before and drifted rows as CSV files, with their schema."""
    parser = argparse.ArgumentParser(prog="bench.census", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--columns", type=int, default=len(LEVELS))
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    schema_of(options.columns).save(options.folder / "schema.yaml")
    for name, year, drifted in (("private", 0, False), ("public", 1, False), ("drifted", 1, True)):
        census = Census.made(options.rows, columns=options.columns, year=year, drifted=drifted)
        census.write(options.folder / f"{name}.csv")


if __name__ == "__main__":
    main()
