"""Hypothesis strategies for models, and the slow obvious oracle they are compared with."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st

from priory.queries.domain import Clique, Domain
from priory.queries.factor import Array, Factor

NAMES = ("age", "sex", "marital-status", "größe", "household size", "f", "g")
SCALES = (0.0, 1.0, 5.0, 40.0)


@dataclass(frozen=True)
class Case:
    """A domain, cliques in any order, and one table of potentials for each."""

    domain: Domain
    cliques: tuple[Clique, ...]
    tables: tuple[Array, ...]

    @property
    def potentials(self) -> dict[Clique, Array]:
        together: dict[Clique, Array] = {}
        for clique, table in zip(self.cliques, self.tables, strict=True):
            together[clique] = together.get(clique, 0.0) + table
        return together


@st.composite
def cases(
    draw: st.DrawFn,
    *,
    max_attributes: int = 7,
    max_cliques: int = 7,
    scales: tuple[float, ...] = SCALES,
    zeros: bool = True,
) -> Case:
    """Any structure: nested, disjoint, duplicated, permuted, single and empty cliques; zeros where asked for."""
    count = draw(st.integers(1, max_attributes))
    sizes = draw(st.lists(st.integers(1, 4), min_size=count, max_size=count))
    domain = Domain.of(dict(zip(NAMES, sizes, strict=False)))
    clique = st.permutations(domain.attributes).flatmap(
        lambda names: st.integers(0, min(4, count)).map(lambda k: tuple(names[:k]))
    )
    cliques = tuple(draw(st.lists(clique, max_size=max_cliques)))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    scale = draw(st.sampled_from(scales))
    tables = [scale * rng.normal(size=domain.project(c).shape) for c in cliques]
    if zeros and draw(st.booleans()):
        tables = [np.where(rng.random(t.shape) < 0.15, -np.inf, t) for t in tables]
    return Case(domain, cliques, tuple(tables))


def joint_logs(domain: Domain, potentials: Mapping[Any, Array], base: Array | None = None) -> Array:
    """log b(x) + Σ_C θ_C(x_C) for every cell of the full table."""
    with np.errstate(divide="ignore"):
        logs = np.log(np.full(domain.shape, 1 / domain.size) if base is None else base)
    for clique, table in potentials.items():
        logs = logs + Factor(domain.project(clique), np.asarray(table)).expand(domain).values
    return logs


def brute(domain: Domain, potentials: Mapping[Any, Array], base: Array | None = None) -> tuple[float, Array]:
    """log Z and the full table of the tilted base; log Z is −∞ where there is no mass."""
    logs = joint_logs(domain, potentials, base)
    top = float(logs.max())
    if np.isneginf(top):
        return -np.inf, np.zeros(domain.shape)
    joint = np.exp(logs - top)
    return top + float(np.log(joint.sum())), joint / joint.sum()


def marginal(domain: Domain, joint: Array, clique: Clique) -> Array:
    return np.asarray(Factor(domain, joint).project(clique).values)


def random_joint(domain: Domain, rng: np.random.Generator, *, zeros: float = 0.0) -> Array:
    joint = rng.random(domain.shape)
    joint[rng.random(domain.shape) < zeros] = 0.0
    joint.flat[0] += 0.1
    return np.asarray(joint / joint.sum())
