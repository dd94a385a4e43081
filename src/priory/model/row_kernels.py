"""Row kernels: the two compiled loops of the oracle of weighted rows, table by table: one of them stays in the cache.

`cells` has a line for each clique with the cell that each row is in, and `offsets` where each clique's table starts.
Without numba these are ordinary, slow functions, which the tests run.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from priory.model.engine.kernels import compiled
from priory.queries.factor import Array

# Rows whose sums stay in the cache, too. With 8,192 all tables come and go so often that it takes 2.5 times as long.
BLOCK = 1 << 17
Ints = NDArray[np.int64]
# The first of some rows or cliques, and the one after the last.
Span = tuple[int, int]


def _gather(cells: NDArray[Any], offsets: Ints, numbers: Array, span: Span, sums: Array) -> None:
    """Add the numbers of the cells of each row of `span` to its sum."""
    whole = len(offsets) - len(offsets) % 4
    for start in range(span[0], span[1], BLOCK):
        stop = min(start + BLOCK, span[1])
        for k in range(0, whole, 4):
            a, b = numbers[offsets[k] :], numbers[offsets[k + 1] :]
            c, d = numbers[offsets[k + 2] :], numbers[offsets[k + 3] :]
            for i in range(start, stop):
                sums[i] += a[cells[k, i]] + b[cells[k + 1, i]] + c[cells[k + 2, i]] + d[cells[k + 3, i]]
        for k in range(whole, len(offsets)):
            a = numbers[offsets[k] :]
            for i in range(start, stop):
                sums[i] += a[cells[k, i]]


def _scatter(cells: NDArray[Any], offsets: Ints, shares: Array, span: Span, sums: Array) -> None:
    """Add the share of each row to its cells in the tables of `span`.

    Four at a time: most rows are in few cells, and adding to one of them waits until the last addition to it is done.
    """
    whole = span[1] - (span[1] - span[0]) % 4
    for k in range(span[0], whole, 4):
        a, b, c, d = sums[offsets[k] :], sums[offsets[k + 1] :], sums[offsets[k + 2] :], sums[offsets[k + 3] :]
        for i in range(len(shares)):
            share = shares[i]
            a[cells[k, i]] += share
            b[cells[k + 1, i]] += share
            c[cells[k + 2, i]] += share
            d[cells[k + 3, i]] += share
    for k in range(whole, span[1]):
        a = sums[offsets[k] :]
        for i in range(len(shares)):
            a[cells[k, i]] += shares[i]


gather = compiled(_gather, nogil=True)
scatter = compiled(_scatter, nogil=True)
