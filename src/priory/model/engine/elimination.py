"""Elimination: the order in which attributes are summed out, their neighbours then, and the size that gives."""

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from heapq import heapify, heappop, heappush

import numpy as np

Scope = frozenset[int]
Bucket = tuple[int, Scope]
ScopesOf = Mapping[int, list[Scope]]
Score = Callable[[int, set[int], ScopesOf], float]

# Randomised orders are tried beside min-weight and min-fill while the structure is small enough for it to be cheap.
_RANDOM_ORDERS = 4
_RANDOM_ORDERS_UP_TO = 60
# Attributes in more scopes than this are scored again when their turn comes, not at every change: stars stay linear.
_LAZY_ABOVE = 24
_SIMPLICIAL = -1.0
# No other order brings so many cells down to what a machine holds; looking for one would only delay the refusal.
_HOPELESS = 1 << 60


def best_order(scopes: Sequence[Scope], shape: Sequence[int]) -> list[Bucket]:
    """The buckets of the cheapest order found: each attribute with its neighbours when it is eliminated."""
    # Where no neighbours ever need to be joined the first order is optimal; otherwise min-weight, min-fill and a few
    # randomised orders compete on the cells of their buckets.
    logs = [math.log2(size) for size in shape]
    greedy = _Elimination(scopes, min_weight(logs))
    best = greedy.run()
    if not greedy.fills or _cells(best, shape) > _HOPELESS:
        return best
    scores = [min_fill(logs)]
    if len(best) <= _RANDOM_ORDERS_UP_TO:
        noise = np.random.default_rng(0).gumbel(scale=1.5, size=(_RANDOM_ORDERS, len(shape)))
        scores += [min_weight(logs, row.tolist()) for row in noise]
    tried = [best, *(_Elimination(scopes, score).run() for score in scores)]
    return min(tried, key=lambda buckets: _cells(buckets, shape))


def min_weight(logs: Sequence[float], noise: Sequence[float] | None = None) -> Score:
    """Prefer the attribute whose merged table has the fewest cells, give or take some noise."""

    def score(v: int, near: set[int], _: ScopesOf) -> float:
        return sum(map(logs.__getitem__, near)) + logs[v] + (noise[v] if noise else 0.0)

    return score


def min_fill(logs: Sequence[float]) -> Score:
    """Prefer the attribute that joins the fewest pairs of neighbours; fewer cells break ties."""

    def score(v: int, near: set[int], scopes_of: ScopesOf) -> float:
        missing = sum(len(near - frozenset().union(*scopes_of[u])) for u in near)
        return missing + 1e-3 * (sum(map(logs.__getitem__, near)) + logs[v])

    return score


def _cells(buckets: Iterable[Bucket], shape: Sequence[int]) -> int:
    return sum(math.prod(map(shape.__getitem__, rest)) * shape[v] for v, rest in buckets)


class _Elimination:
    """One greedy run: the scopes that are left, and a heap of attributes by score."""

    def __init__(self, scopes: Sequence[Scope], score: Score) -> None:
        self.scopes_of: dict[int, list[Scope]] = {}
        for scope in scopes:
            for v in scope:
                self.scopes_of.setdefault(v, []).append(scope)
        self.score = score
        self.fills = 0
        self.stale: set[int] = set()
        self.key = {v: self._scored(v, own) for v, own in self.scopes_of.items()}
        self.heap = [(key, v) for v, key in self.key.items()]
        heapify(self.heap)

    def run(self) -> list[Bucket]:
        buckets: list[Bucket] = []
        while self.heap:
            key, v = heappop(self.heap)
            if self.key.get(v) != key:
                continue
            if v in self.stale:
                self.stale.discard(v)
                self._push(v, self._scored(v, self.scopes_of[v]))
                continue
            buckets.append((v, self._eliminate(v)))
        return buckets

    def _scored(self, v: int, own: list[Scope]) -> float:
        """The score of `v`, or less than any where its neighbours are joined already: going first is then optimal."""
        if len(own) == 1:
            return _SIMPLICIAL
        near = set().union(*own)
        if len(near) in map(len, own):
            return _SIMPLICIAL
        near.discard(v)
        return self.score(v, near, self.scopes_of)

    def _push(self, v: int, key: float) -> None:
        self.key[v] = key
        heappush(self.heap, (key, v))

    def _eliminate(self, v: int) -> Scope:
        """Merge the scopes of `v`, and return its neighbours."""
        del self.key[v]
        gone = self.scopes_of.pop(v)
        rest = (gone[0] if len(gone) == 1 else frozenset().union(*gone)) - {v}
        self.fills += len(rest) + 1 not in map(len, gone)
        for u in rest:
            # What is inside the merged scope adds nothing to it, and it adds nothing to a scope it is inside of.
            remaining = [scope for scope in self.scopes_of[u] if v not in scope]
            if not any(rest <= scope for scope in remaining):
                remaining.append(rest)
            self.scopes_of[u] = remaining
            if len(remaining) > _LAZY_ABOVE:
                self.stale.add(u)
            elif (key := self._scored(u, remaining)) != self.key[u]:
                self._push(u, key)
        return rest


class Sizer:
    """Symbolic elimination in a fixed order, kept so that one clique more touches only one path of it.

    Sets of attributes are whole numbers: bit i stands for the i-th attribute of the order, so the lowest bit of an
    attribute's neighbours is its parent in the elimination tree. A bucket counts towards the size unless a child's
    neighbours are all of it: then it lies inside the child's. The order, and the neighbours of each attribute when its
    turn comes, are numbers into the domain, whose sizes are `shape`.
    """

    def __init__(self, order: Sequence[int], neighbours: Sequence[Iterable[int]], shape: Sequence[int]) -> None:
        self._shape = shape
        self._order = tuple(order)
        self._index = {v: i for i, v in enumerate(order)}
        self._sizes = [shape[v] for v in order]
        self._rest = [sum(1 << self._index[u] for u in near) for near in neighbours]
        self._cells = [size * self._product(rest) for size, rest in zip(self._sizes, self._rest, strict=True)]
        self._all_cells = sum(self._cells)
        self._absorbers = [0] * len(self._rest)
        for rest in self._rest:
            parent = _lowest(rest)
            self._absorbers[parent] += rest > 0 and rest == self._rest[parent] | 1 << parent
        self.size = sum(cells for cells, n in zip(self._cells, self._absorbers, strict=True) if n == 0)

    def fits(self, clique: Collection[int], limit: float) -> bool:
        """Whether there are at most so many cells in all maximal buckets if `clique` were added."""
        # No bucket grows by more than the cells of the clique.
        most = (self._all_cells + 1) * math.prod(self._shape[v] for v in clique)
        return most <= limit or self.size_with(clique) <= limit

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

    def grown(self, clique: Iterable[int]) -> "Sizer":
        """The same order with `clique` (numbers into the domain) added; what it does not have yet goes first."""
        clique = frozenset(clique)
        new = [v for v in clique if v not in self._index]
        near: list[Iterable[int]] = [clique.difference(new[: i + 1]) for i in range(len(new))]
        changed = self._changed(sum(1 << self._index[v] for v in clique.difference(new)))
        near += [self._members(changed.get(i, rest)) for i, rest in enumerate(self._rest)]
        return Sizer((*new, *self._order), near, self._shape)

    def _members(self, bits: int) -> list[int]:
        return [v for i, v in enumerate(self._order) if bits >> i & 1]

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
