"""Paper workload: the four tables of Private-PGM, fifteen triples of attributes on each, and the paper's error."""

import json
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import Literal

import numpy as np

from experiments.metrics import workload_error
from priory.data.schema import Schema
from priory.data.sources.opening import open_source
from priory.data.sources.source import Source
from priory.model.engine.plan import Plan, plan
from priory.queries.domain import Clique, Domain
from priory.queries.factor import Array
from priory.queries.parts import Identity, Prefix
from priory.queries.query import Query
from priory.queries.workload import Workload

Draw = Literal["paper", "any"]
Answers = Callable[[Sequence[Query]], list[Array]]

# Draws of triples whose model needs more than this are reported, and the next seed is taken.
MEMORY_IN_BYTES = 2 * 2**30
# Numbers of fewer values are asked for as categories, as education-num with its 16 is in the paper's own workload.
MANY = 50


@dataclass(frozen=True)
class Told:
    """What is known of one of the paper's tables.

    Attributes:
        folder: where it is kept.
        file: its codes.
        queries: how many queries the paper's workload has (Table 1).
        unused: attributes that are in no triple, though the mechanisms see them.
    """

    folder: str
    file: str
    queries: int
    unused: tuple[str, ...] = ()


TABLES = {
    "titanic": Told("titanic", "titanic9_coded.csv.gz", 4851),
    "adult": Told("adult_coded15", "adult.csv.gz", 62876, unused=("education",)),
    "loans": Told("loans", "loans48_coded.csv.gz", 362201),
    "stroke": Told("stroke_ist", "stroke110_coded.csv.gz", 17716),
}


@dataclass(frozen=True, eq=False)
class Held:
    """A table with a workload on it.

    Attributes:
        name: the table.
        draw: which triples could be drawn.
        seed: what they were drawn by.
        source: the counts.
        workload: fifteen triples, with prefix ranges on numeric attributes.
        truths: the true answers; an experiment may look.
        forecast: what a graphical model of the workload needs.
    """

    name: str
    draw: Draw
    seed: str
    source: Source
    workload: Workload
    truths: tuple[Array, ...]
    forecast: Plan

    @property
    def records(self) -> int:
        """How many there are; public under replace-one."""
        return int(self.source.count([()])[0].values)

    def error(self, answers: Answers) -> float:
        """The paper's error: ‖Wμ − Wμ̂‖₁/(2‖Wμ‖₁), averaged over the fifteen."""
        return workload_error(answers(self.workload.queries), self.truths)

    def uniform(self, queries: Sequence[Query]) -> list[Array]:
        """What a uniform table of the right total would answer."""
        return [np.asarray(query(np.full(query.domain.shape, self.records / query.domain.size))) for query in queries]


@cache
def held(name: str, draw: Draw = "paper", number: int = 0, *, many: int = MANY) -> Held:
    """Load a table and draw its triples, saying which draws do not fit.

    With "any" the triples are drawn from all, by the first seed whose model fits. With "paper" they are drawn as the
    authors did: from those of no more cells than there are records, by seed 0. A `number` above 0 takes a later seed;
    numbers of fewer than `many` values are asked for as categories.
    """
    told = TABLES[name]
    folder = data_folder() / told.folder
    sizes = json.loads((folder / "domain.json").read_text())
    book = json.loads((folder / "codebook.json").read_text())
    numeric = {name for name in sizes if book[name]["kind"] != "categorical" and sizes[name] >= many}
    source = open_source(folder / told.file, Schema.coded(sizes, name=name))
    for seed, workload in enumerate(_drawn(source, told, numeric, draw)):
        forecast = plan(source.domain, workload.cliques, memory_in_bytes=2**62)
        if forecast.memory_in_bytes > MEMORY_IN_BYTES:
            print(f"{name}: the triples of seed {seed} do not fit ({_size(forecast)}); taking the next", flush=True)
        elif number == 0:
            break
        else:
            number -= 1
    print(f"{name}: triples {seed}, {workload.rows:,} queries (paper: {told.queries:,}), {_size(forecast)}", flush=True)
    tables = dict(zip(workload.cliques, source.count(workload.cliques), strict=True))
    truths = tuple(query(tables[query.clique].values) for query in workload)
    return Held(name, draw, str(seed), source, workload, truths, forecast)


def data_folder() -> Path:
    """The folder of the real tables, from PRIORY_DATA."""
    folder = os.environ.get("PRIORY_DATA")
    if not folder or not Path(folder).is_dir():
        raise SystemExit("set PRIORY_DATA to the folder of the real tables")
    return Path(folder)


def _drawn(source: Source, told: Told, numeric: set[str], draw: Draw) -> Iterator[Workload]:
    """Workloads by seed 0, 1, 2, …."""
    domain = source.domain
    if draw == "any":
        yield from (Workload.prefix_ranges(domain, numeric, seed=seed) for seed in range(1000))
    records = int(source.count([()])[0].values)
    used = [name for name in domain if name not in told.unused]
    small = [triple for triple in combinations(used, 3) if domain.size_of(triple) <= records]
    for seed in range(1000):
        # numpy's older generator is the authors': with seed 0 it gives the very triples they published for Adult.
        places = np.random.RandomState(seed).choice(len(small), 15, replace=False)
        yield _ranges(domain, [small[i] for i in places], numeric)


def _ranges(domain: Domain, triples: Sequence[Clique], numeric: set[str]) -> Workload:
    return Workload.of(
        Query.product(domain, {name: Prefix() if name in numeric else Identity() for name in triple})
        for triple in triples
    )


def _size(forecast: Plan) -> str:
    return f"largest table {forecast.largest_table:.2g} cells, {forecast.memory_in_bytes / 2**30:.2g} GiB"
