"""Factored: sums of products of tables with parts contracted in, so that large marginals are never formed.

Algorithm 3 of Private-PGM [McKenna, Sheldon & Miklau 2019, Appendix B]: an answer is a sum over all attributes of a
product of tables and of the query's matrices, whose entries may be negative. opt_einsum finds the order and does it.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache

import numpy as np

from priory.errors import SizeError
from priory.queries.factor import Array

Axes = tuple[int, ...]
LabelledTable = tuple[Axes, Array]
# What the tables on the way, their copies and the answer may take together, beside the tables that are given.
BYTES = 2**30


def summed_product(tables: Sequence[LabelledTable], keep: Axes, *, limit: int = BYTES) -> Array:
    """The product of `tables` summed over every axis that is not in `keep`, as an array with the axes of `keep`.

    Every axis of `keep` is in some table. More than `limit` bytes on the way are a `SizeError`, before any is taken.
    """
    if not tables:
        return np.ones(())
    axes, arrays = zip(*tables, strict=True)
    if len(tables) == 1:
        # Most answers come from one table, and are not to wait for the parsing of an equation.
        [own], [array] = axes, arrays
        check_bytes(8 * math.prod(size for v, size in zip(own, array.shape, strict=True) if v in keep), limit)
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
    check_bytes(8 * math.prod(sizes[v] for v in keep), limit)
    symbols = {v: get_symbol(i) for i, v in enumerate(sizes)}
    terms = ["".join(symbols[v] for v in own) for own in (*axes, keep)]
    equation = f"{','.join(terms[:-1])}->{terms[-1]}"
    path, _ = contract_path(equation, *shapes, shapes=True, optimize="greedy")
    check_bytes(8 * _most_cells(sizes, axes, keep, path), limit)
    expression: Callable[..., Array] = contract_expression(equation, *shapes, optimize=path)
    return expression


def _most_cells(sizes: Mapping[int, int], axes: Sequence[Axes], keep: Axes, path: Sequence[tuple[int, ...]]) -> int:
    """The most cells that are held at once: tables on the way, and of each step its operands and result, copied."""

    def cells(scope: frozenset[int]) -> int:
        return math.prod(sizes[v] for v in scope)

    operands = [(frozenset(own), False) for own in axes]
    held, most = 0, 0
    for step in path:
        taken = [operands.pop(i) for i in sorted(step, reverse=True)]
        needed = frozenset(keep).union(*(scope for scope, _ in operands))
        result = frozenset[int]().union(*(scope for scope, _ in taken)) & needed
        most = max(most, held + sum(cells(scope) for scope, _ in taken) + 2 * cells(result))
        held += cells(result) - sum(cells(scope) for scope, is_made in taken if is_made)
        operands.append((result, True))
    return most


def check_bytes(needed: int, limit: int = BYTES) -> None:
    """A `SizeError` where more is needed than allowed."""
    if needed > limit:
        raise SizeError(
            f"the answer needs {needed:,} bytes on the way, {limit:,} are allowed; ask for fewer attributes, or "
            "sum or recode some of them",
            cells=needed // 8,
            limit=limit // 8,
        )
