"""Public rows, a bought model and both at once, also where public rows miss combinations or have drifted.

The seven splits, and splits of Adult and the town whose public rows were made worse. Public rows alone, the bought
model alone, their mixture, both of the same answers, and a fit without public rows are compared by mean TV over pairs
and triples.
"""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from priory.mechanisms.prior import Prior

from experiments.default_fit import CodedSource, compared, known_table
from experiments.results import Results, Stopwatch, shown
from experiments.splits import SPLITS, chosen, runs
from experiments.tables import Coded, spanning_tree, split, variations
from priory.mechanisms.weighing import Weighing
from priory.model.bases import PublicRows
from priory.model.model import Model
from priory.privacy.budget import Budget
from priory.privacy.curator import Curator
from priory.privacy.currency import budget_for
from priory.privacy.ledger import Ledger
from priory.privacy.randomness import source_of
from priory.select.workloads import default_workload

NAME = "public_and_bought"
KEYS = ("split", "epsilon", "run", "arm")
EPSILONS = ("0.1", "1", "10")
DELTA = "1e-9"
# Private records of the made splits; half as many public ones.
PRIVATE = 16_000
TABLES = ("adult", "town")
# What both are compared with.
OTHERS = ("public", "bought", "without", "untouched")


@dataclass(frozen=True, eq=False)
class Halves:
    """A private table and public rows for it."""

    private: Coded
    public: PublicRows


Codes = NDArray[np.int64]
T = TypeVar("T")


def _missing(codes: Codes, whole: Coded) -> Codes:
    """No row has a high value of one and a low one of the other of two columns that depend on each other."""
    for pair in spanning_tree(whole):
        one, other = (codes[:, whole.domain.axis[name]] for name in pair)
        is_missing = (one > np.median(one)) & (other <= np.median(other))
        if is_missing.mean() > 0.1:
            return np.asarray(codes[~is_missing])
    raise ValueError(f"no pair of {whole.name} has such rows")


def _one_region(codes: Codes, whole: Coded) -> Codes:
    """Rows with the most common value of the first column of three to ten values."""
    axis = next(i for i, size in enumerate(whole.domain.shape) if 3 <= size <= 10)
    return codes[codes[:, axis] == np.bincount(codes[:, axis]).argmax()]


def _moved(codes: Codes, whole: Coded, count: int) -> Codes:
    """The values of the largest columns moved to others, half around."""
    codes, domain = codes.copy(), whole.domain
    for name in sorted(domain, key=lambda name: -domain[name])[:count]:
        axis = domain.axis[name]
        codes[:, axis] = (codes[:, axis] + domain[name] // 2) % domain[name]
    return codes


MADE: dict[str, Callable[[Codes, Coded], Codes]] = {
    "alike": lambda codes, _: codes,
    "missing combinations": _missing,
    "one region": _one_region,
    "one column moved": lambda codes, whole: _moved(codes, whole, 1),
    "four columns moved": lambda codes, whole: _moved(codes, whole, 4),
}
NAMES = (*SPLITS, *(f"{table}, {kind}" for table in TABLES for kind in MADE))


def run(names: Sequence[str] = NAMES) -> None:
    """Run what is missing, then print the table; PRIORY_SPLITS, PRIORY_EPSILONS and PRIORY_RUNS make it smaller."""
    results = Results.of(NAME, KEYS)
    wanted = itertools.product(range(runs(5)), chosen(names, "PRIORY_SPLITS", ";"), chosen(EPSILONS, "PRIORY_EPSILONS"))
    for number, name, epsilon in wanted:
        if not results.has(split=name, epsilon=epsilon, run=number, arm="both"):
            for row in measured(name, epsilon, number):
                results.add(row)
    report(results)


def halves(name: str, number: int) -> Halves:
    """A split by its name: one of the seven, or one that is made, another one for each run."""
    if name in SPLITS:
        public = split(name, "pub")
        return Halves(split(name, "priv"), PublicRows(public.codes, public.domain))
    table, kind = name.split(", ")
    whole = known_table(table)
    order = np.random.default_rng([number, TABLES.index(table)]).permutation(whole.records)
    private, rest = whole.codes[order[:PRIVATE]], whole.codes[order[PRIVATE : PRIVATE * 3 // 2]]
    return Halves(Coded(name, whole.domain, private), PublicRows(MADE[kind](rest, whole), whole.domain))


def measured(name: str, epsilon: str, number: int) -> list[dict[str, object]]:
    """The errors of all arms in one run."""
    data = halves(name, number)
    # With the workload given, public rows are all there is: it measures what `prior` did before.
    alone = Prior(public=data.public, workload=default_workload(data.private.domain))
    models: dict[str, tuple[Model, float]] = {
        "untouched": (Model.of(data.public, {}, float(data.private.records)), 0.0),
        "public": _timed(data.private, alone.choice_share, epsilon, lambda *each: alone.run(*each).model),
    }
    both, weighing = Prior(public=data.public), Weighing()
    models["without"] = _timed(data.private, weighing.choice_share, epsilon, lambda *each: weighing.run(*each).model)

    def bought_and_mixed(curator: Curator, budget: Budget) -> tuple[Model, Model]:
        answered = weighing.answered(curator, budget, weighing.begun(curator, budget), both.explained)
        bought = weighing.model(answered)
        return bought, both.mixed(answered, bought)

    (bought, mixed), seconds = _timed(data.private, both.choice_share, epsilon, bought_and_mixed)
    models |= {"bought": (bought, seconds), "both": (mixed, seconds)}
    key = {"split": name, "epsilon": epsilon, "run": number}
    return [key | {"arm": arm} | _errors(model, data.private) | {"seconds": s} for arm, (model, s) in models.items()]


def _timed(
    private: Coded, choice_share: Fraction, epsilon: str, recipe: Callable[[Curator, Budget], T]
) -> tuple[T, float]:
    budget = budget_for(
        None,
        source_of(None),
        choice_share=choice_share,
        epsilon=epsilon,
        delta=DELTA,
        rho=None,
        relation="add-remove",
        max_rows=1,
    )
    watch = Stopwatch()
    with Ledger.in_memory(budget).reserve(budget, NAME) as reservation:
        return recipe(Curator(reservation, CodedSource(private)), budget), watch.seconds


def _errors(model: Model, private: Coded) -> dict[str, object]:
    return {f"TV{k}": float(variations(model, private, compared(private.domain, k)).mean()) for k in (2, 3)}


def _worse(ours: NDArray[np.float64], theirs: NDArray[np.float64]) -> str:
    """By how many percent of the others' mean ours are worse, with the standard error of the paired difference."""
    mean = theirs.mean(axis=0)
    worse = 100 * (ours - theirs).mean(axis=0) / mean
    if len(ours) < 2:
        return " / ".join(f"{percent:+.1f}" for percent in worse)
    errors = 100 * (ours - theirs).std(axis=0, ddof=1) / np.sqrt(len(ours)) / mean
    return " / ".join(f"{percent:+.1f} ± {error:.1f}" for percent, error in zip(worse, errors, strict=True))


def report(results: Results) -> None:
    """Means over runs, and by how many percent both are worse than each of the others."""
    lines: list[dict[str, object]] = []
    rows = results.rows()
    for name, epsilon in dict.fromkeys((row["split"], row["epsilon"]) for row in rows):
        line: dict[str, object] = {"split": name, "ε": epsilon}
        errors = {
            arm: np.array(
                [
                    (float(row["TV2"]), float(row["TV3"]))
                    for row in rows
                    if (row["split"], row["epsilon"], row["arm"]) == (name, epsilon, arm)
                ]
            )
            for arm in ("both", *OTHERS)
        }
        line["runs"] = len(errors["both"])
        for arm, each in errors.items():
            line[arm] = " / ".join(f"{mean:.4f}" for mean in each.mean(axis=0))
        for arm in OTHERS:
            line[f"% over {arm}"] = _worse(errors["both"], errors[arm])
        lines.append(line)
    shown(lines)


if __name__ == "__main__":
    run()
