"""Figure 2 of Private-PGM: HDMM on Adult over ε (a), and time per iteration against the number of attributes (b).

Run as `python -m experiments.figure2 [--part a b] [--table adult] [--repeats 5]`. Results grow in results/figure2a.csv
and results/figure2b.csv, and a run picks up where the last one ended.
"""

import argparse
import time
from collections.abc import Callable, Sequence
from statistics import median

import numpy as np

from experiments.private_pgm import FILES, RESULTS, Results, arms, estimates, experiment, progress
from priory.domain import Domain
from priory.factor import Array
from priory.mechanisms.hdmm import LeastSquares
from priory.model.bases import Uniform
from priory.privacy.measurement import Measurement
from priory.queries.query import Query

EPSILONS = ("0.1", "0.3", "1", "3", "10")
SIZES = (3, 4, 5, 6, 7, 10, 30, 100, 300, 1000)
# Full vectors of ten values an attribute: 10⁷ cells are the most that multiplicative weights and LSMR are tried on.
FULL_UP_TO = 7
VALUES = 10


def main(arguments: Sequence[str] | None = None) -> None:
    """Run what is missing of both parts and print their tables."""
    parser = argparse.ArgumentParser(prog="experiments.figure2", description=__doc__)
    parser.add_argument("--part", nargs="+", default=["a", "b"], choices=["a", "b"])
    parser.add_argument("--table", default="adult", choices=list(FILES))
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--most", type=int, default=max(SIZES), help="the largest number of attributes in part b")
    options = parser.parse_args(arguments)
    if "a" in options.part:
        part_a(options.table, options.repeats)
    if "b" in options.part:
        part_b([size for size in SIZES if size <= options.most])


def part_a(table: str, repeats: int) -> None:
    """The error of HDMM's estimates over ε, all of the same releases."""
    keys = ("table", "seed", "epsilon", "repeat")
    results = Results(RESULTS / "figure2a.csv", keys, ("arm", "error", "seconds", "measuring", "spent", "note"))
    held = experiment(table)
    jobs = [(epsilon, repeat) for repeat in range(repeats) for epsilon in EPSILONS]
    with progress(len(jobs), "figure 2a") as done:
        for epsilon, repeat in jobs:
            key = {"table": table, "seed": held.seed, "epsilon": epsilon, "repeat": repeat}
            if not results.has(**key):
                results.add([{**key, **row} for row in estimates(held, arms(epsilon)["hdmm"])])
            done(f"ε = {epsilon}")
    groups: dict[tuple[str, str], list[float]] = {}
    for row in results.rows():
        if row["table"] == table:
            groups.setdefault((row["epsilon"], row["arm"]), []).append(float(row["error"]))
    print(f"| {table}, ε | arm | median error |\n|---|---|---|")
    for (epsilon, arm), errors in groups.items():
        print(f"| {epsilon} | {arm} | {median(errors):.4f} |")


def part_b(sizes: Sequence[int]) -> None:
    """Milliseconds of an iteration on consecutive triples of attributes with ten values each."""
    results = Results(RESULTS / "figure2b.csv", ("attributes", "method"), ("milliseconds",))
    methods = {"graphical model": _graphical, "multiplicative weights": _weights, "LSMR": _least_squares}
    jobs = [(d, m) for d in sizes for m in methods if m == "graphical model" or d <= FULL_UP_TO]
    with progress(len(jobs), "figure 2b") as done:
        for size, method in jobs:
            if not results.has(attributes=size, method=method):
                row = {"attributes": size, "method": method, "milliseconds": 1e3 * _timed(methods[method](size))}
                results.add([row])
            done(f"{size} {method}")
    print("| attributes | method | ms an iteration |\n|---|---|---|")
    for row in results.rows():
        print(f"| {row['attributes']} | {row['method']} | {float(row['milliseconds']):.3g} |")


def _chain(size: int) -> tuple[Domain, list[Query], list[Array]]:
    names = [f"a{i}" for i in range(size)]
    domain = Domain.of(dict.fromkeys(names, VALUES))
    queries = [Query.marginal(domain, clique) for clique in zip(names, names[1:], names[2:], strict=False)]
    rng = np.random.default_rng(0)
    return domain, queries, [rng.random(query.shape) for query in queries]


def _graphical(size: int) -> Callable[[], object]:
    """One step of Algorithm 1: the oracle, the gradient of the L2 loss, the move."""
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
    held = LeastSquares(domain, tuple(Measurement(q, a, 1.0) for q, a in zip(queries, answers, strict=True)))
    wanted = np.concatenate([np.ravel(a) for a in answers])
    vector = np.full(domain.size, 1 / domain.size)

    def step() -> None:
        nonlocal vector
        vector = vector * np.exp(held.adjoint(wanted - held.forward(vector)) / 2)
        vector /= vector.sum()

    return step


def _least_squares(size: int) -> Callable[[], object]:
    """What an iteration of LSMR does to the full vector: a product each way, and three updates."""
    domain, queries, answers = _chain(size)
    held = LeastSquares(domain, tuple(Measurement(q, a, 1.0) for q, a in zip(queries, answers, strict=True)))
    vector, search = np.full(domain.size, 1 / domain.size), np.zeros(domain.size)

    def step() -> None:
        nonlocal search
        moved = held.adjoint(held.forward(vector))
        search = moved - 0.5 * search
        np.add(vector, 1e-3 * search, out=vector)

    return step


def _timed(step: Callable[[], object]) -> float:
    """The least of several, the first aside: it may compile or plan."""
    step()
    begun, times = time.perf_counter(), []
    while len(times) < 3 or (time.perf_counter() - begun < 1 and len(times) < 100):
        start = time.perf_counter()
        step()
        times.append(time.perf_counter() - start)
    return min(times)


def run() -> None:
    """All of it, as the list of experiments runs it."""
    main([])


if __name__ == "__main__":
    main()
