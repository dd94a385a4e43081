"""Program: a plan written out as multiplications, sums and matrix products on one flat buffer.

The buffer holds the tables of the cliques first, in their layout, then a cell with a one, then the raw messages, then
everything else. Forward, every bag multiplies its factors and sums its table to a message for its parent; back, it
multiplies its table by the ratio of what the parent believes to what was sent, which makes it a marginal, and reads
from it what its children and cliques are to believe. No table is transposed: steps go over strides.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import combinations
from typing import NamedTuple

from priory.model.engine.layout import Layout
from priory.model.engine.plan import Bag, Plan

# The kinds of steps. Two more are made later: a product and its sum in one pass, and a step in several pieces.
MUL, SUM, COPY, NORM, DIV, MATMUL, FUSED, PIECES = range(8)
Ints = tuple[int, ...]
# Factors among which the cheapest pair to multiply is sought.
_LOOKED_AT = 16


class Ref(NamedTuple):
    """A table in the buffer: where it starts, its attributes, and the stride of each."""

    start: int
    axes: Ints
    strides: Ints


class Instruction(NamedTuple):
    """One operation: out = a · b, out = Σ a, out = a, out = a / max(a), out = a / b, or a matrix product.

    `shape` is what is gone over; every operand has a stride for each of its axes, 0 where it is repeated or summed.
    For NORM, `b` is the number of the message. For MATMUL, the shape is (batch, m, k, n).
    """

    kind: int
    shape: Ints
    out: int
    out_strides: Ints
    a: int
    a_strides: Ints
    b: int
    b_strides: Ints


@dataclass(frozen=True, eq=False)
class Tables:
    """Where a bag's marginal lies after the way back."""

    refs: tuple[Ref, ...]  # tables whose product is the bag's marginal
    top: Ref  # the marginal of the bag, less the attributes that a product of matrices sums


@dataclass(frozen=True, eq=False)
class Program:
    """Steps forward and back, and where things lie."""

    plan: Plan  # what it carries out
    layout: Layout  # where the cliques lie at the start of the buffer
    size: int  # the cells of the buffer
    scales: int  # how many numbers are divided out on the way
    one: int  # the cell that holds a one
    raw: tuple[int, int]  # the first and last cell of the raw messages
    messages: Ints  # where each bag's raw message starts, in the order of the bags
    before: tuple[Instruction, ...]  # steps that add the potentials of nested cliques to those of their maximal clique
    forward: tuple[Instruction, ...]  # steps to the roots
    back: tuple[Instruction, ...]  # steps to the leaves
    after: tuple[Instruction, ...]  # steps that sum the marginals of maximal cliques to nested ones
    tables: tuple[Tables, ...]  # each bag's marginal as a product of tables, after the way back
    beliefs: tuple[Ref | None, ...]  # each bag's separator marginal after the way back
    is_leaf: tuple[bool, ...]  # whether a clique's own potentials enter a table (those of others are added)
    most_leaves: int  # the largest number of cliques multiplied into one bag


def program(plan: Plan, layout: Layout, *, scaled: bool = False) -> Program:
    """Write `plan` out for the cliques of `layout`, which are the plan's."""
    # Where it is `scaled`, the tables of cut bags are divided by their maximum too: single precision needs that.
    return _Writer(plan, layout, scaled=scaled).written()


@dataclass(eq=False)
class _Node:
    """A factor, or a product of factors that is smaller than the table it goes into."""

    ref: Ref
    leaf: int = -1
    child: int = -1
    parts: list["_Node"] = field(default_factory=list)


class _Writer:
    def __init__(self, plan: Plan, layout: Layout, *, scaled: bool) -> None:
        self.plan = plan
        self.scaled = scaled
        self.scales = len(plan.bags)
        self.layout = layout
        self.shape = plan.domain.shape
        self.end = layout.size + 1
        self.forward: list[Instruction] = []
        self.back: list[Instruction] = []
        self.steps = self.forward
        axis = plan.domain.axis
        slots = [tuple(axis[name] for name in clique) for clique in layout.cliques]
        self.slots = [Ref(start, axes, self._strides(axes)) for start, axes in zip(layout.offsets, slots, strict=False)]
        self.leaf_slots = self._leaf_slots()
        self.one = Ref(layout.size, (), ())
        self.raw = [self.new(bag.separator) for bag in plan.bags]
        self.raw_span = (layout.size + 1, self.end)
        self.messages = [self.new(bag.separator) for bag in plan.bags]
        self.beliefs: list[Ref | None] = [None] * len(plan.bags)
        self.tables: list[Tables] = []

    def written(self) -> Program:
        pending = [self._collect(i, bag) for i, bag in enumerate(self.plan.bags)]
        self.steps = self.back
        for i in range(len(pending) - 1, -1, -1):
            pending[i].distribute(self, i)
        before, after = self._nested()
        return Program(
            plan=self.plan,
            layout=self.layout,
            size=self.end,
            scales=self.scales,
            one=self.one.start,
            raw=self.raw_span,
            messages=tuple(ref.start for ref in self.raw),
            before=before,
            forward=tuple(self.forward),
            back=tuple(self.back),
            after=after,
            tables=tuple(bag.tables for bag in pending),
            beliefs=tuple(self.beliefs),
            is_leaf=tuple(
                home >= 0 and slot is self.leaf_slots[home]
                for slot, home in zip(self.slots, self.plan.home, strict=True)
            ),
            most_leaves=max((len(bag.leaves) for bag in self.plan.bags), default=0),
        )

    def _leaf_slots(self) -> list[Ref]:
        """The slot of each maximal clique: the first clique that is it."""
        first: dict[int, Ref] = {}
        for slot, clique, home in zip(self.slots, self.plan.cliques, self.plan.home, strict=True):
            if home >= 0 and home not in first and clique == self.plan.maximal[home]:
                first[home] = slot
        return [first[i] for i in range(len(first))]

    def _nested(self) -> tuple[tuple[Instruction, ...], tuple[Instruction, ...]]:
        """Steps that add nested potentials, small ones to each other first, and that read their marginals back."""
        inside: dict[int, list[_Node]] = {}
        for slot, home in zip(self.slots, self.plan.home, strict=True):
            if home >= 0 and slot is not self.leaf_slots[home]:
                inside.setdefault(home, []).append(_Node(slot))
        before: list[Instruction] = []
        after: list[Instruction] = []
        for home, nodes in inside.items():
            whole = self.leaf_slots[home]
            self.steps = before
            merged = self._merged(nodes, whole.axes)
            for node in merged:
                self.mul(whole, whole, node.ref)
            self.steps = after
            self.spread(whole, merged)
        return tuple(before), tuple(after)

    def _collect(self, index: int, bag: Bag) -> "_Dense | _Cut":
        factors = [_Node(self.leaf_slots[i], leaf=i) for i in bag.leaves]
        factors += [_Node(self.messages[i], child=i) for i in bag.children]
        written = _Dense(self, bag, factors) if bag.split is None else _Cut(self, bag, factors)
        self.sum(self.raw[index], written.top)
        self._norm(self.messages[index], self.raw[index], index)
        return written

    def _norm(self, out: Ref, raw: Ref, index: int) -> None:
        self.steps.append(Instruction(NORM, (self.cells(raw.axes),), out.start, (1,), raw.start, (1,), index, (0,)))

    def scale(self, table: Ref) -> None:
        """Divide a table by its maximum, where the program is to be scaled."""
        if self.scaled:
            self._norm(table, table, self.scales)
            self.scales += 1

    def ratio(self, index: int) -> Ref:
        """What the parent believes of the bag's separator, over what the bag sent."""
        raw, belief = self.raw[index], self.beliefs[index] or self.one
        # The scaled message is no longer needed: its place takes the ratio.
        self.steps.append(self._over(DIV, raw, self.messages[index], belief, raw))
        return self.messages[index]

    def multiplied(self, axes: Ints, factors: list[_Node], *, in_place: bool) -> tuple[Ref, list[_Node]]:
        """The product of `factors` as a table over `axes`, small products first; and what went into it."""
        cover = next((node for node in factors if in_place and node.leaf >= 0 and node.ref.axes == axes), None)
        nodes = self._merged([node for node in factors if node is not cover], axes)
        if cover is not None:
            table, rest = cover.ref, nodes
        else:
            table, rest = self.new(axes), nodes[2:]
            self._first(table, nodes[:2])
        for node in rest:
            self.mul(table, table, node.ref)
        return table, [cover, *nodes] if cover is not None else nodes

    def _first(self, table: Ref, nodes: list[_Node]) -> None:
        if len(nodes) == 2:
            self.mul(table, nodes[0].ref, nodes[1].ref)
        else:
            self.steps.append(self._over(COPY, table, table, nodes[0].ref if nodes else self.one, None))

    def _merged(self, nodes: list[_Node], order: Ints) -> list[_Node]:
        """Multiply pairs while their product stays smaller than the whole table, whose order of axes they take."""
        cells = self.cells(order)
        nodes = self._same_merged(nodes, order)
        while len(nodes) > 1:
            # The cheapest product is almost always one of two small tables, and looking at few keeps this linear.
            nodes.sort(key=lambda node: self.cells(node.ref.axes))
            pairs = combinations(range(min(len(nodes), _LOOKED_AT)), 2)
            union, i, j = min((self.cells({*nodes[i].ref.axes, *nodes[j].ref.axes}), i, j) for i, j in pairs)
            if union >= cells:
                break
            merged = self._pair(nodes[i], nodes[j], order)
            nodes = [node for k, node in enumerate(nodes) if k not in (i, j)] + [merged]
        return nodes

    def _same_merged(self, nodes: list[_Node], order: Ints) -> list[_Node]:
        """Multiply factors over the same attributes first: a hub may receive a thousand messages."""
        cells = self.cells(order)
        groups: dict[frozenset[int], list[_Node]] = {}
        for node in nodes:
            groups.setdefault(frozenset(node.ref.axes), []).append(node)
        merged: list[_Node] = []
        for axes, group in groups.items():
            if self.cells(axes) >= cells or len(group) == 1:
                merged += group
                continue
            node = self._pair(group[0], group[1], order)
            for other in group[2:]:
                self.mul(node.ref, node.ref, other.ref)
                node.parts.append(other)
            merged.append(node)
        return merged

    def _pair(self, a: _Node, b: _Node, order: Ints) -> _Node:
        both = {*a.ref.axes, *b.ref.axes}
        node = _Node(self.new(tuple(v for v in order if v in both)), parts=[a, b])
        self.mul(node.ref, a.ref, b.ref)
        return node

    def spread(self, table: Ref, nodes: Iterable[_Node]) -> None:
        """Read from a table that has become a marginal what its factors are to believe."""
        for node in nodes:
            if node.ref.start == table.start:
                continue
            if node.child >= 0:
                self.beliefs[node.child] = self._believed(table, node)
                continue
            self.sum(node.ref, table)
            self.spread(node.ref, node.parts)

    def _believed(self, table: Ref, node: _Node) -> Ref:
        if len(table.axes) == len(node.ref.axes):
            return table
        belief = self.new(node.ref.axes)
        self.sum(belief, table)
        return belief

    def mul(self, out: Ref, a: Ref, b: Ref) -> None:
        self.steps.append(self._over(MUL, out, out, a, b))

    def sum(self, out: Ref, a: Ref) -> None:
        self.steps.append(self._over(SUM if len(out.axes) < len(a.axes) else COPY, a, out, a, None))

    def matmul(self, sizes: tuple[int, int, int, int], out: int, a: tuple[int, Ints], b: tuple[int, Ints]) -> None:
        _, m, _, n = sizes
        self.steps.append(Instruction(MATMUL, sizes, out, (m * n, n, 1), *a, *b))

    def _over(self, kind: int, over: Ref, out: Ref, a: Ref, b: Ref | None) -> Instruction:
        shape = tuple([self.shape[v] for v in over.axes])
        strides = [_along(over.axes, ref) for ref in (out, a)] + [_along(over.axes, b) if b else (0,) * len(shape)]
        shape, out_strides, a_strides, b_strides = _coalesced(shape, *strides)
        return Instruction(kind, shape, out.start, out_strides, a.start, a_strides, b.start if b else 0, b_strides)

    def new(self, axes: Ints) -> Ref:
        ref = Ref(self.end, axes, self._strides(axes))
        self.end += self.cells(axes)
        return ref

    def cells(self, axes: Iterable[int]) -> int:
        return math.prod(self.shape[v] for v in axes)

    def _strides(self, axes: Ints) -> Ints:
        return _c_strides(tuple([self.shape[v] for v in axes]))


class _Dense:
    """A bag with one table."""

    def __init__(self, writer: _Writer, bag: Bag, factors: list[_Node]) -> None:
        self.top, self.nodes = writer.multiplied(bag.members, factors, in_place=True)
        self.tables = Tables((self.top,), self.top)

    def distribute(self, writer: _Writer, index: int) -> None:
        writer.mul(self.top, self.top, writer.ratio(index))
        writer.spread(self.top, self.nodes)


class _Cut:
    """A bag with three tables, F(B,L,K), G(B,K,R) and H(B,L,R); its top is C = Σ_K F·G·H."""

    def __init__(self, writer: _Writer, bag: Bag, factors: list[_Node]) -> None:
        split = bag.split
        assert split is not None  # noqa: S101  the caller looked
        axes = split.tables
        order = sorted(range(3), key=lambda i: writer.cells(axes[i]))
        shares: list[list[_Node]] = [[], [], []]
        for node in factors:
            shares[next(i for i in order if set(node.ref.axes) <= set(axes[i]))].append(node)
        self.f, self.f_nodes = writer.multiplied(axes[0], shares[0], in_place=False)
        self.g, self.g_nodes = writer.multiplied(axes[1], shares[1], in_place=False)
        self.h, self.h_nodes = writer.multiplied(axes[2], shares[2], in_place=False)
        for table in (self.f, self.g, self.h):
            writer.scale(table)
        self.top = writer.new(axes[2])
        groups = (split.batch, split.left, split.summed, split.right)
        self.b, self.l, self.k, self.r = (writer.cells(group) for group in groups)
        f = (self.f.start, (self.l * self.k, self.k, 1))
        g = (self.g.start, (self.k * self.r, self.r, 1))
        writer.matmul((self.b, self.l, self.k, self.r), self.top.start, f, g)
        writer.mul(self.top, self.top, self.h)
        self.tables = Tables((self.f, self.g, self.h), self.top)

    def distribute(self, writer: _Writer, index: int) -> None:
        ratio = writer.ratio(index)
        writer.mul(self.top, self.top, ratio)
        writer.mul(self.h, self.h, ratio)
        h = (self.h.start, (self.l * self.r, self.r, 1))
        f_belief, g_belief = writer.new(self.f.axes), writer.new(self.g.axes)
        transposed = (self.g.start, (self.k * self.r, 1, self.r))
        writer.matmul((self.b, self.l, self.r, self.k), f_belief.start, h, transposed)
        transposed = (self.f.start, (self.l * self.k, 1, self.k))
        writer.matmul((self.b, self.k, self.l, self.r), g_belief.start, transposed, h)
        # F, G and H stay as they are: their product is the bag's marginal, which projections and sampling use.
        writer.mul(f_belief, f_belief, self.f)
        writer.mul(g_belief, g_belief, self.g)
        for belief, nodes in ((f_belief, self.f_nodes), (g_belief, self.g_nodes), (self.top, self.h_nodes)):
            writer.spread(belief, nodes)


def _along(axes: Ints, ref: Ref) -> Ints:
    """The strides of `ref` along `axes`, 0 where it does not have them."""
    if ref.axes == axes:
        return ref.strides
    own = dict(zip(ref.axes, ref.strides, strict=True))
    return tuple([own.get(v, 0) for v in axes])


@lru_cache(maxsize=4096)
def _c_strides(shape: Ints) -> Ints:
    strides = [1] * len(shape)
    for i in range(len(shape) - 2, -1, -1):
        strides[i] = strides[i + 1] * shape[i + 1]
    return tuple(strides)


@lru_cache(maxsize=16384)
def _coalesced(shape: Ints, *strides: Ints) -> tuple[Ints, Ints, Ints, Ints]:
    """Drop axes of one value, and join neighbouring axes that every operand goes over in one stride."""
    joined: list[list[int]] = []
    for row in zip(shape, *strides, strict=True):
        if row[0] == 1:
            continue
        if joined and all(before == stride * row[0] for before, stride in zip(joined[-1][1:], row[1:], strict=True)):
            joined[-1] = [joined[-1][0] * row[0], *row[1:]]
        else:
            joined.append(list(row))
    columns = list(zip(*joined, strict=True)) if joined else [(), (), (), ()]
    return columns[0], columns[1], columns[2], columns[3]
