"""Parent sets: the attributes that a new attribute of a Bayesian network may depend on."""

import itertools
import math
from collections.abc import Iterator

import numpy as np

from priory.queries.domain import Clique, Domain


def parent_sets(chosen: Domain, room: float, most: int, rng: np.random.Generator) -> list[Clique]:
    """The largest sets of attributes with at most `room` cells: all of them, or `most` drawn at random."""
    smallest = sorted(size for size in chosen.shape if size > 1)
    deepest = sum(cells <= room for cells in itertools.accumulate(smallest, lambda a, b: a * b))
    if sum(math.comb(len(chosen), k) for k in range(deepest + 1)) <= 20 * most:
        sets = list(_maximal(chosen, chosen.attributes, room))
    else:
        sets = [_grown(chosen, room, rng) for _ in range(2 * most)]
    distinct = list(dict.fromkeys(chosen.clique(parents) for parents in sets))
    return distinct[:most]


def _maximal(domain: Domain, names: Clique, room: float) -> Iterator[Clique]:
    """Every set that fits and to which nothing can be added."""

    def grow(parents: Clique, rest: Clique, cells: int) -> Iterator[Clique]:
        fitting = [name for name in names if name not in parents and cells * domain[name] <= room]
        if not fitting:
            yield parents
        for i, name in enumerate(rest):
            if cells * domain[name] <= room:
                yield from grow((*parents, name), rest[i + 1 :], cells * domain[name])

    return grow((), names, 1)


def _grown(domain: Domain, room: float, rng: np.random.Generator) -> Clique:
    parents: list[str] = []
    cells = 1
    for i in rng.permutation(len(domain)):
        if cells * domain.shape[i] <= room:
            parents.append(domain.attributes[i])
            cells *= domain.shape[i]
    return tuple(parents)
