"""Kept tree: the tables of a model and of its redraws, in a file from which pairs and triples are carried.

A model of a uniform base is a tree of bags. With the tables of each bag, and how fast they change in each redraw, any
two or three attributes are answered by a few small products, without the release and its model.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from priory.model.carried import Carrier
from priory.model.engine.factored import Axes, LabelledTable, summed_product
from priory.model.engine.plan import Bag
from priory.model.subtree import Subtrees
from priory.queries.domain import Clique, Domain
from priory.queries.factor import Array

# How far along its change a redraw's table is taken: as far as redraws themselves go.
_STRIDE = 1e-4
# Numbers of a change are shares of a small move: single precision is more than they are known to.
CHANGES = np.float32

# Adds an array of this type to a file; where it begins and its checksum.
Add = Callable[[Array, DTypeLike], list[int]]
# Reads one again: where it begins and its checksum, its shape and its type.
Read = Callable[[Sequence[int], tuple[int, ...], DTypeLike], Array]


@dataclass(frozen=True, eq=False)
class Tree:
    """The calibrated bags of a model."""

    total: float  # how many records it stands for
    bags: tuple[Bag, ...]  # children before parents
    tables: Sequence[Sequence[LabelledTable]]  # for each bag, tables whose product is its marginal

    @property
    def cells(self) -> int:
        """How many cells all tables have together."""
        return sum(table.size for tables in self.tables for _, table in tables)

    def is_like(self, other: "Tree") -> bool:
        """Whether it has the same tables with other numbers in them."""
        ours, theirs = ([[axes for axes, _ in tables] for tables in tree.tables] for tree in (self, other))
        return self.bags == other.bags and ours == theirs


def written(tree: Tree, moved: Sequence[Tree], stride: float, add: Add) -> dict[str, Any]:
    """The tree and how it changes towards each moved one, `stride` of the way, as the header of a file describes it."""
    return {
        "total": tree.total,
        "totals": [(each.total - tree.total) / stride for each in moved],
        "bags": [
            {
                "members": bag.members,
                "separator": bag.separator,
                "parent": bag.parent,
                "children": bag.children,
                "tables": [
                    {
                        "axes": axes,
                        "at": add(table, np.float64),
                        "changes": add(np.array([(each - table) / stride for each in others]), CHANGES),
                    }
                    for (axes, table), *others in _beside(i, tree, moved)
                ],
            }
            for i, bag in enumerate(tree.bags)
        ],
    }


def _beside(bag: int, tree: Tree, moved: Sequence[Tree]) -> Iterator[tuple[LabelledTable, *tuple[Array, ...]]]:
    """Each table of a bag, and what it is in each moved tree."""
    for number, labelled in enumerate(tree.tables[bag]):
        yield labelled, *(each.tables[bag][number][1] for each in moved)


@dataclass(frozen=True, eq=False)
class KeptTree:
    """A tree in a file; only the bags that are on the way are read."""

    described: Mapping[str, Any]
    domain: Domain
    read: Read

    def marginal(self, clique: Clique) -> tuple[Array, Array]:
        """What the model says of some attributes, and how far that moves in each draw.

        A `SizeError` where that takes too much memory on the way.
        """
        axes = tuple(self.domain.axis[name] for name in clique)
        totals = [self.described["total"] + _STRIDE * change for change in (0.0, *self.described["totals"])]
        found = [total * self._project(draw, axes) for draw, total in enumerate(totals)]
        moves = np.array([(each - found[0]) / _STRIDE for each in found[1:]])
        return found[0], self.described["share"] * moves

    def _project(self, draw: int, axes: Axes) -> Array:
        tables, shape = self._tables_of(draw), self.domain.shape

        def separator(bag: int) -> Array:
            return summed_product(tables(bag), self._bags[bag].separator)

        carried = Carrier(self._bags, shape, tables).marginal(axes)
        return Subtrees(self._bags, shape, tables, separator).project(axes) if carried is None else carried

    def _tables_of(self, draw: int) -> Callable[[int], list[LabelledTable]]:
        """The tables of each bag in a draw; 0 is the model itself."""
        return lambda bag: [(axes, values[draw]) for axes, values in self._tables(bag)]

    @cached_property
    def _bags(self) -> tuple[Bag, ...]:
        keys = ("members", "separator", "parent", "children")
        parts = ({key: _frozen(bag[key]) for key in keys} for bag in self.described["bags"])
        return tuple(Bag(**each, leaves=(), split=None) for each in parts)

    def _tables(self, bag: int) -> list[LabelledTable]:
        """The tables of a bag, those of all draws in front of one another."""
        if bag not in self._known:
            self._known[bag] = [self._table(each) for each in self.described["bags"][bag]["tables"]]
        return self._known[bag]

    def _table(self, described: Mapping[str, Any]) -> LabelledTable:
        axes = tuple(described["axes"])
        shape, draws = tuple(self.domain.shape[v] for v in axes), len(self.described["totals"])
        tables = np.empty((1 + draws, *shape))
        tables[0] = self.read(described["at"], shape, np.float64)
        np.multiply(
            self.read(described["changes"], (draws, *shape), CHANGES), _STRIDE, out=tables[1:], dtype=np.float64
        )
        tables[1:] += tables[0]
        return axes, tables

    @cached_property
    def _known(self) -> dict[int, list[LabelledTable]]:
        return {}


def _frozen(value: Any) -> Any:  # noqa: ANN401 - a number, or a list of them
    return tuple(value) if isinstance(value, list) else value
