"""Forecasts beside what fits then took and how far off they were, on tables with and without public rows.

Without public rows the forecast knows the schema and the number of rows. With them, one half of a table's rows is
public and the other one private; of the census the public rows are those of another year.
"""

import itertools
import math
from collections.abc import Sequence
from functools import cache

import numpy as np
import pandas as pd
from bench.census import Census

from experiments.default_fit import known_table
from experiments.results import Results, Stopwatch, shown
from experiments.tables import Coded
from priory.answer.metrics import total_variation
from priory.app.fit import fit
from priory.app.forecast import SECONDS, Planner
from priory.app.forecast.trial import compared_pairs
from priory.app.registry import chosen
from priory.data.codec import code_type
from priory.data.schema import Schema
from priory.data.sources.memory import MemorySource
from priory.model.bases import PublicRows
from priory.privacy.budget import Budget
from priory.queries.query import Query

NAME = "forecasts"
TABLES = ("titanic", "town", "adult", "loans", "census", "stroke")
EPSILONS = ("0.1", "1", "10")
DELTA = "1e-9"
KINDS = ("none", "half")
KEYS = ("table", "public", "epsilon")


def run(names: Sequence[str] = TABLES, kinds: Sequence[str] = KINDS, epsilons: Sequence[str] = EPSILONS) -> None:
    """Make the forecasts and the fits that are missing, then print the table."""
    forecasts, fits = Results.of(NAME, KEYS), Results.of(f"{NAME}_fits", KEYS)
    for name, kind in itertools.product(names, kinds):
        asked = [{"table": name, "public": kind, "epsilon": epsilon} for epsilon in epsilons]
        if not all(forecasts.has(**key) for key in asked):
            _forecast(forecasts, name, kind, epsilons)
        for key in asked:
            if not fits.has(**key):
                fits.add(key | _fitted(name, kind, key["epsilon"]))
    report(forecasts, fits)


@cache
def _tables(name: str, kind: str) -> tuple[Coded, Coded | None]:
    """The private and the public table."""
    if name == "census":
        this, last = (
            Coded(name, census.domain, np.asarray(census.codes, dtype=np.int64))
            for census in (Census.made(year=year) for year in (0, 1))
        )
        return this, None if kind == "none" else last
    whole = known_table(name)
    if kind == "none":
        return whole, None
    rows = np.random.default_rng(0).permutation(whole.records)
    halves = (whole.codes[rows[: whole.records // 2]], whole.codes[rows[whole.records // 2 :]])
    private, public = (Coded(name, whole.domain, codes) for codes in halves)
    return private, public


def _schema(coded: Coded) -> Schema:
    return Schema.coded(dict(zip(coded.domain.attributes, coded.domain.shape, strict=True)))


def _forecast(results: Results, name: str, kind: str, epsilons: Sequence[str]) -> None:
    """One plan of all budgets, within the usual bound."""
    private, public = _tables(name, kind)
    watch = Stopwatch()
    frame = None if public is None else pd.DataFrame(public.codes, columns=list(public.domain))
    planner = Planner.of(_schema(private), private.records, public=frame)
    budgets = [Budget.of(epsilon=epsilon, delta=DELTA) for epsilon in epsilons]
    found = [each for each in planner.forecasts(budgets, seconds=SECONDS) if each.is_final]
    for epsilon, each in zip(epsilons, found, strict=True):
        key: dict[str, object] = {"table": name, "public": kind, "epsilon": epsilon}
        facts = {"seconds": each.seconds, "TV2": each.mean, "columns": f"{each.rehearsed} of {each.of}"}
        results.add(key | facts | {"took": watch.seconds, "time off": each.time_off, "error off": each.error_off})


def _fitted(name: str, kind: str, epsilon: str) -> dict[str, object]:
    private, public = _tables(name, kind)
    columns = tuple(private.codes[:, i].astype(code_type(size)) for i, size in enumerate(private.domain.shape))
    source = MemorySource(private.domain, columns, private.records)
    entry = chosen(None, has_public=public is not None, columns=len(private.domain), has_workload=False)
    if public is None or entry.with_public is None:
        recipe = entry.build(private.domain)
    else:
        recipe = entry.with_public(PublicRows(public.codes, private.domain))
    watch = Stopwatch()
    release = fit(source, _schema(private), epsilon=epsilon, delta=DELTA, mechanism=recipe)
    seconds = watch.seconds
    cliques = compared_pairs(private.domain)
    answers = release.model.answers([Query.marginal(private.domain, clique) for clique in cliques])
    distances = [total_variation(a, t.values) for a, t in zip(answers, source.count(cliques), strict=True)]
    return {"seconds": seconds, "TV2": float(np.mean(distances))}


def report(forecasts: Results, fits: Results) -> None:
    """Print forecast, fit and their ratios, and how many lie within the factors that are aimed at."""
    known = {tuple(row[key] for key in KEYS): row for row in fits.rows()}
    lines: list[dict[str, object]] = []
    ratios = []
    for row in forecasts.rows():
        fitted = known.get(tuple(row[key] for key in KEYS))
        if fitted is None:
            continue
        (time, took), (error, was) = ((float(row[what]), float(fitted[what])) for what in ("seconds", "TV2"))
        ratios.append((time / took, error / was))
        line: dict[str, object] = {key: row[key] for key in (*KEYS, "columns")}
        line |= {"CPU s": time, "took": took, "time ratio": time / took}
        lines.append(line | {"TV2": error, "was": was, "error ratio": error / was})
    shown(lines)
    for what, column, factor in (("time", 0, 2.0), ("error", 1, 1.3)):
        inside = sum(abs(math.log(each[column])) <= math.log(factor) for each in ratios)
        print(f"{what}: {inside} of {len(ratios)} within a factor of {factor:g}")
