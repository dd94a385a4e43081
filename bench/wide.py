"""Wide: fits of tables of 42 to 400 columns, their time, memory and errors, beside the MST of two other libraries."""

import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from bench.census import Census
from bench.jobs_wide import DELTA, variation
from bench.processes import ROOT, Result, Spec, measured, peer_python
from priory.model.bases import PublicRows
from priory.model.model import Model
from priory.privacy.budget import Budget

ROWS = 100_000
PEERS = {"mbi": "mbi==2.0.0", "dpmm": "dpmm==0.1.9"}
# CPU seconds after which a fit is stopped: five times what the largest may take, and for the peers ten minutes.
MOST_SECONDS, MOST_PEER_SECONDS = 3_000, 600
# What was measured already, for a run that goes on where another ended.
RESULTS = ROOT / "results" / "wide.json"


@dataclass(frozen=True)
class Row:
    """A line of the table: what is measured, and how many CPU seconds and megabytes it may take, where that is said."""

    name: str
    measure: Callable[[], Result]
    seconds: float | None = None
    megabytes: float | None = None

    def line(self, result: Result) -> str:
        """The figures, or why there are none."""
        if "error" in result:
            return f"| {self.name} | {result['error']} | | | | | | |"
        of = ["" if goal is None else f"{goal:g}" for goal in (self.seconds, self.megabytes)]
        times = f"{result['cpu_s']:.1f} | {of[0]} | {result['wall_s']:.1f}"
        return (
            f"| {self.name} | {times} | {result['fit_mb']:.0f} | {of[1]} | {result['TV2']:.4f} | {result['TV3']:.4f} |"
        )


def run(quick: bool, *, only: str = "", resume: bool = False) -> None:  # noqa: FBT001 - the signature of every benchmark
    """Print one line a fit with what it may take.

    Args:
        quick: only fits that take under half a minute.
        only: only fits whose name has one of these texts in it, with commas between them.
        resume: take from a file what an earlier run measured.
    """
    known: dict[str, Result] = json.loads(RESULTS.read_text()) if resume and RESULTS.exists() else {}
    print("| fit | CPU s | of | wall s | MB | of | TV2 | TV3 |\n|---|---|---|---|---|---|---|---|")
    for row in _rows(quick=quick):
        if not any(text.strip() in row.name for text in only.split(",")):
            continue
        if row.name not in known:
            known[row.name] = row.measure()
            RESULTS.parent.mkdir(exist_ok=True)
            RESULTS.write_text(json.dumps(known, indent=1))
        print(row.line(known[row.name]), flush=True)


def _rows(*, quick: bool) -> Iterator[Row]:
    yield _census("census, 42 columns, the default, ε = 1", 30)
    yield _census("census, 42 columns, mst, ε = 1", 30, mechanism="mst")
    if os.environ.get("PRIORY_DATA"):
        yield _real("loans", 48, "1")
    if not quick:
        yield from _slow_rows()


def _slow_rows() -> Iterator[Row]:
    yield _census("census, 42 columns, the default, ε = 10", 90, epsilon="10")
    for epsilon in ("1", "10"):
        for public, words in (("year", "another year"), ("drifted", "drifted rows")):
            yield _census(f"census and {words}, prior, ε = {epsilon}", 90, "prior", epsilon, public=public)
    yield _census("census, 1,000,000 rows, the default, ε = 1", 90, rows=10 * ROWS)
    yield _census("20 columns and one of 5,000 levels, the default, ε = 1", 90, table="levels")
    if os.environ.get("PRIORY_DATA"):
        yield _real("loans", 48, "10")
        yield from (_real("stroke", 110, epsilon) for epsilon in ("1", "10"))
    yield _census("census, 400 columns, the default, ε = 1", 600, columns=400, megabytes=4_000)
    # The same number of measurements, 200 beside the columns themselves, on more and more columns.
    for columns in (50, 100, 200, 400):
        yield _census(f"census, {columns} columns, 200 marginals", None, "aim", columns=columns, measurements=200)
    for name in PEERS:
        yield Row(f"census, 42 columns, MST of {name}, ε = 1", partial(_peer, name))


def _census(
    name: str,
    seconds: float | None,
    mechanism: str = "weighing",
    epsilon: str = "1",
    *,
    megabytes: float = 2_000,
    **more: object,
) -> Row:
    spec = {"table": "census", "rows": ROWS, "columns": 42, "mechanism": mechanism, "epsilon": epsilon, **more}
    return Row(name, partial(_ours, spec), seconds, None if seconds is None else megabytes)


def _real(table: str, columns: int, epsilon: str) -> Row:
    spec = {"table": table, "mechanism": "weighing", "epsilon": epsilon}
    return Row(
        f"{table}, {columns} columns, the default, ε = {epsilon}",
        partial(_ours, spec),
        30 if epsilon == "1" else 90,
        2_000,
    )


def _ours(spec: Spec) -> Result:
    return measured(sys.executable, "bench.jobs_wide", spec, timeout=3_600, cpu_seconds=MOST_SECONDS)


def _peer(name: str) -> Result:
    """The MST of a peer on the census of 42 columns, in an environment of its own, judged by its synthetic rows."""
    census = Census.made(ROWS)
    sizes = dict(zip(census.domain, census.domain.shape, strict=True))
    with tempfile.TemporaryDirectory() as folder:
        job, rows = Path(folder) / "job.npz", Path(folder) / "rows.npy"
        rho = float(Budget.approximate("1", DELTA).amount)
        np.savez(job, domain=json.dumps(sizes), codes=census.codes, rho=rho, epsilon=1.0, delta=float(DELTA), seed=0)
        spec = {"job": str(job), "rows": str(rows), "peer": name}
        python = peer_python(name, PEERS[name])
        result = measured(python, "bench.jobs_wide_peers", spec, timeout=3_600, cpu_seconds=MOST_PEER_SECONDS)
        if "error" not in result:
            model = Model(PublicRows(np.load(rows), census.domain), {}, float(ROWS))
            result |= {f"TV{k}": variation(model, census.source, k) for k in (2, 3)}
    return result


if __name__ == "__main__":
    print(f"run it as python -m bench wide, in {ROOT}")
