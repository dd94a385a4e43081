"""One fit of a wide table in a process of its own: its CPU seconds, its peak of memory and its errors."""

import itertools
import os
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from bench.census import Census
from bench.clock import peak_in_mb, read_spec, say, timed
from priory.answer.drawn_rows import DrawnRows
from priory.app.registry import Mechanism, registered
from priory.data.sources.memory import MemorySource
from priory.errors import SizeError
from priory.model.model import Model
from priory.privacy.budget import Budget
from priory.privacy.curator import Curator
from priory.privacy.ledger import Ledger
from priory.queries.domain import Clique, Domain
from priory.queries.factor import Array
from priory.queries.query import Query

DELTA = "1e-9"
# Marginals of each size that are compared, and the cells they have at most.
COMPARED, CELLS = 200, 200_000
# How many of them are worked out at once: they share work, and a limit on memory.
TOGETHER = 20


def source_of(spec: dict[str, Any]) -> MemorySource:
    """The table that a spec names: the census, one column of many levels beside it, or one of the real tables."""
    if spec["table"] == "census":
        return Census.made(spec["rows"], columns=spec["columns"]).source
    if spec["table"] == "levels":
        census, rng = Census.made(spec["rows"], columns=20), np.random.default_rng(1)
        wide = (5_000 * rng.random(spec["rows"]) ** 3).astype(np.uint16)
        domain = Domain.of(dict(zip(census.domain, census.domain.shape, strict=True)) | {"levels": 5_000})
        return MemorySource(domain, (*census.source.codes, wide), spec["rows"])
    from experiments.tables import table

    coded = table(spec["table"])
    return MemorySource(coded.domain, tuple(np.ascontiguousarray(c) for c in coded.codes.T), coded.records)  # type: ignore[arg-type]


def recipe_of(spec: dict[str, Any], domain: Domain) -> Mechanism:
    """The mechanism, with public rows or with a fixed number of measurements where the spec says so."""
    entry = registered(spec["mechanism"])
    if spec.get("public"):
        census = Census.made(spec["rows"], columns=spec["columns"], year=1, drifted=spec["public"] == "drifted")
        assert entry.with_public is not None
        return entry.with_public(census.public)
    recipe = entry.build(domain)
    if "measurements" in spec:
        recipe = replace(recipe, rounds=Fraction(spec["measurements"], len(domain)))  # type: ignore[type-var]
    return recipe


def variation(model: Model, source: MemorySource, ways: int) -> float:
    """The mean total variation distance of some marginals from the table's."""
    rng, domain = np.random.default_rng(0), source.domain
    drawn = (rng.permutation(len(domain))[:ways] for _ in range(20 * COMPARED))
    cliques: dict[Clique, None] = dict.fromkeys(tuple(domain.attributes[i] for i in sorted(each)) for each in drawn)
    small = list(itertools.islice((c for c in cliques if domain.size_of(c) <= CELLS), COMPARED))
    answers = _answers(model, [Query.marginal(domain, clique) for clique in small])
    truths = source.count(small)
    return float(np.mean([_distance(a, t.values) for a, t in zip(answers, truths, strict=True)]))


def _answers(model: Model, queries: Sequence[Query]) -> list[Array]:
    """The exact answers; counted on drawn rows where they would take too much memory."""
    rows = DrawnRows(model)
    answers: list[Array] = []
    for start in range(0, len(queries), TOGETHER):
        some = queries[start : start + TOGETHER]
        try:
            answers += model.answers(some)
        except SizeError:
            answers += [rows.answer(query) for query in some]
    return answers


def _distance(answer: Array, truth: Array) -> float:
    return 0.5 * float(np.abs(answer / answer.sum() - truth / truth.sum()).sum())


def main() -> None:
    """Carry out the spec."""
    spec = read_spec()
    os.environ.setdefault("PRIORY_DATA", "")
    source = source_of(spec)
    recipe, budget = recipe_of(spec, source.domain), Budget.approximate(spec["epsilon"], DELTA)
    models: list[Model] = []

    def fit() -> None:
        with Ledger.in_memory(budget).reserve(budget, "bench") as reservation:
            models.append(recipe.run(Curator(reservation, source), budget).model)

    wall, cpu = timed(fit)
    peak = peak_in_mb()
    errors = {f"TV{k}": variation(models[0], source, k) for k in (2, 3)}
    say({"cpu_s": cpu, "wall_s": wall, "fit_mb": peak, **errors})


if __name__ == "__main__":
    main()
