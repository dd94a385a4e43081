"""MST, textbook AIM and the default of fit on the papers' tables and the town, beside an MST on mbi."""

import itertools
import json
import os
import resource
import subprocess
from collections import defaultdict
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import altair as alt
import numpy as np

from experiments.peers import mbi_python, read_estimate
from experiments.results import FOLDER, Results, Stopwatch, picture, shown
from experiments.tables import LARGEST, Coded, table, variations
from priory import town
from priory.app.registry import registered
from priory.data.public import public_codes
from priory.data.schema import Schema
from priory.data.sources.source import ROW_LIMIT
from priory.model.model import Model
from priory.privacy.budget import Budget
from priory.privacy.curator import Curator
from priory.privacy.ledger import Ledger
from priory.queries.domain import Clique, Domain
from priory.queries.factor import Factor

NAME = "default_fit"
MECHANISMS = ("mst", "aim-textbook", "aim", "mst on mbi")
EPSILONS = ("1", "0.1", "10")
DELTA = "1e-9"
RUNS = {"adult": 5, "town": 5, "titanic": 5, "loans": 2, "stroke": 1}
# The peer compiles for every pair of attributes: it runs on one table.
PEER_RUNS = {("adult", "1"): 5}
PAIRS, TRIPLES = 400, 400


def run(
    names: Sequence[str] = tuple(RUNS), mechanisms: Sequence[str] = MECHANISMS, epsilons: Sequence[str] = EPSILONS
) -> None:
    """Run what is missing, then print the table and draw the picture."""
    results = Results.of(NAME, ("table", "epsilon", "mechanism", "run"))
    for name, epsilon, mechanism in itertools.product(names, epsilons, mechanisms):
        runs = PEER_RUNS.get((name, epsilon), 0) if mechanism == "mst on mbi" else RUNS[name]
        for number in range(runs):
            key: dict[str, object] = {"table": name, "epsilon": epsilon, "mechanism": mechanism, "run": number}
            if not results.has(**key):
                results.add(key | _measured(_coded(name), epsilon, mechanism, number))
    report(results)


@cache
def _coded(name: str) -> Coded:
    if name != "town":
        return table(name)
    schema = Schema.load(town.SCHEMA)
    return Coded(name, schema.domain, np.asarray(public_codes(schema, town.THIS_YEAR), dtype=np.int64))


def _measured(coded: Coded, epsilon: str, mechanism: str, number: int) -> dict[str, object]:
    model, seconds = (_peer if mechanism == "mst on mbi" else _ours)(coded, epsilon, mechanism, number)
    megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    errors = {f"TV{k}": float(variations(model, coded, compared(coded.domain, k)).mean()) for k in (2, 3)}
    return {**errors, "seconds": seconds, "MB so far": megabytes}


def compared(domain: Domain, k: int) -> list[Clique]:
    """All marginals of k attributes, or some of them at random; on large tables those of at most 200,000 cells."""
    every = list(itertools.combinations(domain, k))
    if len(every) > TRIPLES:
        every = [clique for clique in every if domain.size_of(clique) <= 10 * LARGEST]
    most = PAIRS if k == 2 else TRIPLES
    return [every[i] for i in sorted(np.random.default_rng(0).permutation(len(every))[:most])]


class _Source:
    """A table of codes that can be counted."""

    def __init__(self, coded: Coded) -> None:
        self.domain, self._coded, self.row_limit = coded.domain, coded, ROW_LIMIT

    def count(self, cliques: Sequence[Clique]) -> list[Factor]:
        return [Factor(self.domain.project(clique), self._coded.counts(clique)) for clique in cliques]


def _ours(coded: Coded, epsilon: str, mechanism: str, _number: int) -> tuple[Model, float]:
    budget = Budget.approximate(epsilon, DELTA)
    watch = Stopwatch()
    with Ledger.in_memory(budget).reserve(budget, NAME) as reservation:
        recipe = registered(mechanism).build(coded.domain)
        model = recipe.run(Curator(reservation, _Source(coded)), budget).model
    return model, watch.seconds


def _peer(coded: Coded, epsilon: str, _mechanism: str, number: int) -> tuple[Model, float]:
    folder = FOLDER / NAME / f"mbi-{coded.name}-{epsilon}-{number}"
    folder.mkdir(parents=True, exist_ok=True)
    sizes = json.dumps(dict(zip(coded.domain, coded.domain.shape, strict=True)))
    rho = float(Budget.approximate(epsilon, DELTA).amount)
    np.savez(folder / "job.npz", domain=sizes, codes=coded.codes, rho=rho, seed=number)
    script = Path(__file__).with_name("peer_mst.py")
    command = [str(mbi_python()), str(script), str(folder / "job.npz"), str(folder / "results.npz")]
    subprocess.run(command, check=True, env={**os.environ, "JAX_PLATFORMS": "cpu"})
    found = read_estimate(folder / "results.npz", coded.domain)
    return found.model, found.seconds


def report(results: Results) -> None:
    """Means over runs with standard errors, and the picture."""
    groups: dict[tuple[str, str, str], list[dict[str, str]]] = defaultdict(list)
    for row in results.rows():
        groups[row["table"], row["epsilon"], row["mechanism"]].append(row)
    lines: list[dict[str, object]] = []
    for (name, epsilon, mechanism), rows in sorted(groups.items()):
        line: dict[str, object] = {"table": name, "ε": epsilon, "mechanism": mechanism, "runs": len(rows)}
        for column in ("TV2", "TV3"):
            values = np.array([float(row[column]) for row in rows])
            error = values.std(ddof=1) / np.sqrt(len(rows)) if len(rows) > 1 else np.nan
            line |= {column: float(values.mean()), f"± {column}": float(error)}
        line["CPU s"] = float(np.mean([float(row["seconds"]) for row in rows]))
        line["MB"] = max(int(row["MB so far"]) for row in rows)
        lines.append(line)
    shown(lines)
    chart = (
        alt.Chart(alt.Data(values=lines))
        .mark_line(point=True)
        .encode(
            x=alt.X("ε:O", sort=["0.1", "1", "10"]),
            y=alt.Y("TV3:Q", title="mean TV of three-way marginals"),
            color="mechanism:N",
        )
        .properties(width=170, height=180)
        .facet(column="table:N")
        .resolve_scale(y="independent")
    )
    picture(chart, NAME)


if __name__ == "__main__":
    run()
