"""Loss: how badly marginals explain the evidence, with the gradient on every clique."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Protocol

import numpy as np

from priory.errors import DomainError, OptionError
from priory.estimate.evidence import Evidence
from priory.estimate.products import dot
from priory.model.engine.layout import Layout, Values
from priory.queries.domain import Clique, Domain
from priory.queries.factor import Array, Factor
from priory.queries.parts import Identity, Part
from priory.queries.query import Query

Gradients = Mapping[Clique, Values]


class Loss(Protocol):
    """A convex function of the marginals, which are counts and lie one after the other in a layout."""

    @property
    def layout(self) -> Layout:
        """The cliques whose marginals it reads."""

    def __call__(self, marginals: Array) -> tuple[float, Array]:
        """Its value, and its gradient (a subgradient where it has a kink)."""

    @property
    def evidence(self) -> Evidence | None:
        """The measurements that it is made from; None for a custom loss."""

    @property
    def is_smooth(self) -> bool:
        """Whether it has a gradient everywhere, so that line searches and acceleration are sound."""

    @property
    def lipschitz(self) -> float:
        """A bound on how fast the gradient changes: ‖∇L(μ) − ∇L(ν)‖ ≤ K‖μ − ν‖."""


@dataclass(frozen=True, eq=False)
class _OfEvidence(ABC):
    """A loss of (Qμ − y)/σ."""

    evidence: Evidence  # Q, y and σ

    @property
    def layout(self) -> Layout:
        return self.evidence.layout

    def __call__(self, marginals: Array) -> tuple[float, Array]:
        excess = self.evidence.excess(marginals)
        value, slope = self._of(excess)
        return value, self.evidence.adjoint(slope / self.evidence.stddevs)

    @abstractmethod
    def _of(self, excess: Array) -> tuple[float, Array]:
        """The value and the gradient in (Qμ − y)/σ."""


class L2(_OfEvidence):
    """½ Σ ((Qμ − y)/σ)², the likelihood of Gaussian noise [Private-PGM, McKenna et al. 2019, §3]."""

    is_smooth: ClassVar[bool] = True

    def _of(self, excess: Array) -> tuple[float, Array]:
        return 0.5 * dot(excess, excess), excess

    @cached_property
    def lipschitz(self) -> float:
        """The sum over queries of λ_max(QᵀQ)/σ²: queries on one clique, or on overlapping ones, add up at worst."""
        least = [float(self.evidence.stddevs[span].min()) for span in self.evidence.spans]
        return sum(top_eigenvalue(q) / s**2 for q, s in zip(self.evidence.queries, least, strict=True))


class L1(_OfEvidence):
    """Σ |Qμ − y|/σ, up to a factor the likelihood of Laplace noise [Private-PGM, McKenna et al. 2019, §3]."""

    is_smooth: ClassVar[bool] = False
    lipschitz: ClassVar[float] = np.inf

    def _of(self, excess: Array) -> tuple[float, Array]:
        return float(np.abs(excess).sum()), np.sign(excess)


@dataclass(frozen=True, eq=False)
class CustomLoss:
    """Any convex loss, given as a function of the marginals [Private-PGM, McKenna et al. 2019, Appendix C]."""

    layout: Layout  # the cliques whose marginals it reads
    function: Callable[[Mapping[Clique, Factor]], tuple[float, Gradients]]  # counts to (value, gradients)
    is_smooth: bool = True  # whether it has a gradient everywhere
    lipschitz: float = np.inf  # how fast its gradient changes, which acceleration needs; ∞ where not known
    evidence: ClassVar[None] = None

    @classmethod
    def of(
        cls,
        domain: Domain,
        cliques: Iterable[str | Iterable[str]],
        function: Callable[[Mapping[Clique, Factor]], tuple[float, Gradients]],
        *,
        is_smooth: bool = True,
        lipschitz: float = np.inf,
    ) -> "CustomLoss":
        """Build a loss on `cliques` of `domain`, checking them."""
        if not lipschitz > 0:
            raise OptionError("lipschitz", f"a positive number; got {lipschitz}")
        return cls(Layout.of(domain, cliques), function, is_smooth, lipschitz)

    def __call__(self, marginals: Array) -> tuple[float, Array]:
        value, gradients = self.function(self.layout.unpack(marginals))
        gradient = self.layout.pack(gradients)
        if not (np.isfinite(value) and np.isfinite(gradient).all()):
            raise DomainError("the loss or its gradient is not finite")
        return float(value), gradient


def loss_of(loss: str | Loss, evidence: Evidence) -> Loss:
    """The loss meant by "l2", "l1" or a custom loss."""
    if not isinstance(loss, str):
        return loss
    if loss not in ("l2", "l1"):
        raise OptionError("loss", f"'l2', 'l1' or a custom loss; got {loss!r}")
    return L2(evidence) if loss == "l2" else L1(evidence)


def top_eigenvalue(query: Query) -> float:
    """λ_max(QᵀQ): eigenvalues of a Kronecker product are products, so the largest is too."""
    tops = [_top_singular_value(part, size) ** 2 for part, size in zip(query.parts, query.domain.shape, strict=True)]
    return float(np.prod(tops))


def _top_singular_value(part: Part, size: int) -> float:
    if isinstance(part, Identity):
        return 1.0
    return float(np.linalg.norm(part.matrix(size).astype(np.float64), ord=2))
