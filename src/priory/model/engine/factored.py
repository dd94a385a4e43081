"""Factored: sums of products of tables with parts contracted in, so that large marginals are never formed.

Algorithm 3 of Private-PGM [McKenna, Sheldon & Miklau 2019, Appendix B]: an answer is a sum over all attributes of a
product of tables and of the query's matrices, whose entries may be negative. opt_einsum finds the order and does it.
"""

import math
from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np

from priory.errors import SizeError
from priory.queries.factor import Array

Axes = tuple[int, ...]
LabelledTable = tuple[Axes, Array]
CELLS = 2**30


def summed_product(tables: Sequence[LabelledTable], keep: Axes, *, limit: int = CELLS) -> Array:
    """The product of `tables` summed over every axis that is not in `keep`, as an array with the axes of `keep`.

    Every axis of `keep` is in some table. A table of more than `limit` cells on the way is a `SizeError`.
    """
    if not tables:
        return np.ones(())
    axes, arrays = zip(*tables, strict=True)
    if len(tables) == 1:
        # Most answers come from one table, and are not to wait for the parsing of an equation.
        [own], [array] = axes, arrays
        summed = array.sum(axis=tuple(i for i, v in enumerate(own) if v not in keep))
        remaining = [v for v in own if v in keep]
        return np.asarray(summed).transpose([remaining.index(v) for v in keep])
    expression = _expression(axes, tuple(array.shape for array in arrays), keep, limit)
    return np.asarray(expression(*arrays))


@lru_cache(maxsize=512)
def _expression(axes: tuple[Axes, ...], shapes: tuple[Axes, ...], keep: Axes, limit: int) -> Callable[..., Array]:
    """The product and sum as a function of the tables; models of one structure, as redraws are, share it."""
    from opt_einsum import contract_expression, contract_path, get_symbol

    sizes = {v: size for own, shape in zip(axes, shapes, strict=True) for v, size in zip(own, shape, strict=True)}
    _check(math.prod(sizes[v] for v in keep), limit)
    symbols = {v: get_symbol(i) for i, v in enumerate(sizes)}
    terms = ["".join(symbols[v] for v in own) for own in (*axes, keep)]
    equation = f"{','.join(terms[:-1])}->{terms[-1]}"
    path, forecast = contract_path(equation, *shapes, shapes=True, optimize="greedy")
    _check(int(forecast.largest_intermediate), limit)
    expression: Callable[..., Array] = contract_expression(equation, *shapes, optimize=path)
    return expression


def _check(cells: int, limit: int) -> None:
    if cells > limit:
        raise SizeError(
            f"the answer needs a table of {cells:,} cells, {limit:,} are allowed; ask for fewer attributes at once, or "
            "sum or recode some of them",
            cells=cells,
            limit=limit,
        )
