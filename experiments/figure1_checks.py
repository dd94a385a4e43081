"""What moves the ratios of Figure 1: one setting at a time is put back to what the paper's published code does.

Run as `python -m experiments.figure1_checks [--tables titanic adult] [--repeats 3]`.
"""

import argparse
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from statistics import median

from experiments.paper_workload import TABLES, Held, held
from experiments.private_pgm import Row, estimates, ways
from experiments.progress import progress
from experiments.results import Results, shown
from priory.measure import measure
from priory.mechanisms.graphical import graphical_model
from priory.mechanisms.network import network_model
from priory.mechanisms.privbayes import PrivBayes
from priory.privacy.budget import Budget
from priory.privacy.curator import Curator
from priory.privacy.ledger import Ledger
from priory.release import Release

NAME = "figure1_checks"
RATE, SAMPLES, DELTA = 2.0, 50, 1e-3


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


def rounds_by_advanced_composition(records: int, epsilon: float = 1.0) -> int:
    """How many rounds of DualQuery (2η(T−1)/n)(√(2s(T−1)·ln 1/δ) + s(T−1)(e^{2η(T−1)/n} − 1)) ≤ ε pays for.

    >>> rounds_by_advanced_composition(48_842)
    58
    """

    def cost(rounds: int) -> float:
        each = 2 * RATE * (rounds - 1) / records
        draws = SAMPLES * (rounds - 1)
        return each * (math.sqrt(2 * draws * math.log(1 / DELTA)) + draws * math.expm1(each))

    rounds = 2
    while cost(rounds + 1) <= epsilon:
        rounds += 1
    return rounds


def _advanced(here: Held, repeat: int) -> Iterator[Row]:
    """DualQuery with as many rounds as the paper's accounting pays for, at the same learning rate."""
    records = int(here.source.count([()])[0].values)
    rounds = rounds_by_advanced_composition(records)
    # s·ε_t²/8 with ε_t = 2ηt/n, summed over the rounds after the first.
    rho = sum(Fraction(SAMPLES) * Fraction(2 * RATE * t / records) ** 2 / 8 for t in range(1, rounds))
    return estimates(here, replace(ways()["dualquery"], budget=Budget.zcdp(rho, relation="replace-one")), repeat)


def _half_noise(here: Held, repeat: int) -> Iterator[Row]:
    """PrivBayes whose graphical model gets the same families measured anew with all of ε: half of the noise."""
    budget = Budget.pure(1, relation="replace-one")
    with Ledger.in_memory(budget).reserve(budget, here.name) as reservation:
        release = PrivBayes(usefulness=1.0, seed=repeat).run(Curator(reservation, here.source), budget)
    count, *families = release.measurements
    with Ledger.in_memory(budget).reserve(budget, here.name) as reservation:
        again = measure(Curator(reservation, here.source), [m.query for m in families], budget)
    better = Release(release.domain, (count, *again), release.statement)
    yield {"arm": "own", "error": here.error(network_model(release, seed=0).answers)}
    yield {"arm": "pgm", "error": here.error(graphical_model(better).answers)}
    if here.name != "stroke":
        yield {"arm": "pgm converged", "error": here.error(graphical_model(better, stop="converged").answers)}


CHECKS: dict[str, Callable[[Held, int], Iterator[Row]]] = {
    "DualQuery, rounds by advanced composition": _advanced,
    "PrivBayes, half the noise for the model": _half_noise,
}


if __name__ == "__main__":
    main()
