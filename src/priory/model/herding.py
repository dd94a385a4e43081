"""Herding: rows drawn so that pairs of attributes occur in them as often as in the model, as nearly as rows can.

Rows drawn at random miss a model's marginals by about 1/√n. Here n rows are picked out of a pool of several times as
many, drawn from the model [Chen, Welling & Smola 2010]: one after the other and each once again, so that the squared
gap between how often every pair of values occurs in them and how often it should is as small as picks can make it. What
a draw leaves is owed by the next: over many small groups rare values occur as often as in one large group.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from priory.model.sampling import Chance, Codes, drawn_alike
from priory.queries.factor import Array

Places = NDArray[np.intp]
Floats = NDArray[np.float32]
# Values of all attributes together, after neighbouring ones are merged: pairs of them are a table of its square.
MOST_VALUES = 1_024
# Rows are picked so many at a time, out of POOL times as many: a pool's rows are compared two by two.
BLOCK, POOL = 160, 4
# The target is estimated from so many times the rows that are drawn, or from all there are.
TARGET_ROWS = 16
# What is owed counts half: a group's own marginals come first.
OWED = 0.5
_PAIRS_AT_ONCE = 1 << 22


@dataclass(frozen=True, eq=False)
class Herd:
    """Rows to draw from."""

    values: NDArray[np.int32]  # for each row and attribute, the index of its value among those of all attributes
    size: int  # how many values there are
    owed: Floats  # how often pairs of values should have occurred beyond how often they did; what changes

    @classmethod
    def of(cls, codes: Codes, shape: tuple[int, ...]) -> "Herd":
        """Rows of some attributes with so many values each."""
        most = _most_values(shape)
        sizes = [min(size, most) for size in shape]
        starts = np.cumsum([0, *sizes])
        kept_of = enumerate(zip(starts, sizes, shape, strict=False))
        columns = [start + (codes[:, axis].astype(np.int64) * kept // size) for axis, (start, kept, size) in kept_of]
        values = np.stack(columns, axis=1).astype(np.int32) if columns else np.zeros((len(codes), 0), dtype=np.int32)
        return cls(values, int(starts[-1]), np.zeros((int(starts[-1]),) * 2, dtype=np.float32))

    def drawn(self, weights: Array, counts: Sequence[int], chance: Chance) -> Iterator[Places]:
        """For each count the indices of as many rows, all with the same weights."""
        target = self._target(weights, TARGET_ROWS * sum(counts), chance)
        for count in counts:
            before = self.owed.copy()
            blocks = math.ceil(count / BLOCK)
            indices = [np.zeros(0, dtype=np.intp)]
            for number in range(blocks):
                n = count * (number + 1) // blocks - count * number // blocks
                pool = drawn_alike(weights, POOL * n, chance)
                values = self.values[pool]
                # What this group owes counts in full, what those before it left counts half.
                wanted = n * target + self.owed - OWED * before
                picked = _picked(_alike(values), _sums(wanted, values), n)
                self.owed[...] += n * target - self._pairs(values[picked])
                indices.append(pool[picked])
            yield np.concatenate(indices)

    def _target(self, weights: Array, rows: int, chance: Chance) -> Floats:
        """How often each pair of values occurs in one row on average."""
        if rows < len(weights):
            return self._pairs(self.values[drawn_alike(weights, rows, chance)]) / np.float32(max(rows, 1))
        return self._pairs(self.values, weights)

    def _pairs(self, values: NDArray[np.int32], weights: Array | None = None) -> Floats:
        """How often each pair of values occurs in rows, together with themselves."""
        from scipy.sparse import csr_array

        rows, attributes = values.shape
        ends = np.arange(rows + 1) * attributes
        shape = (rows, self.size)
        ones = csr_array((np.ones(values.size, dtype=np.float32), values.reshape(-1), ends), shape=shape)
        entries = np.ones(rows) if weights is None else weights
        weighted = csr_array((np.repeat(entries.astype(np.float32), attributes), values.reshape(-1), ends), shape=shape)
        return np.asarray((ones.T @ weighted).toarray())


def _alike(values: NDArray[np.int32]) -> Floats:
    """For each two rows, how many pairs of attributes, each with itself too, have the same values in both."""
    same = np.zeros((len(values),) * 2, dtype=np.uint8 if values.shape[1] < 256 else np.uint16)
    for column in values.T:
        same += (column[:, None] == column[None, :]).view(np.uint8)
    counts = same.astype(np.float32)
    counts *= counts
    return counts


def _sums(table: Floats, values: NDArray[np.int32]) -> Floats:
    """For each row, the sum of a table over all pairs of its values."""
    step = max(1, _PAIRS_AT_ONCE // max(values.shape[1] ** 2, 1))
    blocks = [values[begin : begin + step] for begin in range(0, len(values), step)]
    return np.concatenate([table[block[:, :, None], block[:, None, :]].sum(axis=(1, 2)) for block in blocks])


def _picked(alike: Floats, wanted: Floats, n: int) -> list[int]:
    """`n` rows of a pool for which Σ alike − 2·Σ wanted is small: one by one, then each exchanged where that helps."""
    own, near = np.diag(alike) / 2, np.zeros(len(alike), dtype=np.float32)
    barred = np.zeros(len(alike), dtype=np.float32)
    picked: list[int] = []
    for pick in range(2 * n):
        if pick >= n:
            near -= alike[picked[pick - n]]
            barred[picked[pick - n]] = 0.0
        gaps = near + own - min((pick + 1) / n, 1.0) * wanted + barred
        best = int(gaps.argmin())
        near += alike[best]
        barred[best] = np.inf
        picked.append(best)
    return picked[n:]


def _most_values(shape: tuple[int, ...]) -> int:
    """How many values an attribute may keep so that all together have no more than `MOST_VALUES`."""
    most = max(shape, default=1)
    while most > 1 and sum(min(size, most) for size in shape) > MOST_VALUES:
        most = most * 3 // 4
    return most
