"""Coverage: how often 90 % intervals hold the true answer, on real tables over many repetitions."""

import json
from collections import defaultdict
from collections.abc import Sequence

import altair as alt
import numpy as np

from experiments.results import Results, Stopwatch, picture, shown
from experiments.tables import Coded, measured_cliques, noisy, some_cliques, table
from priory.data.schema import Schema
from priory.privacy.budget import Budget
from priory.queries.domain import Clique
from priory.queries.query import Query
from priory.release.measured import declared_release

NAME = "coverage"
# The table, the noise, and the largest marginal that is measured: the second setting is like a release of AIM.
SETTINGS = (("titanic", 10.0, 20_000), ("adult", 40.0, 500))
REPETITIONS = 200
INFERRED = 15


def run(repetitions: int = REPETITIONS) -> None:
    """Run what is missing, then print the table and draw the picture."""
    results = Results.of(NAME, ("table", "noise", "draw"))
    for name, sigma, largest in SETTINGS:
        coded = table(name)
        every = measured_cliques(coded, triples=40 if largest < 20_000 else 8)
        cliques = [clique for clique in every if coded.domain.size_of(clique) <= largest]
        for draw in range(repetitions):
            if not results.has(table=name, noise=sigma, draw=draw):
                held = _held(coded, cliques, sigma, draw)
                results.add({"table": name, "noise": sigma, "draw": draw} | held)
    report(results)


def _held(coded: Coded, cliques: Sequence[Clique], sigma: float, draw: int) -> dict[str, object]:
    pairs = some_cliques(coded.domain, 2, 60)
    unmeasured = [pair for pair in pairs if not any(set(pair) <= set(clique) for clique in cliques)][:INFERRED]
    queries = [Query.marginal(coded.domain, clique) for clique in [*cliques, *unmeasured]]
    measurements = noisy(coded, cliques, sigma, 10_000 + draw)
    schema = Schema.coded(dict(zip(coded.domain.attributes, coded.domain.shape, strict=True)))
    release = declared_release(measurements, schema, Budget.of(rho=1))
    watch = Stopwatch()
    # As people ask: a table of answers for each query, through the release.
    tables = [release.answer(query).to_dict() for query in queries]
    seconds = watch.seconds
    counts: dict[str, list[float]] = defaultdict(lambda: [0, 0, 0])
    for query, columns in zip(queries, tables, strict=True):
        truth = coded.counts(query.clique).reshape(-1)
        low, high = (np.array(columns[end], dtype=float) for end in ("low", "high"))
        held = (low <= truth) & (truth <= high)
        for size, which in (("all", np.ones(truth.shape, dtype=bool)), ("above 2σ", truth > 2 * sigma)):
            tally = counts[f"{columns['source'][0]}, {size}"]
            tally[0] += float(held[which].sum())
            tally[1] += float(which.sum())
            tally[2] += float((high - low)[which].sum()) / sigma
    return {"tallies": json.dumps(counts), "seconds": seconds}


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
                "±": float(np.std(held / cells, ddof=1) / len(found) ** 0.5) if len(found) > 1 else np.nan,
                "width in σ": float(width.sum() / cells.sum()),
            }
        )
    shown(lines)
    seconds = [float(row["seconds"]) for row in results.rows()]
    print(f"CPU seconds for all intervals of one release: {np.mean(seconds):.2f}")
    chart = (
        alt.Chart(alt.Data(values=lines))
        .mark_bar()
        .encode(x=alt.X("held:Q", scale=alt.Scale(domain=[0, 1])), y=alt.Y("answers:N", title=None), row="table:N")
    )
    picture(chart, NAME)
