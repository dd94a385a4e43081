"""One measurement of mbi 2.0.0, in its own virtual environment: the same specs as for priory."""

import time
from collections.abc import Callable
from functools import reduce
from types import ModuleType
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from bench.clock import read_spec, repeated, say, timed

Result = dict[str, Any]


def setup(spec: dict[str, Any]) -> tuple[ModuleType, ModuleType, object]:
    """The library, with its own defaults unless double precision is asked for, and random potentials."""
    import jax  # type: ignore[import-not-found, unused-ignore]

    jax.config.update("jax_enable_x64", bool(spec.get("x64", False)))
    import jax.numpy as jnp  # type: ignore[import-not-found, unused-ignore]
    import mbi

    domain = mbi.Domain(list(spec["sizes"]), list(spec["sizes"].values()))
    cliques = [tuple(clique) for clique in spec["cliques"]]
    rng = np.random.default_rng(0)
    tables = {}
    for clique in cliques:
        shape = tuple(spec["sizes"][name] for name in clique)
        tables[clique] = mbi.Factor(domain.project(clique), jnp.asarray(rng.normal(size=shape)))
    return jax, mbi, mbi.CliqueVector(domain, cliques, tables)


def oracle(spec: dict[str, Any]) -> Result:
    """A call of one of its marginal oracles, already compiled after the first."""
    jax, mbi, potentials = setup(spec)
    function = getattr(mbi.marginal_oracles, spec["oracle"])

    def call() -> None:
        jax.block_until_ready(function(potentials))

    wall, cpu = timed(call)
    return {"first_ms": 1e3 * wall, "first_cpu_ms": 1e3 * cpu, **repeated(call)}


class Fitted(Protocol):
    """What is used of the peer's models."""

    def project(self, clique: tuple[str, ...]) -> "Fitted":
        """A marginal."""

    def datavector(self, *, flatten: bool) -> object:
        """Its values."""

    def synthetic_data(self, *, rows: int) -> object:
        """Rows."""


def _model(spec: dict[str, Any]) -> Fitted:
    _, mbi, potentials = setup(spec)
    marginals = mbi.marginal_oracles.message_passing_hugin(potentials, 48842.0)
    fitted: Fitted = mbi.MarkovRandomField(potentials=potentials, marginals=marginals, total=48842.0)
    return fitted


def projection(spec: dict[str, Any]) -> Result:
    """A three-way marginal that no clique holds."""
    model = _model(spec)
    asked = [tuple(clique) for clique in spec["asked"]]

    def call() -> None:
        np.asarray(model.project(asked[0]).datavector(flatten=False))

    wall, cpu = timed(call)
    return {"first_ms": 1e3 * wall, "first_cpu_ms": 1e3 * cpu, **repeated(call)}


def queries(spec: dict[str, Any]) -> Result:
    """Product queries as its users must write them: the marginal, then the matrices (its own `kron_query` raises)."""
    model = _model(spec)
    rows = spec["queries"][: spec["peer_queries"]]

    def answer() -> None:
        for row in rows:
            table = np.asarray(model.project(tuple(row)).datavector(flatten=False))
            reduce(_applied, [(axis, *row[name]) for axis, name in enumerate(row)], table)

    wall, cpu = timed(answer)
    again = repeated(answer, least=3)
    scale = 1 / len(rows)
    return {
        "first_ms": 1e3 * wall * scale,
        "first_cpu_ms": 1e3 * cpu * scale,
        "wall_ms": again["wall_ms"] * scale,
        "cpu_ms": again["cpu_ms"] * scale,
    }


MATRICES: dict[str, Callable[..., list[list[float]]]] = {
    "Range": lambda size, low, high: [[float(low <= a <= high) for a in range(size)]],
    "Point": lambda size, code: [[float(a == code) for a in range(size)]],
    "Set": lambda size, codes: [[float(a in codes) for a in range(size)]],
    "Mean": lambda _, values: [values],
    "Recode": lambda _, targets: [[float(t == k) for t in targets] for k in range(max(targets) + 1)],
}


def _applied(table: NDArray[Any], part: tuple[Any, ...]) -> NDArray[Any]:
    axis, kind, *args = part
    if kind == "Identity":
        return table
    if kind == "Prefix":
        return np.cumsum(table, axis=axis)
    matrix = np.array(MATRICES[kind](table.shape[axis], *args))
    return np.moveaxis(np.tensordot(matrix, table, axes=(1, axis)), 0, axis)


def rows(spec: dict[str, Any]) -> Result:
    """Synthetic rows by rounding, its default."""
    model = _model(spec)

    def call() -> None:
        model.synthetic_data(rows=spec["rows"])

    wall, cpu = timed(call)
    return {"first_ms": 1e3 * wall, "first_cpu_ms": 1e3 * cpu, **repeated(call, least=2)}


def startup(_: dict[str, Any]) -> Result:
    """The time to import the package."""
    import subprocess
    import sys

    bare = repeated(lambda: subprocess.run([sys.executable, "-c", "pass"], check=True), least=5)
    it = repeated(lambda: subprocess.run([sys.executable, "-W", "ignore", "-c", "import mbi"], check=True), least=5)
    return {"wall_ms": it["wall_ms"] - bare["wall_ms"], "cpu_ms": it["wall_ms"] - bare["wall_ms"]}


def main() -> None:
    """Carry out the spec."""
    spec = read_spec()
    jobs = {"oracle": oracle, "projection": projection, "queries": queries, "rows": rows, "startup": startup}
    start = time.perf_counter()
    result = jobs[spec["job"]](spec)
    say({**result, "seconds": time.perf_counter() - start})


if __name__ == "__main__":
    main()
