"""Network: sets of parents that can be useful, and rows drawn along a network of noisy families."""

import itertools
import math
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from priory.domain import Clique, Domain
from priory.factor import Array
from priory.mechanisms.steps.total import released_total
from priory.model.bases import PublicRows
from priory.model.model import Model
from priory.privacy.measurement import Measurement
from priory.release import Release


def parent_sets(chosen: Domain, room: float, most: int, rng: np.random.Generator) -> list[Clique]:
    """The largest sets of attributes with at most `room` cells: all of them, or `most` drawn at random."""
    smallest = sorted(size for size in chosen.shape if size > 1)
    deepest = sum(cells <= room for cells in itertools.accumulate(smallest, lambda a, b: a * b))
    if sum(math.comb(len(chosen), k) for k in range(deepest + 1)) <= 20 * most:
        found = list(_maximal(chosen, chosen.attributes, room))
    else:
        found = [_grown(chosen, room, rng) for _ in range(2 * most)]
    distinct = list(dict.fromkeys(chosen.clique(parents) for parents in found))
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


def network_model(release: Release, *, seed: int | np.random.Generator | None = None) -> Model:
    """PrivBayes' own estimate: as many rows as there are, drawn along the network from clipped conditionals."""
    total = released_total(release.measurements)
    families = [m for m in release.measurements if m.query.clique]
    rows = network_rows(release.domain, families, max(1, round(total)), np.random.default_rng(seed))
    return Model(PublicRows(rows, release.domain), {}, total)


def network_rows(
    domain: Domain, families: Sequence[Measurement], n: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    """`n` rows, an attribute at a time: each family has one that is not drawn yet, given those that are."""
    rows = np.zeros((n, len(domain)), dtype=np.int64)
    drawn: set[str] = set()
    for measurement in families:
        clique = measurement.query.clique
        [child] = [name for name in clique if name not in drawn]
        parents = tuple(name for name in clique if name != child)
        axis = measurement.query.domain.axis[child]
        chances = conditional(np.moveaxis(np.asarray(measurement.values, dtype=np.float64), axis, -1))
        shape = chances.shape[:-1]
        group = np.zeros(n, dtype=np.int64)
        for name, size in zip(parents, shape, strict=True):
            group = group * size + rows[:, domain.axis[name]]
        # Cumulative chances of group g, moved up by g, are one ascending list over all groups.
        steps = chances.reshape(-1, domain[child]).cumsum(axis=1)
        steps[:, -1] = 1.0
        ladder = (steps + np.arange(len(steps))[:, None]).ravel()
        place = np.searchsorted(ladder, group + rng.random(n), side="right")
        rows[:, domain.axis[child]] = np.minimum(place - group * domain[child], domain[child] - 1)
        drawn.add(child)
    return rows


def conditional(counts: Array) -> Array:
    """Chances along the last axis: negative counts are 0, and where nothing is left all values are alike."""
    clipped = np.maximum(counts, 0.0)
    mass = clipped.sum(axis=-1, keepdims=True)
    uniform = np.full(counts.shape, 1 / counts.shape[-1])
    return np.asarray(np.divide(clipped, mass, out=uniform, where=mass > 0))
