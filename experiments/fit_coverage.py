"""Fit coverage: how often 90 % intervals of whole fits hold the true answer, by where the answers come from."""

import json
from collections import defaultdict

import numpy as np

from experiments.default_fit import known_table
from experiments.results import Results, shown
from experiments.tables import Coded, some_cliques
from priory.app.fit import fit
from priory.data.codec import code_type
from priory.data.schema import Schema
from priory.data.sources.memory import MemorySource
from priory.queries.query import Query

NAME = "fit_coverage"
# The table, the budget, and how many fits.
SETTINGS = (("titanic", "1", 200), ("titanic", "10", 100), ("town", "1", 50))
MECHANISM, DELTA = "aim", "1e-9"
PAIRS = 60


def run() -> None:
    """Fit what is missing, then print the table."""
    results = Results.of(NAME, ("table", "epsilon", "draw"))
    for name, epsilon, repetitions in SETTINGS:
        coded = known_table(name)
        for draw in range(repetitions):
            if not results.has(table=name, epsilon=epsilon, draw=draw):
                results.add(
                    {"table": name, "epsilon": epsilon, "draw": draw, "held": json.dumps(_held(coded, epsilon))}
                )
    report(results)


def _held(coded: Coded, epsilon: str) -> dict[str, list[float]]:
    """Of answers about single columns, measured marginals and some pairs: how many were held, and of how many."""
    domain = coded.domain
    columns = tuple(coded.codes[:, i].astype(code_type(size)) for i, size in enumerate(domain.shape))
    schema = Schema.coded(dict(zip(domain.attributes, domain.shape, strict=True)))
    source = MemorySource(domain, columns, coded.records)
    release = fit(source, schema, epsilon=epsilon, delta=DELTA, mechanism=MECHANISM)
    measured = [m.query.clique for m in release.measurements if m.query.is_marginal and m.query.clique]
    counts: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for clique in dict.fromkeys([*measured, *some_cliques(domain, 2, PAIRS)]):
        answers = release.answer(Query.marginal(domain, clique)).to_dict()
        truth = coded.counts(clique).reshape(-1)
        low, high = (np.array(answers[end], dtype=float) for end in ("low", "high"))
        kind = answers["source"][0] if len(clique) > 1 else "single columns"
        known = np.isfinite(low) & np.isfinite(high)
        counts[kind][0] += float(((low <= truth) & (truth <= high))[known].sum())
        counts[kind][1] += float(known.sum())
    return dict(counts)


def report(results: Results) -> None:
    """The share of answers held, with the standard error of its mean over fits."""
    shares: dict[tuple[str, str, str], list[float]] = defaultdict(list)
    for row in results.rows():
        for kind, (held, answers) in json.loads(row["held"]).items():
            if answers:
                shares[row["table"], row["epsilon"], kind].append(held / answers)
    keys = ("table", "epsilon", "answers")
    shown(
        [
            dict(zip(keys, key, strict=True))
            | {"fits": len(found), "held": float(np.mean(found)), "±": float(np.std(found) / len(found) ** 0.5)}
            for key, found in shares.items()
        ]
    )
