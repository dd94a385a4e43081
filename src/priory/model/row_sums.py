"""Row sums: potentials summed over the cliques of each row, and shares summed over the rows of each cell."""

from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec

import numpy as np

from priory.model.engine.layout import Layout
from priory.model.sampling import Codes
from priory.queries.factor import Array

# Compiling pays from so many cells to look up on.
WORTH_COMPILING = 2_000_000


class CompiledSums:
    """The same sums by compiled loops on every core; cells are worked out from the codes each time."""

    def __init__(self, layout: Layout, codes: Codes) -> None:
        domain = layout.domain
        small = np.uint8 if max(domain.shape) <= 1 << 8 else np.uint16 if max(domain.shape) <= 1 << 16 else np.int32
        self._codes = np.ascontiguousarray(codes.T.astype(small))
        self._size = layout.size
        self._members = np.zeros((len(layout.cliques), 3), dtype=np.int64)
        self._strides = np.zeros((len(layout.cliques), 3), dtype=np.int64)
        for number, (clique, shape) in enumerate(zip(layout.cliques, layout.shapes, strict=True)):
            self._members[number, : len(clique)] = [domain.axis[name] for name in clique]
            self._strides[number, : len(clique)] = [int(np.prod(shape[i + 1 :])) for i in range(len(clique))]
        self._offsets = np.array(layout.offsets[:-1], dtype=np.int64)
        from priory.model.engine.cores import available as cores

        edges = np.linspace(0, len(codes), cores() + 1).astype(int)
        self._parts = list(zip(edges[:-1], edges[1:], strict=True))

    def over_cliques(self, theta: Array) -> Array:
        """Σ_C θ_C(cell of the row) for each row."""
        from priory.model.row_kernels import gather

        sums = np.zeros(self._codes.shape[1])

        def part(first: int, last: int) -> None:
            gather(self._codes, first, last, self._members, self._strides, self._offsets, theta, sums)

        self._on_every_core(part)
        return sums

    def over_cells(self, shares: Array) -> Array:
        """The shares of the rows in each cell together."""
        from priory.model.row_kernels import scatter

        def part(first: int, last: int) -> Array:
            sums = np.zeros(self._size)
            scatter(self._codes, first, last, self._members, self._strides, self._offsets, shares, sums)
            return sums

        return sum(self._on_every_core(part))

    def _on_every_core(self, part):
        with ThreadPoolExecutor(len(self._parts)) as pool:
            return list(pool.map(lambda span: part(*span), self._parts))


def compiled_sums(layout: Layout, codes: Codes) -> CompiledSums | None:
    """Compiled sums where numba is installed and they pay."""
    work = len(codes) * len(layout.cliques)
    if work < WORTH_COMPILING or max(map(len, layout.cliques)) > 3 or min(map(len, layout.cliques)) < 1 or find_spec("numba") is None:
        return None
    return CompiledSums(layout, codes)
