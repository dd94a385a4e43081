"""Tape: runs of small steps carried out by one compiled loop, where numba is installed.

With a thousand small cliques the cost is not arithmetic but calling: the steps are written as whole numbers on a tape,
and one compiled function reads it. It is compiled in the background, once there is enough work to pay for it, and kept
on disk where numba finds a folder it may write to; until it is ready, and without numba, NumPy does the same steps.
"""

import math
import os
import threading
from collections.abc import Callable, Sequence
from functools import lru_cache
from importlib.util import find_spec

import numpy as np
from numpy.typing import NDArray

from priory.model.engine.program import FUSED, MATMUL, MUL, SUM, Instruction, Ints
from priory.queries.factor import Array

Kernel = Callable[[NDArray[np.int64], Array, Array], None]


# Steps over more cells than this gain nothing from the tape: NumPy's own loops are as good.
CELLS = 1 << 15
# The tape's loops are nested four deep; a step with more axes, which is rare once axes are joined, stays with NumPy.
_AXES = 4
_WIDTH = 5 + 4 * _AXES


def fits(step: Instruction) -> bool:
    """Whether a step can go on a tape."""
    return step.kind != MATMUL and len(step.shape) <= _AXES and int(np.prod(step.shape, dtype=np.int64)) <= CELLS


def written(steps: Sequence[Instruction]) -> NDArray[np.int64]:
    """Steps as rows of whole numbers: the kind, where out, a and b start, and size and strides of four axes."""
    rows: list[list[int]] = []
    waiting: Instruction | None = None
    for step in steps:
        both = _fused(waiting, step) if waiting is not None and step.kind == SUM and step.a == waiting.out else None
        if both is not None:
            rows[-1] = _row(both)
        else:
            rows.append(_row(step))
        waiting = step if step.kind == MUL and step.out == step.a and step.out_strides == step.a_strides else None
    return np.array(rows, dtype=np.int64).reshape(len(rows), _WIDTH)


def _row(step: Instruction) -> list[int]:
    missing = _AXES - len(step.shape)
    row = [step.kind, step.out, step.a, step.b, 0, *[1, 0, 0, 0] * missing]
    for axis in zip(step.shape, step.out_strides, step.a_strides, step.b_strides, strict=True):
        row += axis
    return row


def _fused(mul: Instruction, add: Instruction) -> Instruction | None:
    """One pass over a table instead of two: a table is multiplied in place by b, and its sum goes to out."""
    axes = _fused_axes((mul.shape, mul.out_strides, mul.b_strides), (add.shape, add.a_strides, add.out_strides))
    return None if axes is None else Instruction(FUSED, axes[0], add.out, axes[1], mul.a, axes[2], mul.b, axes[3])


@lru_cache(maxsize=4096)
def _fused_axes(mul: tuple[Ints, Ints, Ints], add: tuple[Ints, Ints, Ints]) -> tuple[Ints, Ints, Ints, Ints] | None:
    """The axes of two walks over one table, cut wherever either of them is cut; None where that takes too many."""
    shape, strides, b_strides = mul
    sum_shape, sum_strides, out_strides = add
    if strides != _contiguous(shape) or sum_strides != _contiguous(sum_shape):
        return None
    cuts = sorted({*strides, *sum_strides}, reverse=True)
    sizes = [a // b for a, b in zip([math.prod(shape), *cuts], cuts, strict=False)]
    if len(sizes) > _AXES:
        return None
    b = [_stride_at(cut, strides, b_strides) for cut in cuts]
    out = [_stride_at(cut, sum_strides, out_strides) for cut in cuts]
    return tuple(sizes), tuple(out), tuple(cuts), tuple(b)


def _contiguous(shape: Ints) -> Ints:
    return tuple(math.prod(shape[i + 1 :]) for i in range(len(shape)))


def _stride_at(cut: int, strides: Ints, other: Ints) -> int:
    """The stride of another operand along the axis that starts at `cut` within the walk with these strides."""
    i = next(i for i, stride in enumerate(strides) if stride <= cut)
    return other[i] * (cut // strides[i])


class _Compiler:
    """Compiles the kernel once a process, in a thread of its own; `state` is "missing" where it cannot be had."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.state = "asleep"
        self.seconds = 0.0
        self.kernel: Kernel | None = None
        self.thread: threading.Thread | None = None

    def spent(self, seconds: float, *, enough: float) -> None:
        """Count work that a tape would have done faster; once there was enough of it, begin compiling."""
        if self.state != "asleep":
            return
        self.seconds += seconds
        if self.seconds >= enough:
            self.start()

    def start(self) -> None:
        """Begin compiling, unless that was done or numba is not there."""
        with self.lock:
            if self.state != "asleep":
                return
            if find_spec("numba") is None:
                self.state = "missing"
                return
            self.state = "compiling"
            # Not a daemon: an interpreter that ends in the middle of compiling would crash; it waits a second instead.
            self.thread = threading.Thread(target=self._compile, name="priory-compile")
            self.thread.start()

    def _compile(self) -> None:
        try:
            self.kernel = compiled()
        except Exception:  # noqa: BLE001  whatever numba cannot do here, NumPy can
            self.state = "missing"
        else:
            self.state = "ready"

    def wait(self) -> Kernel | None:
        """The kernel once it is compiled, for tests and benchmarks; None without numba."""
        self.start()
        if self.thread is not None:
            self.thread.join()
        return self.kernel

    def after_fork(self) -> None:
        """A child process has no compiling thread: it stays with NumPy unless the kernel was ready."""
        self.lock = threading.Lock()
        if self.state == "compiling":
            self.state = "missing"


COMPILER = _Compiler()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=COMPILER.after_fork)


def compiled() -> Kernel:
    """The kernel as machine code: from numba's cache, or compiled now."""
    from priory.model.engine.kernels import read

    return read
