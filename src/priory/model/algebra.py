"""Algebra: what the steps of a program mean in linear space, in log space, and for structural zeros alone."""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, Protocol

import numpy as np

from priory.factor import Array
from priory.model.program import COPY, DIV, MATMUL, MUL, NORM, SUM, Step

_DOUBLE = 8
# Terms of a matrix product: up to the first, BLAS stays in one thread; from the second, its threads are worth it.
_ONE_THREAD = 1 << 18
_BOTH_CORES = 1 << 25
_FEWEST_ROWS = 4


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
        out[...] = -np.inf
        for k in range(a.shape[-1]):
            np.logaddexp(out, a[..., :, k, None] + b[..., None, k, :], out=out)


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


def carried_out(steps: Iterable[Step], buffer: Array, algebra: Algebra) -> float:
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
    return np.ndarray(
        tuple(shape), np.float64, buffer, start * _DOUBLE, tuple([stride * _DOUBLE for stride in strides])
    )


def bound(step: Step, buffer: Array) -> tuple[Any, ...]:
    """A step with its operands as views of the buffer: the kind, what goes in, what comes out."""
    kind, shape = step.kind, step.shape
    if kind == MATMUL:
        return _bound_matmul(step, buffer)
    a = view(buffer, step.a, shape, step.a_strides)
    if kind == SUM:
        summed = tuple([i for i, stride in enumerate(step.out_strides) if stride == 0])
        kept = [i for i, stride in enumerate(step.out_strides) if stride != 0]
        out = view(buffer, step.out, [shape[i] for i in kept], [step.out_strides[i] for i in kept])
        return (SUM, a, summed, out) if summed else (COPY, a, out)
    out = view(buffer, step.out, shape, step.out_strides)
    if kind == COPY:
        return (COPY, a, out)
    if kind == NORM:
        return (NORM, a, out, step.b)
    return (kind, a, view(buffer, step.b, shape, step.b_strides), out)


def _bound_matmul(step: Step, buffer: Array) -> tuple[Any, ...]:
    batch, m, k, n = step.shape
    rows = block_of_rows(m, k, n)
    # A product of m rows is m/rows products: neighbouring blocks are one block apart.
    (a0, a1, a2), (b0, b1, b2), (o0, o1, o2) = step.a_strides, step.b_strides, step.out_strides
    a = view(buffer, step.a, (batch, m // rows, rows, k), (a0, a1 * rows, a1, a2))
    b = view(buffer, step.b, (batch, 1, k, n), (b0, 0, b1, b2))
    return (MATMUL, a, b, view(buffer, step.out, (batch, m // rows, rows, n), (o0, o1 * rows, o1, o2)))


@lru_cache(maxsize=1024)
def block_of_rows(m: int, k: int, n: int) -> int:
    """How many of the m rows of a product to multiply at once.

    BLAS starts threads for products of more than 2^18 terms and lets them spin on each other: where another process has
    the second core, a product of 50 µs then takes milliseconds. Products of middling size are cut below that; for large
    ones both cores pay.
    """
    if m * k * n <= _ONE_THREAD or m * k * n >= _BOTH_CORES:
        return m
    rows = max((d for d in range(1, m + 1) if m % d == 0 and d * k * n <= _ONE_THREAD), default=1)
    return rows if rows >= _FEWEST_ROWS else m


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
        else:
            matmul(call[1], call[2], call[3])
