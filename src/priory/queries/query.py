"""Query: a product of parts over a clique."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from priory.errors import DomainError, OptionError, SizeError
from priory.queries.domain import Clique, Domain
from priory.queries.parts import Identity, Matrix, Numbers, Part

DENSE_LIMIT = 10**8


@dataclass(frozen=True)
class Query:
    """The map μ_C ↦ (A₁ ⊗ … ⊗ A_k) vec(μ_C) on the marginal of clique C.

    The Kronecker product is never formed: each part is applied along its own axis [HDMM, McKenna et al. 2018].
    Answers keep one axis per part.

    Attributes:
        domain: C and its sizes.
        parts: A₁ … A_k, one per attribute of C.
        clique: C, the attributes the query reads.
        shape: how many answers there are along each part.
        rows: how many answers there are.
        is_marginal: whether every part is the identity.
        is_integer: whether every entry of every part is an integer, so that integer counts give integer answers.
    """

    # Workloads of hundreds of queries are looked up in every round of a mechanism: each is hashed once.
    domain: Domain = field(hash=False)
    parts: tuple[Part, ...] = field(hash=False)
    clique: Clique = field(init=False, repr=False, compare=False)
    shape: tuple[int, ...] = field(init=False, repr=False, compare=False)
    rows: int = field(init=False, repr=False, compare=False)
    is_marginal: bool = field(init=False, repr=False, compare=False)
    is_integer: bool = field(init=False, repr=False, compare=False)
    _hash: int = field(init=False, repr=False, compare=False, hash=True)

    def __post_init__(self) -> None:
        sized = list(zip(self.parts, self.domain.shape, strict=True))
        shape = tuple(part.rows(size) for part, size in sized)
        vars(self).update(
            clique=self.domain.attributes,
            shape=shape,
            rows=math.prod(shape),
            is_marginal=all(isinstance(part, Identity) for part in self.parts),
            is_integer=all(part.is_integer(size) for part, size in sized),
            _hash=hash((self.domain, self.parts)),
        )

    def __reduce__(self) -> tuple[object, ...]:
        # Another process hashes texts otherwise.
        return Query, (self.domain, self.parts)

    @classmethod
    def product(cls, domain: Domain, parts: Mapping[str, Part]) -> "Query":
        """The product of `parts`; attributes that are not named are summed out.

        >>> from priory.queries.parts import Prefix
        >>> Query.product(Domain.of({"age": 85, "sex": 2}), {"age": Prefix()}).shape
        (85,)
        """
        clique = domain.clique(parts)
        for name in clique:
            if not isinstance(parts[name], Part):
                raise DomainError(f"attribute {name!r} needs a part such as Identity(); got {parts[name]!r}")
            try:
                parts[name].check(domain[name])
            except DomainError as error:
                raise DomainError(f"attribute {name!r}: {error}") from None
        return cls(domain.project(clique), tuple(parts[name] for name in clique))

    @classmethod
    def marginal(cls, domain: Domain, clique: str | Iterable[str]) -> "Query":
        """Every cell of the marginal of `clique`, in the domain's order."""
        clique = domain.clique(clique)
        return cls(domain.project(clique), (Identity(),) * len(clique))

    def __call__(self, marginal: Numbers) -> Numbers:
        """The answers on a marginal of the clique, of shape `self.shape`."""
        if marginal.shape != self.domain.shape:
            raise DomainError(f"the marginal has shape {marginal.shape}, the query's clique has {self.domain.shape}")
        answers = marginal
        # Parts that shrink the table most go first: the later ones then have less to do.
        for axis in sorted(range(len(self.parts)), key=lambda i: self.shape[i] / self.domain.shape[i]):
            answers = self.parts[axis].apply(answers, axis)
        return answers

    def adjoint(self, answers: Numbers) -> Numbers:
        """The transpose of the map, of shape `self.domain.shape`: how a gradient on the answers becomes one on μ_C."""
        if answers.shape != self.shape:
            raise DomainError(f"the answers have shape {answers.shape}, the query gives {self.shape}")
        values = answers
        for axis in sorted(range(len(self.parts)), key=lambda i: self.domain.shape[i] / self.shape[i]):
            values = self.parts[axis].adjoint(values, axis, self.domain.shape[axis])
        return values

    def row(self, place: int) -> "Query":
        """The query whose one answer is the one at `place` of this query's answers, flattened.

        >>> Query.marginal(Domain.of({"age": 85, "sex": 2}), ("age", "sex")).row(3).parts
        (Point(code=1), Point(code=1))
        """
        if not 0 <= place < self.rows:
            raise OptionError("place", f"the query has {self.rows} answers; got {place}")
        rows = np.unravel_index(place, self.shape) if self.parts else ()
        parts = zip(self.parts, self.domain.shape, rows, strict=True)
        return Query(self.domain, tuple(part.row(size, int(i)) for part, size, i in parts))

    def dense(self) -> Numbers:
        """The matrix itself, for tests and small cases; a `SizeError` where it would have more than 10⁸ entries."""
        cells = self.rows * self.domain.size
        if cells > DENSE_LIMIT:
            said = f"the dense matrix of this query has {cells:.3g} entries; the limit is {DENSE_LIMIT:.0e}"
            raise SizeError(said, cells=cells, limit=DENSE_LIMIT, cliques=[self.clique])
        matrix = np.ones((1, 1), dtype=np.int64)
        for part, size in zip(self.parts, self.domain.shape, strict=True):
            matrix = np.kron(matrix, part.matrix(size))
        return matrix

    def on_lattice(self, bits: int) -> "Query":
        """The same query with each real part replaced by the integers nearest to 2^bits times its entries.

        Its answers on counts are integers, so discrete noise fits; the estimate then uses the rounded parts.
        """
        if not 0 <= bits <= 52:
            raise OptionError("bits", f"a lattice has 0 to 52 bits; got {bits}")
        sized = zip(self.parts, self.domain.shape, strict=True)
        return Query(self.domain, tuple(_rounded(part, size, bits) for part, size in sized))


def _rounded(part: Part, size: int, bits: int) -> Part:
    if part.is_integer(size):
        return part
    scaled = np.rint(np.ldexp(part.matrix(size), bits))
    if np.abs(scaled).max() >= 2.0**62:
        raise OptionError("bits", f"entries of {part!r} times 2^{bits} do not fit 62 bits; use fewer bits")
    return Matrix(scaled.astype(np.int64))
