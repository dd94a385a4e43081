"""Fit coverage: how often intervals of whole fits hold the true answer, by how many columns answers are about.

Samples are drawn anew for each fit. Answers of at least one record are counted by themselves too: most cells of large
marginals are empty, and any interval that reaches down to nothing holds them.
"""

import json
from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from experiments.default_errors import drawn
from experiments.results import Results, shown
from experiments.tables import Coded, some_cliques
from priory.answer.basis import Drawn
from priory.app.fit import fit
from priory.data.codec import code_type
from priory.data.schema import Schema
from priory.data.sources.memory import MemorySource
from priory.queries.domain import Clique
from priory.queries.query import Query
from priory.release import Release

NAME = "fit_coverage"
SMALL, LARGE = ("titanic", "town:2000", "adult:2000", "town:500", "adult:500"), ("town", "adult", "dense", "chain")
EPSILONS, LARGE_EPSILON, DELTA = ("1", "10", "0.1"), "1", "1e-9"
MECHANISMS = ("weighing", "aim")
SMALL_FITS, LARGE_FITS = 20, 6
LEVELS = (0.5, 0.9, 0.95)
# How many marginals of two and of three columns are asked, and of how many cells at most.
ASKED, MOST_CELLS = {2: 25, 3: 8}, 20_000
LEAST = 1.0


def run(
    names: Sequence[str] = (*SMALL, *LARGE),
    epsilons: Sequence[str] = EPSILONS,
    mechanisms: Sequence[str] = MECHANISMS,
) -> None:
    """Fit what is missing, then print the table."""
    results = Results.of(NAME, ("table", "epsilon", "mechanism", "draw"))
    for name in names:
        is_large = name in LARGE
        for epsilon in (LARGE_EPSILON,) if is_large else epsilons:
            for mechanism in mechanisms:
                for draw in range(LARGE_FITS if is_large else SMALL_FITS):
                    key: dict[str, object] = {"table": name, "epsilon": epsilon, "mechanism": mechanism, "draw": draw}
                    if not results.has(**key):
                        coded = drawn(name, draw)
                        release = _fitted(coded, epsilon, mechanism)
                        results.add(key | {"tallies": json.dumps(_tallied(release, coded, draw))})
    report(results)


def _fitted(coded: Coded, epsilon: str, mechanism: str) -> Release:
    domain = coded.domain
    columns = tuple(coded.codes[:, i].astype(code_type(size)) for i, size in enumerate(domain.shape))
    schema = Schema.coded(dict(zip(domain.attributes, domain.shape, strict=True)))
    source = MemorySource(domain, columns, coded.records)
    return fit(source, schema, epsilon=epsilon, delta=DELTA, mechanism=mechanism)


def _tallied(release: Release, coded: Coded, draw: int) -> dict[str, list[float]]:
    """Of each kind of answers: held at each level, all, sum of widths at 90 %, of squared errors."""
    ground = release.basis().ground
    tallies: dict[str, list[float]] = defaultdict(lambda: [0.0] * (len(LEVELS) + 3))
    for clique in _asked(coded, draw):
        [found] = ground.drawn([Query.marginal(release.domain, clique)], 0.9)
        for size, some in (("all", np.ones(found.estimate.shape, dtype=bool)), ("≥ 1", found.estimate >= LEAST)):
            tally = tallies[f"{_kind(release, clique, found)}, {size}"]
            for i, number in enumerate(_numbers(found, coded.counts(clique), some)):
                tally[i] += number
    return dict(tallies)


def _asked(coded: Coded, draw: int) -> list[Clique]:
    rng = np.random.default_rng(draw)
    asked: list[Clique] = [(name,) for name in coded.domain]
    for columns, count in ASKED.items():
        every = [c for c in some_cliques(coded.domain, columns, 1000) if coded.domain.size_of(c) <= MOST_CELLS]
        asked += [every[i] for i in rng.permutation(len(every))[:count]]
    return asked


def _kind(release: Release, clique: Clique, found: Drawn) -> str:
    holding = [m for m in release.measurements if set(clique) <= set(m.query.clique)]
    on_runs = found.source == "measured" and not any(m.query.is_marginal for m in holding)
    return f"{len(clique)} {found.source}{' on runs' if on_runs else ''}"


def _numbers(found: Drawn, truth: np.ndarray, some: np.ndarray) -> list[float]:
    intervals = [found.interval(level) for level in LEVELS]
    some = some & np.isfinite(intervals[0].low)
    held = [float(np.sum(((each.low <= truth) & (truth <= each.high))[some])) for each in intervals]
    width = intervals[1].high - intervals[1].low
    return [*held, float(some.sum()), float(width[some].sum()), float(np.sum((found.estimate - truth)[some] ** 2))]


def report(results: Results) -> None:
    """The share of answers held, the deviation that intervals stand for on average, and the true one."""
    found: dict[tuple[str, ...], list[list[float]]] = defaultdict(list)
    for row in results.rows():
        for kind, tally in json.loads(row["tallies"]).items():
            if tally[len(LEVELS)]:
                found[row["table"], row["epsilon"], row["mechanism"], *kind.split(", ")].append(tally)
    lines: list[dict[str, object]] = []
    for key, tallies in sorted(found.items()):
        *held, answers, width, squares = np.sum(tallies, axis=0)
        shares = [tally[1] / tally[len(LEVELS)] for tally in tallies]
        line: dict[str, object] = dict(zip(("table", "ε", "mechanism", "answers", "size"), key, strict=True))
        line |= {"fits": len(tallies), "number": int(answers)}
        line |= {f"at {level}": float(each / answers) for level, each in zip(LEVELS, held, strict=True)}
        line |= {"±": float(np.std(shares) / len(shares) ** 0.5), "deviation": float(width / answers / (2 * 1.645))}
        lines.append(line | {"error": float((squares / answers) ** 0.5)})
    shown(lines)
