"""Forecasts beside what fits then took and how far off they were, on tables with and without public rows.

Without public rows the forecast knows the schema and the number of rows; the tables are those that the laws were not
fitted to. With them, one half of a table's rows is public and the other one private; of the census the public rows are
those of another year.
"""

import itertools
import math
from collections.abc import Sequence
from functools import cache

import numpy as np
import pandas as pd

from experiments.forecast_laws import DELTA, EPSILONS, LEFT, fits, fitted
from experiments.forecast_tables import (
    FITTED_TO,
    LEFT_OUT,
    WIDE_FITTED_TO,
    WIDE_LEFT_OUT,
    census,
    part,
    schema_of,
    source_of,
)
from experiments.results import Results, Stopwatch, shown
from experiments.tables import Coded, variations
from priory.app.fit import fit
from priory.app.forecast import SECONDS, Planner
from priory.app.forecast.trial import compared_pairs
from priory.app.registry import registered
from priory.model.bases import PublicRows
from priory.privacy.budget import Budget

NAME = "forecasts"
TABLES = {
    "none": (*LEFT_OUT, *WIDE_LEFT_OUT, *FITTED_TO, *WIDE_FITTED_TO),
    "half": ("titanic", "town", "adult", "loans", "census"),
}
KEYS = ("table", "public", "epsilon")


def run(kinds: Sequence[str] = tuple(TABLES), epsilons: Sequence[str] = EPSILONS) -> None:
    """Make the forecasts and the fits that are missing, then print the table."""
    forecasts, with_public = Results.of(NAME, KEYS), Results.of(f"{NAME}_fits", KEYS)
    for kind, name in [(each, name) for each in kinds for name in TABLES[each]]:
        asked = [{"table": name, "public": kind, "epsilon": epsilon} for epsilon in epsilons]
        if not all(forecasts.has(**key) for key in asked):
            _forecast(forecasts, name, kind, epsilons)
        for key in asked:
            if kind == "half" and not with_public.has(**key):
                with_public.add(key | _fitted_from_half(name, key["epsilon"]))
    report(forecasts, with_public)


@cache
def _halves(name: str) -> tuple[Coded, Coded]:
    """The private and the public table."""
    if name == "census":
        return census(0), census(1)
    whole = part(name)
    rows = np.random.default_rng(0).permutation(whole.records)
    private, public = (
        Coded(name, whole.domain, whole.codes[some])
        for some in (rows[: whole.records // 2], rows[whole.records // 2 :])
    )
    return private, public


def _forecast(results: Results, name: str, kind: str, epsilons: Sequence[str]) -> None:
    """One plan of all budgets, within the usual bound."""
    private, public = (part(name), None) if kind == "none" else _halves(name)
    watch = Stopwatch()
    frame = None if public is None else pd.DataFrame(public.codes, columns=list(public.domain))
    planner = Planner.of(schema_of(private), private.records, public=frame)
    budgets = [Budget.of(epsilon=epsilon, delta=DELTA) for epsilon in epsilons]
    found = [each for each in planner.forecasts(budgets, seconds=SECONDS) if each.is_final]
    for epsilon, each in zip(epsilons, found, strict=True):
        key: dict[str, object] = {"table": name, "public": kind, "epsilon": epsilon}
        rows = each.of_rows if each.rehearsed_rows is None else each.rehearsed_rows
        facts = {"mechanism": planner.mechanism.name, "columns": f"{each.rehearsed} of {each.of}", "rows": rows}
        facts |= {"is interpolated": each.is_interpolated, "seconds": each.seconds, "TV2": each.mean}
        results.add(key | facts | {"took": watch.seconds, "time off": each.time_off, "error off": each.error_off})


def _fitted_from_half(name: str, epsilon: str) -> dict[str, object]:
    """A fit of one half that starts from the other."""
    private, public = _halves(name)
    source, with_public = source_of(private), registered("prior").with_public
    assert with_public is not None
    recipe = with_public(PublicRows(public.codes, private.domain))
    watch = Stopwatch()
    release = fit(source, schema_of(private), epsilon=epsilon, delta=DELTA, mechanism=recipe)
    seconds = watch.seconds
    distances = variations(release.model, private, compared_pairs(private.domain))
    return {"seconds": seconds, "TV2": float(np.mean(distances))}


def report(forecasts: Results, with_public: Results) -> None:
    """Print forecast, fit and their ratios, and how many lie within the factors that are aimed at."""
    known = {tuple(row[key] for key in KEYS): row for row in with_public.rows()}
    groups: dict[str, list[tuple[float, float]]] = {}
    lines: list[dict[str, object]] = []
    for row in forecasts.rows():
        is_left = (row["table"], row["mechanism"], row["epsilon"]) in LEFT
        fit_of = known.get(tuple(row[key] for key in KEYS))
        if row["public"] == "none" and not is_left:
            fit_of = fitted(fits(), row["table"], row["mechanism"], row["epsilon"])
        if fit_of is None:
            continue
        (time, took), (error, was) = ((float(row[what]), float(fit_of[what])) for what in ("seconds", "TV2"))
        is_new = row["table"] in (*LEFT_OUT, *WIDE_LEFT_OUT)
        group = f"{row['mechanism']}, {'left out' if is_new else 'fitted to'}"
        groups.setdefault(group, []).append((time / took, error / was))
        line: dict[str, object] = {key: row[key] for key in (*KEYS, "columns", "rows", "took")}
        line |= {"CPU s": time, "of the fit": took, "time ratio": time / took}
        lines.append(line | {"TV2": error, "was": was, "error ratio": error / was})
    shown(lines)
    for (group, ratios), (what, column, factor) in itertools.product(
        groups.items(), (("times", 0, 2.0), ("errors", 1, 1.3))
    ):
        inside = sum(abs(math.log(each[column])) <= math.log(factor) for each in ratios)
        print(f"{group}: {inside} of {len(ratios)} {what} within a factor of {factor:g}")
