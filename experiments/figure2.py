"""Figure 2 of Private-PGM: HDMM on Adult over ε (a), and time per iteration against the number of attributes (b).

Run as `python -m experiments.figure2 [--part a b] [--table adult] [--repeats 5]`. Results grow in results/figure2a and
results/figure2b, and a run picks up where the last one ended.
"""

import argparse
import json
import os
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median

import numpy as np

from experiments.paper_workload import TABLES, held
from experiments.peers import mbi_python
from experiments.private_pgm import Way, estimates, ways
from experiments.progress import progress
from experiments.results import Results, picture, shown
from priory.mechanisms.hdmm.hdmm import LeastSquares
from priory.model.bases import Uniform
from priory.model.engine.tape import COMPILER
from priory.privacy.measurement import Measurement
from priory.queries.domain import Domain
from priory.queries.factor import Array
from priory.queries.query import Query

A, B = "figure2a", "figure2b"
EPSILONS = ("0.1", "0.3", "1", "3", "10")
SIZES = (3, 4, 5, 6, 7, 10, 30, 100, 300, 1000)
# Full vectors of ten values an attribute: 10⁷ cells are the most that multiplicative weights and LSMR are tried on.
FULL_UP_TO = 7
# Compiling the chain of 1,000 takes mbi minutes and gigabytes.
PEER_UP_TO = 1000
VALUES = 10


def main(arguments: Sequence[str] | None = None) -> None:
    """Run what is missing of both parts, print their tables and draw them."""
    parser = argparse.ArgumentParser(prog="experiments.figure2", description=__doc__)
    parser.add_argument("--part", nargs="+", default=["a", "b"], choices=["a", "b"])
    parser.add_argument("--table", default="adult", choices=list(TABLES))
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--minutes", type=float, default=60.0, help="start nothing new after so long")
    parser.add_argument("--peer-up-to", type=int, default=PEER_UP_TO, help="the most attributes that mbi is given")
    options = parser.parse_args(arguments)
    if "a" in options.part:
        part_a(options.table, options.repeats, options.minutes)
    if "b" in options.part:
        part_b(options.peer_up_to)


def part_a(table: str, repeats: int, minutes: float) -> None:
    """The error of HDMM's estimates over ε, all of the same releases."""
    results = Results.of(A, ("table", "epsilon", "repeat"))
    jobs = [(epsilon, repeat) for repeat in range(repeats) for epsilon in EPSILONS]
    end = time.monotonic() + 60 * minutes
    with progress(len(jobs), "figure 2a") as done:
        for epsilon, repeat in jobs:
            key = {"table": table, "epsilon": epsilon, "repeat": repeat}
            if not results.has(**key) and time.monotonic() < end:
                for row in list(estimates(held(table), _shown(ways(epsilon)["hdmm"]), repeat)):
                    results.add(key | row)
            done(f"ε = {epsilon}")
    groups: dict[tuple[str, str], list[float]] = {}
    for row in results.rows():
        if row["table"] == table:
            groups.setdefault((row["epsilon"], row["arm"]), []).append(float(row["error"]))
    names = {"own": "local least squares", "pgm": "graphical model"}
    values = [
        {"ε": float(epsilon), "estimate": names[arm], "error": median(errors), "repeats": len(errors)}
        for (epsilon, arm), errors in sorted(groups.items(), key=lambda group: (float(group[0][0]), group[0][1]))
    ]
    shown(values)
    _draw(values, "ε", "error", "estimate", A)


def _shown(way: Way) -> Way:
    """Without the estimate that runs to convergence."""
    return replace(way, estimates={name: way.estimates[name] for name in ("own", "pgm")})


def part_b(peer_up_to: int) -> None:
    """CPU milliseconds of an iteration on consecutive triples of attributes with ten values each."""
    results = Results.of(B, ("attributes", "method"))
    methods = {"priory": _graphical, "multiplicative weights": _weights, "LSMR": _least_squares}
    jobs = [(d, m) for d in SIZES for m in methods if m == "priory" or d <= FULL_UP_TO]
    with progress(len(jobs), "figure 2b") as done:
        for size, method in jobs:
            if not results.has(attributes=size, method=method):
                milliseconds = 1e3 * _timed(methods[method](size))
                results.add({"attributes": size, "method": method, "milliseconds": milliseconds})
            done(f"{size} {method}")
    missing = [d for d in SIZES if d <= peer_up_to and not results.has(attributes=d, method="mbi 2.0.0")]
    for found in _peer(missing):
        results.add({"attributes": found["attributes"], "method": "mbi 2.0.0", "milliseconds": found["milliseconds"]})
    rows = [
        {"attributes": int(row["attributes"]), "method": row["method"], "milliseconds": float(row["milliseconds"])}
        for row in results.rows()
    ]
    order = ["priory", "mbi 2.0.0", "multiplicative weights", "LSMR"]
    by_key = {(row["attributes"], row["method"]): row["milliseconds"] for row in rows}
    shown([{"attributes": d, **{method: by_key.get((d, method), "") for method in order}} for d in SIZES])
    _draw(rows, "attributes", "milliseconds", "method", B)


def _peer(sizes: Sequence[int]) -> list[dict[str, float]]:
    """mbi's times, from a process of its own."""
    if not sizes:
        return []
    script = Path(__file__).with_name("peer_mbi_chain.py")
    done = subprocess.run(
        [str(mbi_python()), str(script), *map(str, sizes)],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "JAX_PLATFORMS": "cpu"},
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


def _draw(values: list[dict[str, object]], x: str, y: str, color: str, name: str) -> None:
    import altair as alt

    scale = alt.Scale(type="log")
    line = alt.Chart(alt.Data(values=values)).mark_line(point=True)
    title = "workload error" if y == "error" else "CPU milliseconds an iteration"
    chart = line.encode(x=alt.X(f"{x}:Q", scale=scale), y=alt.Y(f"{y}:Q", scale=scale, title=title), color=f"{color}:N")
    picture(chart.properties(width=360, height=260), name)


def _chain(size: int) -> tuple[Domain, list[Query], list[Array]]:
    names = [f"a{i}" for i in range(size)]
    domain = Domain.of(dict.fromkeys(names, VALUES))
    queries = [Query.marginal(domain, clique) for clique in zip(names, names[1:], names[2:], strict=False)]
    rng = np.random.default_rng(0)
    return domain, queries, [rng.random(query.shape) for query in queries]


def _graphical(size: int) -> Callable[[], object]:
    """One step of Algorithm 1: the oracle, the gradient of the L2 loss, the move."""
    # The peer's times, too, are those after everything is compiled.
    COMPILER.wait()
    domain, queries, answers = _chain(size)
    oracle = Uniform(domain).bind([query.clique for query in queries])
    theta, wanted = np.zeros(oracle.layout.size), np.concatenate([np.ravel(a) for a in answers])

    def step() -> None:
        nonlocal theta
        theta = theta - 1e-3 * (oracle(theta)[1] - wanted)

    return step


def _weights(size: int) -> Callable[[], object]:
    """One simultaneous multiplicative step on the full vector."""
    domain, queries, answers = _chain(size)
    full = LeastSquares(domain, tuple(Measurement(q, a, 1.0) for q, a in zip(queries, answers, strict=True)))
    wanted = np.concatenate([np.ravel(a) for a in answers])
    vector = np.full(domain.size, 1 / domain.size)

    def step() -> None:
        nonlocal vector
        vector = vector * np.exp(full.adjoint(wanted - full.forward(vector)) / 2)
        vector /= vector.sum()

    return step


def _least_squares(size: int) -> Callable[[], object]:
    """What an iteration of LSMR does to the full vector: a product each way, and three updates."""
    domain, queries, answers = _chain(size)
    full = LeastSquares(domain, tuple(Measurement(q, a, 1.0) for q, a in zip(queries, answers, strict=True)))
    vector, search = np.full(domain.size, 1 / domain.size), np.zeros(domain.size)

    def step() -> None:
        nonlocal search
        moved = full.adjoint(full.forward(vector))
        search = moved - 0.5 * search
        np.add(vector, 1e-3 * search, out=vector)

    return step


def _timed(step: Callable[[], object]) -> float:
    """The least CPU time of several steps, when the first half second is over: it may compile, which takes a while."""
    begun = time.process_time()
    while time.process_time() - begun < 0.5:
        step()
    time.sleep(0.5)
    begun, times = time.process_time(), []
    while len(times) < 3 or (time.process_time() - begun < 1 and len(times) < 100):
        start = time.process_time()
        step()
        times.append(time.process_time() - start)
    return min(times)


def run() -> None:
    """All of it, as the list of experiments runs it."""
    main([])


if __name__ == "__main__":
    main()
