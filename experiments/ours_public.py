"""Ours against theirs: the prior that noise cannot spoil, PMW^Pub and the untouched prior, on the same splits."""

import numpy as np

from experiments.results import Results, Stopwatch, shown
from experiments.splits import EPSILONS, SPLITS, Split, chosen, runs
from priory.mechanisms.pmw_pub import PMWPub
from priory.mechanisms.prior import Prior
from priory.mechanisms.row_weights import RowWeights

KEYS = ("split", "epsilon", "arm", "run")
ARMS = ("untouched", "pmw-pub", "prior")


def run() -> None:
    """Every split, ε, arm and repeat that is not there yet."""
    results = Results.of("ours_public", KEYS)
    for name in chosen(SPLITS, "PRIORY_SPLITS"):
        split = Split.load(name)
        for epsilon in chosen(EPSILONS, "PRIORY_EPSILONS"):
            for repeat in range(runs(10)):
                for arm in ARMS:
                    if not results.has(split=name, epsilon=epsilon, arm=arm, run=repeat):
                        key = {"split": name, "epsilon": epsilon, "arm": arm, "run": repeat}
                        results.add(key | measured(split, arm, epsilon, repeat))
    shown(summary(results))


def measured(split: Split, arm: str, epsilon: str, repeat: int) -> dict[str, object]:
    """One run."""
    watch = Stopwatch()
    if arm == "untouched":
        return {**split.judged(RowWeights.of(split.workload.queries, split.public).answers()), "seconds": 0.0}
    maker = Prior if arm == "prior" else PMWPub
    budget = split.budget(epsilon)
    with split.curated(budget) as curator:
        release = maker(public=split.public, workload=split.workload, seed=repeat).run(curator, budget)
    model = release.model
    assert model is not None
    seconds = watch.seconds
    return {**split.judged([model.project(q.clique).values / model.total for q in split.workload]), "seconds": seconds}


def summary(results: Results) -> list[dict[str, object]]:
    """Means and standard errors over repeats."""
    groups: dict[tuple[str, ...], list[dict[str, str]]] = {}
    for row in results.rows():
        groups.setdefault((row["split"], row["epsilon"], row["arm"]), []).append(row)
    table: list[dict[str, object]] = []
    for (split, epsilon, arm), rows in groups.items():
        line: dict[str, object] = {"split": split, "epsilon": epsilon, "arm": arm, "runs": len(rows)}
        for name in ("largest", "mean_tv"):
            values = np.array([float(row[name]) for row in rows])
            line[name] = float(values.mean())
            line[f"{name} ±"] = float(values.std(ddof=1) / len(rows) ** 0.5) if len(rows) > 1 else 0.0
        table.append(line | {"seconds": float(np.mean([float(row["seconds"]) for row in rows]))})
    return table
