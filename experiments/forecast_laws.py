"""Laws of errors and times in public facts: fitted to fits of some tables, compared with fits of others.

It prints the constants that `priory.app.forecast.law` has, and how near the laws are to tables they were not fitted to.
"""

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares

from experiments.forecast_tables import FITTED_TO, LEFT_OUT, WIDE_FITTED_TO, WIDE_LEFT_OUT, part, schema_of, source_of
from experiments.results import Results, Row, Stopwatch, shown
from experiments.tables import variations
from priory.app.fit import fit
from priory.app.forecast.law import Accuracy, Facts, Law, Laws
from priory.app.forecast.trial import compared_pairs
from priory.app.registry import registered
from priory.mechanisms.weighing import Weighing
from priory.privacy.budget import Budget
from priory.queries.domain import Domain

NAME = "forecast_laws"
KEYS = ("table", "mechanism", "epsilon")
EPSILONS = ("0.1", "1", "10")
DELTA = "1e-9"
TABLES = {"weighing": (*FITTED_TO, *LEFT_OUT), "aim": (*FITTED_TO, *LEFT_OUT, *WIDE_FITTED_TO, *WIDE_LEFT_OUT)}
# Fits of minutes: ACS by all triples, Stroke with all columns.
LEFT = {("acs", "weighing", "10"), ("stroke", "aim", "10")}
# Deviations count less beyond this, so that a table which is unlike all others does not decide.
USUAL = 0.3
# How much large constants are avoided.
SMALL = 0.03
Values = NDArray[np.float64]


def run(epsilons: Sequence[str] = EPSILONS) -> None:
    """Make the fits that are missing, then fit the laws."""
    results = fits()
    for mechanism, names in TABLES.items():
        for name, epsilon in itertools.product(names, epsilons):
            if (name, mechanism, epsilon) not in LEFT:
                fitted(results, name, mechanism, epsilon)
    report(results)


def fits() -> Results:
    """The fits that there are."""
    return Results.of(NAME, KEYS)


def fitted(results: Results, name: str, mechanism: str, epsilon: str) -> Row:
    """What a fit took and how far off it was, made once."""
    key = {"table": name, "mechanism": mechanism, "epsilon": epsilon}
    if not results.has(**key):
        results.add(key | measured(name, mechanism, epsilon))
    return next(row for row in results.rows() if all(row[name] == key[name] for name in KEYS))


def measured(name: str, mechanism: str, epsilon: str) -> dict[str, object]:
    """A fit of a table without public rows."""
    coded = part(name)
    source = source_of(coded)
    watch = Stopwatch()
    release = fit(source, schema_of(coded), epsilon=epsilon, delta=DELTA, mechanism=mechanism)
    seconds = watch.seconds
    distances = variations(release.model, coded, compared_pairs(coded.domain))
    facts = {"rows": coded.records, "sizes": " ".join(map(str, coded.domain.shape))}
    return {"seconds": seconds, "TV2": float(np.mean(distances))} | facts


def report(results: Results) -> None:
    """Fit the laws to half of the tables and print them, with how near they are to both halves."""
    for mechanism in TABLES:
        rows = [row for row in results.rows() if row["mechanism"] == mechanism]
        is_fitted = np.array([row["table"] in (*FITTED_TO, *WIDE_FITTED_TO) for row in rows])
        facts = [_facts(row) for row in rows]
        errors, times = (np.log([float(row[what]) for row in rows]) for what in ("TV2", "seconds"))
        start = (-1, -0.5, -0.1, 1, -0.5, 0) if mechanism == "aim" else (-1, -0.5, -0.1, 1, -0.5)
        by_errors = _report(
            f"errors of {mechanism}",
            _error_law,
            start=start,
            facts=facts,
            known=errors,
            is_fitted=is_fitted,
            factor=1.3,
        )
        by_times = None
        if mechanism == "weighing":
            # What was left to `aim` takes another time.
            kept = np.array([not _is_left_to_aim(row) for row in rows])
            chosen = [each for each, is_kept in zip(facts, kept, strict=True) if is_kept]
            by_times = _report(
                "times of weighing",
                _time_law,
                start=(-15, 0.2, 0, 1),
                facts=chosen,
                known=times[kept],
                is_fitted=is_fitted[kept],
                factor=2,
            )
        lines: list[dict[str, Any]] = [
            {"table": row["table"], "ε": row["epsilon"], "TV2": float(row["TV2"]), "ratio": float(ratio)}
            for row, ratio in zip(rows, by_errors, strict=True)
        ]
        shown(lines)
        if by_times is not None:
            print("times:", " ".join(f"{ratio:.2f}" for ratio in by_times))


def _report(
    what: str,
    law: Callable[[Values, Facts], float],
    *,
    start: Sequence[float],
    facts: Sequence[Facts],
    known: Values,
    is_fitted: NDArray[np.bool_],
    factor: float,
) -> Values:
    """Fit one law, print it, and give the ratios of what it says to what is known."""
    places = np.flatnonzero(is_fitted)

    def deviations(constants: Values) -> Values:
        return np.array([law(constants, facts[i]) - known[i] for i in places] + [SMALL * c for c in constants[1:]])

    found = least_squares(deviations, start, loss="soft_l1", f_scale=USUAL).x
    ratios = np.exp([law(found, each) for each in facts] - known)
    near = np.abs(np.log(ratios)) <= math.log(factor)
    print(f"{what}: constants {np.round(found, 2).tolist()}")
    for name, mask in (("fitted to", is_fitted), ("left out", ~is_fitted)):
        spread = math.exp(math.sqrt(np.mean(np.log(ratios[mask]) ** 2)))
        print(f"  {name}: {near[mask].sum()} of {mask.sum()} within {factor:g}, off by {spread:.2f} on average")
    return ratios


def _error_law(constants: Values, facts: Facts) -> float:
    constant, precision, rows, levels, part_of_noise, *columns = constants
    law = Law(constant, precision=precision, rows=rows, columns=sum(columns), levels=levels)
    return math.log(Laws(law, math.exp(part_of_noise), Accuracy(0, 0, 0)).error(facts))


def _time_law(constants: Values, facts: Facts) -> float:
    constant, precision, rows, places = constants
    return Law(constant, precision=precision, rows=rows, places=places).log(facts)


def _public(row: Row) -> tuple[Domain, int, Budget]:
    sizes = [int(size) for size in row["sizes"].split()]
    domain = Domain.of({f"c{i}": size for i, size in enumerate(sizes)})
    return domain, int(row["rows"]), Budget.of(epsilon=row["epsilon"], delta=DELTA)


def _facts(row: Row) -> Facts:
    domain, rows, budget = _public(row)
    recipe = registered(row["mechanism"]).build(domain)
    places = recipe.places(domain, budget, rows) if isinstance(recipe, Weighing) else 1
    return Facts.of(domain, rows, budget, places)


def _is_left_to_aim(row: Row) -> bool:
    domain, rows, budget = _public(row)
    return Weighing().is_left_to_aim(domain, budget, rows)
