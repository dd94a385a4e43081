"""Sizing: how large a structure would become with one more clique, without planning it anew."""

import math
from collections.abc import Iterable, Sequence


class Sizer:
    """Symbolic elimination in a fixed order, kept so that one clique more touches only one path of it.

    Sets of attributes are whole numbers: bit i stands for the i-th attribute of the order, so the lowest bit of an
    attribute's neighbours is its parent in the elimination tree. A bucket counts towards the size unless a child's
    neighbours are all of it: then it lies inside the child's. The order, and the neighbours of each attribute when its
    turn comes, are numbers into the domain, whose sizes are `shape`.
    """

    def __init__(self, order: Sequence[int], neighbours: Sequence[Iterable[int]], shape: Sequence[int]) -> None:
        self._shape = shape
        self._index = {v: i for i, v in enumerate(order)}
        self._sizes = [shape[v] for v in order]
        self._rest = [sum(1 << self._index[u] for u in near) for near in neighbours]
        self._cells = [size * self._product(rest) for size, rest in zip(self._sizes, self._rest, strict=True)]
        self._absorbers = [0] * len(self._rest)
        for rest in self._rest:
            parent = _lowest(rest)
            self._absorbers[parent] += rest > 0 and rest == self._rest[parent] | 1 << parent
        self.size = sum(cells for cells, n in zip(self._cells, self._absorbers, strict=True) if n == 0)

    def size_with(self, clique: Iterable[int]) -> int:
        """The cells of all maximal buckets if `clique` (numbers into the domain) were added."""
        clique = tuple(clique)
        known = [self._index[v] for v in clique if v in self._index]
        added = sum(1 << i for i in known)
        # Attributes the order does not have yet go first: their bucket is the clique itself.
        extra = math.prod(self._shape[v] for v in clique) if len(known) < len(clique) else 0
        changed = self._changed(added)
        if extra and changed and changed[_lowest(added)] | 1 << _lowest(added) == added:
            # The first known attribute's bucket lies inside the new one.
            return self.size + extra + self._growth(changed, absorbed=_lowest(added))
        if extra and known and not changed:
            first = _lowest(added)
            inside = self._rest[first] | 1 << first == added and self._absorbers[first] == 0
            return self.size + extra - (self._cells[first] if inside else 0)
        return self.size + extra + self._growth(changed, absorbed=-1)

    def _changed(self, added: int) -> dict[int, int]:
        """The neighbours that grow, walking up the elimination tree from the clique's first attribute."""
        changed: dict[int, int] = {}
        while added:
            low = added & -added
            index = low.bit_length() - 1
            old = self._rest[index]
            added = old | (added ^ low)
            if added == old:
                break
            changed[index] = added
        return changed

    def _growth(self, changed: dict[int, int], absorbed: int) -> int:
        """How many cells more the maximal buckets have after the change."""
        lost: dict[int, int] = {}
        gained: dict[int, int] = {absorbed: 1}
        for index, rest in changed.items():
            old = self._rest[index]
            if old:
                parent = _lowest(old)
                lost[parent] = lost.get(parent, 0) + (old == self._rest[parent] | 1 << parent)
            parent = _lowest(rest)
            if rest == changed.get(parent, self._rest[parent]) | 1 << parent:
                gained[parent] = gained.get(parent, 0) + 1
        growth = 0
        for index in changed.keys() | lost.keys() | gained.keys():
            if index < 0:
                continue
            before = self._cells[index] if self._absorbers[index] == 0 else 0
            growth += self._cells_after(index, changed, lost, gained) - before
        return growth

    def _cells_after(self, index: int, changed: dict[int, int], lost: dict[int, int], gained: dict[int, int]) -> int:
        if index not in changed:
            n = self._absorbers[index] - lost.get(index, 0) + gained.get(index, 0)
            return 0 if n else self._cells[index]
        # A bucket that grew is no longer inside an unchanged child.
        if gained.get(index, 0):
            return 0
        return self._cells[index] * self._product(changed[index] & ~self._rest[index])

    def _product(self, bits: int) -> int:
        product = 1
        while bits:
            low = bits & -bits
            product *= self._sizes[low.bit_length() - 1]
            bits ^= low
        return product


def _lowest(bits: int) -> int:
    return (bits & -bits).bit_length() - 1
