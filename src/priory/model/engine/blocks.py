"""Blocks: products of matrices in pieces that BLAS computes in one thread."""

from functools import lru_cache

import numpy as np

from priory.queries.factor import Array

# Up to so many terms of a matrix product BLAS stays in one thread; blocks of fewer results than that are too slow.
_ONE_THREAD = 1 << 18
_SMALLEST_BLOCK = 32


def in_blocks(a: Array, b: Array, out: Array) -> tuple[Array, Array, Array]:
    """The operands of a batched product of matrices as views in blocks, for `numpy.matmul`."""
    rows, columns = block_of(a.shape[1], a.shape[2], b.shape[2])
    a_blocks = _blocked(a, 1, rows)[:, :, None]
    b_blocks = _blocked(b, 2, columns).transpose(0, 2, 1, 3)[:, None]
    # Axes of the result: batch, block of rows, block of columns, row, column.
    out_blocks = _blocked(_blocked(out, 1, rows), 3, columns).transpose(0, 1, 3, 2, 4)
    return a_blocks, b_blocks, out_blocks


def matrices(a: Array, b: Array) -> Array:
    """The products of a batch of matrices with as many others."""
    if a.shape[1] * b.shape[1] * b.shape[2] <= _ONE_THREAD:
        return np.asarray(a @ b)
    out = np.empty((a.shape[0], a.shape[1], b.shape[2]))
    left, right, blocks = in_blocks(a, b, out)
    np.matmul(left, right, out=blocks)
    return out


def _blocked(array: Array, axis: int, size: int) -> Array:
    """A view with one axis cut into blocks of `size`; `reshape` might copy, strides never do."""
    shape, strides = list(array.shape), list(array.strides)
    shape[axis : axis + 1] = [shape[axis] // size, size]
    strides[axis : axis + 1] = [strides[axis] * size, strides[axis]]
    return np.lib.stride_tricks.as_strided(array, shape, strides)


@lru_cache(maxsize=1024)
def block_of(m: int, k: int, n: int) -> tuple[int, int]:
    """How many rows and columns of a product to compute at once."""
    # BLAS starts threads for products of more than 2^18 terms and lets them spin on each other: where another process
    # has another core, a product of 50 µs then takes milliseconds. In blocks below that it takes one core, as fast; all
    # cores are put to work by pieces instead. docs/studies/libraries.md compares this with threadpoolctl.
    if m * k * n <= _ONE_THREAD:
        return m, n
    fitting = [(r, c) for r in _divisors(m) for c in _divisors(n) if r * c * k <= _ONE_THREAD]
    if not fitting:
        return m, n
    best = max(fitting, key=lambda block: (min(block[0], 16) * min(block[1], 32), block[0] * block[1]))
    return best if best[0] * best[1] >= _SMALLEST_BLOCK else (m, n)


def _divisors(number: int) -> list[int]:
    return [d for d in range(1, number + 1) if number % d == 0]
