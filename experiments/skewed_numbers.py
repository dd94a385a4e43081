"""Skewed numbers: means, medians and quantiles of zero-heavy and long-tailed columns, with their intervals.

The schema is drafted from a public sample of the same kind of data, or written by hand, or has bins of equal width.
Each fit has a table of its own, so that no bin is lucky.
"""

import os
from collections import defaultdict
from collections.abc import Callable

import numpy as np

import priory as pr
from experiments.results import Results, Stopwatch, shown

NAME = "skewed_numbers"
ROWS, DELTA = 20_000, 1e-9
# The schema, the mechanism, ε, and how many fits.
SETTINGS = (
    ("drafted", "independent", 1.0, 200),
    ("by hand", "independent", 1.0, 200),
    ("equal width", "independent", 1.0, 100),
    ("drafted", "independent", 0.1, 200),
    ("fine", "independent", 0.1, 200),
    ("drafted", "aim", 1.0, 20),
)
BY_HAND = """
priory: 1
name: skewed
columns:
  lognormal: {kind: real, bounds: [0, 10000], bins: {log: 24}, step: 0.01, nullable: true}
  zeros: {kind: integer, bounds: [0, 50000], bins: {log: 16}, spikes: [0], nullable: true}
  ties: {kind: integer, bounds: [0, 5000], bins: {log: 16}, spikes: [10, 20, 25, 50, 100, 200, 500], nullable: true}
  spikes: {kind: integer, bounds: [0, 99999], bins: {edges: [0, 500, 1000, 1500, 2000, 2500, 3000, 4000, 5000, 7000,
    10000, 15000, 25000, 50000, 99999]}, spikes: [0, 99999], nullable: true}
"""
EQUAL_WIDTH = """
priory: 1
name: skewed
columns:
  lognormal: {kind: real, bounds: [0, 10000], bins: 20, nullable: true}
  zeros: {kind: integer, bounds: [0, 50000], bins: 20, nullable: true}
  ties: {kind: integer, bounds: [0, 5000], bins: 20, nullable: true}
  spikes: {kind: integer, bounds: [0, 99999], bins: 20, nullable: true}
"""
# Narrower bins than anybody needs: here the noise is wider than they are.
FINE = """
priory: 1
name: skewed
columns:
  lognormal: {kind: real, bounds: [0, 10000], bins: {log: 300}, step: 0.01, nullable: true}
  zeros: {kind: integer, bounds: [0, 50000], bins: {log: 200}, spikes: [0], nullable: true}
  ties: {kind: integer, bounds: [0, 999], nullable: true}
  spikes: {kind: integer, bounds: [0, 99999], bins: {log: 300}, spikes: [0, 99999], nullable: true}
"""
Table = dict[str, np.ndarray]
QUESTIONS: dict[str, tuple[Callable[[pr.Release, str], pr.Table], Callable[[np.ndarray], float]]] = {
    "mean": (lambda release, name: release.mean(name), lambda values: float(values.mean())),
    "median": (lambda release, name: release.median(name), lambda values: float(np.quantile(values, 0.5))),
    "0.9-quantile": (lambda release, name: release.quantile(name, 0.9), lambda values: float(np.quantile(values, 0.9))),
}


def run(fits: int | None = None) -> None:
    """Run what is missing, then print the table; PRIORY_RUNS is the most fits of each setting."""
    fits = int(os.environ["PRIORY_RUNS"]) if fits is None and "PRIORY_RUNS" in os.environ else fits
    results = Results.of(NAME, ("schema", "mechanism", "epsilon", "draw", "column", "answer"))
    schemas = {
        "drafted": pr.Schema.from_public(table(10_000), name="skewed"),
        "by hand": pr.Schema.parse(BY_HAND),
        "equal width": pr.Schema.parse(EQUAL_WIDTH),
        "fine": pr.Schema.parse(FINE),
    }
    for schema, mechanism, epsilon, most in SETTINGS:
        for draw in range(min(most, fits or most)):
            key = {"schema": schema, "mechanism": mechanism, "epsilon": epsilon, "draw": draw}
            if not results.has(**key, column="spikes", answer="zeros"):
                for row in _answered(schemas[schema], mechanism, epsilon, draw):
                    results.add(key | row)
    report(results)


def table(seed: int, rows: int = ROWS) -> Table:
    """Four columns: log-normal money, 95 % zeros, heavy ties at round numbers, and two spikes at both ends."""
    rng = np.random.default_rng(seed)

    def money(scale: float, sigma: float) -> np.ndarray:
        return np.asarray(scale * np.exp(sigma * rng.normal(size=rows)))

    tied = rng.choice([10, 20, 25, 50, 100, 200, 500], rows, p=[0.1, 0.2, 0.1, 0.2, 0.2, 0.1, 0.1])
    share = rng.random(rows)
    return {
        "lognormal": np.round(money(100, 1), 2),
        "zeros": np.where(rng.random(rows) < 0.95, 0, np.round(money(1000, 1))).astype(np.int64),
        "ties": np.where(rng.random(rows) < 0.7, tied, np.round(money(80, 1))).astype(np.int64),
        "spikes": np.select([share < 0.3, share < 0.35], [0, 99_999], np.round(money(3000, 0.8))).astype(np.int64),
    }


def _answered(schema: pr.Schema, mechanism: str, epsilon: float, draw: int) -> list[dict[str, object]]:
    truth = table(draw)
    watch = Stopwatch()
    release = pr.fit(truth, schema, epsilon=epsilon, delta=DELTA, mechanism=mechanism)
    sample = release.sample(ROWS, seed=draw).to_dict()
    rows: list[dict[str, object]] = []
    for name, values in truth.items():
        for question, (ask, true) in QUESTIONS.items():
            answer = ask(release, name)
            estimate, low, high = (answer.to_dict()[each][0] for each in ("estimate", "low", "high"))
            noted = any("narrower bins" in note for note in answer.notes)
            rows.append(_row(name, question, true(values), (estimate, low, high), noted=noted))
        zeros = float(np.mean([value == 0 for value in sample[name]]))
        rows.append(_row(name, "zeros", float(np.mean(values == 0)), (zeros, zeros, zeros), noted=False))
    return [row | {"seconds": watch.seconds} for row in rows]


def _row(
    column: str, answer: str, truth: float, found: tuple[float, float, float], *, noted: bool
) -> dict[str, object]:
    estimate, low, high = found
    row = {"column": column, "answer": answer, "truth": truth, "estimate": estimate, "low": low, "high": high}
    return row | {"noted": int(noted)}


def report(results: Results) -> None:
    """Coverage, error and width of each answer."""
    groups = defaultdict(list)
    for row in results.rows():
        groups[tuple(row[key] for key in ("schema", "mechanism", "epsilon", "column", "answer"))].append(row)
    lines: list[dict[str, object]] = []
    for key, rows in groups.items():
        names = ("truth", "estimate", "low", "high", "noted")
        truth, estimate, low, high, noted = (np.array([float(row[name]) for row in rows]) for name in names)
        line: dict[str, object] = dict(zip(("schema", "mechanism", "epsilon", "column", "answer"), key, strict=True))
        scale = np.where(truth == 0, 1, np.abs(truth)) if key[-1] != "zeros" else np.ones(len(truth))
        line |= {
            "fits": len(rows),
            "truth": float(truth.mean()),
            "held %": float(100 * ((low <= truth) & (truth <= high)).mean()) if key[-1] != "zeros" else np.nan,
            "error %": float(100 * np.median(np.abs(estimate - truth) / scale)),
            "90 % of errors": float(100 * np.quantile(np.abs(estimate - truth) / scale, 0.9)),
            "half width %": float(100 * np.median((high - low) / 2 / scale)),
            "noted %": float(100 * noted.mean()),
        }
        lines.append(line)
    shown(lines)
