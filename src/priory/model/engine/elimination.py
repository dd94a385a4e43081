"""Elimination: in which order attributes are summed out, and which neighbours each then has."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
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
