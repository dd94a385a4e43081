"""Weighted marginals: the best shares of a budget among marginals, for a workload of marginals; no data are needed."""

import itertools
import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from priory.domain import Clique, Domain
from priory.errors import OptionError
from priory.factor import Array
from priory.mechanisms.hdmm.strategies import Strategy
from priory.queries.query import Query
from priory.queries.workload import Workload

# Marginals with less than this share are left out, and the others share it.
LEAST_SHARE = 1e-4


def marginals_strategy(workload: Workload, *, is_pure: bool) -> Strategy:
    """Weighted marginals for a workload of marginals, answered by least squares on all of them [HDMM, OPT_M]."""
    from scipy.optimize import minimize

    if not all(query.is_marginal for query in workload):
        raise OptionError("workload", "weighted marginals answer workloads of marginals only")
    spectrum = Spectrum.of(workload, power=2 if is_pure else 1)
    start = np.log(spectrum.asked + spectrum.asked.sum() / len(spectrum.asked))
    result = minimize(spectrum.log_error, start, jac=True, method="L-BFGS-B", tol=1e-10)
    shares = softmax(np.asarray(result.x))
    shares = np.where((shares < LEAST_SHARE) & (spectrum.asked == 0), 0.0, shares)
    shares /= shares.sum()
    measured = np.flatnonzero(shares)
    domain = spectrum.domain
    return Strategy(
        tuple(Query.marginal(domain, spectrum.cliques[i]) for i in measured),
        tuple(float(shares[i]) for i in measured),
        spectrum.error(shares),
    )


def softmax(logs: Array) -> Array:
    """Positive shares that add up to 1."""
    shares = np.exp(logs - logs.max())
    return np.asarray(shares / shares.sum())


@dataclass(frozen=True, eq=False)
class Spectrum:
    """A workload and strategies of marginals in the eigenspaces they share.

    There is one for each set S of attributes, of dimension Π_{i∈S}(n_i − 1). On it a marginal of C ⊇ S has an
    eigenvalue of MᵀM proportional to 1/Π_{i∈C} n_i, and any other 0. So the error is Σ_S dim_S·w_S/a_S.
    """

    domain: Domain  # the attributes that the workload reads
    cliques: tuple[Clique, ...]  # the marginals that may be asked: the downward closure of the workload
    asked: Array  # the workload's weight of each
    power: int  # a share s of the budget gives a precision of s^power

    @classmethod
    def of(cls, workload: Workload, *, power: int) -> "Spectrum":
        """The spectrum of a workload of marginals."""
        sizes = {name: n for q in workload for name, n in zip(q.clique, q.domain.shape, strict=True)}
        closure = dict.fromkeys(
            subset for c in workload.cliques for k in range(len(c) + 1) for subset in itertools.combinations(c, k)
        )
        asked = dict.fromkeys(closure, 0.0)
        for query, weight in zip(workload.queries, workload.weights, strict=True):
            asked[query.clique] += weight
        return cls(Domain.of(sizes), tuple(closure), np.array(list(asked.values())), power)

    @cached_property
    def eigenvalues(self) -> Array:
        """Of each marginal (columns) on each eigenspace (rows), divided by the cells of the whole domain."""
        sets = [frozenset(clique) for clique in self.cliques]
        inside = np.array([[s <= c for c in sets] for s in sets], dtype=np.float64)
        return np.asarray(inside / np.array([self.domain.size_of(clique) for clique in self.cliques]))

    @cached_property
    def wanted(self) -> Array:
        """dim_S·w_S."""
        dims = [math.prod(self.domain[name] - 1 for name in clique) for clique in self.cliques]
        return np.asarray(np.array(dims, dtype=np.float64) * (self.eigenvalues @ self.asked))

    def error(self, shares: Array) -> float:
        """Σ_S dim_S·w_S/a_S."""
        needed = self.wanted > 0
        return float((self.wanted[needed] / (self.eigenvalues @ shares**self.power)[needed]).sum())

    def log_error(self, logs: Array) -> tuple[float, Array]:
        """The logarithm of the error and its gradient, where shares are the softmax of `logs`."""
        shares = softmax(logs)
        precision = self.eigenvalues @ shares**self.power
        value = float((self.wanted / precision).sum())
        in_shares = -self.power * shares ** (self.power - 1) * (self.eigenvalues.T @ (self.wanted / precision**2))
        return math.log(value), shares * (in_shares - shares @ in_shares) / value
