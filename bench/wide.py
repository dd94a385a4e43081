"""Wide: fits of tables of 42 to 400 columns, their time, memory and errors, beside the MST of two other libraries."""

import json
import os
import sys
import tempfile
from pathlib import Path

import numpy as np

from bench.census import Census
from bench.jobs_wide import DELTA, variation
from bench.processes import ROOT, Result, Spec, measured, peer_python
from priory.model.bases import PublicRows
from priory.model.model import Model
from priory.privacy.budget import Budget

ROWS = 100_000
MBI, DPMM = "mbi==2.0.0", "dpmm==0.1.9"
# What each fit may take: CPU seconds and megabytes.
Goal = tuple[float, float]


def run(quick: bool) -> None:  # noqa: FBT001 - the signature of every benchmark
    """Print one line a fit with what it may take; with --quick, those that take under half a minute."""
    print("| fit | CPU s | of | MB | of | TV2 | TV3 |\n|---|---|---|---|---|---|---|")
    for name, spec, (seconds, megabytes) in _fits(quick):
        result = measured(sys.executable, "bench.jobs_wide", spec, timeout=3_600)
        _print(name, result, f"{seconds:g}", f"{megabytes:g}")
    if not quick:
        _growth()
        _peers()


def _print(name: str, result: Result, seconds: str = "", megabytes: str = "") -> None:
    if "error" in result:
        print(f"| {name} | {result['error']} | | | | | |", flush=True)
        return
    figures = f"{result['cpu_s']:.1f} | {seconds} | {result['fit_mb']:.0f} | {megabytes}"
    print(f"| {name} | {figures} | {result['TV2']:.4f} | {result['TV3']:.4f} |", flush=True)


def _census(mechanism: str, epsilon: str, *, columns: int = 42, rows: int = ROWS, **more: object) -> Spec:
    return {"table": "census", "rows": rows, "columns": columns, "mechanism": mechanism, "epsilon": epsilon, **more}


def _fits(quick: bool) -> list[tuple[str, Spec, Goal]]:  # noqa: FBT001 - as above
    fits: list[tuple[str, Spec, Goal]] = [
        ("census, 42 columns, aim, ε = 1", _census("aim", "1"), (30, 2_000)),
        ("census, 42 columns, mst, ε = 1", _census("mst", "1"), (30, 2_000)),
    ]
    if os.environ.get("PRIORY_DATA"):
        loans = {"table": "loans", "mechanism": "aim", "epsilon": "1"}
        fits.append(("loans, 48 columns, aim, ε = 1", loans, (30, 2_000)))
    if quick:
        return fits
    fits += [
        ("census, 42 columns, aim, ε = 10", _census("aim", "10"), (90, 2_000)),
        ("census and another year, prior, ε = 1", _census("prior", "1", public="year"), (90, 2_000)),
        ("census and drifted rows, prior, ε = 1", _census("prior", "1", public="drifted"), (90, 2_000)),
        ("census, 1,000,000 rows, aim, ε = 1", _census("aim", "1", rows=10 * ROWS), (90, 2_000)),
        ("20 columns and one of 5,000 levels, aim, ε = 1", {**_census("aim", "1"), "table": "levels"}, (90, 2_000)),
    ]
    if os.environ.get("PRIORY_DATA"):
        for name, columns in (("loans", 48), ("stroke", 110)):
            for epsilon, seconds in (("1", 30), ("10", 90)):
                spec = {"table": name, "mechanism": "aim", "epsilon": epsilon}
                fits.append((f"{name}, {columns} columns, aim, ε = {epsilon}", spec, (seconds, 2_000)))
    return [*fits, ("census, 400 columns, aim, ε = 1", _census("aim", "1", columns=400), (600, 4_000))]


def _growth() -> None:
    """The same number of measurements, 200 beside the columns themselves, on more and more columns."""
    for columns in (50, 100, 200, 400):
        spec = _census("aim", "1", columns=columns, measurements=200)
        _print(
            f"census, {columns} columns, 200 marginals",
            measured(sys.executable, "bench.jobs_wide", spec, timeout=3_600),
        )


def _peers() -> None:
    """The MST of mbi and of dpmm on the census of 42 columns, each in an environment of its own."""
    census = Census.made(ROWS)
    sizes = dict(zip(census.domain, census.domain.shape, strict=True))
    with tempfile.TemporaryDirectory() as folder:
        job = Path(folder) / "job.npz"
        rho = float(Budget.approximate("1", DELTA).amount)
        np.savez(job, domain=json.dumps(sizes), codes=census.codes, rho=rho, epsilon=1.0, delta=float(DELTA), seed=0)
        for name, requirement in (("mbi", MBI), ("dpmm", DPMM)):
            spec = {"job": str(job), "rows": str(Path(folder) / f"{name}.npy"), "peer": name}
            result = measured(peer_python(name, requirement), "bench.jobs_wide_peers", spec, timeout=3_600)
            if "error" not in result:
                model = Model(PublicRows(np.load(spec["rows"]), census.domain), {}, float(ROWS))
                result |= {f"TV{k}": variation(model, census.source, k) for k in (2, 3)}
            _print(f"census, 42 columns, MST of {name}, ε = 1", result)


if __name__ == "__main__":
    print(f"run it as python -m bench wide, in {ROOT}")
