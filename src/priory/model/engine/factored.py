"""Factored: variable elimination on tables with parts contracted in, so that large marginals are never formed.

Algorithm 3 of Private-PGM [McKenna, Sheldon & Miklau 2019, Appendix B]: an answer is a sum over all attributes of a
product of tables and of the query's matrices, whose entries may be negative.
"""

import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from priory.errors import SizeError
from priory.factor import Array
from priory.model.engine.algebra import block_of, in_blocks

Axes = tuple[int, ...]
Table = tuple[Axes, Array]
CELLS = 2**30


def summed_product(tables: Iterable[Table], keep: Axes, sizes: Mapping[int, int], *, limit: int = CELLS) -> Array:
    """The product of `tables` summed over every axis that is not in `keep`, as an array with the axes of `keep`.

    Axes are eliminated one by one, the one that leaves the smallest table first; every axis of `keep` is in some table.

    Raises:
        SizeError: a table on the way would have more than `limit` cells.
    """
    kept = frozenset(keep)
    live = list(tables)
    _check(math.prod(sizes[v] for v in keep), limit)
    while gone := {v for axes, _ in live for v in axes} - kept:
        v = min(gone, key=lambda v: (_cells_left(v, live, sizes), v))
        _check(_cells_left(v, live, sizes), limit)
        group = sorted((table for table in live if v in table[0]), key=lambda table: table[1].size)
        live = [table for table in live if v not in table[0]]
        needed = kept.union(*(axes for axes, _ in live))
        live.append(_merged(group, needed))
    axes, array = _merged(sorted(live, key=lambda table: table[1].size), kept)
    return array.transpose([axes.index(v) for v in keep])


def _check(cells: int, limit: int) -> None:
    if cells > limit:
        raise SizeError(
            f"the answer needs a table of {cells:,} cells, {limit:,} are allowed; ask for fewer attributes at once, or "
            "sum or recode some of them",
            cells=cells,
            limit=limit,
        )


def _cells_left(v: int, live: Sequence[Table], sizes: Mapping[int, int]) -> int:
    union = {u for axes, _ in live if v in axes for u in axes}
    return math.prod(sizes[u] for u in union) // sizes[v]


def _merged(group: Sequence[Table], needed: frozenset[int]) -> Table:
    """Multiply a group, summing each axis as soon as nothing else needs it."""
    if not group:
        return (), np.ones(())
    merged = group[0]
    for i in range(1, len(group)):
        later = needed.union(*(axes for axes, _ in group[i + 1 :]))
        merged = _product(merged, group[i], later)
    return _without(merged, needed)


def _without(table: Table, needed: frozenset[int]) -> Table:
    axes, array = table
    gone = tuple(i for i, v in enumerate(axes) if v not in needed)
    if not gone:
        return table
    return tuple(v for v in axes if v in needed), array.sum(axis=gone)


def _product(a: Table, b: Table, needed: frozenset[int]) -> Table:
    """The product of two tables, as a batched product of matrices where an axis is summed."""
    a = _without(a, needed | frozenset(b[0]))
    b = _without(b, needed | frozenset(a[0]))
    batch = tuple(v for v in a[0] if v in b[0] and v in needed)
    summed = tuple(v for v in a[0] if v in b[0] and v not in needed)
    left = tuple(v for v in a[0] if v not in b[0])
    right = tuple(v for v in b[0] if v not in a[0])
    x = _arranged(a, batch, left, summed)
    y = _arranged(b, batch, summed, right)
    out = _matmul(x, y) if summed else x * y
    shapes = dict(zip(a[0], a[1].shape, strict=True)) | dict(zip(b[0], b[1].shape, strict=True))
    axes = (*batch, *left, *right)
    return axes, out.reshape([shapes[v] for v in axes])


def _matmul(x: Array, y: Array) -> Array:
    m, n = x.shape[1], y.shape[2]
    if block_of(m, x.shape[2], n) == (m, n):
        return np.asarray(np.matmul(x, y))
    out = np.empty((x.shape[0], m, n))
    a, b, blocks = in_blocks(x, y, out)
    np.matmul(a, b, out=blocks)
    return out


def _arranged(table: Table, *groups: Axes) -> Array:
    """The table with its axes in three groups, each made one axis."""
    axes, array = table
    shape = [math.prod(array.shape[axes.index(v)] for v in group) for group in groups]
    return array.transpose([axes.index(v) for group in groups for v in group]).reshape(shape)
