"""Split: a large bag computed as a product of matrices, so that its whole table is never formed.

A bag whose factors are all small has Σ_K F(B,K,L) · G(B,K,R) · H(B,L,R) for some cut of its members into B, K, L and R:
three small tables and a batched product of matrices. Among k attributes of size n with all pairs measured this needs
tables of about n^(2k/3) cells instead of n^k, as triangles in a graph are counted by multiplying its matrix by itself.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product

import numpy as np
from numpy.typing import NDArray

# Below this a single table is quicker than the bookkeeping of three.
_SMALLEST = 1 << 12
# Above this even the product of matrices takes days.
_LARGEST = 1 << 60
# Costs in nanoseconds on one core: a multiply-add inside a matrix product, and a cell of a table over a whole call.
_PRODUCT = 0.06 * 3
_CELL = 6.0
# Every cut is looked at while there are at most so many.
_ALL_CUTS = 1 << 16
_BATCH, _SUMMED, _LEFT, _RIGHT = range(4)


@dataclass(frozen=True, slots=True)
class Split:
    """A cut of a bag's members, as numbers into the domain."""

    batch: tuple[int, ...]  # B, in all three tables
    summed: tuple[int, ...]  # K, in F and G only, summed by the product
    left: tuple[int, ...]  # L, in F and H
    right: tuple[int, ...]  # R, in G and H

    @property
    def tables(self) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
        """The axes of F, G and H."""
        batch, left, summed, right = self.batch, self.left, self.summed, self.right
        return batch + left + summed, batch + summed + right, batch + left + right


def best_split(
    members: Sequence[int], sizes: Sequence[int], factors: Sequence[frozenset[int]], separator: frozenset[int]
) -> Split | None:
    """The cheapest cut of a bag with these members, or None where one table is cheaper.

    `sizes` are how many values each member takes, `factors` the attributes of each factor multiplied into the bag,
    `separator` those that must survive.
    """
    if not _SMALLEST <= math.prod(sizes) <= _LARGEST or any(len(factor) == len(members) for factor in factors):
        return None
    index = {v: i for i, v in enumerate(members)}
    scopes = tuple(sorted({sum(1 << index[v] for v in factor) for factor in factors}))
    labels = _best_labels(tuple(sizes), scopes, sum(1 << index[v] for v in separator))
    if labels is None:
        return None
    cut = [tuple(v for v, label in zip(members, labels, strict=True) if label == kind) for kind in range(4)]
    return Split(*cut)


@lru_cache(maxsize=1024)
def _best_labels(sizes: tuple[int, ...], scopes: tuple[int, ...], separator: int) -> tuple[int, ...] | None:
    """For each member the part of the cut it goes to; equal structures are searched once."""
    logs = np.log(np.array(sizes, dtype=float))
    labels = _candidates(len(sizes))
    costs = _costs(labels, logs, scopes, separator)
    for _ in range(2 * len(sizes)):
        better = _neighbours(labels[int(np.argmin(costs))])
        own = _costs(better, logs, scopes, separator)
        if own.min() >= costs.min():
            break
        labels, costs = better, own
    if costs.min() >= _CELL * np.exp(logs.sum()):
        return None
    return tuple(int(label) for label in labels[int(np.argmin(costs))])


def _candidates(count: int) -> NDArray[np.int8]:
    """All cuts of `count` members where they are few, else a sample to climb from."""
    if 4**count <= _ALL_CUTS:
        return np.indices((4,) * count, dtype=np.int8).reshape(count, -1).T
    if 3**count <= _ALL_CUTS:
        return np.indices((3,) * count, dtype=np.int8).reshape(count, -1).T + np.int8(1)
    return np.random.default_rng(0).integers(1, 4, size=(_ALL_CUTS // 2, count), dtype=np.int8)


def _neighbours(labels: NDArray[np.int8]) -> NDArray[np.int8]:
    """A cut and all that differ from it in one member."""
    rows = [labels]
    for i, label in product(range(len(labels)), range(4)):
        other = labels.copy()
        other[i] = label
        rows.append(other)
    return np.array(rows)


def _costs(
    labels: NDArray[np.int8], logs: NDArray[np.float64], scopes: Sequence[int], separator: int
) -> NDArray[np.float64]:
    """The forecast cost of each cut; infinite where a factor touches K, L and R, or K the separator."""
    within = [labels == kind for kind in range(4)]
    logs_of = [part @ logs for part in within]
    whole = logs.sum()
    cells = sum(np.exp(whole - logs_of[kind]) for kind in (_SUMMED, _LEFT, _RIGHT))
    costs = _PRODUCT * np.exp(whole) + _CELL * cells
    bits = 1 << np.arange(len(logs))
    masks = [part @ bits for part in within]
    bad = (masks[_SUMMED] & separator) != 0
    for scope in scopes:
        bad |= ((masks[_SUMMED] & scope) != 0) & ((masks[_LEFT] & scope) != 0) & ((masks[_RIGHT] & scope) != 0)
    for kind in (_SUMMED, _LEFT, _RIGHT):
        bad |= masks[kind] == 0
    return np.where(bad, np.inf, costs)
