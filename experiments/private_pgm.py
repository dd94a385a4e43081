"""Private-PGM: the paper's tables, its workload, its error, and the arms that its figures compare."""

import csv
import json
import os
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from priory.data.opening import open_source
from priory.data.schema import Schema
from priory.data.source import Source
from priory.errors import SizeError
from priory.estimate.baselines import local_least_squares
from priory.estimate.problem import Solver
from priory.estimate.solvers import MirrorDescent
from priory.factor import Array
from priory.mechanisms.dualquery import DualQuery
from priory.mechanisms.game import records_model
from priory.mechanisms.graphical import Graphical, Stop, graphical_model, sampled_model
from priory.mechanisms.hdmm import HDMM
from priory.mechanisms.multiplicative_weights import MultiplicativeWeights
from priory.mechanisms.mwem import MWEM
from priory.mechanisms.network import network_model
from priory.mechanisms.privbayes import PrivBayes
from priory.mechanisms.registry import Mechanism
from priory.model.plan import Plan, plan
from priory.privacy.budget import Budget
from priory.privacy.curator import Curator
from priory.privacy.ledger import Ledger
from priory.queries.query import Query
from priory.queries.workload import Workload
from priory.release import Release

FILES = {
    "titanic": ("titanic", "titanic9_coded.csv.gz"),
    "adult": ("adult_coded15", "adult.csv.gz"),
    "loans": ("loans", "loans48_coded.csv.gz"),
    "stroke": ("stroke_ist", "stroke110_coded.csv.gz"),
}
# Titanic's codebook gives bins to two columns that its description calls categorical.
CATEGORICAL = {"Pclass", "Survived"}
# Draws of the workload whose model needs more than this are reported, and the next seed is taken.
MEMORY_IN_BYTES = 2 * 2**30
RESULTS = Path("results")

Answer = Callable[[Query], Array]


@dataclass(frozen=True, eq=False)
class Experiment:
    """A table with the paper's workload on it.

    Attributes:
        name: the table.
        source: its counts.
        workload: fifteen random triples, with prefix ranges on numeric attributes.
        seed: what the triples were drawn by.
        truths: the true answers; an experiment may look.
    """

    name: str
    source: Source
    workload: Workload
    seed: int
    truths: tuple[Array, ...]

    def error(self, answer: Answer) -> float:
        """The paper's error, as the mean over the fifteen: ‖Wμ − Wμ̂‖₁/(2‖Wμ‖₁)."""
        errors = [
            np.abs(answer(query) - truth).sum() / (2 * np.abs(truth).sum())
            for query, truth in zip(self.workload, self.truths, strict=True)
        ]
        return float(np.mean(errors))

    def uniform(self, query: Query) -> Array:
        """What a uniform table of the right total would answer."""
        total = float(self.source.count([()])[0].values)
        return np.asarray(query(np.full(query.domain.shape, total / query.domain.size)))


@cache
def experiment(name: str) -> Experiment:
    """Load a table and draw its workload by the first seed whose model fits, saying which did not."""
    folder = os.environ.get("PRIORY_DATA")
    if not folder or not Path(folder).is_dir():
        raise SystemExit("set PRIORY_DATA to the folder of the real tables")
    place, file = FILES[name]
    sizes = json.loads((Path(folder) / place / "domain.json").read_text())
    book = json.loads((Path(folder) / place / "codebook.json").read_text())
    numeric = [a for a in sizes if book[a]["kind"] != "categorical" and a not in CATEGORICAL]
    source = open_source(Path(folder) / place / file, Schema.coded(sizes, name=name))
    for seed in range(1000):
        workload = Workload.prefix_ranges(source.domain, numeric, seed=seed)
        forecast = plan(source.domain, workload.cliques, memory_in_bytes=2**62)
        if forecast.memory_in_bytes <= MEMORY_IN_BYTES:
            break
        print(f"{name}: the triples of seed {seed} do not fit ({_size(forecast)}); taking the next", flush=True)
    print(f"{name}: triples of seed {seed}: {forecast}", flush=True)
    tables = source.count(workload.cliques)
    counts = {clique: table.values for clique, table in zip(workload.cliques, tables, strict=True)}
    return Experiment(name, source, workload, seed, tuple(query(counts[query.clique]) for query in workload))


def _size(forecast: Plan) -> str:
    return f"largest table {forecast.largest_table:.2g} cells, {forecast.memory_in_bytes / 2**30:.2g} GiB"


@dataclass(frozen=True, eq=False)
class Arms:
    """One way to measure, and the estimates that are made of the same release.

    Attributes:
        recipe: the mechanism, for a workload.
        estimates: each estimate by name: a release to a function that answers queries.
        budget: what is spent.
    """

    recipe: Callable[[Workload], Mechanism]
    estimates: Mapping[str, Callable[[Workload, Release], Answer]]
    budget: Budget


def _pgm(stop: Stop, solver: Solver) -> Callable[[Workload, Release], Answer]:
    return lambda _, release: graphical_model(release, stop=stop, solver=solver).answer


def _local(_: Workload, release: Release) -> Answer:
    tables = {m.query.clique: local_least_squares(m).values for m in release.measurements if m.query.clique}
    return lambda query: np.asarray(query(tables[query.clique]))


def _mwem(stop: Stop, solver: Solver, budget: Budget) -> "Arms":
    update = Graphical(stop=stop, solver=solver)
    return Arms(
        lambda workload: MWEM(workload, update),
        {f"pgm {stop}": lambda workload, release: MWEM(workload, update).model(release).answer},
        budget,
    )


def arms(epsilon: str = "1", iterations: int = 1000) -> dict[str, Arms]:
    """All of Figure 1: pure ε and replace-one as in the paper; DualQuery with δ = 0.001.

    Estimates take at most `iterations` steps of Algorithm 1. The default solver is not used here: with as much noise as
    on Titanic it drives some potentials so far that each call has to be rescued in log space.
    """
    pure = Budget.pure(epsilon, relation="replace-one")
    solver = MirrorDescent(iterations=iterations)
    both: dict[str, Callable[[Workload, Release], Answer]] = {
        "pgm fission": _pgm("fission", solver),
        "pgm converged": _pgm("converged", solver),
    }
    weights = MultiplicativeWeights()
    return {
        "mwem": Arms(
            lambda w: MWEM(w, weights), {"own": lambda w, release: MWEM(w, weights).model(release).answer}, pure
        ),
        "mwem+pgm": _mwem("fission", solver, pure),
        "mwem+pgm converged": _mwem("converged", solver, pure),
        "privbayes": Arms(
            lambda _: PrivBayes(usefulness=1.0), {"own": lambda _, r: network_model(r, seed=0).answer, **both}, pure
        ),
        "hdmm": Arms(lambda w: HDMM(w, kind="equal"), {"own": _local, **both}, pure),
        "dualquery": Arms(
            DualQuery,
            {
                "own": lambda _, release: records_model(release).answer,
                "pgm converged": lambda workload, release: sampled_model(workload, release, solver=solver).answer,
            },
            Budget.approximate(epsilon, "0.001", relation="replace-one"),
        ),
    }


def estimates(held: Experiment, way: Arms) -> Iterator[dict[str, object]]:
    """One release, and the error of each of its estimates; what does not fit is said, not hidden."""
    # That the steps ran out is what "at most so many iterations" means; it is no news.
    warnings.filterwarnings("ignore", message="the estimate stopped early")
    begun = time.perf_counter()
    try:
        release = _released(held, way)
    except SizeError as error:
        yield {"arm": "own", "error": "", "seconds": "", "spent": 0, "note": f"infeasible: {error}"}
        return
    measured = time.perf_counter() - begun
    for name, estimated in way.estimates.items():
        begun = time.perf_counter()
        answer = estimated(held.workload, release)
        error = held.error(answer)
        seconds = time.perf_counter() - begun
        spent = str(release.statement.spent)
        yield {"arm": name, "error": error, "seconds": seconds, "measuring": measured, "spent": spent, "note": ""}


def _released(held: Experiment, way: Arms) -> Release:
    with Ledger.in_memory(way.budget).reserve(way.budget, held.name) as reservation:
        return way.recipe(held.workload).run(Curator(reservation, held.source), way.budget)


class Results:
    """A CSV file that grows by a row at a time; what it already has is not run again."""

    def __init__(self, path: Path, keys: Sequence[str], fields: Sequence[str]) -> None:
        self.path, self.keys, self.fields = path, tuple(keys), tuple(fields)
        path.parent.mkdir(parents=True, exist_ok=True)

    def rows(self) -> list[dict[str, str]]:
        """All rows so far."""
        if not self.path.exists():
            return []
        with self.path.open(newline="", encoding="utf-8") as file:
            return list(csv.DictReader(file))

    def has(self, **key: object) -> bool:
        """Whether a run with this key is complete."""
        return any(all(row[name] == str(value) for name, value in key.items()) for row in self.rows())

    def add(self, rows: Sequence[Mapping[str, object]]) -> None:
        """Append the rows of one run at once."""
        is_new = not self.path.exists()
        with self.path.open("a", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, self.keys + self.fields)
            if is_new:
                writer.writeheader()
            writer.writerows(rows)


@contextmanager
def progress(total: int, what: str) -> Iterator[Callable[[str], None]]:
    """A progress bar on stderr; call it with a word on what comes next."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(what, total=total)
        yield lambda next_: bar.update(task, advance=1, description=next_)
