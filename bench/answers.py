"""Answers: what questions to saved releases of 42 to 110 columns take on the command line, their report, and a plan.

CPU seconds of the whole process, with the bytecode of the modules at hand, as an installed package has it. The first
line is what starting Python and NumPy take by themselves.
"""

import itertools
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from bench.census import Census
from bench.jobs_wide import source_of
from bench.processes import ROOT
from priory.app.fit import fit
from priory.data.schema import Schema
from priory.data.sources.memory import MemorySource
from priory.queries.domain import Clique
from priory.release import Release

ROWS, EPSILON, DELTA = 100_000, "1", "1e-9"
# What each may take, in CPU seconds; of a plan also until its first output.
FIRST, LATER, REPORT, PLAN, OUTPUT = 2.0, 0.2, 20.0, 40.0, 2.0
# Pairs and triples that are asked once each, of at most so many cells.
ASKED, MOST_CELLS = 11, 10_000


def run(quick: bool) -> None:  # noqa: FBT001 - the signature of every benchmark
    """Print one line a question with what it may take; with --quick, those to the release of `mst` alone."""
    print("| release, question | CPU s | of |\n|---|---|---|")
    census = Census.made(ROWS)
    tables: dict[str, tuple[MemorySource, Schema]] = {"census": (census.source, census.schema)}
    if os.environ.get("PRIORY_DATA") and not quick:
        for name in ("loans", "stroke"):
            source = source_of({"table": name})
            tables[name] = source, Schema.coded(dict(zip(source.domain, source.domain.shape, strict=True)))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        places = {"PYTHONPYCACHEPREFIX": str(folder / "bytecode"), "PRIORY_CACHE": str(folder / "cache")}
        environment = {**os.environ, **places}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        environment.pop("OPENBLAS_NUM_THREADS", None)
        _measured([sys.executable, "-c", "import numpy"], environment | {"OPENBLAS_NUM_THREADS": "1"}, times=5)
        took = _measured([sys.executable, "-c", "import numpy"], environment | {"OPENBLAS_NUM_THREADS": "1"}, times=5)
        print(f"| importing NumPy | {took:.2f} | |", flush=True)
        for table, (source, schema) in tables.items():
            for mechanism in ("mst",) if quick else ("mst", "weighing") if table == "census" else ("weighing",):
                path = folder / f"{table}-{mechanism}.priory"
                fit(source, schema, epsilon=EPSILON, delta=DELTA, mechanism=mechanism).save(path)
                _questions(path, environment)
            if not quick:
                _planned(table, source, schema, folder, environment)


def _questions(path: Path, environment: dict[str, str]) -> None:
    release = Release.load(path)
    command: list[str | Path] = [sys.executable, "-m", "priory"]
    measured = {m.query.clique for m in release.measurements}
    pair = next(clique for clique in measured if len(clique) == 2)
    one, *_, another = release.domain.attributes
    pairs, triples = (_unmeasured(release, ways) for ways in (2, 3))
    number = next((c.name for c in release.columns.modelled if c.is_coarse), None)
    asked = {
        "first question, one column": ([one], FIRST),
        "the same again": ([one], LATER),
        "another column": ([another], LATER),
        "a measured pair": ([*pair], LATER),
        **({} if number is None else {"a mean": (["--mean", number], LATER)}),
        **({} if number is None else {"a count with a condition": (["--where", f"{number} > 50"], LATER)}),
    }
    # The modules are compiled once, by a question that is not counted.
    _measured([*command, "query", path, "--no-intervals"], {**environment, "PRIORY_CACHE": ""})
    for what, (words, most) in asked.items():
        took = _measured([*command, "query", path, *words], environment, times=1 if most == FIRST else 5)
        print(f"| {path.stem}: {what} | {took:.2f} | {most:g} |", flush=True)
    for what, cliques in {"pairs": pairs, "triples": triples}.items():
        each = sorted(_measured([*command, "query", path, *clique], environment) for clique in cliques)
        said = f"{what} that were not measured, asked once each: median, largest"
        print(f"| {path.stem}: {said} | {each[len(each) // 2]:.2f}, {each[-1]:.2f} | {LATER:g} |", flush=True)
    took = _measured([*command, "report", path, "-o", path.with_suffix(".html")], environment)
    print(f"| {path.stem}: report | {took:.1f} | {REPORT:g} |", flush=True)


def _unmeasured(release: Release, ways: int) -> list[Clique]:
    """Some sets of columns that no measurement has together, drawn by chance, of a size that people read."""
    rng, names = np.random.default_rng(0), release.domain.attributes
    measured = [set(m.query.clique) for m in release.measurements]
    drawn = (tuple(names[i] for i in rng.permutation(len(names))[:ways]) for _ in range(100 * ASKED))
    new = (c for c in drawn if release.domain.size_of(c) <= MOST_CELLS and not any(set(c) <= m for m in measured))
    return list(itertools.islice(new, ASKED))


def _planned(table: str, source: MemorySource, schema: Schema, folder: Path, environment: dict[str, str]) -> None:
    """CPU seconds of a plan, and how long it is silent, by the clock."""
    path = folder / f"{table}.yaml"
    schema.save(path)
    told = ["--schema", path, "--rows", str(source.records), "--epsilon", EPSILON, "--delta", DELTA]
    command = [sys.executable, "-m", "priory", "plan", *told]
    before, start = _seconds(), time.perf_counter()
    with subprocess.Popen(
        command, env=environment, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as process:
        assert process.stdout is not None
        process.stdout.read(1)
        silent = time.perf_counter() - start
        process.stdout.read()
    if process.returncode:
        raise RuntimeError(f"the plan of {table} ended with {process.returncode}")
    print(f"| {table}: plan, the first output by the clock | {silent:.1f} | {OUTPUT:g} |", flush=True)
    print(f"| {table}: plan | {_seconds() - before:.1f} | {PLAN:g} |", flush=True)


def _measured(command: list[str | Path], environment: dict[str, str], times: int = 1) -> float:
    """CPU seconds of a process, the mean of so many."""
    before = _seconds()
    for _ in range(times):
        subprocess.run(
            command, env=environment, cwd=ROOT, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
    return (_seconds() - before) / times


def _seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
