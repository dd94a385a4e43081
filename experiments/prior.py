"""With a prior: the estimate against the untouched public data, from tiny noise to huge, on every public split."""

import json
from collections import defaultdict
from collections.abc import Sequence

import altair as alt
import numpy as np

from experiments.metrics import cell_errors
from experiments.results import Results, picture, shown
from experiments.tables import Coded, data_folder, measured_cliques, noisy, split
from priory.estimate.estimator import estimate
from priory.model.bases import Base, Mixture, Product, PublicRows
from priory.model.model import Model
from priory.queries.domain import Clique
from priory.queries.factor import Array, Factor
from priory.queries.query import Query

NAME = "prior"
SPLITS = (
    "adult_ref_bias45",
    "acs_nat19_pub_matx18",
    "acs_nat19_pub_nat18",
    "adult_ref",
    "adult_disjoint",
    "adult_reduced",
    "acs_red_nat19_pub_nat18",
)
NOISE = (1.0, 10.0, 100.0, 1000.0, 10_000.0)
DRAWS = 10
# A random 60 of each split's three-way workload.
WORKLOADS = 60
# The share of a full-domain product in the mixture.
SHARE = 0.01


def run(names: tuple[str, ...] = SPLITS) -> None:
    """Run what is missing, then print the table and draw the picture."""
    results = Results.of(NAME, ("split", "noise", "draw", "base"))
    for name in names:
        _run_split(name, results)
    report(results)


def _run_split(name: str, results: Results) -> None:
    private, public = split(name, "priv"), split(name, "pub")
    rows = PublicRows(public.codes, public.domain)
    # One-way marginals and a spanning tree, chosen on the public data alone.
    cliques = measured_cliques(public, triples=0)
    bases: dict[str, Base] = {"public rows": rows, "mixture": Mixture([(1 - SHARE, rows), (SHARE, product_of(public))])}
    workload = [private.domain.clique(names) for names in some_workload(name)]
    truth = [private.counts(clique) for clique in workload]
    if not results.has(split=name, noise="inf", draw=0, base="untouched"):
        untouched = Model(rows, {}, float(private.records))
        results.add(
            {"split": name, "noise": "inf", "draw": 0, "base": "untouched"} | _errors(untouched, workload, truth)
        )
    for sigma in NOISE:
        for draw in range(DRAWS):
            measurements = noisy(private, cliques, sigma, draw)
            for kind, base in bases.items():
                key = {"split": name, "noise": sigma, "draw": draw, "base": kind}
                if not results.has(**key):
                    model = estimate(measurements, private.domain, base=base, total=float(private.records))
                    results.add(key | _errors(model, workload, truth))


def product_of(public: Coded) -> Product:
    """The product of the public one-way marginals, with one record added to every value."""
    factors = [Factor(public.domain.project((name,)), public.counts((name,)) + 1.0) for name in public.domain]
    return Product(factors, domain=public.domain)


def some_workload(name: str) -> list[Clique]:
    """The same random part of a split's workload every time."""
    every = json.loads((data_folder() / "public_splits" / name / "workloads.json").read_text())
    chosen = np.random.default_rng(0).permutation(len(every))[:WORKLOADS]
    return [tuple(every[i]) for i in chosen]


def _errors(model: Model, workload: Sequence[Clique], truth: Sequence[Array]) -> dict[str, float]:
    queries = [Query.marginal(model.domain, clique) for clique in workload]
    found = model.answers(queries)
    shares = [0.5 * float(np.abs(a - b).sum()) / model.total for a, b in zip(found, truth, strict=True)]
    return {"mean TV": float(np.mean(shares)), "max error": cell_errors(found, list(truth), model.total).largest}


def report(results: Results) -> None:
    """Means over draws beside the untouched prior."""
    groups: dict[tuple[str, str, str], list[tuple[float, float]]] = defaultdict(list)
    for row in results.rows():
        groups[row["split"], row["noise"], row["base"]].append((float(row["mean TV"]), float(row["max error"])))
    lines: list[dict[str, object]] = []
    for (name, noise, base), found in groups.items():
        [(prior_tv, prior_max)] = groups[name, "inf", "untouched"]
        means = np.mean(found, axis=0)
        spread = np.std(found, axis=0, ddof=1) / np.sqrt(len(found)) if len(found) > 1 else np.array([np.nan, np.nan])
        lines.append(
            {
                "split": name,
                "noise": noise,
                "base": base,
                "draws": len(found),
                "mean TV": float(means[0]),
                "±": float(spread[0]),
                "to prior": float(means[0] / prior_tv),
                "max error": float(means[1]),
                "prior's": prior_max,
            }
        )
    shown(lines)
    chart = (
        alt.Chart(alt.Data(values=[line for line in lines if line["noise"] != "inf"]))
        .mark_line(point=True)
        .encode(
            x=alt.X("noise:Q", scale=alt.Scale(type="log")),
            y=alt.Y("to prior:Q", title="mean TV, prior = 1"),
            color="base:N",
        )
        .properties(width=170, height=140)
        .facet("split:N", columns=4)
    )
    picture(chart, NAME)
