"""Ours against theirs: the prior that noise cannot spoil, PMW^Pub at its best, and the untouched prior."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from experiments import pmw_pub
from experiments.comparison import BEST_MIXTURE, Point, drawn, grouped, points, standard_error
from experiments.results import Results, Row, Stopwatch, shown
from experiments.splits import EPSILONS, SPLITS, Split, chosen, runs
from priory.mechanisms.aim import AIM
from priory.mechanisms.pmw_pub.pmw_pub import PMWPub
from priory.mechanisms.pmw_pub.row_weights import RowWeights
from priory.mechanisms.weighing import Weighing

NAME = "ours_public"
KEYS = ("split", "epsilon", "arm", "run")
ARMS = ("untouched", "pmw-pub", "prior")
MAKERS: dict[str, Callable[..., PMWPub | Weighing | AIM]] = {
    "pmw-pub": PMWPub,
    "prior": Weighing,
    "aim": lambda public, workload, seed: AIM(public=public, workload=workload),  # noqa: ARG005 - it draws no rows
}
# AIM upon public rows is compared on two splits, a few times.
AIM_SPLITS, AIM_EPSILON, AIM_RUNS = ("adult_ref", "acs_red_nat19_pub_nat18"), "1", 3


def run() -> None:
    """Every split, ε, arm and repeat that is not there yet; PMW^Pub's other settings are in its own experiment."""
    results = Results.of(NAME, KEYS)
    for name in chosen(SPLITS, "PRIORY_SPLITS"):
        split = Split.load(name)
        for epsilon in chosen(EPSILONS, "PRIORY_EPSILONS"):
            for repeat in range(runs(10)):
                for arm in _arms(name, epsilon, repeat):
                    if not results.has(split=name, epsilon=epsilon, arm=arm, run=repeat):
                        key = {"split": name, "epsilon": epsilon, "arm": arm, "run": repeat}
                        results.add(key | measured(split, arm, epsilon, repeat))
    theirs = Results.of(pmw_pub.NAME, pmw_pub.KEYS)
    shown(against_the_best(results, theirs))
    drawn([*points(results, "largest"), *_best(theirs)], NAME)


def _best(theirs: Results) -> list[Point]:
    """PMW^Pub in the setting with the least mean, and the other arms of its experiment as they are."""
    every = points(theirs, "last_largest")
    best: dict[tuple[str, str], Point] = {}
    for point in sorted((p for p in every if p.arm.startswith(THEIRS)), key=lambda p: -p.error):
        best[point.split, point.epsilon] = replace(point, arm="pmw-pub at its best")
    return [*best.values(), *(p for p in every if p.arm in ("mwem", "dualquery", BEST_MIXTURE))]


def _arms(split: str, epsilon: str, repeat: int) -> list[str]:
    with_aim = split in AIM_SPLITS and epsilon == AIM_EPSILON and repeat < AIM_RUNS
    return [*(["untouched"] if repeat == 0 else []), "prior", *(["aim"] if with_aim else [])]


def measured(split: Split, arm: str, epsilon: str, repeat: int) -> dict[str, object]:
    """One run."""
    watch = Stopwatch()
    if arm == "untouched":
        return {**split.judged(RowWeights.of(split.workload.queries, split.public).answers()), "seconds": 0.0}
    budget = split.budget(epsilon)
    with split.curated(budget) as curator:
        release = MAKERS[arm](public=split.public, workload=split.workload, seed=repeat).run(curator, budget)
    model = release.model
    assert model is not None
    seconds = watch.seconds
    return {**split.judged([model.project(q.clique).values / model.total for q in split.workload]), "seconds": seconds}


def against_the_best(results: Results, theirs: Results) -> list[dict[str, object]]:
    """Ours, the untouched prior, and the setting and iterate of PMW^Pub with the least mean of each error."""
    ours, others = grouped(results), grouped(theirs)
    table: list[dict[str, object]] = []
    for split, epsilon, arm in ours:
        if arm != "prior":
            continue
        line: dict[str, object] = {"split": split, "epsilon": epsilon, "runs": len(ours[split, epsilon, arm])}
        pmw = [rows for (s, e, a), rows in others.items() if (s, e) == (split, epsilon) and a.startswith(THEIRS)]
        for name in ("largest", "mean_tv"):
            values = _column(ours[split, epsilon, arm], name)
            line[name] = float(values.mean())
            line[f"{name} ±"] = standard_error(values)
            line[f"{name}, prior"] = float(_column(ours[split, epsilon, "untouched"], name).mean())
            line[f"{name}, pmw-pub"] = min(
                (float(_column(rows, f"{which}_{name}").mean()) for rows in pmw for which in ("last", "average")),
                default=float("nan"),
            )
        table.append(line | {"seconds": float(_column(ours[split, epsilon, arm], "seconds").mean())})
    return table


# The arms that are PMW^Pub in one setting or another.
THEIRS = ("pmw-pub", "as the reference", "permute-and-flip")


def _column(rows: list[Row], name: str) -> np.ndarray:
    return np.array([float(row[name]) for row in rows])
