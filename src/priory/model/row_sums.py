"""Row sums: potentials summed over the cliques of each row, and shares over the rows of each cell, compiled."""

import itertools
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from priory.cores import available
from priory.model.engine.cores import together
from priory.model.engine.layout import Layout
from priory.model.sampling import Codes
from priory.model.tilted import row_cells
from priory.queries.factor import Array

# Loading the compiler takes about a second of CPU: sums of fewer rows times cliques are faster without it.
WORTH_COMPILING = 4_000_000
# Tables of up to so many cells have 16-bit cell numbers, which halves what must be read.
_SMALL = 1 << 16
# Cells of each row in some cliques, and where the tables of these start.
_Group = tuple[NDArray[Any], NDArray[np.int64]]


class CompiledSums:
    """The sums by compiled loops on every core; the cell of each row in each clique is worked out once."""

    def __init__(self, layout: Layout, codes: Codes) -> None:
        self._rows, self._size = len(codes), layout.size
        self._groups: list[_Group] = []
        for kind, is_small in ((np.uint16, True), (np.uint32, False)):
            members = [i for i, size in enumerate(layout.sizes) if (size <= _SMALL) is is_small]
            cells = np.empty((len(members), len(codes)), dtype=kind)
            for place, i in enumerate(members):
                cells[place] = row_cells(codes, layout.domain, layout.cliques[i])
            self._groups.append((cells, np.array([layout.offsets[i] for i in members], dtype=np.int64)))

    def over_cliques(self, theta: Array) -> Array:
        """Σ_C θ_C(cell of the row) for each row."""
        from priory.model.row_kernels import gather

        sums = np.zeros(self._rows)
        for cells, offsets in self._groups:
            _split(self._rows, partial(gather, cells, offsets, theta), sums)
        return sums

    def over_cells(self, shares: Array) -> Array:
        """For each cell of each clique, the shares of the rows in it together."""
        from priory.model.row_kernels import scatter

        sums = np.zeros(self._size)
        for cells, offsets in self._groups:
            _split(len(offsets), partial(scatter, cells, offsets, shares), sums)
        return sums


def _split(count: int, work: Callable[[tuple[int, int], Array], None], sums: Array) -> None:
    """Do a piece of the work on each core; no two pieces write to the same place."""
    edges = np.linspace(0, count, min(available(), max(count, 1)) + 1).astype(int).tolist()
    together([partial(work, span, sums) for span in itertools.pairwise(edges)])


def compiled_sums(layout: Layout, codes: Codes) -> CompiledSums | None:
    """Compiled sums where numba is installed and they pay."""
    if len(codes) * len(layout.cliques) < WORTH_COMPILING or max(layout.sizes) > np.iinfo(np.uint32).max:
        return None
    return CompiledSums(layout, codes) if find_spec("numba") is not None else None
