"""Row kernels: the two compiled loops of the oracle of weighted rows, over blocks of rows that stay in the cache.

A clique is a line of `steps`, the stride of every attribute of the domain in its table, listed in `members`; cells are
worked out from the codes, which take less memory than the cells of every clique.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from priory.model.engine.kernels import compiled
from priory.queries.factor import Array

BLOCK = 512
Ints = NDArray[np.int64]


def _gather(
    codes: NDArray[Any], first: int, last: int, members: Ints, strides: Ints, offsets: Ints, theta: Array, logs: Array) -> None:
    """logs[i] += Σ_C θ_C(cell of row i)."""
    for start in range(first, last, BLOCK):
        stop = min(start + BLOCK, last)
        for clique in range(len(offsets)):
            offset = offsets[clique]
            a, b, c = members[clique, 0], members[clique, 1], members[clique, 2]
            s, t, u = strides[clique, 0], strides[clique, 1], strides[clique, 2]
            if u:
                for i in range(start, stop):
                    logs[i] += theta[offset + s * codes[a, i] + t * codes[b, i] + u * codes[c, i]]
            else:
                for i in range(start, stop):
                    logs[i] += theta[offset + s * codes[a, i] + t * codes[b, i]]


def _scatter(
    codes: NDArray[Any], first: int, last: int, members: Ints, strides: Ints, offsets: Ints, shares: Array, sums: Array) -> None:
    """The sum of the shares of the rows in each cell is added to it."""
    for start in range(first, last, BLOCK):
        stop = min(start + BLOCK, last)
        for clique in range(len(offsets)):
            offset = offsets[clique]
            a, b, c = members[clique, 0], members[clique, 1], members[clique, 2]
            s, t, u = strides[clique, 0], strides[clique, 1], strides[clique, 2]
            if u:
                for i in range(start, stop):
                    sums[offset + s * codes[a, i] + t * codes[b, i] + u * codes[c, i]] += shares[i]
            else:
                for i in range(start, stop):
                    sums[offset + s * codes[a, i] + t * codes[b, i]] += shares[i]


gather = compiled(_gather, nogil=True)
scatter = compiled(_scatter, nogil=True)
