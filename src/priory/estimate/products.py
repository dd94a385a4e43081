"""Products: long vectors multiplied in one thread.

BLAS starts threads for dot products of more than 10,000 numbers, and for products of a matrix with a vector of more
than 9,216. They work for microseconds and then spin, which costs CPU time and saves none by the clock. In blocks below
these lengths BLAS stays in the thread that calls it, and is as fast.
"""

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.floating]
# How many numbers one call of BLAS takes, and how many cells of a matrix beside a vector.
_BLOCK = 1 << 13


def dot(a: Numbers, b: Numbers) -> float:
    """Σ aᵢ bᵢ of two vectors."""
    size = len(a)
    if size <= _BLOCK:
        return float(a @ b)
    whole = size - size % _BLOCK
    blocks = np.vecdot(a[:whole].reshape(-1, _BLOCK), b[:whole].reshape(-1, _BLOCK))
    return float(blocks.sum()) + float(a[whole:] @ b[whole:])
