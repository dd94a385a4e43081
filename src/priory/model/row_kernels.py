"""Row kernels: the two compiled loops of the oracle of weighted rows, over blocks of rows that stay in the cache.

`cells` has a line for each clique with the cell that each row is in, and `offsets` where each clique's table starts.
Without numba these are ordinary, slow functions, which the tests run.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from priory.model.engine.kernels import compiled
from priory.queries.factor import Array

BLOCK = 8192
Ints = NDArray[np.int64]
# The first of some rows or cliques, and the one after the last.
Span = tuple[int, int]


def _gather(cells: NDArray[Any], offsets: Ints, theta: Array, span: Span, sums: Array) -> None:
    """Add Σ_C θ_C(cell of the row) to each row of `span`."""
    for start in range(span[0], span[1], BLOCK):
        stop = min(start + BLOCK, span[1])
        for clique in range(len(offsets)):
            table, places = theta[offsets[clique] :], cells[clique]
            for i in range(start, stop):
                sums[i] += table[places[i]]


def _scatter(cells: NDArray[Any], offsets: Ints, shares: Array, span: Span, sums: Array) -> None:
    """Add the share of each row to its cell in the tables of the cliques of `span`."""
    for start in range(0, len(shares), BLOCK):
        stop = min(start + BLOCK, len(shares))
        for clique in range(span[0], span[1]):
            table, places = sums[offsets[clique] :], cells[clique]
            for i in range(start, stop):
                table[places[i]] += shares[i]


gather = compiled(_gather, nogil=True)
scatter = compiled(_scatter, nogil=True)
