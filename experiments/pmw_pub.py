"""Figure 1 and Table 1 of PMW^Pub: errors over ε on seven splits, beside the untouched prior, MWEM and DualQuery."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction
from functools import partial

import numpy as np

from experiments.comparison import BEST_MIXTURE, drawn, means, points
from experiments.jobs import done
from experiments.mixture_bounds import mixture_bounds
from experiments.results import Results, Stopwatch, shown
from experiments.splits import EPSILONS, REDUCED, SPLITS, Split, chosen, runs
from priory.mechanisms.dualquery.dualquery import DualQuery
from priory.mechanisms.pmw_pub.pmw_pub import PMWPub
from priory.mechanisms.pmw_pub.row_weights import RowWeights

NAME = "pmw_pub"
KEYS = ("split", "epsilon", "arm", "run")
# The numbers of rounds of the published reference results; with selection at its true cost fewer or more can be best.
REFERENCE_ROUNDS = dict.fromkeys(SPLITS, 50) | {"adult_ref": 10, "adult_disjoint": 10}
OUTCOMES = ("largest", "mean", "mean_tv")


def arms(split: Split, run: int) -> dict[str, tuple[PMWPub, Fraction]]:
    """What is compared: mechanisms, and the part of the budget that each spends.

    The reference chooses with ε₀ and pays ε₀²/2 where ε₀²/8 is due: of each ρ/T it really spends five eighths.
    """
    start = {"public": split.public, "workload": split.workload, "seed": run}
    rounds = REFERENCE_ROUNDS[split.name]
    found = {
        "pmw-pub": (PMWPub(**start), Fraction(1)),
        "pmw-pub, 10 rounds": (PMWPub(**start, rounds=10), Fraction(1)),
        "pmw-pub, 25 rounds": (PMWPub(**start, rounds=25), Fraction(1)),
        "pmw-pub, 50 rounds": (PMWPub(**start, rounds=50), Fraction(1)),
        "as the reference": (PMWPub(**start, rounds=rounds, shares=(1, 4), unsupported=True), Fraction(5, 8)),
        "permute-and-flip": (PMWPub(**start, rounds=rounds, choice="permute-and-flip"), Fraction(1)),
    }
    if split.name in REDUCED:
        found["mwem"] = (PMWPub(workload=split.workload, seed=run, rounds=50), Fraction(1))
    return found


def run() -> None:
    """Every split, ε, arm and repeat that is not there yet."""
    results = Results.of(NAME, KEYS)
    splits, epsilons = chosen(SPLITS, "PRIORY_SPLITS"), chosen(EPSILONS, "PRIORY_EPSILONS")
    done(results, missing, [(name, e, repeat) for name in splits for e in epsilons for repeat in range(runs(5))])
    shown(means(results, ("last_largest", "average_largest", "last_mean", "last_mean_tv", "rounds", "seconds_a_round")))
    print(f"CPU seconds in all: {sum(float(row['seconds']) for row in results.rows()):.0f}")
    drawn(points(results, "last_largest"), NAME)


def missing(name: str, epsilon: str, repeat: int) -> list[dict[str, object]]:
    """The rows of one repeat that are not there yet, each with the CPU seconds it took."""
    split, results = Split.load(name), Results.of(NAME, KEYS)
    key = {"split": name, "epsilon": epsilon, "run": repeat}
    found: list[dict[str, object]] = []
    for arm, measure in _measures(split, epsilon, repeat):
        if not results.has(**key, arm=arm):
            watch = Stopwatch()
            found.append({**key, "arm": arm, **measure(), "seconds": watch.seconds})
    return found


def _measures(split: Split, epsilon: str, repeat: int) -> Iterator[tuple[str, Callable[[], dict[str, object]]]]:
    """Every arm, and what to do for it."""
    for arm, (mechanism, part) in arms(split, repeat).items():
        yield arm, partial(measured, split, mechanism, epsilon, part)
    if repeat == 0:
        yield "untouched", lambda: _twice(split.judged(_prior(split).answers()))
        yield BEST_MIXTURE, lambda: _twice(dict.fromkeys(OUTCOMES, 0.0) | {"largest": best_mixture(split)})
    if split.name in REDUCED:
        yield "dualquery", lambda: _twice(_dualquery(split, epsilon, repeat))


def _twice(errors: dict[str, float]) -> dict[str, object]:
    both = {f"{which}_{name}": errors[name] for which in ("last", "average") for name in OUTCOMES}
    return {"rounds": 0, **both, "seconds_a_round": 0.0}


def _dualquery(split: Split, epsilon: str, repeat: int) -> dict[str, float]:
    budget = split.budget(epsilon)
    with split.curated(budget) as curator:
        release = DualQuery(split.workload, seed=repeat).run(curator, budget)
    model = release.with_estimate().model
    assert model is not None
    return split.judged([model.project(query.clique).values / model.total for query in split.workload])


def measured(split: Split, mechanism: PMWPub, epsilon: str, part: Fraction) -> dict[str, object]:
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
    return {"rounds": len(found.measurements), **errors, "seconds_a_round": seconds}


def best_mixture(split: Split) -> float:
    """The largest error that no weights of the public rows can avoid; not private: for the picture only."""
    return mixture_bounds(split.public, split.workload, list(split.truths), 0.1 / split.records).lower


def _prior(split: Split) -> RowWeights:
    return RowWeights.of(split.workload.queries, split.public)
