"""Rows: the oracle of weighted rows, whose marginals are sums by cell code."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from priory.domain import Clique, Domain
from priory.factor import Array
from priory.model.engine.layout import Layout
from priory.model.membership import Membership
from priory.model.sampling import Chance, Codes, drawn_alike
from priory.model.softmax import softmax
from priory.model.tilted import Potentials, Tilted, row_cells
from priory.queries.query import Query


# With more places, rows times cliques, sums are taken clique by clique: a matrix of them would take gigabytes.
_PLACES = 1 << 24


class RowsOracle:
    """Potentials in, log Z and marginals of weighted rows out.

    Attributes:
        layout: the cliques and where they lie.
        rows: how many rows there are.
    """

    def __init__(self, layout: Layout, codes: Codes, log_shares: Array) -> None:
        self.layout = layout
        self.rows = len(codes)
        self._log_shares = log_shares
        self._spans = list(zip(layout.offsets, layout.offsets[1:], strict=False))
        self._is_large = len(codes) * len(layout.cliques) > _PLACES
        cells = (row_cells(codes, layout.domain, clique) for clique in layout.cliques)
        # Cells are looked up as long integers; as short ones they take a quarter of the memory.
        self._cells = [each.astype(np.min_scalar_type(each.max())) if self._is_large else each for each in cells]

    def __call__(self, theta: Array, out: Array | None = None) -> tuple[float, Array]:
        log_z, shares = self.shares(theta)
        sums = self._sums(shares)
        if out is None:
            return log_z, sums
        out[...] = sums
        return log_z, out

    def _sums(self, shares: Array) -> Array:
        if not self._is_large:
            return self._members.sums(shares)
        tables = zip(self._cells, self._spans, strict=True)
        return np.concatenate([np.bincount(cells, shares, stop - start) for cells, (start, stop) in tables])

    @cached_property
    def _members(self) -> Membership:
        sizes = (stop - start for start, stop in self._spans)
        return Membership.of(zip(self._cells, sizes, strict=True), len(self._log_shares))

    def shares(self, theta: Array) -> tuple[float, Array]:
        """log Z and each row's share of the tilted mass."""
        return softmax(self.logs(theta))

    def logs(self, theta: Array) -> Array:
        """The logarithm of each row's tilted share, but for a constant."""
        logs = self._log_shares.copy()
        for cells, (start, stop) in zip(self._cells, self._spans, strict=True):
            logs += theta[start:stop].take(cells)
        return logs


@dataclass(frozen=True, eq=False)
class RowsTilted(Tilted):
    """Weighted rows, tilted."""

    domain: Domain
    codes: Codes
    shares: Array
    log_normaliser: float

    @classmethod
    def of(cls, layout: Layout, codes: Codes, log_shares: Array, potentials: Potentials) -> "RowsTilted":
        """Tilt rows by potentials on the cliques of `layout`."""
        log_z, shares = RowsOracle(layout, codes, log_shares).shares(layout.pack(potentials))
        return cls(layout.domain, codes, shares, log_z)

    @property
    def log_z(self) -> float:
        return self.log_normaliser

    def project(self, clique: Clique) -> Array:
        shape = self.domain.project(clique).shape
        cells = row_cells(self.codes, self.domain, clique)
        size = self.domain.size_of(clique)
        sums = np.bincount(cells, weights=self.shares, minlength=size)
        return np.asarray(sums.reshape(shape), dtype=np.float64)

    def answers(self, queries: Sequence[Query]) -> list[Array]:
        return [self._answer(query) for query in queries]

    def _answer(self, query: Query) -> Array:
        if query.domain.size <= query.rows * len(self.codes):
            return np.asarray(query(self.project(query.clique)), dtype=np.float64)
        # The marginal is larger than what the rows touch: weigh each row by its own entries of the parts.
        values = self.shares[None, :]
        for name, part in zip(query.clique, query.parts, strict=True):
            entries = part.matrix(self.domain[name])[:, self.codes[:, self.domain.axis[name]]]
            values = (values[:, None, :] * entries[None, :, :]).reshape(-1, len(self.codes))
        return np.asarray(values.sum(axis=1).reshape(query.shape))

    def sample(self, n: int, chance: Chance) -> Codes:
        return self.codes[drawn_alike(self.shares, n, chance)]

    def log_mass(self, codes: Codes) -> Array:
        known = {row.tobytes(): i for i, row in enumerate(np.ascontiguousarray(self.codes))}
        numbers = [known.get(row.tobytes(), -1) for row in np.ascontiguousarray(codes)]
        with np.errstate(divide="ignore"):
            logs = np.append(np.log(self.shares), -np.inf)
        return np.asarray(logs[np.array(numbers, dtype=np.int64)])

    def entropy(self) -> float:
        positive = self.shares[self.shares > 0]
        return float(-(positive * np.log(positive)).sum())
