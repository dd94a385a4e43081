"""Bases: what a model starts from, each with an exact oracle for any tilt.

A base b is a probability distribution over the domain. Tilted by potentials θ it becomes
q(x) = b(x) exp(Σ_C θ_C(x_C)) / Z with Z = Σ_x b(x) exp(Σ_C θ_C(x_C)), so θ = 0 gives log Z = 0 whatever the base.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from priory.errors import DomainError, OptionError
from priory.model.engine.contract import Contraction
from priory.model.engine.gpu import Precision, TorchContraction
from priory.model.engine.layout import Layout, Values, potentials_of
from priory.model.engine.plan import MEMORY_IN_BYTES, plan
from priory.model.graph import GraphTilted
from priory.model.mixed import MixedOracle, MixedTilted
from priory.model.rows import RowsOracle, RowsTilted
from priory.model.tilted import Oracle, Potentials, Tilted, merged, softmax
from priory.queries.domain import Clique, Domain
from priory.queries.factor import Array, Factor

# Oracles of more cells than this are not cached.
_CACHED_CELLS = 1 << 22


class Base(ABC):
    """A distribution that can be tilted. All an estimator needs is `bind`; all a model needs is `tilt`.

    Attributes:
        domain: the attributes.
        is_informative: whether it says more than that every cell is alike: leaving it then takes stronger evidence.
        is_product: whether its attributes are independent of each other.
    """

    domain: Domain
    is_informative: ClassVar[bool] = True
    is_product: ClassVar[bool] = False

    @abstractmethod
    def bind(self, cliques: Iterable[Clique]) -> Oracle:
        """The oracle for a set of cliques, planned once for many calls."""

    @abstractmethod
    def tilt(self, potentials: Potentials) -> Tilted:
        """The tilted distribution, for projections, answers and rows. Potentials have been checked."""

    @abstractmethod
    def bytes_of(self, cliques: Sequence[Clique]) -> int:
        """About how much memory its oracle takes, tilted on these cliques."""

    def oracle(self, potentials: Mapping[Any, Values]) -> tuple[float, dict[Clique, Factor]]:
        """log Z and the marginals, summing to 1, on the cliques of `potentials`; a `DomainError` if they do not fit."""
        checked = potentials_of(self.domain, potentials)
        oracle = self.bind(tuple(checked))
        log_z, marginals = oracle(oracle.layout.pack(checked))
        check_mass(log_z)
        return log_z, oracle.layout.unpack(marginals)


def check_mass(log_z: float) -> None:
    """Raise a `DomainError` where potentials of −∞ rule out every cell the base supports."""
    if np.isneginf(log_z):
        raise DomainError("the potentials rule out every cell that the base supports")


@dataclass(frozen=True, eq=False)
class Uniform(Base):
    """Every cell of the domain alike.

    Attributes:
        domain: the attributes.
        memory_in_bytes: what its oracles may use.
        device: a device of torch for its oracles, such as "cuda"; without one they run on the CPU.
        precision: of the arithmetic on that device.
    """

    domain: Domain
    memory_in_bytes: int = field(default=MEMORY_IN_BYTES, kw_only=True)
    device: str | None = field(default=None, kw_only=True)
    precision: Precision = field(default="float64", kw_only=True)
    is_informative: ClassVar[bool] = False
    is_product: ClassVar[bool] = True

    def __repr__(self) -> str:
        return f"Uniform({len(self.domain)} attributes)"

    def bind(self, cliques: Iterable[Clique]) -> Oracle:
        cliques = tuple(self.domain.checked(clique) for clique in cliques)
        if self.device is None:
            return _contraction(self.domain, cliques, self.memory_in_bytes)
        planned = plan(self.domain, cliques, memory_in_bytes=self.memory_in_bytes)
        layout = Layout(self.domain, cliques)
        return TorchContraction(layout, planned, device=self.device, precision=self.precision)

    def bytes_of(self, cliques: Sequence[Clique]) -> int:
        return plan(self.domain, cliques, memory_in_bytes=2**62).memory_in_bytes

    def tilt(self, potentials: Potentials) -> Tilted:
        return GraphTilted.of(_contraction(self.domain, tuple(potentials), self.memory_in_bytes), potentials)


def _contraction(domain: Domain, cliques: tuple[Clique, ...], memory_in_bytes: int) -> Contraction:
    if sum(domain.size_of(clique) for clique in cliques) <= _CACHED_CELLS:
        return _cached_contraction(domain, cliques, memory_in_bytes)
    return _new_contraction(domain, cliques, memory_in_bytes)


def _new_contraction(domain: Domain, cliques: tuple[Clique, ...], memory_in_bytes: int) -> Contraction:
    planned = plan(domain, cliques, memory_in_bytes=memory_in_bytes)
    return Contraction(Layout(domain, cliques), planned, memory_in_bytes=memory_in_bytes)


_cached_contraction = lru_cache(maxsize=8)(_new_contraction)


class Shifted:
    """The oracle of a base that has potentials of its own."""

    def __init__(self, base: Base, cliques: tuple[Clique, ...], own: Potentials, log_z: float) -> None:
        self.layout = Layout.of(base.domain, cliques)
        asked = set(cliques)
        self._inner = base.bind((*cliques, *(clique for clique in own if clique not in asked)))
        # A clique that is asked for twice has two tables, of which the first takes the potentials.
        inner = self._inner.layout
        starts = dict(zip(reversed(inner.cliques), reversed(inner.offsets[:-1]), strict=True))
        self._theta = np.zeros(inner.size)
        for clique, factor in own.items():
            self._theta[starts[clique] : starts[clique] + factor.values.size] = factor.values.reshape(-1)
        self._log_z = log_z

    def __call__(self, theta: Array) -> tuple[float, Array]:
        full = self._theta.copy()
        full[: self.layout.size] += theta
        log_z, marginals = self._inner(full)
        return log_z - self._log_z, marginals[: self.layout.size]


class Product(Base):
    """Independent attributes with given one-way marginals.

    Args:
        factors: one-way marginals, counts or shares; each is divided by its sum.
        domain: all attributes, where some have no marginal (they are uniform) or the order matters.
    """

    is_product: ClassVar[bool] = True

    def __init__(self, factors: Iterable[Factor], *, domain: Domain | None = None) -> None:
        self.shares: dict[str, Array] = {}
        for factor in factors:
            if len(factor.domain) != 1:
                raise DomainError(f"a product needs one-way marginals; got one over {list(factor.domain)}")
            [name] = factor.domain
            if name in self.shares:
                raise DomainError(f"attribute {name!r} has two marginals")
            self.shares[name] = shares_of(factor.values, f"the marginal of {name!r}")
        sizes = {name: len(shares) for name, shares in self.shares.items()}
        self.domain = Domain.of(sizes) if domain is None else domain
        self._uniform = Uniform(self.domain)
        for name in self.domain.checked(self.shares):
            if self.domain[name] != sizes[name]:
                raise DomainError(f"attribute {name!r} has {self.domain[name]} values, its marginal {sizes[name]}")

    def __repr__(self) -> str:
        return f"Product({len(self.shares)} marginals over {len(self.domain)} attributes)"

    def bind(self, cliques: Iterable[Clique]) -> Oracle:
        cliques = tuple(cliques)
        touched = {name for clique in cliques for name in clique}
        return Shifted(self._uniform, cliques, self._potentials(name for name in self.shares if name in touched), 0.0)

    def bytes_of(self, cliques: Sequence[Clique]) -> int:
        return self._uniform.bytes_of(cliques)

    def tilt(self, potentials: Potentials) -> Tilted:
        return self._uniform.tilt(merged(self._potentials(self.shares), potentials))

    def _potentials(self, names: Iterable[str]) -> dict[Clique, Factor]:
        with np.errstate(divide="ignore"):
            return {
                (name,): Factor(self.domain.project((name,)), np.log(self.shares[name] * len(self.shares[name])))
                for name in names
            }


def shares_of(weights: ArrayLike, what: str) -> Array:
    """Weights divided by their sum; a `DomainError` unless all are finite and at least 0, with a positive sum."""
    array = np.asarray(weights, dtype=np.float64)
    if not np.isfinite(array).all() or (array < 0).any() or not array.sum() > 0:
        raise DomainError(f"{what} needs finite numbers, none negative, with a positive sum")
    return np.asarray(array / array.sum())


class PublicRows(Base):
    """Distinct rows with weights: the support is exactly these rows.

    Args:
        codes: one row a record, one column an attribute of the domain, in its order.
        domain: the attributes.
        weights: a weight for each row, all equal by default; equal rows add up.

    Attributes:
        records: how many rows of equal weight say as much as those given, (Σw)²/Σw² [Kish 1965].
    """

    def __init__(self, codes: ArrayLike, domain: Domain, weights: ArrayLike | None = None) -> None:
        array = checked_codes(codes, domain)
        if not len(array):
            raise DomainError("public rows need at least one row")
        shares = shares_of(np.ones(len(array)) if weights is None else weights, "weights of rows")
        if shares.shape != (len(array),):
            raise DomainError(f"{len(array)} rows need as many weights; got shape {shares.shape}")
        self.domain = domain
        self.records = 1 / float(np.square(shares).sum())
        self.codes, self.shares = _distinct(array[shares > 0], shares[shares > 0])

    @classmethod
    def counted(cls, codes: ArrayLike, counts: ArrayLike, domain: Domain) -> "PublicRows":
        """So many copies of each row, which are never made."""
        array = np.asarray(counts)
        if array.dtype.kind not in "iu" or (array < 1).any():
            raise DomainError("the counts of rows are whole numbers, at least 1")
        rows = cls(codes, domain, array)
        rows.records = float(array.sum(dtype=np.float64))
        return rows

    @classmethod
    def of_cells(cls, domain: Domain, logs: Array) -> "PublicRows":
        """Every cell of the domain as a row, of which `logs` are the logarithms of the shares but for a constant."""
        log_z, shares = softmax(logs.reshape(-1))
        check_mass(log_z)
        codes = np.indices(domain.shape, dtype=np.int32).reshape(len(domain.shape), -1).T
        # Cells are distinct and in order already: nothing needs to be checked or sorted.
        rows, has_mass = cls.__new__(cls), shares > 0
        rows.domain, rows.records = domain, 1 / float(np.square(shares).sum())
        rows.codes, rows.shares = codes[has_mass], shares[has_mass]
        return rows

    def __repr__(self) -> str:
        return f"PublicRows({len(self.codes)} distinct rows over {len(self.domain)} attributes)"

    def thinned(self, rows: int) -> "PublicRows":
        """So many of the rows at random, always the same ones, with their weights; all where there are no more."""
        if len(self.codes) <= rows:
            return self
        kept = np.random.default_rng(0).choice(len(self.codes), rows, replace=False)
        return PublicRows(self.codes[kept], self.domain, self.shares[kept])

    def with_shares(self, shares: Array) -> "PublicRows":
        """The same rows with other shares; those of none are left out."""
        rows, has_mass = PublicRows.__new__(PublicRows), shares > 0
        rows.domain, rows.records = self.domain, float(shares.sum()) ** 2 / float(np.square(shares).sum())
        rows.codes, rows.shares = self.codes[has_mass], shares[has_mass] / shares.sum()
        return rows

    def bind(self, cliques: Iterable[Clique]) -> Oracle:
        return RowsOracle(Layout.of(self.domain, cliques), self.codes, np.log(self.shares))

    def bytes_of(self, cliques: Sequence[Clique]) -> int:
        return int(self.codes.nbytes + self.shares.nbytes)

    def tilt(self, potentials: Potentials) -> RowsTilted:
        return RowsTilted.of(Layout.of(self.domain, potentials), self.codes, np.log(self.shares), potentials)


def checked_codes(codes: ArrayLike, domain: Domain) -> NDArray[np.int32]:
    """Codes as 32-bit numbers; a `DomainError` unless they are within the domain, one column an attribute."""
    array = np.asarray(codes)
    if array.ndim != 2 or array.shape[1] != len(domain):
        raise DomainError(f"codes need one column for each of {len(domain)} attributes; got shape {array.shape}")
    if array.dtype.kind not in "iu" and array.size:
        raise DomainError(f"codes are whole numbers; got {array.dtype}")
    if array.size and ((array < 0).any() or (array >= np.array(domain.shape)).any()):
        wrong = [name for i, name in enumerate(domain) if not ((array[:, i] >= 0) & (array[:, i] < domain[name])).all()]
        raise DomainError(f"codes of {wrong} lie outside the domain")
    return array.astype(np.int32)


def _distinct(codes: NDArray[np.int32], shares: Array) -> tuple[NDArray[np.int32], Array]:
    rows, inverse = np.unique(codes, axis=0, return_inverse=True)
    return rows, np.asarray(np.bincount(inverse.reshape(-1), weights=shares), dtype=np.float64)


class Mixture(Base):
    """A weighted average of bases over one domain, weights adding up to 1: Z = Σ w_k Z_k and μ = Σ w_k Z_k μ_k / Z."""

    def __init__(self, parts: Sequence[tuple[float, Base]]) -> None:
        if not parts:
            raise OptionError("parts", "a mixture needs at least one base")
        self.weights = tuple(float(weight) for weight, _ in parts)
        self.bases = tuple(base for _, base in parts)
        self.domain = self.bases[0].domain
        if not all(weight > 0 for weight in self.weights) or abs(sum(self.weights) - 1) > 1e-9:
            raise OptionError("parts", f"weights are positive and sum to 1; got {list(self.weights)}")
        for base in self.bases[1:]:
            if base.domain != self.domain:
                raise DomainError(f"bases of a mixture share one domain; got {self.domain} and {base.domain}")

    def __repr__(self) -> str:
        return f"Mixture({', '.join(f'{w:g} × {b!r}' for w, b in zip(self.weights, self.bases, strict=True))})"

    def bind(self, cliques: Iterable[Clique]) -> Oracle:
        cliques = tuple(cliques)
        return MixedOracle(Layout.of(self.domain, cliques), self.weights, [base.bind(cliques) for base in self.bases])

    def bytes_of(self, cliques: Sequence[Clique]) -> int:
        return sum(base.bytes_of(cliques) for base in self.bases)

    def tilt(self, potentials: Potentials) -> Tilted:
        return MixedTilted.of(self.weights, [base.tilt(potentials) for base in self.bases])
