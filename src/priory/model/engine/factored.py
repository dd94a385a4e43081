"""Factored: sums of products of tables with parts contracted in, so that large marginals are never formed.

Algorithm 3 of Private-PGM [McKenna, Sheldon & Miklau 2019, Appendix B]: an answer is a sum over all attributes of a
product of tables and of the query's matrices, whose entries may be negative. opt_einsum finds the order and does it.
"""

import math
from collections.abc import Sequence

import numpy as np

from priory.errors import SizeError
from priory.factor import Array

Axes = tuple[int, ...]
LabelledTable = tuple[Axes, Array]
CELLS = 2**30


def summed_product(tables: Sequence[LabelledTable], keep: Axes, *, limit: int = CELLS) -> Array:
    """The product of `tables` summed over every axis that is not in `keep`, as an array with the axes of `keep`.

    Every axis of `keep` is in some table.

    Raises:
        SizeError: a table on the way would have more than `limit` cells.
    """
    from opt_einsum import contract, contract_path

    if not tables:
        return np.ones(())
    sizes = {v: size for axes, array in tables for v, size in zip(axes, array.shape, strict=True)}
    _check(math.prod(sizes[v] for v in keep), limit)
    operands = [each for axes, array in tables for each in (array, axes)]
    path, forecast = contract_path(*operands, keep, optimize="greedy")
    _check(int(forecast.largest_intermediate), limit)
    return np.asarray(contract(*operands, keep, optimize=path))


def _check(cells: int, limit: int) -> None:
    if cells > limit:
        raise SizeError(
            f"the answer needs a table of {cells:,} cells, {limit:,} are allowed; ask for fewer attributes at once, or "
            "sum or recode some of them",
            cells=cells,
            limit=limit,
        )
