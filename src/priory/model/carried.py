"""Carried: the marginals of many pairs and triples of attributes at once, each carried through the tree of bags.

For an attribute a and a separator s, P(a, s') follows from P(a, s) and from P(s' | s) of the bag between them. So a
pair that no bag holds costs small products of matrices along its path, and pairs share what theirs have in common. A
triple is put together where the paths between its attributes meet.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import permutations

import numpy as np

from priory.model.engine.blocks import matrices
from priory.model.engine.factored import Axes, LabelledTable, summed_product
from priory.model.engine.plan import Bag
from priory.model.subtree import NO_MASS
from priory.queries.factor import Array

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
        self._beliefs: dict[tuple[int, Axes], Array] = {}
        self._ties: dict[tuple[int, Axes, Axes], tuple[Axes, Axes, Axes, Array]] = {}

    def marginal(self, axes: Axes) -> Array | None:
        """The marginal of two or three attributes; None where it would take too large a table, or of others."""
        if len(axes) == 2:
            return self._pair(*axes)
        return self._triple(axes) if len(axes) == 3 else None

    def _triple(self, axes: Axes) -> Array | None:
        trees = [self._root[self._home[v]] if v in self._home else ~v for v in axes]
        apart = next((i for i in range(3) if trees.count(trees[i]) == 1), None)
        if apart is not None:
            others = self._pair(*(v for i, v in enumerate(axes) if i != apart))
            product = None if others is None else np.multiply.outer(self._single(axes[apart]), others)
            return product if product is None else np.moveaxis(product, 0, apart)
        bag = self._meeting(axes)
        entries: dict[int, LabelledTable] = {}
        for v in axes:
            if v not in self._members[bag]:
                carried = self._carried(v, bag)
                if carried is None:
                    return None
                entries[v] = carried
        return self._together(bag, axes, entries)

    def _together(self, bag: int, axes: Axes, entries: Mapping[int, LabelledTable]) -> Array | None:
        """P(axes) from one bag and what was carried to it of the attributes that it lacks."""
        needed = dict.fromkeys([v for v in axes if v not in entries])
        needed.update(dict.fromkeys(u for own, _ in entries.values() for u in own[:-1]))
        order = min(permutations(entries), key=lambda order: self._largest(tuple(needed), order, axes, entries))
        if self._largest(tuple(needed), order, axes, entries) > MOST_CELLS:
            return None
        place, table = tuple(needed), self._belief(bag, tuple(needed))
        for number, v in enumerate(order):
            later = {*axes, *(u for w in order[number + 1 :] for u in entries[w][0])}
            place, table = self._joined((place, table), self._given(entries[v]), later)
        return table.transpose([place.index(v) for v in axes])

    def _largest(self, place: Axes, order: Axes, axes: Axes, entries: Mapping[int, LabelledTable]) -> int:
        """The cells of the largest table on the way, where attributes join in this order."""
        left, largest = set(place), self._cells(place)
        for number, v in enumerate(order):
            later = {*axes, *(u for w in order[number + 1 :] for u in entries[w][0])}
            left = (left - {u for u in entries[v][0] if u not in later}) | {v}
            largest = max(largest, self._cells(left))
        return largest

    def _joined(self, table: LabelledTable, given: LabelledTable, later: Collection[int]) -> LabelledTable:
        """A table times P(a | s), where it has all of s; what nobody needs later of s is summed."""
        (place, values), (own, conditional) = table, given
        *separator, a = own
        both = [u for u in separator if u in later]
        gone = [u for u in separator if u not in later]
        rest = [u for u in place if u not in separator]
        left = values.transpose([place.index(u) for u in (*both, *rest, *gone)])
        right = conditional.transpose([own.index(u) for u in (*both, *gone, a)])
        batch, summed = self._cells(both), self._cells(gone)
        product = matrices(left.reshape(batch, -1, summed), right.reshape(batch, summed, -1))
        place = (*both, *rest, a)
        return place, product.reshape([self._shape[u] for u in place])

    def _given(self, table: LabelledTable) -> LabelledTable:
        """P(a | s), from P(s, a)."""
        axes, values = table
        mass = values.sum(axis=-1, keepdims=True)
        return axes, np.divide(values, mass, out=np.zeros(values.shape), where=mass > NO_MASS)

    def _belief(self, bag: int, axes: Axes) -> Array:
        if (bag, axes) not in self._beliefs:
            self._beliefs[bag, axes] = self._summed(bag, axes)
        return self._beliefs[bag, axes]

    def _meeting(self, axes: Axes) -> int:
        """The bag where the paths between the homes of three attributes meet: the lowest that is above two of them."""
        a, b, c = (self._home[v] for v in axes)
        return max((self._above(a, b), self._above(b, c), self._above(a, c)), key=self._first.__getitem__)

    def _above(self, one: int, other: int) -> int:
        """The lowest bag that is, or is above, both."""
        while not self._first[one] <= self._first[other] < self._last[one]:
            one = self._bags[one].parent
        return one

    def _pair(self, a: int, b: int) -> Array | None:
        if a not in self._home or b not in self._home or self._root[self._home[a]] != self._root[self._home[b]]:
            return np.multiply.outer(self._single(a), self._single(b))
        start, end = self._home[a], self._home[b]
        if a in self._members[end] or b in self._members[start]:
            return self._summed(end if a in self._members[end] else start, (a, b))
        if self._shape[a] > self._shape[b]:
            swapped = self._pair(b, a)
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
        moved = matrices(left, tie).reshape([self._shape[v] for v in (*both, a, *new)])
        place = (*both, a, *new)
        return (*to, a), moved.transpose([place.index(v) for v in (*to, a)])

    def _tie(self, bag: int, given: Axes, to: Axes) -> tuple[Axes, Axes, Axes, Array]:
        """P(to | given) in a bag: what both have, what goes, what is new; and a matrix for each cell of the first."""
        key = bag, given, to
        if key not in self._ties:
            both = tuple(v for v in given if v in to)
            gone, new = tuple(v for v in given if v not in to), tuple(v for v in to if v not in given)
            joint = self._summed(bag, (*both, *gone, *new))
            joint = joint.reshape(self._cells(both), self._cells(gone), -1)
            mass = joint.sum(axis=2, keepdims=True)
            self._ties[key] = both, gone, new, np.divide(joint, mass, out=np.zeros(joint.shape), where=mass > NO_MASS)
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
