"""Answers: what questions to a saved release of 42 columns take on the command line, and its report.

CPU seconds of the whole process, with the bytecode of the modules at hand, as an installed package has it. The first
line is what starting Python and NumPy take by themselves.
"""

import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

from bench.census import Census
from bench.processes import ROOT
from priory.app.fit import fit

ROWS, EPSILON, DELTA = 100_000, "1", "1e-9"
# What each may take, in CPU seconds.
FIRST, LATER, REPORT = 2.0, 0.2, 20.0


def run(quick: bool) -> None:  # noqa: FBT001 - the signature of every benchmark
    """Print one line a question with what it may take; with --quick, those to the quicker mechanism's release alone."""
    census = Census.made(ROWS)
    print("| release, question | CPU s | of |\n|---|---|---|")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        places = {"PYTHONPYCACHEPREFIX": str(folder / "bytecode"), "PRIORY_CACHE": str(folder / "cache")}
        environment = {**os.environ, **places}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        environment.pop("OPENBLAS_NUM_THREADS", None)
        _measured([sys.executable, "-c", "import numpy"], environment | {"OPENBLAS_NUM_THREADS": "1"}, times=5)
        took = _measured([sys.executable, "-c", "import numpy"], environment | {"OPENBLAS_NUM_THREADS": "1"}, times=5)
        print(f"| importing NumPy | {took:.2f} | |", flush=True)
        for mechanism in ("mst",) if quick else ("mst", "aim"):
            path = folder / f"{mechanism}.priory"
            made = fit(census.source, census.schema, epsilon=EPSILON, delta=DELTA, mechanism=mechanism)
            made.save(path)
            pair = next(m.query.clique for m in made.measurements if len(m.query.clique) == 2)
            _questions(path, pair, environment)


def _questions(path: Path, pair: tuple[str, ...], environment: dict[str, str]) -> None:
    command: list[str | Path] = [sys.executable, "-m", "priory"]
    asked = {
        "first question, one column": (["c4"], FIRST),
        "the same again": (["c4"], LATER),
        "another column": (["c12"], LATER),
        "a measured pair": ([*pair], LATER),
        "a pair that was not measured": (["c3", "c35"], LATER),
        "a mean": (["--mean", "n5"], LATER),
        "a count with a condition": (["--where", "n5 > 50"], LATER),
        "three columns, at first": (["c3", "c35", "c17"], FIRST),
        "those again, with a condition": (["c3", "c17", "--where", "c35 = l1"], LATER),
    }
    # The modules are compiled once, by a question that is not counted.
    _measured([*command, "query", path, "--no-intervals"], {**environment, "PRIORY_CACHE": ""})
    for what, (words, most) in asked.items():
        times = 1 if most == FIRST else 5
        took = _measured([*command, "query", path, *words], environment, times=times)
        print(f"| {path.stem}: {what} | {took:.2f} | {most:g} |", flush=True)
    took = _measured([*command, "report", path, "-o", path.with_suffix(".html")], environment)
    print(f"| {path.stem}: report | {took:.1f} | {REPORT:g} |", flush=True)


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
