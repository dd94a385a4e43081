"""Recovery: the potentials whose marginals are given ones."""

import numpy as np

from priory.estimate.lbfgs import minimised
from priory.estimate.problem import Problem
from priory.model.engine.contract import Contraction
from priory.model.engine.layout import Layout
from priory.model.engine.plan import Plan
from priory.queries.factor import Array

# A potential this low stands for a cell without mass.
_EMPTY = -60.0


def recovered(problem: Problem, marginals: Array) -> tuple[Array, int]:
    """The potentials of consistent `marginals`, in closed form where that exists, else fitted; and calls of the oracle.

    A closed form exists for the uniform base when every bag of the plan is a measured clique: then
    θ_C = log μ_C − log μ_S, with S what the bag shares with its parent.
    """
    plan = problem.oracle.plan if isinstance(problem.oracle, Contraction) else None
    shares = marginals / problem.total
    theta = None if plan is None else _closed_form(problem.loss.layout, plan, shares)
    return _fitted(problem, shares) if theta is None else (theta, 0)


def _closed_form(layout: Layout, plan: Plan, shares: Array) -> Array | None:
    tables = layout.unpack(shares)
    whole = {frozenset(clique): clique for clique in layout.cliques}
    theta = {clique: np.zeros(shape) for clique, shape in zip(layout.cliques, layout.shapes, strict=True)}
    for bag in plan.bags:
        clique = whole.get(frozenset(plan.attributes_of(bag)))
        if clique is None:
            return None
        separator = tuple(plan.domain.attributes[i] for i in bag.separator)
        below = tables[clique].project(tuple(name for name in clique if name in separator))
        theta[clique] = _log(tables[clique].values) - _log(below.expand(tables[clique].domain).values)
    return layout.pack(list(theta.values()))


def _log(shares: Array) -> Array:
    with np.errstate(divide="ignore"):
        return np.maximum(np.log(shares), _EMPTY)


def _fitted(problem: Problem, shares: Array) -> tuple[Array, int]:
    """The maximum of ⟨θ, μ⟩ − log Z(θ), which is reached where the marginals are μ."""
    scale = np.sqrt(np.maximum(shares, 1e-12))

    def objective(scaled: Array) -> tuple[float, Array]:
        theta = scaled / scale
        log_z, own = problem.oracle(theta)
        return log_z - float(theta @ shares), (own - shares) / scale

    best = minimised(objective, np.zeros(len(shares)), goal=1e-16, iterations=2000, limit=-_EMPTY * scale)
    return best.x / scale, best.calls
