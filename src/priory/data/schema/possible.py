"""Possible: whether the constraints of a schema leave any row, found without a model."""

import math
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from priory.queries.domain import Clique

# Joint tables of more cells are left to the model, which plans for them.
MOST_CELLS = 1_000_000


def leaves_rows(impossible: Iterable[tuple[Clique, NDArray[np.bool_]]]) -> bool:
    """Whether some combination of codes is ruled out by none of the masks; False also where that is not easily told.

    One attribute after the other goes: the tables that hold it are joined, and what is left of them says for which
    values of the others it has a possible one.
    """
    tables = [(clique, ~mask) for clique, mask in impossible]
    sizes = {name: size for clique, table in tables for name, size in zip(clique, table.shape, strict=True)}
    while sizes:
        near = {
            name: dict.fromkeys(other for clique, _ in tables if name in clique for other in clique) for name in sizes
        }
        cells = {name: math.prod(sizes[other] for other in others) for name, others in near.items()}
        name = min(cells, key=cells.__getitem__)
        if cells[name] > MOST_CELLS:
            return False
        place = {other: i for i, other in enumerate(near[name])}
        joined = [each for clique, table in tables if name in clique for each in (table, [place[n] for n in clique])]
        kept = tuple(n for n in place if n != name)
        left = np.einsum(*joined, [place[n] for n in kept])
        tables = [(clique, table) for clique, table in tables if name not in clique] + [(kept, left)]
        del sizes[name]
    return all(table for _, table in tables)
