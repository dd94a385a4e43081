"""Tilted: a base with its potentials, ready to be projected, queried and sampled."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from priory.model.engine.layout import Layout
from priory.model.sampling import Chance, Codes
from priory.queries.domain import Clique, Domain
from priory.queries.factor import Array, Factor, cell_codes
from priory.queries.query import Query

Potentials = Mapping[Clique, Factor]


class Oracle(Protocol):
    """Potentials in, the logarithm of the normaliser and the marginals of the same cliques out, both as vectors."""

    @property
    def layout(self) -> Layout:
        """The cliques and where their tables lie in the vectors."""

    def __call__(self, theta: Array) -> tuple[float, Array]:
        """log Z and the marginals, each summing to 1, at potentials `theta`; −∞ and zeros where no mass is left."""


@dataclass(frozen=True, eq=False)
class Tilted(ABC):
    """q(x) = b(x) exp(Σ_C θ_C(x_C)) / Z, normalised to 1."""

    log_z: float  # log Σ_x b(x) exp(Σ_C θ_C(x_C)); −∞ where no mass is left, and then nothing else can be asked

    @abstractmethod
    def project(self, clique: Clique) -> Array:
        """The marginal of any clique, axes in its order."""

    @abstractmethod
    def answers(self, queries: Sequence[Query]) -> list[Array]:
        """The answers to product queries on q."""

    @abstractmethod
    def sample(self, n: int, chance: Chance) -> Codes:
        """`n` rows of codes, one column an attribute."""

    @abstractmethod
    def log_mass(self, codes: Codes) -> Array:
        """log q(x) for each row x; −∞ where q has none."""

    @abstractmethod
    def entropy(self) -> float:
        """−Σ_x q(x) log q(x)."""


def softmax(logs: Array) -> tuple[float, Array]:
    """log Σ exp(logs) and exp(logs) divided by that sum; −∞ and zeros where all are −∞."""
    top = logs.max()
    if np.isneginf(top):
        return -np.inf, np.zeros(len(logs))
    shares = np.exp(logs - top)
    mass = shares.sum()
    return float(top + np.log(mass)), shares / mass


def merged(first: Potentials, second: Potentials) -> dict[Clique, Factor]:
    """Both sets of potentials together; on a clique that both have, in whatever order of attributes, they add up."""
    together = dict(first)
    same = {frozenset(clique): clique for clique in first}
    for clique, factor in second.items():
        known = same.setdefault(frozenset(clique), clique)
        if known in together:
            own = factor if clique == known else factor.transpose(known)
            together[known] = Factor(own.domain, together[known].values + own.values)
        else:
            together[clique] = factor
    return together


def inner(theta: Array, marginals: Array) -> float:
    """Σ θ μ, where −∞ times 0 is 0."""
    has_mass = marginals > 0
    return float(theta[has_mass] @ marginals[has_mass])


def row_cells(codes: NDArray[np.integer], domain: Domain, clique: Clique) -> NDArray[np.int64]:
    """The cell of the clique's table that each row is in, counted in C order."""
    if not clique:
        return np.zeros(len(codes), dtype=np.int64)
    return cell_codes([codes[:, domain.axis[name]] for name in clique], domain.project(clique).shape)
