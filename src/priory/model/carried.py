"""Carried: the marginals of many pairs of attributes at once, each carried through the tree of bags.

For an attribute a and a separator s, P(a, s') follows from P(a, s) and from P(s' | s) of the bag between them. So a pair
that no bag holds costs small products of matrices along its path, and pairs share what they have in common of theirs.
"""

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from priory.factor import Array
from priory.model.engine.factored import Axes, LabelledTable, summed_product
from priory.model.engine.plan import Bag

# What is carried has at most so many cells; larger pairs are left to others.
MOST_CELLS = 1 << 22


class Carrier:
    """Carries attributes through the calibrated bags of one model.

    Args:
        bags: children before parents.
        shape: the sizes of all attributes.
        tables: for the number of a bag, tables whose product is its marginal.
    """

    def __init__(
        self, bags: Sequence[Bag], shape: Sequence[int], tables: Callable[[int], Sequence[LabelledTable]]
    ) -> None:
        self._bags, self._shape, self._tables = bags, shape, tables
        self._members = [frozenset(bag.members) for bag in bags]
        self._home = {v: i for i, bag in enumerate(bags) for v in bag.members if v not in bag.separator}
        self._first, self._last, self._root = _spans(bags)
        self._singles: dict[int, Array] = {}
        self._beside: dict[tuple[int, int], LabelledTable] = {}
        self._ties: dict[tuple[int, Axes, Axes], tuple[Axes, Axes, Axes, Array]] = {}

    def pair(self, a: int, b: int) -> Array | None:
        """The marginal of two attributes, its axes in this order; None where it would take too large a table."""
        if a not in self._home or b not in self._home or self._root[self._home[a]] != self._root[self._home[b]]:
            return np.multiply.outer(self._single(a), self._single(b))
        start, end = self._home[a], self._home[b]
        if a in self._members[end] or b in self._members[start]:
            return self._summed(end if a in self._members[end] else start, (a, b))
        if self._shape[a] > self._shape[b]:
            swapped = self.pair(b, a)
            return None if swapped is None else swapped.T
        # From the last bag that has a to the first that has b.
        while b in self._members[(before := self._towards(end, start))]:
            end = before
        carried = self._carried(a, end)
        return None if carried is None else self._moved(carried, end, a, (b,))[1].T

    def _carried(self, a: int, to: int) -> LabelledTable | None:
        """P(a, s), with s the separator by which one enters a bag on the way from a's home."""
        home, path = self._home[a], [to]
        while True:
            before = self._towards(path[-1], home)
            key = a, _edge(self._bags, before, path[-1])
            if key in self._beside:
                table = self._beside[key]
                break
            separator = self._bags[key[1]].separator
            if self._cells((a, *separator)) > MOST_CELLS:
                return None
            if a in self._members[before]:
                axes = (*separator, a)
                table = self._beside[key] = axes, self._summed(before, axes)
                break
            path.append(before)
        for i in range(len(path) - 1, 0, -1):
            edge = _edge(self._bags, path[i], path[i - 1])
            table = self._beside[a, edge] = self._moved(table, path[i], a, self._bags[edge].separator)
        return table

    def _moved(self, table: LabelledTable, bag: int, a: int, to: Axes) -> LabelledTable:
        """P(to, a), from P(s, a) with s a separator of the bag and `to` others of its attributes."""
        axes, values = table
        if axes[:-1] == to:
            return table
        both, gone, new, tie = self._tie(bag, axes[:-1], to)
        order = [axes.index(v) for v in (*both, a, *gone)]
        left = values.transpose(order).reshape(self._cells(both), self._shape[a], -1)
        moved = (left @ tie).reshape([self._shape[v] for v in (*both, a, *new)])
        place = (*both, a, *new)
        return (*to, a), moved.transpose([place.index(v) for v in (*to, a)])

    def _tie(self, bag: int, given: Axes, to: Axes) -> tuple[Axes, Axes, Axes, Array]:
        """P(to | given) in a bag: what both have, what is given and goes, what is new; and a matrix for each cell of the first."""
        key = bag, given, to
        if key not in self._ties:
            both = tuple(v for v in given if v in to)
            gone, new = tuple(v for v in given if v not in to), tuple(v for v in to if v not in given)
            joint = self._summed(bag, (*both, *gone, *new))
            joint = joint.reshape(self._cells(both), self._cells(gone), -1)
            mass = joint.sum(axis=2, keepdims=True)
            self._ties[key] = both, gone, new, np.divide(joint, mass, out=np.zeros(joint.shape), where=mass > 1e-290)
        return self._ties[key]

    def _single(self, v: int) -> Array:
        if v not in self._singles:
            size = self._shape[v]
            self._singles[v] = self._summed(self._home[v], (v,)) if v in self._home else np.full(size, 1 / size)
        return self._singles[v]

    def _summed(self, bag: int, keep: Axes) -> Array:
        return summed_product(self._tables(bag), keep)

    def _cells(self, axes: Iterable[int]) -> int:
        cells = 1
        for v in axes:
            cells *= self._shape[v]
        return cells

    def _towards(self, bag: int, other: int) -> int:
        """The neighbour of a bag on the way to another one."""
        if not self._first[bag] <= self._first[other] < self._last[bag]:
            return self._bags[bag].parent
        return next(i for i in self._bags[bag].children if self._first[i] <= self._first[other] < self._last[i])


def _edge(bags: Sequence[Bag], one: int, other: int) -> int:
    """The lower of two neighbouring bags, whose separator they share."""
    return one if bags[one].parent == other else other


def _spans(bags: Sequence[Bag]) -> tuple[list[int], list[int], list[int]]:
    """For each bag its place from the top, the end of those below it, and its root."""
    sizes = [1] * len(bags)
    for i, bag in enumerate(bags):
        if bag.parent >= 0:
            sizes[bag.parent] += sizes[i]
    first, root, free = [0] * len(bags), list(range(len(bags))), 0
    for i in range(len(bags) - 1, -1, -1):
        if bags[i].parent < 0:
            first[i], free = free, free + sizes[i]
        else:
            root[i] = root[bags[i].parent]
        place = first[i] + 1
        for child in bags[i].children:
            first[child], place = place, place + sizes[child]
    return first, [start + size for start, size in zip(first, sizes, strict=True)], root
