"""Kernels: the compiled loops that carry out a tape; importing this compiles where numba is installed.

Each row of a tape is a step: its kind, where out, a and b start, a spare cell, and of each of four axes the size and
the strides of out, a and b. Without numba these are ordinary, slow functions, which the tests run.
"""

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from priory.model.engine.program import COPY, DIV, FUSED, MUL, NORM, SUM
from priory.queries.factor import Array

_SIGNATURE = "void(int64[:,::1], float64[::1], float64[::1])"
# Sums may be reordered, which lets them use vector instructions; NaN and infinity keep their meaning.
_OPTIONS: dict[str, Any] = {"fastmath": {"reassoc", "contract", "nsz"}, "error_model": "numpy"}
_Row = NDArray[np.int64]
F = TypeVar("F", bound=Callable[..., Any])


def _compiled(function: F, *signature: str, **options: bool) -> F:
    """The function as machine code, from numba's cache where it has one; the function itself without numba."""
    try:
        import numba
    except ImportError:
        return function
    try:
        compiled: F = numba.njit(*signature, cache=True, **_OPTIONS, **options)(function)
    except (RuntimeError, OSError):
        # There is no folder to keep it in.
        compiled = numba.njit(*signature, cache=False, **_OPTIONS, **options)(function)
    return compiled


def _normalise(row: _Row, buffer: Array, scales: Array) -> None:
    """out = a / max(a), and the maximum to its scale."""
    top = buffer[row[2]]
    for j in range(row[17]):
        top = max(top, buffer[row[2] + j])
    for j in range(row[17]):
        buffer[row[1] + j] = buffer[row[2] + j] / top
    scales[row[3]] = top


def _clear(row: _Row, buffer: Array) -> None:
    """Set the cells that a sum goes to to zero."""
    cells = 1
    for axis in range(4):
        if row[6 + 4 * axis] != 0:
            cells *= row[5 + 4 * axis]
    for j in range(cells):
        buffer[row[1] + j] = 0.0


def _fuse_by_columns(row: _Row, buffer: Array) -> None:
    """a is multiplied by one b along the innermost axis, and added to out along it."""
    # This and the next are what chains are made of; through `_over_axes` a chain takes 1.6 times as long.
    for i0 in range(row[5]):
        for i1 in range(row[9]):
            o = row[1] + i0 * row[6] + i1 * row[10]
            a = row[2] + i0 * row[7] + i1 * row[11]
            b = row[3] + i0 * row[8] + i1 * row[12]
            for _ in range(row[13]):
                factor = buffer[b]
                for j in range(row[17]):
                    product = buffer[a + j] * factor
                    buffer[a + j] = product
                    buffer[o + j] += product
                o += row[14]
                a += row[15]
                b += row[16]


def _fuse_by_rows(row: _Row, buffer: Array) -> None:
    """a is multiplied by b along the innermost axis, and its sum added to one cell of out."""
    for i0 in range(row[5]):
        for i1 in range(row[9]):
            o = row[1] + i0 * row[6] + i1 * row[10]
            a = row[2] + i0 * row[7] + i1 * row[11]
            b = row[3] + i0 * row[8] + i1 * row[12]
            for _ in range(row[13]):
                total = 0.0
                for j in range(row[17]):
                    product = buffer[a + j] * buffer[b + j]
                    buffer[a + j] = product
                    total += product
                buffer[o] += total
                o += row[14]
                a += row[15]
                b += row[16]


def _fuse(row: _Row, buffer: Array, o: int, a: int, b: int) -> None:
    for j in range(row[17]):
        product = buffer[a + j] * buffer[b + j * row[20]]
        buffer[a + j] = product
        buffer[o + j * row[18]] += product


def _multiply(row: _Row, buffer: Array, o: int, a: int, b: int) -> None:
    n, so, sa, sb = row[17], row[18], row[19], row[20]
    if so == 1 and sa == 1 and sb == 0:
        factor = buffer[b]
        for j in range(n):
            buffer[o + j] = buffer[a + j] * factor
    elif so == 1 and sa == 1 and sb == 1:
        for j in range(n):
            buffer[o + j] = buffer[a + j] * buffer[b + j]
    else:
        for j in range(n):
            buffer[o + j * so] = buffer[a + j * sa] * buffer[b + j * sb]


def _add(row: _Row, buffer: Array, o: int, a: int) -> None:
    n, so, sa = row[17], row[18], row[19]
    if so == 0:
        total = 0.0
        if sa == 1:
            for j in range(n):
                total += buffer[a + j]
        else:
            for j in range(n):
                total += buffer[a + j * sa]
        buffer[o] += total
    elif so == 1 and sa == 1:
        for j in range(n):
            buffer[o + j] += buffer[a + j]
    else:
        for j in range(n):
            buffer[o + j * so] += buffer[a + j * sa]


def _innermost(row: _Row, buffer: Array, o: int, a: int, b: int) -> None:
    """One step along its innermost axis."""
    kind = row[0]
    if kind == MUL:
        _multiply(row, buffer, o, a, b)
    elif kind == SUM:
        _add(row, buffer, o, a)
    elif kind == FUSED:
        _fuse(row, buffer, o, a, b)
    elif kind == DIV:
        for j in range(row[17]):
            buffer[o + j * row[18]] = buffer[a + j * row[19]] / buffer[b + j * row[20]]
    elif kind == COPY:
        for j in range(row[17]):
            buffer[o + j * row[18]] = buffer[a + j * row[19]]


def _over_axes(row: _Row, buffer: Array) -> None:
    """A step over its three outer axes."""
    for i0 in range(row[5]):
        for i1 in range(row[9]):
            for i2 in range(row[13]):
                o = row[1] + i0 * row[6] + i1 * row[10] + i2 * row[14]
                a = row[2] + i0 * row[7] + i1 * row[11] + i2 * row[15]
                b = row[3] + i0 * row[8] + i1 * row[12] + i2 * row[16]
                _innermost(row, buffer, o, a, b)


def _read(tape: NDArray[np.int64], buffer: Array, scales: Array) -> None:
    """Carry out every step of a tape."""
    for t in range(tape.shape[0]):
        row = tape[t]
        kind = row[0]
        if kind == NORM:
            _normalise(row, buffer, scales)
            continue
        if kind in (SUM, FUSED):
            _clear(row, buffer)
        if kind == FUSED and row[18] == 1 and row[20] == 0:
            _fuse_by_columns(row, buffer)
        elif kind == FUSED and row[18] == 0 and row[20] == 1:
            _fuse_by_rows(row, buffer)
        else:
            _over_axes(row, buffer)


_normalise, _clear = _compiled(_normalise), _compiled(_clear)
_fuse_by_columns, _fuse_by_rows = _compiled(_fuse_by_columns), _compiled(_fuse_by_rows)
_fuse, _multiply, _add = _compiled(_fuse), _compiled(_multiply), _compiled(_add)
_innermost = _compiled(_innermost)
_over_axes = _compiled(_over_axes)
read = _compiled(_read, _SIGNATURE, nogil=True)
