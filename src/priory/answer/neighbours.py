"""Neighbours: a measured marginal predicted from the ones around it, as if it had not been measured.

A small table over its attributes and those that tie them most strongly is fitted, by iterative proportional fitting
[Deming & Stephan 1940], to the model's marginals of all other measured cliques. That costs milliseconds where a whole
model without the marginal takes minutes, and what lies further away tells next to nothing.
"""

import heapq
import itertools
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from priory.model.bases import Product, Uniform
from priory.model.model import Model
from priory.queries.domain import Clique
from priory.queries.factor import Array

# Cells of the small table, and how many attributes beyond those on the way from one to another it may have.
_CELLS, _MORE = 1 << 14, 4
# Rounds of fitting, and the largest share of all records that may still be misplaced at the end.
_ROUNDS, _MISPLACED = 25, 1e-4


@dataclass(frozen=True, eq=False)
class Neighbours:
    """The measured cliques of a model."""

    model: Model  # the model
    marginals: Mapping[Clique, Array]  # its marginals on them, in records

    def predicted(self, out: Clique) -> Array:
        """The marginal of `out` from cliques that do not contain it, in records."""
        others = [clique for clique in self.marginals if clique and not set(out) <= set(clique)]
        ties = self._ties(others)
        way = _way(out, ties)
        chosen = tuple(dict.fromkeys((*out, *way)))
        if self._cells(chosen) > _CELLS and len(out) == 2:
            return self._chained(way, others)
        chosen = chosen if self._cells(chosen) <= _CELLS else out
        for name in _nearest(out, ties)[:_MORE]:
            more = chosen if name in chosen else (*chosen, name)
            chosen = more if self._cells(more) <= _CELLS else chosen
        table = self._fitted(chosen, others)
        return np.asarray(table.sum(axis=tuple(range(len(out), table.ndim))))

    def _cells(self, names: Iterable[str]) -> int:
        return math.prod(self.model.domain[name] for name in names)

    def _ties(self, cliques: Iterable[Clique]) -> dict[str, dict[str, float]]:
        """How strongly pairs of attributes that share a clique hang together."""
        ties: dict[str, dict[str, float]] = {}
        for clique in cliques:
            for a, b in itertools.combinations(clique, 2):
                strength = self._strength(clique, a, b)
                for x, y in ((a, b), (b, a)):
                    known = ties.setdefault(x, {})
                    known[y] = max(known.get(y, 0.0), strength)
        return ties

    @cached_property
    def _known(self) -> dict[tuple[Clique, str, str], float]:
        return {}

    def _strength(self, clique: Clique, a: str, b: str) -> float:
        """Cramér's V of two attributes."""
        if (clique, a, b) not in self._known:
            joint = _onto(self.marginals[clique], clique, (a, b)) / max(self.model.total, 1.0)
            free = np.multiply.outer(joint.sum(axis=1), joint.sum(axis=0))
            square = np.sum(np.divide((joint - free) ** 2, free, out=np.zeros_like(free), where=free > 0))
            self._known[clique, a, b] = float(min(1.0, np.sqrt(square / max(1, min(joint.shape) - 1))))
        return self._known[clique, a, b]

    def _chained(self, way: list[str], cliques: Iterable[Clique]) -> Array:
        """The marginal of both ends of a way on which each attribute depends on the one before alone."""
        found = np.eye(self.model.domain[way[0]])
        for a, b in itertools.pairwise(way):
            joint = next(_onto(self.marginals[c], c, (a, b)) for c in cliques if {a, b} <= set(c))
            alone = joint.sum(axis=1, keepdims=True)
            found = found @ (
                joint if a == way[0] else np.divide(joint, alone, out=np.zeros_like(joint), where=alone > 0)
            )
        return found

    def _fitted(self, names: Clique, cliques: Iterable[Clique]) -> Array:
        """The table over `names` with the marginals of `cliques`, as far as these speak of them."""
        targets: dict[Clique, Array] = {}
        for clique in sorted(cliques, key=len):
            shared = tuple(name for name in names if name in clique)
            if shared:
                targets[shared] = _onto(self.marginals[clique], clique, shared)
        largest = {c: t for c, t in targets.items() if not any(set(c) < set(other) for other in targets)}
        table = self._start(names)
        for _ in range(_ROUNDS):
            misplaced = 0.0
            for clique, target in largest.items():
                axes = tuple(k for k, name in enumerate(names) if name not in clique)
                now = table.sum(axis=axes, keepdims=True)
                goal = target.reshape(now.shape)
                misplaced = max(misplaced, float(np.abs(now - goal).sum()))
                table = table * np.divide(goal, now, out=np.zeros_like(now), where=now > 0)
            if misplaced <= _MISPLACED * self.model.total:
                break
        return table

    def _start(self, names: Clique) -> Array:
        if isinstance(self.model.base, Uniform | Product):
            return np.full(self.model.domain.project(names).shape, self.model.total / self._cells(names))
        return Model(self.model.base, {}, self.model.total).project(names).values


def _onto(table: Array, clique: Clique, names: Clique) -> Array:
    """A clique's marginal summed onto some of its attributes, in their order."""
    summed = table.sum(axis=tuple(k for k, name in enumerate(clique) if name not in names))
    left = [name for name in clique if name in names]
    return np.asarray(summed.transpose([left.index(name) for name in names]))


def _way(out: Clique, ties: Mapping[str, Mapping[str, float]]) -> list[str]:
    """The attributes on the strongest way from the first attribute of `out` to each other one, in their order."""
    found: list[str] = [out[0]]
    before: dict[str, str] = {}
    queue, done = [(0.0, out[0], out[0])], set[str]()
    while queue:
        cost, name, source = heapq.heappop(queue)
        if name in done:
            continue
        done.add(name)
        before[name] = source
        for other, strength in ties.get(name, {}).items():
            if other not in done:
                heapq.heappush(queue, (cost - math.log(max(strength, 1e-9)), other, name))
    for last in out[1:]:
        walk = [last]
        while walk[-1] in before and walk[-1] != out[0]:
            walk.append(before[walk[-1]])
        found += walk[-2::-1]
    return found


def _nearest(out: Clique, ties: Mapping[str, Mapping[str, float]]) -> list[str]:
    """Other attributes that hang together with at least two of `out`, the strongest ties first."""
    scores = {}
    for name in ties:
        if name not in out:
            first, second = sorted((ties[name].get(own, 0.0) for own in out), reverse=True)[:2]
            if second > 0:
                scores[name] = first * second
    return sorted(scores, key=lambda name: -scores[name])
