"""The same measurements given to mbi and to priory: true error, oracle calls, CPU seconds."""

import itertools
from collections import defaultdict
from dataclasses import replace

import altair as alt
import numpy as np

from experiments.peers import Mbi
from experiments.refitting import refitted
from experiments.results import FOLDER, Results, Stopwatch, picture, shown
from experiments.tables import Coded, measured_cliques, noisy, some_cliques, table, variations
from priory.estimate.dual import Dual
from priory.estimate.estimator import estimate
from priory.model.model import Model
from priory.privacy.measurement import Measurement
from priory.queries.domain import Clique

NAME = "estimation_vs_mbi"
TABLES = ("titanic", "adult", "loans", "stroke")
ESTIMATORS = ("mbi", "priory", "converged")
NOISE = (10.0, 50.0, 200.0, 1000.0)
DRAWS = 10
# All pairs where there are at most 1,200 of them, as in all four tables but Stroke, which has 5,995.
PAIRS, TRIPLES = 1200, 400
# Running to convergence takes minutes on the large tables: fewer draws there.
CONVERGED = {"loans": 2, "stroke": 1, "adult": 3}
# The latest points of the last level's path, and some beyond its end, are compared with the stop in these draws.
FOLLOWED = {"titanic": 10, "adult": 3, "loans": 2, "stroke": 1}
BEFORE, BEYOND = 10, 6


def run(names: tuple[str, ...] = TABLES) -> None:
    """Run what is missing, then print the table and draw the picture."""
    results = Results.of(NAME, ("table", "noise", "draw", "estimator"))
    # Running to convergence takes longest: it comes last.
    for estimators in (("mbi", "priory"), ("converged",)):
        for name in names:
            _run_table(table(name), results, estimators)
    report(results)


def _run_table(coded: Coded, results: Results, estimators: tuple[str, ...]) -> None:
    cliques = measured_cliques(coded)
    sets = {"measured": cliques, "two-way": some_cliques(coded.domain, 2, PAIRS)}
    if coded.name in ("adult", "titanic"):
        sets["three-way"] = some_cliques(coded.domain, 3, TRIPLES)
    draws = list(itertools.product(NOISE, range(DRAWS)))
    every = [noisy(coded, cliques, sigma, draw) for sigma, draw in draws]
    peer = Mbi(FOLDER / NAME / "mbi" / coded.name, coded.domain)
    peer.run(cliques, every)
    for estimator in estimators:
        for number, (sigma, draw) in enumerate(draws):
            key: dict[str, object] = {"table": coded.name, "noise": sigma, "draw": draw, "estimator": estimator}
            is_extra = estimator == "converged" and draw >= CONVERGED.get(coded.name, DRAWS)
            if is_extra or results.has(**key):
                continue
            if estimator == "mbi":
                found = peer[number]
                model, cost = found.model, (1000, found.seconds, found.first)
            else:
                model, cost = _ours(every[number], coded, estimator)
            best = np.nan
            if estimator == "priory" and draw < FOLLOWED[coded.name]:
                best = _best(model, every[number], coded, cliques)
            _add(results, key, _errors(model, coded, sets) | {"best on path": best}, cost)


def _ours(measurements: list[Measurement], coded: Coded, estimator: str) -> tuple[Model, tuple[int, float, float]]:
    watch = Stopwatch()
    model = estimate(measurements, coded.domain, stop="converged" if estimator == "converged" else "fission")
    seconds = watch.seconds
    calls = model.diagnostics.oracle_calls if model.diagnostics else 0
    return model, (calls, seconds, seconds)


def _best(model: Model, measurements: list[Measurement], coded: Coded, cliques: list[Clique]) -> float:
    """The least error on measured marginals of points on the last level's path, had one known the truth."""
    assert model.diagnostics is not None
    *before, last = model.diagnostics.schedule
    coldest = min(last.temperatures, default=np.nan)
    steps = (*last.temperatures, *(coldest / Dual().cooling ** (2 * i + 1) for i in range(BEYOND)))
    if np.isnan(coldest):
        steps = (1 / measurements[0].stddev,)
    found = [float(variations(model, coded, cliques).mean())]
    for number in range(max(0, len(last.temperatures) - BEFORE), len(steps) + 1):
        way = (*before, replace(last, temperatures=steps[:number], share=1.0))
        point = refitted(replace(model, diagnostics=replace(model.diagnostics, schedule=way)), measurements)
        found.append(float(variations(point, coded, cliques).mean()))
    return min(found)


def _errors(model: Model, coded: Coded, sets: dict[str, list[Clique]]) -> dict[str, float]:
    errors = {kind: float(variations(model, coded, cliques).mean()) for kind, cliques in sets.items()}
    return {kind: errors.get(kind, np.nan) for kind in ("measured", "two-way", "three-way")}


def _add(results: Results, key: dict[str, object], errors: dict[str, float], cost: tuple[int, float, float]) -> None:
    calls, seconds, first = cost
    results.add(key | errors | {"calls": calls, "seconds": seconds, "first seconds": first})


def report(results: Results) -> None:
    """Means over draws with the standard error of the paired difference, and the picture."""
    cells: dict[tuple[str, str, str], dict[str, dict[str, float]]] = defaultdict(lambda: defaultdict(dict))
    for row in results.rows():
        for kind in ("measured", "two-way", "three-way"):
            cells[row["table"], row["noise"], kind][row["estimator"]][row["draw"]] = float(row[kind])
        if not np.isnan(float(row["best on path"])):
            cells[row["table"], row["noise"], "measured"]["best"][row["draw"]] = float(row["best on path"])
    lines: list[dict[str, object]] = []
    for (name, noise, kind), found in cells.items():
        if np.isnan(next(iter(found["mbi"].values()), np.nan)):
            continue
        line: dict[str, object] = {"table": name, "noise": float(noise), "marginals": kind}
        means = {e: float(np.mean(list(found[e].values()))) if found[e] else np.nan for e in ESTIMATORS}
        line |= means
        for other in ("mbi", "converged"):
            ratio, error = _paired(found["priory"], found[other])
            line |= {f"ratio to {other}": ratio, f"± {other}": error}
        line["ratio to best"] = _paired(found["priory"], found["best"])[0] if kind == "measured" else np.nan
        lines.append(line)
    shown(lines)
    shown(_costs(results))
    flat = [
        {"table": x["table"], "noise": x["noise"], "marginals": x["marginals"], "estimator": e, "mean TV": x[e]}
        for x in lines
        for e in ESTIMATORS
        if not np.isnan(x[e])  # type: ignore[arg-type, call-overload]
    ]
    chart = (
        alt.Chart(alt.Data(values=flat))
        .mark_line(point=True)
        .encode(
            x=alt.X("noise:Q", scale=alt.Scale(type="log")),
            y=alt.Y("mean TV:Q", scale=alt.Scale(type="log")),
            color="estimator:N",
        )
        .properties(width=170, height=150)
        .facet(row="marginals:N", column="table:N")
        .resolve_scale(y="independent")
    )
    picture(chart, NAME)


def _paired(mine: dict[str, float], other: dict[str, float]) -> tuple[float, float]:
    """The ratio of means over the draws both have, and the standard error of that ratio."""
    shared = sorted(set(mine) & set(other))
    if not shared:
        return np.nan, np.nan
    a, b = (np.array([found[draw] for draw in shared]) for found in (mine, other))
    ratio = a.mean() / b.mean()
    return float(ratio), float(np.std(a - ratio * b, ddof=1) / np.sqrt(len(shared)) / b.mean()) if len(
        a
    ) > 1 else np.nan


def _costs(results: Results) -> list[dict[str, object]]:
    groups: dict[tuple[str, str, str], list[tuple[float, float, float]]] = defaultdict(list)
    for row in results.rows():
        cost = (float(row["calls"]), float(row["seconds"]), float(row["first seconds"]))
        groups[row["table"], row["noise"], row["estimator"]].append(cost)
    return [
        {
            "table": name,
            "noise": float(noise),
            "estimator": estimator,
            "calls": float(np.mean([cost[0] for cost in costs])),
            "CPU seconds": float(np.mean([cost[1] for cost in costs])),
            "first call": float(np.mean([cost[2] for cost in costs])),
        }
        for (name, noise, estimator), costs in groups.items()
    ]
