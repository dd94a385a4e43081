"""Max-sum: the row with the largest sum of potentials, by the same elimination that sums."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from priory.errors import SizeError
from priory.model.engine.layout import Values, potentials_of
from priory.model.engine.plan import plan
from priory.queries.domain import Domain
from priory.queries.factor import Array

# Tables of floats and the choices beside them: 2^27 cells take 2 GiB.
MOST_CELLS = 2**27

_Table = tuple[tuple[int, ...], Array]


def best_row(
    domain: Domain, potentials: Mapping[Any, Values], *, most_cells: int = MOST_CELLS
) -> tuple[NDArray[np.int64], float]:
    """A row x with the largest Σ_C θ_C(x_C), and that sum; attributes in no clique get code 0.

    Each attribute is maximised out in the order of the plan, and its best value for every setting of its neighbours is
    remembered; the row is read off backwards. A table of more than `most_cells` is a `SizeError`; it is not allocated.
    """
    checked = potentials_of(domain, potentials)
    buckets = plan(domain, checked, memory_in_bytes=2**62).buckets
    largest = max((math.prod(domain.shape[i] for i in (v, *rest)) for v, rest in buckets), default=1)
    if largest > most_cells:
        said = f"the largest table of the search has {largest:.3g} cells; the limit is {most_cells:.3g}"
        raise SizeError(said, cells=largest, limit=most_cells, cliques=list(checked))
    tables: list[_Table] = [(tuple(domain.axis[a] for a in c), factor.values) for c, factor in checked.items()]
    choices: list[tuple[int, tuple[int, ...], NDArray[np.int64]]] = []
    for v, rest in buckets:
        axes = (v, *sorted(rest))
        table = _sum([table for table in tables if v in table[0]], axes, domain.shape)
        tables = [other for other in tables if v not in other[0]]
        tables.append((axes[1:], table.max(axis=0)))
        choices.append((v, axes[1:], np.asarray(table.argmax(axis=0))))
    row = np.zeros(len(domain), dtype=np.int64)
    for v, rest_axes, best in reversed(choices):
        row[v] = best[tuple(row[list(rest_axes)])]
    return row, float(sum(float(values) for _, values in tables))


def _sum(tables: list[_Table], axes: tuple[int, ...], shape: tuple[int, ...]) -> Array:
    total = np.zeros([shape[v] for v in axes])
    for own, values in tables:
        order = sorted(range(len(own)), key=lambda i: axes.index(own[i]))
        present = [shape[v] if v in own else 1 for v in axes]
        total += values.transpose(order).reshape(present)
    return total
