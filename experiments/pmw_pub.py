"""Figure 1 and Table 1 of PMW^Pub: errors over ε on seven splits, beside the untouched prior, the floor and MWEM."""

from dataclasses import replace
from fractions import Fraction

import numpy as np

from experiments.results import Results, Stopwatch, shown
from experiments.splits import EPSILONS, REDUCED, SPLITS, Split, chosen, runs
from priory.mechanisms.pmw_pub import PMWPub
from priory.mechanisms.row_weights import RowWeights

KEYS = ("split", "epsilon", "arm", "run")
# The numbers of rounds of the published reference results.
REFERENCE_ROUNDS = dict.fromkeys(SPLITS, 50) | {"adult_ref": 10, "adult_disjoint": 10}


def arms(split: Split, run: int) -> dict[str, tuple[PMWPub, Fraction]]:
    """What is compared: mechanisms, and the part of the budget that each spends.

    The reference chooses with ε₀ and pays ε₀²/2 where ε₀²/8 is due: of each ρ/T it really spends five eighths.
    """
    start = {"public": split.public, "workload": split.workload, "seed": run}
    rounds = REFERENCE_ROUNDS[split.name]
    found = {
        "pmw-pub": (PMWPub(**start), Fraction(1)),
        "pmw-pub, T of the reference": (PMWPub(**start, rounds=rounds), Fraction(1)),
        "as the reference": (PMWPub(**start, rounds=rounds, shares=(1, 4), unsupported=True), Fraction(5, 8)),
        "permute-and-flip": (PMWPub(**start, rounds=rounds, choice="permute-and-flip"), Fraction(1)),
    }
    if split.name in REDUCED:
        found["mwem"] = (PMWPub(workload=split.workload, seed=run, rounds=50), Fraction(1))
    return found


def run() -> None:
    """Every split, ε, arm and repeat that is not there yet."""
    results = Results.of("pmw_pub", KEYS)
    for name in chosen(SPLITS, "PRIORY_SPLITS"):
        split = Split.load(name)
        for epsilon in chosen(EPSILONS, "PRIORY_EPSILONS"):
            for repeat in range(runs(5)):
                for arm, (mechanism, part) in arms(split, repeat).items():
                    if not results.has(split=name, epsilon=epsilon, arm=arm, run=repeat):
                        key = {"split": name, "epsilon": epsilon, "arm": arm, "run": repeat}
                        for row in measured(split, mechanism, epsilon, part):
                            results.add(key | row)
        print(f"{name}: floor {floor(split):.4f}, prior {split.judged(_prior(split).answers())}", flush=True)
    shown(summary(results))


def measured(split: Split, mechanism: PMWPub, epsilon: str, part: Fraction) -> list[dict[str, object]]:
    """One run, with both iterates."""
    budget = split.budget(epsilon)
    with split.curated(budget) as curator:
        weights = mechanism.start(curator.domain)
        watch = Stopwatch()
        found = mechanism.iterates(curator, budget.part(part), weights, split.records)
        seconds = watch.seconds / max(len(found.measurements), 1)
    with np.errstate(divide="ignore"):
        average = replace(found.last, logs=np.log(found.average))
    errors = {
        f"{which}_{name}": value
        for which, weighted in (("last", found.last), ("average", average))
        for name, value in split.judged(weighted.answers()).items()
    }
    return [{"rounds": len(found.measurements), **errors, "seconds_a_round": seconds}]


def floor(split: Split) -> float:
    """The largest share of a cell that no public row is in; not private: for the picture only."""
    counts = np.concatenate([truth.ravel() for truth in split.truths])
    return float(counts[~_prior(split).supported].max(initial=0)) / split.records


def _prior(split: Split) -> RowWeights:
    return RowWeights.of(split.workload.queries, split.public)


def summary(results: Results) -> list[dict[str, object]]:
    """Means and standard errors over repeats."""
    groups: dict[tuple[str, ...], list[dict[str, str]]] = {}
    for row in results.rows():
        groups.setdefault((row["split"], row["epsilon"], row["arm"]), []).append(row)
    table = []
    for (split, epsilon, arm), rows in groups.items():
        largest = np.array([float(row["last_largest"]) for row in rows])
        table.append(
            {
                "split": split,
                "epsilon": epsilon,
                "arm": arm,
                "runs": len(rows),
                "largest": float(largest.mean()),
                "± ": float(largest.std(ddof=1) / len(rows) ** 0.5) if len(rows) > 1 else 0.0,
                **{
                    name: float(np.mean([float(row[name]) for row in rows]))
                    for name in ("average_largest", "last_mean", "last_mean_tv", "rounds", "seconds_a_round")
                },
            }
        )
    return table
