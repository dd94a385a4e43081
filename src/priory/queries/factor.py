"""Factor: an array over a clique."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from priory.errors import DomainError
from priory.queries.domain import Domain

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Factor:
    """One number for every cell of a clique: counts, a marginal, or potentials.

    Attributes:
        domain: the clique and its sizes, in the order of the axes.
        values: the numbers; `values.shape == domain.shape`.
    """

    domain: Domain
    values: NDArray[Any]

    @classmethod
    def of(cls, domain: Domain, values: ArrayLike) -> "Factor":
        """Build a factor, checking that `values` are numbers and fit `domain`."""
        array = np.asarray(values)
        if array.dtype.kind not in "biuf":
            raise DomainError(f"values must be real numbers; got {array.dtype}")
        if array.shape != domain.shape:
            raise DomainError(f"values have shape {array.shape}, domain has {domain.shape}")
        return cls(domain, array)

    def transpose(self, clique: Iterable[str]) -> "Factor":
        """The same numbers with the axes in the order of `clique`."""
        clique = self.domain.checked(clique)
        if len(clique) != len(self.domain):
            raise DomainError(f"{list(clique)} does not name all of {list(self.domain)}")
        return Factor(self.domain.project(clique), self.values.transpose([self.domain.axis[name] for name in clique]))

    def project(self, clique: str | Iterable[str]) -> "Factor":
        """Sum over every attribute that is not in `clique`; axes in the order of `clique`.

        >>> Factor.of(Domain.of({"a": 2, "b": 2}), [[1, 2], [3, 4]]).project("b").values
        array([4, 6])
        """
        clique = self.domain.checked(clique)
        gone = tuple(i for i, name in enumerate(self.domain) if name not in clique)
        kept = self.domain.without(self.domain.attributes[i] for i in gone)
        return Factor(kept, self.values.sum(axis=gone) if gone else self.values).transpose(clique)

    def expand(self, domain: Domain) -> "Factor":
        """Repeat the numbers over every further attribute of `domain` (a view where NumPy can)."""
        missing = [name for name in self.domain if name not in domain]
        if missing:
            raise DomainError(f"cannot expand: {missing} not in {list(domain)}")
        here = self.transpose(name for name in domain if name in self.domain)
        shape = tuple(size if name in self.domain else 1 for name, size in zip(domain, domain.shape, strict=True))
        return Factor(domain, np.broadcast_to(here.values.reshape(shape), domain.shape))

    @property
    def total(self) -> float:
        """The sum over all cells."""
        return float(self.values.sum())


def cell_codes(columns: Sequence[NDArray[Any]], shape: Sequence[int]) -> NDArray[np.int64]:
    """The cell of a table of this shape, counted in C order, that each record is in: its codes as digits.

    >>> cell_codes([np.array([0, 1]), np.array([2, 0])], (2, 3)).tolist()
    [2, 3]
    """
    cells = columns[0].astype(np.int64)
    for codes, size in zip(columns[1:], shape[1:], strict=True):
        cells *= size
        cells += codes
    return cells
