"""Subtree: the smallest part of a calibrated tree of bags that has some attributes, as tables to multiply and sum."""

import math
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from priory.model.engine.factored import Axes, LabelledTable, check_bytes, summed_product
from priory.model.engine.plan import Bag
from priory.queries.factor import Array

# Tables up to this size are divided by their separator's marginal once and kept; larger ones as they are asked for.
_DIVIDED_CELLS = 1 << 20
# Separators with less mass than this are not divided by: 1 / mass must not overflow.
NO_MASS = 1e-290


class Subtrees:
    """The parts of one tree.

    Args:
        bags: children before parents.
        shape: the sizes of all attributes.
        tables: for the number of a bag, tables whose product is its marginal. The last has all of its separator.
        mass: for the number of a bag with a separator, the marginal of that, axes in its order.
    """

    def __init__(
        self,
        bags: Sequence[Bag],
        shape: Sequence[int],
        tables: Callable[[int], list[LabelledTable]],
        mass: Callable[[int], Array],
    ) -> None:
        self._bags, self._shape, self._tables, self._mass = bags, shape, tables, mass
        # The bag in which each attribute is eliminated: the highest that has it.
        self._home = {v: i for i, bag in enumerate(bags) for v in bag.members if v not in bag.separator}
        self._conditionals: dict[int, list[LabelledTable]] = {}

    def project(self, axes: Axes) -> Array:
        """The marginal of some attributes."""
        return summed_product(self.tables(axes), axes)

    def tables(self, axes: Iterable[int]) -> list[LabelledTable]:
        """Tables whose product, summed, is the marginal of `axes`: those of the smallest part that has them all."""
        asked = frozenset(axes)
        tables: list[LabelledTable] = []
        paths = self._paths(asked)
        # Tables below the top ones are copied when they are divided; those that were are kept.
        divided = (i for path in paths for i in path[1:] if i not in self._conditionals)
        check_bytes(8 * sum(math.prod(self._shape[v] for v in self._tables(i)[-1][0]) for i in divided))
        for path in paths:
            tables += self._tables(path[0])
            for i in path[1:]:
                tables += self._conditional(i)
        for v in asked.difference(self._home):
            tables.append(((v,), np.full(self._shape[v], 1 / self._shape[v])))
        return tables

    def _paths(self, asked: frozenset[int]) -> list[list[int]]:
        """For each tree with attributes asked for, the bags that join them, the top one first."""
        below: dict[int, list[int]] = {}
        roots: list[int] = []
        for v in asked:
            i = self._home.get(v, -1)
            while i >= 0 and i not in below:
                below[i] = []
                if self._bags[i].parent < 0:
                    roots.append(i)
                i = self._bags[i].parent
        for i in below:
            if self._bags[i].parent >= 0:
                below[self._bags[i].parent].append(i)
        return [_from_top(root, below, self._bags, asked) for root in roots]

    def _conditional(self, index: int) -> list[LabelledTable]:
        """A bag's distribution given its separator, as tables."""
        if index in self._conditionals:
            return self._conditionals[index]
        separator = self._bags[index].separator
        if not separator:
            return self._tables(index)
        mass = self._mass(index)
        inverse = np.divide(1.0, mass, out=np.zeros(mass.shape), where=mass > NO_MASS)
        # It is divided at once: the inverses of two bags with one separator could overflow when they meet.
        *others, (axes, table) = self._tables(index)
        order = sorted(range(len(separator)), key=lambda i: axes.index(separator[i]))
        shape = [self._shape[v] if v in separator else 1 for v in axes]
        tables = [*others, (axes, table * inverse.transpose(order).reshape(shape))]
        if table.size <= _DIVIDED_CELLS:
            self._conditionals[index] = tables
        return tables


def _from_top(root: int, below: dict[int, list[int]], bags: Sequence[Bag], asked: frozenset[int]) -> list[int]:
    """The bags under the lowest one that still has everything asked for on its side."""
    top = root
    while len(below[top]) == 1 and asked.intersection(bags[top].members) <= set(bags[below[top][0]].separator):
        top = below[top][0]
    path = [top]
    for i in path:
        path.extend(below[i])
    return path
