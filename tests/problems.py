"""Small estimation problems, solved by brute force on the full table."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from priory.estimate.evidence import Evidence
from priory.estimate.loss import L2, Loss
from priory.estimate.problem import Problem
from priory.mechanisms.dualquery.estimates import SampleLoss
from priory.model.bases import Base, Uniform
from priory.privacy.measurement import Measurement
from priory.queries.domain import Clique, Domain
from priory.queries.factor import Factor
from priory.queries.query import Query

Array = NDArray[np.float64]
DOMAIN = Domain.of({"a": 3, "b": 4, "c": 2, "d": 3})
TREE: tuple[Clique, ...] = (("a", "b"), ("b", "c"), ("d",))
LOOP: tuple[Clique, ...] = (("a", "b"), ("b", "c"), ("c", "d"), ("a", "d"))


@dataclass(frozen=True, eq=False)
class Small:
    """A table, noisy measurements of it, and the dense matrix of all of them."""

    domain: Domain
    truth: Array
    measurements: list[Measurement]

    @property
    def total(self) -> float:
        return float(self.truth.sum())

    @property
    def matrix(self) -> Array:
        return np.vstack([dense(measurement.query, self.domain) for measurement in self.measurements])

    @property
    def answers(self) -> Array:
        return np.concatenate([np.ravel(measurement.values) for measurement in self.measurements])

    @property
    def stddevs(self) -> Array:
        return np.concatenate([np.full(m.query.rows, m.stddev) for m in self.measurements])

    def problem(self, base: Base | None = None, loss: Loss | None = None) -> Problem:
        chosen = loss or L2(Evidence.of(self.domain, self.measurements))
        return Problem((base or Uniform(self.domain)).bind(chosen.layout.cliques), chosen, self.total)


def dense(query: Query, domain: Domain) -> Array:
    """The query as a matrix on the full table."""
    eye = np.eye(domain.size).reshape((domain.size, *domain.shape))
    gone = tuple(1 + i for i, name in enumerate(domain) if name not in query.clique)
    return np.array([np.ravel(query(table)) for table in eye.sum(axis=gone)]).T


def small(seed: int, cliques: tuple[Clique, ...] = TREE, *, noise: float = 1.0, total: float = 1000.0) -> Small:
    """A random table with some cells almost empty, measured with noise that differs from one marginal to the next."""
    rng = np.random.default_rng(seed)
    truth = total * rng.dirichlet(np.full(DOMAIN.size, 0.3)).reshape(DOMAIN.shape)
    measurements = []
    for number, clique in enumerate(cliques):
        gone = tuple(i for i, name in enumerate(DOMAIN) if name not in clique)
        stddev = 5.0 + 3 * number
        counts = truth.sum(axis=gone)
        values = counts + noise * rng.normal(0, stddev, counts.shape)
        measurements.append(Measurement.of(Query.marginal(DOMAIN, clique), values, stddev))
    return Small(DOMAIN, truth, measurements)


def least_squares(task: Small) -> float:
    """½‖(Qx − y)/σ‖² at its least over tables x ≥ 0 with the right total, by non-negative least squares."""
    from scipy.optimize import nnls

    A, y = task.matrix / task.stddevs[:, None], task.answers / task.stddevs
    heavy = 1e4
    x, _ = nnls(np.vstack([A, np.full((1, A.shape[1]), heavy)]), np.append(y, heavy * task.total))
    x *= task.total / x.sum()
    return 0.5 * float(np.sum((A @ x - y) ** 2))


def at_marginals(loss: SampleLoss, marginals: Mapping[Clique, Factor]) -> tuple[float, dict[Clique, Array]]:
    """DualQuery's loss as a function of marginals, and its gradient on each clique of the workload."""
    near = loss.near(np.concatenate([np.ravel(query(marginals[query.clique].values)) for query in loss.workload]))
    gradient: dict[Clique, Array] = {}
    ends = np.cumsum([query.rows for query in loss.workload])
    for query, own in zip(loss.workload, np.split(near.slope, ends[:-1]), strict=True):
        table = query.adjoint(own.reshape(query.shape))
        gradient[query.clique] = gradient.get(query.clique, np.zeros(query.domain.shape)) + table
    return near.value, gradient
