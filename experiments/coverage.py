"""Coverage: how often 90 % intervals hold the true answer, on real tables over many repetitions."""

import json
from collections import defaultdict

import altair as alt
import numpy as np

from experiments.results import Results, Stopwatch, picture, shown
from experiments.tables import Coded, measured_cliques, noisy, some_cliques, table
from priory.answer.intervals import intervals
from priory.estimate.estimator import estimate
from priory.queries.query import Query

NAME = "coverage"
SETTINGS = (("titanic", 10.0), ("adult", 50.0))
REPETITIONS = 200
INFERRED = 15


def run(repetitions: int = REPETITIONS) -> None:
    """Run what is missing, then print the table and draw the picture."""
    results = Results.of(NAME, ("table", "noise", "draw"))
    for name, sigma in SETTINGS:
        coded = table(name)
        for draw in range(repetitions):
            if not results.has(table=name, noise=sigma, draw=draw):
                results.add({"table": name, "noise": sigma, "draw": draw} | _held(coded, sigma, draw))
    report(results)


def _held(coded: Coded, sigma: float, draw: int) -> dict[str, object]:
    cliques = measured_cliques(coded)
    pairs = some_cliques(coded.domain, 2, 60)
    unmeasured = [pair for pair in pairs if not any(set(pair) <= set(clique) for clique in cliques)][:INFERRED]
    queries = [Query.marginal(coded.domain, clique) for clique in [*cliques, *unmeasured]]
    measurements = noisy(coded, cliques, sigma, 10_000 + draw)
    watch = Stopwatch()
    found = intervals(estimate(measurements, coded.domain), measurements, queries, seed=draw)
    counts: dict[str, list[float]] = defaultdict(lambda: [0, 0, 0])
    for query, interval in zip(queries, found, strict=True):
        truth = coded.counts(query.clique)
        held = (interval.low <= truth) & (truth <= interval.high)
        for size, which in (("all", np.ones(truth.shape, dtype=bool)), ("above 2σ", truth > 2 * sigma)):
            tally = counts[f"{interval.source}, {size}"]
            tally[0] += float(held[which].sum())
            tally[1] += float(which.sum())
            tally[2] += float((interval.high - interval.low)[which].sum()) / sigma
    return {"tallies": json.dumps(counts), "seconds": watch.seconds}


def report(results: Results) -> None:
    """The share of answers held, by source and size."""
    tallies: dict[tuple[str, str, str], list[list[float]]] = defaultdict(list)
    for row in results.rows():
        for kind, tally in json.loads(row["tallies"]).items():
            tallies[row["table"], row["noise"], kind].append(tally)
    lines: list[dict[str, object]] = []
    for (name, noise, kind), found in tallies.items():
        held, cells, width = np.array(found).T
        lines.append(
            {
                "table": name,
                "noise": float(noise),
                "answers": kind,
                "repetitions": len(found),
                "held": float(held.sum() / cells.sum()),
                "width in σ": float(width.sum() / cells.sum()),
            }
        )
    shown(lines)
    chart = (
        alt.Chart(alt.Data(values=lines))
        .mark_bar()
        .encode(x=alt.X("held:Q", scale=alt.Scale(domain=[0, 1])), y="answers:N", row="table:N")
    )
    picture(chart, NAME)
