"""Algebra: what the steps of a program mean in linear space, in log space, and for structural zeros alone."""

import itertools
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Protocol

import numpy as np

from priory.model.engine.blocks import in_blocks
from priory.model.engine.cores import pieces, together
from priory.model.engine.program import COPY, DIV, MATMUL, MUL, NORM, PIECES, SUM, Instruction
from priory.queries.factor import Array

_DOUBLE = 8
# Sums of exponentials above this have lost nothing; those below it are summed one by one, so many at a time.
_FEARED = 1e-280
_AT_ONCE = 1 << 14


class Algebra(Protocol):
    """What a step's operations mean: numbers, logarithms of numbers, or whether numbers are positive."""

    def multiply(self, a: Array, b: Array, out: Array) -> None:
        """The product."""

    def sum(self, a: Array, axes: tuple[int, ...], out: Array) -> None:
        """The sum over `axes`."""

    def norm(self, raw: Array, out: Array) -> float:
        """Divide by the largest entry, and return its logarithm."""

    def divide(self, a: Array, b: Array, out: Array) -> None:
        """The quotient, with 0 / 0 = 0."""

    def matmul(self, a: Array, b: Array, out: Array) -> None:
        """The batched product of matrices."""


def _finite_tops(logs: Array, axis: int) -> Array:
    tops = logs.max(axis=axis, keepdims=True)
    return np.where(np.isfinite(tops), tops, 0.0)


def _log_sum(logs: Array) -> Array:
    tops = _finite_tops(logs, -1)
    return np.asarray(np.log(np.exp(logs - tops).sum(axis=-1)) + tops[..., 0])


class LogSpace:
    """Slow and safe: nothing is lost whatever the potentials."""

    def multiply(self, a: Array, b: Array, out: Array) -> None:
        np.add(a, b, out=out)

    def sum(self, a: Array, axes: tuple[int, ...], out: Array) -> None:
        top = np.max(a, axis=axes, keepdims=True)
        top = np.where(np.isfinite(top), top, 0.0)
        out[...] = np.log(np.exp(a - top).sum(axis=axes)) + np.squeeze(top, axis=axes)

    def norm(self, raw: Array, out: Array) -> float:
        top = float(raw.max())
        np.subtract(raw, top if np.isfinite(top) else 0.0, out=out)
        return top

    def divide(self, a: Array, b: Array, out: Array) -> None:
        out[...] = np.where(np.isneginf(a), -np.inf, a - np.where(np.isneginf(b), 0.0, b))

    def matmul(self, a: Array, b: Array, out: Array) -> None:
        tops, sides = _finite_tops(a, -1), _finite_tops(b, -2)
        products = np.matmul(np.exp(a - tops), np.exp(b - sides))
        out[...] = np.log(products) + tops + sides
        # A term that was lost is below 1e-308, hence nothing beside a sum above this; other sums are made one by one.
        lost = np.nonzero(products < _FEARED)
        rows = np.broadcast_to(a, (*products.shape[:-2], *a.shape[-2:]))
        columns = np.broadcast_to(b, (*products.shape[:-2], *b.shape[-2:])).swapaxes(-1, -2)
        for at in range(0, len(lost[0]), _AT_ONCE):
            *batch, i, j = (index[at : at + _AT_ONCE] for index in lost)
            out[(*batch, i, j)] = _log_sum(rows[(*batch, i)] + columns[(*batch, j)])


class Support:
    """Whether a number is positive for structural reasons: 1 or 0, so that nothing can underflow."""

    def multiply(self, a: Array, b: Array, out: Array) -> None:
        np.multiply(a, b, out=out)

    def sum(self, a: Array, axes: tuple[int, ...], out: Array) -> None:
        out[...] = a.max(axis=axes)

    def norm(self, raw: Array, out: Array) -> float:
        out[...] = raw
        return 0.0

    def divide(self, a: Array, b: Array, out: Array) -> None:
        np.multiply(a, b, out=out)

    def matmul(self, a: Array, b: Array, out: Array) -> None:
        np.matmul(a, b, out=out)
        np.minimum(out, 1.0, out=out)


def carried_out(steps: Iterable[Instruction], buffer: Array, algebra: Algebra) -> float:
    """Carry `steps` out in any algebra; returns the sum of the logarithms that were divided out."""
    logs = 0.0
    for step in steps:
        call = bound(step, buffer)
        if call[0] == MUL:
            algebra.multiply(call[1], call[2], call[3])
        elif call[0] == SUM:
            algebra.sum(call[1], call[2], call[3])
        elif call[0] == COPY:
            call[2][...] = call[1]
        elif call[0] == NORM:
            logs += algebra.norm(call[1], call[2])
        elif call[0] == DIV:
            algebra.divide(call[1], call[2], call[3])
        else:
            algebra.matmul(call[1], call[2], call[3])
    return logs


def view(buffer: Array, start: int, shape: Sequence[int], strides: Sequence[int]) -> Array:
    """A table in the buffer as an array; strides count cells."""
    steps = tuple([stride * _DOUBLE for stride in strides])
    return np.ndarray(tuple(shape), np.float64, buffer, start * _DOUBLE, steps)


def bound(step: Instruction, buffer: Array) -> tuple[Any, ...]:
    """A step with its operands as views of the buffer: the kind, what goes in, what comes out."""
    call = bound_by(step, partial(view, buffer))
    return (MATMUL, *in_blocks(*call[1:])) if step.kind == MATMUL else call


def bound_by(step: Instruction, seen: Callable[[int, Sequence[int], Sequence[int]], Any]) -> tuple[Any, ...]:
    """A step with its operands as `seen` shows them by start, shape and strides; of NORM the last is a number."""
    kind, shape = step.kind, step.shape
    if kind == MATMUL:
        batch, m, k, n = shape
        shapes = ((batch, m, k), (batch, k, n), (batch, m, n))
        starts, strides = (step.a, step.b, step.out), (step.a_strides, step.b_strides, step.out_strides)
        return (MATMUL, *map(seen, starts, shapes, strides))
    a = seen(step.a, shape, step.a_strides)
    if kind == SUM:
        summed = tuple([i for i, stride in enumerate(step.out_strides) if stride == 0])
        remaining = [i for i, stride in enumerate(step.out_strides) if stride != 0]
        out = seen(step.out, [shape[i] for i in remaining], [step.out_strides[i] for i in remaining])
        return (SUM, a, summed, out) if summed else (COPY, a, out)
    out = seen(step.out, shape, step.out_strides)
    if kind == COPY:
        return (COPY, a, out)
    if kind == NORM:
        return (NORM, a, out, step.b)
    return (kind, a, seen(step.b, shape, step.b_strides), out)


def run(calls: Iterable[tuple[Any, ...]], scales: Array) -> None:
    """Carry bound steps out in linear space. Lean on purpose: with many small cliques this loop is the cost."""
    multiply, add, largest, divide, matmul = np.multiply, np.add.reduce, np.maximum.reduce, np.divide, np.matmul
    for call in calls:
        kind = call[0]
        if kind == MUL:
            multiply(call[1], call[2], call[3])
        elif kind == SUM:
            add(call[1], call[2], None, call[3])
        elif kind == NORM:
            top = largest(call[1])
            divide(call[1], top, call[2])
            scales[call[3]] = top
        elif kind == DIV:
            divide(call[1], call[2], call[3])
        elif kind == COPY:
            call[2][...] = call[1]
        elif kind == PIECES:
            together([partial(run, [piece], scales) for piece in call[1:]])
        else:
            matmul(call[1], call[2], call[3])


def in_pieces(call: tuple[Any, ...]) -> tuple[Any, ...]:
    """A bound step as several that can be done at once, where it is large enough and has an axis to cut."""
    kind = call[0]
    if kind == NORM:
        return call
    if kind == MATMUL:
        _, a, b, out = call
        axis = max(range(3), key=lambda i: out.shape[i])
        count = min(pieces(out.size * a.shape[-1] // 8), out.shape[axis])
        cuts = [_cut(each, axis, count) if each.shape[axis] > 1 else [each] * count for each in (a, b, out)]
    elif kind == SUM:
        _, a, summed, out = call
        remaining = [axis for axis in range(a.ndim) if axis not in summed]
        count = min(pieces(a.size), a.shape[remaining[0]]) if remaining else 1
        cuts = [_cut(a, remaining[0], count), [summed] * count, _cut(out, 0, count)] if remaining else []
    else:
        count = pieces(call[1].size)
        cuts = [_cut(each, 0, count) for each in call[1:]] if count > 1 else []
    return (PIECES, *((kind, *piece) for piece in zip(*cuts, strict=True))) if count > 1 else call


def _cut(array: Array, axis: int, count: int) -> list[Array]:
    """Views of an array cut into pieces of about one size along an axis."""
    ends = [i * array.shape[axis] // count for i in range(count + 1)]
    at = (slice(None),) * axis
    return [array[(*at, slice(begin, end))] for begin, end in itertools.pairwise(ends)]


def exponentiated(array: Array) -> None:
    """exp, in place, on all cores where that pays."""
    together([partial(np.exp, piece, out=piece) for piece in _cut(array, 0, pieces(array.size))])
