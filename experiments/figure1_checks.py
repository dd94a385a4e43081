"""What moves the ratios of Figure 1: one setting at a time is put back to what the paper's published code does.

Run as `python -m experiments.figure1_checks [--tables titanic adult] [--repeats 3]`.
"""

import argparse
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from statistics import median

from experiments.authors_dualquery import models
from experiments.paper_workload import TABLES, Held, held
from experiments.private_pgm import USEFULNESS, Row, Way, estimates, ways
from experiments.progress import progress
from experiments.results import Results, shown
from priory.measure import measure
from priory.mechanisms.mwem.mwem import graphical_model
from priory.mechanisms.privbayes import PrivBayes, network_model
from priory.model.model import Model
from priory.privacy.budget import Budget
from priory.privacy.curator import Curator
from priory.privacy.ledger import Ledger
from priory.release import Release

NAME = "figure1_checks"
Check = Callable[[Held, int], Iterator[Row]]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run what is missing, then print the table."""
    parser = argparse.ArgumentParser(prog="experiments.figure1_checks", description=__doc__)
    parser.add_argument("--tables", nargs="+", default=list(TABLES), choices=list(TABLES))
    parser.add_argument("--checks", nargs="+", default=list(CHECKS), choices=list(CHECKS))
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--minutes", type=float, default=60.0, help="start nothing new after so long")
    options = parser.parse_args(arguments)
    results = Results.of(NAME, ("table", "check", "repeat"))
    jobs = [(t, c, r) for r in range(options.repeats) for t in options.tables for c in options.checks]
    end = time.monotonic() + 60 * options.minutes
    with progress(len(jobs), "figure 1, checks") as done:
        for table, check, repeat in jobs:
            key = {"table": table, "check": check, "repeat": repeat}
            if not results.has(**key) and time.monotonic() < end:
                for row in list(CHECKS[check](held(table), repeat)):
                    results.add(key | {"arm": row["arm"], "error": row["error"]})
            done(f"{table} {check}")
    groups: dict[tuple[str, str, str], list[float]] = {}
    for row in results.rows():
        groups.setdefault((row["table"], row["check"], row["arm"]), []).append(float(row["error"]))
    shown(
        [
            {
                "table": t,
                "check": c,
                "arm": a,
                "error": median(found),
                "ratio": median(groups[t, c, "own"]) / median(found),
            }
            for (t, c, a), found in groups.items()
        ]
    )


def _authors(here: Held, repeat: int) -> Iterator[Row]:
    """DualQuery as the published code plays it: fewer rounds, and the smallest code where several would do."""
    return _errors(here, models(here, repeat, takes_first_code=True))


def _authors_fewer_ranges(here: Held, repeat: int) -> Iterator[Row]:
    """The same with prefix ranges on numbers of 100 or 101 values only, as in the authors' later experiments."""
    return _authors(held(here.name, many=100), repeat)


def _fewer_rounds(here: Held, repeat: int) -> Iterator[Row]:
    """DualQuery with the published code's rounds, and a random code where several would do."""
    return _errors(here, models(here, repeat, takes_first_code=False))


def _useful(usefulness: float) -> Check:
    """PrivBayes with another θ."""
    return lambda here, repeat: estimates(here, _privbayes(usefulness), repeat)


def _remeasured(here: Held, repeat: int) -> Iterator[Row]:
    """PrivBayes as the published code runs it: ε/4 for the network, and its families measured by ε/2 or anew by ε."""
    spent, whole = Budget.pure("3/4", relation="replace-one"), Budget.pure(1, relation="replace-one")
    with Ledger.in_memory(spent).reserve(spent, here.name) as reservation:
        recipe = PrivBayes(usefulness=USEFULNESS, structure=Fraction(1, 3), seed=repeat)
        release = recipe.run(Curator(reservation, here.source), spent)
    count, *families = release.measurements
    with Ledger.in_memory(whole).reserve(whole, here.name) as reservation:
        again = measure(Curator(reservation, here.source), [m.query for m in families], whole)
    better = Release(release.domain, (count, *again), release.statement)
    yield {"arm": "own", "error": here.error(network_model(release, seed=0).answers)}
    yield {"arm": "pgm", "error": here.error(graphical_model(better).answers)}
    yield {"arm": "pgm converged", "error": here.error(graphical_model(better, stop="converged").answers)}


def _fewer_ranges(here: Held, repeat: int) -> Iterator[Row]:
    """HDMM with as few prefix ranges."""
    return estimates(held(here.name, many=100), ways()["hdmm"], repeat)


def _privbayes(usefulness: float) -> Way:
    return replace(ways()["privbayes"], recipe=lambda _, repeat: PrivBayes(usefulness=usefulness, seed=repeat))


def _errors(here: Held, found: Iterator[tuple[str, Model]]) -> Iterator[Row]:
    return ({"arm": arm, "error": here.error(model.answers)} for arm, model in found)


CHECKS: dict[str, Check] = {
    "DualQuery, as published": _authors,
    "DualQuery, as published, fewer ranges": _authors_fewer_ranges,
    "DualQuery, fewer rounds": _fewer_rounds,
    "PrivBayes, θ = 1": _useful(1.0),
    "PrivBayes, θ = 4": _useful(4.0),
    "PrivBayes, measured anew": _remeasured,
    "HDMM, fewer ranges": _fewer_ranges,
}


if __name__ == "__main__":
    main()
