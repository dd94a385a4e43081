"""One measurement of priory, in a process of its own: the spec comes on standard input, the result goes out as JSON."""

import time
from typing import Any

import numpy as np

from bench.clock import read_spec, repeated, say, timed
from priory.model.bases import Uniform
from priory.model.engine import tape
from priory.model.model import Model
from priory.queries import parts
from priory.queries.domain import Domain
from priory.queries.query import Query

Result = dict[str, Any]


def oracle(spec: dict[str, Any]) -> Result:
    """A call of the marginal oracle: the first one from nothing planned, then many."""
    domain = Domain.of(spec["sizes"])
    cliques = tuple(tuple(clique) for clique in spec["cliques"])
    theta = np.random.default_rng(0).normal(size=sum(domain.size_of(clique) for clique in cliques))
    wall, cpu = timed(lambda: Uniform(domain).bind(cliques)(theta))
    if spec.get("compiled"):
        tape.COMPILER.wait()
    call = Uniform(domain).bind(cliques)
    return {"first_ms": 1e3 * wall, "first_cpu_ms": 1e3 * cpu, **repeated(lambda: call(theta))}


def adult_model(spec: dict[str, Any]) -> Model:
    """A model on the spec's cliques with random potentials."""
    domain = Domain.of(spec["sizes"])
    rng = np.random.default_rng(0)
    potentials = {tuple(c): rng.normal(size=domain.project(c).shape) for c in spec["cliques"]}
    return Model.of(Uniform(domain), potentials, 48842.0)


def projection(spec: dict[str, Any]) -> Result:
    """A three-way marginal that no clique holds: the first, then others like it."""
    model = adult_model(spec)
    asked = [tuple(clique) for clique in spec["asked"]]
    wall, cpu = timed(lambda: model.project(asked[0]))
    return {"first_ms": 1e3 * wall, "first_cpu_ms": 1e3 * cpu, **repeated(lambda: model.project(asked[0]))}


def queries(spec: dict[str, Any]) -> Result:
    """Mixed product queries, all at once; per query."""
    model = adult_model(spec)
    asked = [
        Query.product(model.domain, {name: getattr(parts, kind)(*args) for name, (kind, *args) in row.items()})
        for row in spec["queries"]
    ]
    wall, cpu = timed(lambda: model.answers(asked))
    again = repeated(lambda: model.answers(asked), least=3)
    scale = 1 / len(asked)
    return {
        "first_ms": 1e3 * wall * scale,
        "first_cpu_ms": 1e3 * cpu * scale,
        "wall_ms": again["wall_ms"] * scale,
        "cpu_ms": again["cpu_ms"] * scale,
    }


def rows(spec: dict[str, Any]) -> Result:
    """Synthetic rows."""
    model = adult_model(spec)
    wall, cpu = timed(lambda: model.sample(spec["rows"], seed=0))
    return {
        "first_ms": 1e3 * wall,
        "first_cpu_ms": 1e3 * cpu,
        **repeated(lambda: model.sample(spec["rows"], seed=1), least=3),
    }


def main() -> None:
    """Carry out the spec."""
    spec = read_spec()
    jobs = {"oracle": oracle, "projection": projection, "queries": queries, "rows": rows}
    start = time.perf_counter()
    result = jobs[spec["job"]](spec)
    say({**result, "seconds": time.perf_counter() - start})


if __name__ == "__main__":
    main()
