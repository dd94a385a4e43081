"""Weighing beside every mechanism that it must not lose to, on real tables, samples of them and generated ones.

Each run draws a sample of its own, which all mechanisms get: differences are paired. Runs go on until the standard
error of the difference is half a percent of the mean, or there are fifty.
"""

import itertools
from collections.abc import Iterator, Sequence
from functools import cache

import numpy as np
from numpy.typing import NDArray

from experiments.default_fit import CodedSource, compared, known_table
from experiments.results import Results, Stopwatch, shown
from experiments.tables import Coded, variations
from priory.app.registry import registered
from priory.model.model import Model
from priory.privacy.curator import Curator
from priory.privacy.currency import budget_for
from priory.privacy.ledger import Ledger
from priory.privacy.randomness import source_of
from priory.queries.domain import Domain

NAME = "next_default"
NEW, BASELINES = "weighing", ("independent", "mst", "aim", "aim-textbook")
REAL = ("adult", "titanic", "town", "loans", "stroke")
SAMPLES = tuple(f"{name}:{size}" for name in ("adult", "town") for size in (500, 2_000, 10_000))
GENERATED = ("dense", "chain", "wide column", "parity")
EPSILONS = ("1", "0.1", "10")
DELTA = "1e-9"
FEWEST, MOST, CLOSE = 5, 50, 0.005
# A mechanism whose fit takes more CPU seconds than this is not run again.
PATIENCE = 1_800.0
RECORDS = 20_000


def run(
    names: Sequence[str] = (*REAL, *SAMPLES, *GENERATED),
    epsilons: Sequence[str] = EPSILONS,
    baselines: Sequence[str] = BASELINES,
) -> None:
    """Run what is missing, then print the table."""
    results = Results.of(NAME, ("table", "epsilon", "mechanism", "run"))
    for name, epsilon in itertools.product(names, epsilons):
        for number in range(MOST):
            table = drawn(name, number)
            for mechanism in (NEW, *baselines):
                key: dict[str, object] = {"table": name, "epsilon": epsilon, "mechanism": mechanism, "run": number}
                if not results.has(**key) and not _is_slow(results, name, epsilon, mechanism):
                    results.add(key | _measured(table, epsilon, mechanism))
            if number + 1 >= FEWEST and _is_settled(results, name, epsilon):
                break
    report(results)


def drawn(name: str, number: int) -> Coded:
    """A table by its name; "adult:500" is a sample of 500 rows of Adult, another one for each run."""
    if name in GENERATED:
        return _generated(name)
    base, _, size = name.partition(":")
    whole = known_table(base)
    if not size:
        return whole
    rows = np.random.default_rng([number, int(size)]).permutation(whole.records)[: int(size)]
    return Coded(name, whole.domain, whole.codes[rows])


@cache
def _generated(name: str) -> Coded:
    rng = np.random.default_rng(0)
    columns = {
        "dense": _dense,
        "chain": _chain,
        "wide column": _wide_column,
        "parity": _parity,
    }[name](rng)
    codes = np.stack(columns, axis=1)
    sizes = {f"a{i}": int(column.max()) + 1 for i, column in enumerate(columns)}
    return Coded(name, Domain.of(sizes), codes)


def _dense(rng: np.random.Generator) -> list[NDArray[np.int64]]:
    """Twelve attributes that all depend on each other, through one that is not in the table."""
    hidden = rng.normal(size=RECORDS)
    return [_cut(0.8 * hidden + 0.6 * rng.normal(size=RECORDS), 8) for _ in range(12)]


def _chain(rng: np.random.Generator) -> list[NDArray[np.int64]]:
    """Twelve attributes, each fixed by the one before but for a few values."""
    columns = [rng.integers(0, 10, RECORDS)]
    for _ in range(11):
        columns.append(rng.permutation(10)[columns[-1]] // 2 * 2 + rng.integers(0, 2, RECORDS))
    return columns


def _wide_column(rng: np.random.Generator) -> list[NDArray[np.int64]]:
    """One column of 5,000 levels, common and rare, on which four others depend."""
    wide = np.minimum(rng.zipf(1.3, RECORDS), 5_000) - 1
    # Every level is there, so that the domain has all of them.
    wide[:5_000] = np.arange(5_000)
    others = [(wide * (i + 3) // 7 + (rng.random(RECORDS) < 0.2)) % (4 + i) for i in range(4)]
    return [wide, *others]


def _parity(rng: np.random.Generator) -> list[NDArray[np.int64]]:
    """Three attributes of which each two are independent and the third is their parity, among six others."""
    one, two = rng.integers(0, 2, (2, RECORDS))
    return [one, two, one ^ two, *rng.integers(0, 4, (6, RECORDS))]


def _cut(values: NDArray[np.float64], count: int) -> NDArray[np.int64]:
    return np.searchsorted(np.quantile(values, np.linspace(0, 1, count + 1)[1:-1]), values).astype(np.int64)


def _measured(table: Coded, epsilon: str, mechanism: str) -> dict[str, object]:
    watch = Stopwatch()
    model = fitted(table, epsilon, mechanism)
    seconds = watch.seconds
    ways = (2, 3) if len(table.domain) > 2 else (2,)
    errors = {f"TV{k}": float(variations(model, table, compared(table.domain, k)).mean()) for k in ways}
    return {**errors, "seconds": seconds}


def fitted(table: Coded, epsilon: str, mechanism: str) -> Model:
    """The model that a mechanism makes of a table, with the budget that `fit` would give it."""
    recipe = registered(mechanism).build(table.domain)
    budget = budget_for(
        None,
        source_of(None),
        choice_share=getattr(recipe, "choice_share", 1),
        epsilon=epsilon,
        delta=DELTA,
        rho=None,
        relation="add-remove",
        max_rows=1,
    )
    with Ledger.in_memory(budget).reserve(budget, NAME) as reservation:
        return recipe.run(Curator(reservation, CodedSource(table)), budget).model


def _figures(results: Results, name: str, epsilon: str, mechanism: str) -> dict[str, dict[str, str]]:
    """The rows of one mechanism by the number of their run."""
    wanted = (name, epsilon, mechanism)
    return {row["run"]: row for row in results.rows() if (row["table"], row["epsilon"], row["mechanism"]) == wanted}


def _is_slow(results: Results, name: str, epsilon: str, mechanism: str) -> bool:
    return any(float(row["seconds"]) > PATIENCE for row in _figures(results, name, epsilon, mechanism).values())


def _is_settled(results: Results, name: str, epsilon: str) -> bool:
    """Whether the difference from every baseline is known well enough."""
    return all(line["± %"] <= 100 * CLOSE for line in _compared(results, name, epsilon))


def _compared(results: Results, name: str, epsilon: str) -> Iterator[dict[str, float]]:
    """By how many percent of a baseline's mean error weighing is worse, for each baseline, pairs and triples."""
    ours = _figures(results, name, epsilon, NEW)
    for mechanism, column in itertools.product(BASELINES, ("TV2", "TV3")):
        theirs = _figures(results, name, epsilon, mechanism)
        both = [number for number in ours if number in theirs]
        if len(both) >= FEWEST:
            pairs = np.array([(float(ours[i][column]), float(theirs[i][column])) for i in both])
            worse, mean = pairs[:, 0] - pairs[:, 1], pairs[:, 1].mean()
            error = worse.std(ddof=1) / np.sqrt(len(both))
            yield {"worse %": 100 * worse.mean() / mean, "± %": 100 * error / mean}


def report(results: Results) -> None:
    """Means over runs with their standard errors, and by how much weighing is worse than the best of the others."""
    lines: list[dict[str, object]] = []
    for name, epsilon in sorted({(row["table"], row["epsilon"]) for row in results.rows()}):
        for mechanism in (NEW, *BASELINES):
            rows = list(_figures(results, name, epsilon, mechanism).values())
            if rows:
                lines.append({"table": name, "ε": epsilon, "mechanism": mechanism, "runs": len(rows)} | _means(rows))
    shown(lines)
    for name, epsilon in sorted({(row["table"], row["epsilon"]) for row in results.rows()}):
        worst = max(_compared(results, name, epsilon), key=lambda line: line["worse %"], default=None)
        if worst is not None:
            passed = worst["worse %"] <= 1 + 2 * worst["± %"]
            print(f"{name}, ε = {epsilon}: {worst['worse %']:+.1f} ± {worst['± %']:.1f} %", "" if passed else "WORSE")


def _means(rows: list[dict[str, str]]) -> dict[str, object]:
    line: dict[str, object] = {}
    for column in ("TV2", "TV3", "seconds"):
        values = np.array([float(row[column]) for row in rows])
        line[column] = float(values.mean())
        if column != "seconds":
            line[f"± {column}"] = float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else np.nan
    return line


if __name__ == "__main__":
    run()
