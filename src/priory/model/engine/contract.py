"""Contract: carry a program out, in linear space where that is safe and in log space where it is not."""

import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from priory.errors import SizeError
from priory.model.engine.algebra import LogSpace, Support, bound, carried_out, exponentiated, in_pieces, run, view
from priory.model.engine.layout import Layout
from priory.model.engine.plan import MEMORY_IN_BYTES, Plan
from priory.model.engine.program import Instruction, Program, program
from priory.model.engine.tape import COMPILER, Kernel, fits, written
from priory.queries.factor import Array

# A term of a sum is lost below 1e-308; what it adds to an entry of a message is then nothing while the entry is above
# this. Entries below it, or zero without being structurally so, send the call to log space.
_TINY = 1e-260
_HUGE = 1e260
# Potentials are shifted to a maximum of 0 only where exp would otherwise eat into those margins.
_HIGHEST = 60.0
_LOWEST = -60.0
# Masks of structural zeros that are remembered.
_REMEMBERED = 8
_DOUBLE = 8
_SAFE, _EMPTY, _LOST = range(3)
# Compiling takes about as long as this, even from numba's cache, so it starts when as much could have been saved.
_SECONDS_BEFORE_COMPILING = 0.8
# What a tape saves of a small step is the call of NumPy; the arithmetic takes as long either way.
_SECONDS_PER_STEP = 0.75e-6
# Shorter runs of small steps are left to NumPy.
_SHORTEST_TAPE = 12


@dataclass(frozen=True, eq=False)
class Calibrated:
    """A buffer after the way there and back: every bag's marginal as a product of tables."""

    program: Program  # which tables lie where
    buffer: Array  # the cells, read-only by agreement
    log_z: float  # the logarithm of the sum over all cells, each cell of the full table having mass 1 / |X|

    def table(self, start: int, shape: Sequence[int], strides: Sequence[int]) -> Array:
        """A table of the buffer as an array."""
        return view(self.buffer, start, shape, strides)


class Contraction:
    """The oracle of the uniform base for one set of cliques: potentials θ in, (log Z, marginals μ) out, exactly.

    θ and μ are vectors in the order of `layout`; marginals sum to 1, and log Z = log (1/|X|) Σ_x exp Σ_C θ_C(x_C), so
    that θ = 0 gives 0. Where the potentials rule out every cell, log Z is −∞ and the marginals are 0.
    """

    def __init__(self, layout: Layout, plan: Plan, *, memory_in_bytes: int = MEMORY_IN_BYTES) -> None:
        self.layout = layout
        self.plan = plan
        self._program = program(plan, layout)
        needed = _DOUBLE * (self._program.size + 2 * layout.size)
        if needed > memory_in_bytes:
            message = f"the model would need {needed:,} bytes, {memory_in_bytes:,} are allowed: {plan}"
            limit = memory_in_bytes // _DOUBLE
            raise SizeError(message, cells=needed // _DOUBLE, limit=limit, cliques=plan.maximal[:8])
        self._starts = np.array(layout.offsets[:-1], dtype=np.int64)
        self._repeats = np.array(layout.sizes, dtype=np.int64)
        self._is_leaf = np.array(self._program.is_leaf, dtype=bool)
        self._empty = [start for start, clique in zip(layout.offsets, layout.cliques, strict=False) if not clique]
        self._log_cells = float(sum(np.log(plan.domain.shape[v]) for v in plan.order))
        self._lock = threading.Lock()
        self._runner: Runner | None = None
        self._zeros: dict[bytes, NDArray[np.bool_]] = {}

    def __call__(self, theta: Array) -> tuple[float, Array]:
        """The logarithm of the normaliser and all marginals at potentials `theta`."""
        with self._lock, np.errstate(all="ignore"):
            buffer, log_z = self._there_and_back(theta)
            return log_z, buffer[: self.layout.size].copy()

    def calibrate(self, theta: Array) -> Calibrated:
        """The same, keeping every bag's table, for projections and sampling."""
        with self._lock, np.errstate(all="ignore"):
            buffer, log_z = self._there_and_back(theta)
            is_linear = self._runner is not None and buffer is self._runner.buffer
            if is_linear or all(bag.split is None for bag in self.plan.bags):
                return Calibrated(self._program, buffer.copy(), log_z)
        # In log space the three tables of a cut bag may be too far apart for linear space; one table never is.
        bags = tuple(replace(bag, split=None) for bag in self.plan.bags)
        return Contraction(self.layout, replace(self.plan, bags=bags)).calibrate(theta)

    def _there_and_back(self, theta: Array) -> tuple[Array, float]:
        """A buffer with all marginals in linear space, and log Z."""
        if self._runner is None:
            self._runner = Runner(self._program)
        runner, buffer = self._runner, self._runner.buffer
        shift = self._load(theta, buffer)
        if np.isneginf(shift):
            return self._nothing(buffer)
        runner.exponentiate()
        runner.forward()
        verdict = self._verdict(theta, buffer)
        if verdict == _LOST:
            return self._rescued(theta)
        if verdict == _EMPTY:
            return self._nothing(buffer)
        runner.back()
        return buffer, shift + float(np.log(runner.scales).sum()) - self._log_cells

    def _load(self, theta: Array, buffer: Array) -> float:
        """Put potentials into the buffer, nested ones added to their maximal clique; return what was taken out."""
        size = self.layout.size
        buffer[:size] = theta
        buffer[self._program.one] = 1.0
        if self._runner is not None and buffer is self._runner.buffer:
            self._runner.add_nested()
        else:
            for step in self._program.before:
                np.add(*bound(step, buffer)[1:])
        tops = np.maximum.reduceat(buffer[:size], self._starts) if size else np.zeros(0)
        constant = sum(float(buffer[cell]) for cell in self._empty)
        buffer[self._empty] = 0.0
        leaves = tops[self._is_leaf]
        if not len(leaves):
            return constant
        high, low = float(leaves.max()), float(leaves.min())
        if np.isneginf(low) or np.isneginf(constant):
            return -np.inf
        if high * self._program.most_leaves <= _HIGHEST and low >= _LOWEST:
            return constant
        tops = np.where(self._is_leaf, tops, 0.0)
        buffer[:size] -= np.repeat(tops, self._repeats)
        return constant + float(leaves.sum())

    def _verdict(self, theta: Array, buffer: Array) -> int:
        """Whether the messages can be trusted; structural zeros are made harmless for the way back."""
        first, last = self._program.raw
        raw = buffer[first:last]
        if not len(raw) or (raw.min() >= _TINY and raw.max() <= _HUGE):
            return _SAFE
        zeros = self._structural_zeros(theta)
        trusted = ((raw >= _TINY) & (raw <= _HUGE)) | zeros
        if not trusted.all():
            return _LOST
        starts = zip(self._program.messages, self.plan.bags, strict=True)
        roots = [start - first for start, bag in starts if bag.parent < 0]
        if zeros[roots].any():
            return _EMPTY
        # Where nothing was sent nothing is believed: 0 / 1 stands for 0 / 0.
        raw[zeros] = 1.0
        return _SAFE

    def _structural_zeros(self, theta: Array) -> NDArray[np.bool_]:
        """The cells of messages that are 0 because of potentials of −∞, whatever the others are."""
        ruled_out = np.isneginf(theta)
        if not ruled_out.any():
            first, last = self._program.raw
            return np.zeros(last - first, dtype=bool)
        key = np.packbits(ruled_out).tobytes()
        if key not in self._zeros:
            while len(self._zeros) >= _REMEMBERED:
                del self._zeros[next(iter(self._zeros))]
            self._zeros[key] = self._found_zeros(theta)
        return self._zeros[key]

    def _found_zeros(self, theta: Array) -> NDArray[np.bool_]:
        buffer = np.zeros(self._program.size)
        self._load(np.where(np.isneginf(theta), -np.inf, 0.0), buffer)
        np.exp(buffer[: self.layout.size], out=buffer[: self.layout.size])
        carried_out(self._program.forward, buffer, Support())
        first, last = self._program.raw
        return np.asarray(buffer[first:last] == 0.0)

    def _rescued(self, theta: Array) -> tuple[Array, float]:
        """The whole call in log space."""
        buffer = np.zeros(self._program.size)
        shift = self._load(theta, buffer)
        buffer[self._program.one] = 0.0
        algebra = LogSpace()
        logs = carried_out(self._program.forward, buffer, algebra)
        if np.isneginf(logs):
            return self._nothing(buffer)
        carried_out((*self._program.back, *self._program.after), buffer, algebra)
        np.exp(buffer, out=buffer)
        return buffer, shift + logs - self._log_cells

    def _nothing(self, buffer: Array) -> tuple[Array, float]:
        buffer[: self.layout.size] = 0.0
        return buffer, -np.inf


class Runner:
    """Carries a program out, again and again, on one buffer; `scales` are what its messages were divided by."""

    def __init__(self, program: Program) -> None:
        self.buffer = np.zeros(program.size)
        self._size = program.layout.size
        self.scales = np.ones(program.scales)
        self._steps = (program.forward, (*program.back, *program.after))
        self._nested = [bound(step, self.buffer)[1:] for step in program.before]
        self._calls = [[in_pieces(bound(step, self.buffer)) for step in steps] for steps in self._steps]
        self._worth_a_tape = sum(map(len, self._steps)) >= 2 * _SHORTEST_TAPE
        self._segments: list[list[partial[None]]] | None = None

    def add_nested(self) -> None:
        """Add the potentials of nested cliques to those of the cliques they are in."""
        for a, b, out in self._nested:
            np.add(a, b, out)

    def exponentiate(self) -> None:
        """Turn potentials into factors."""
        exponentiated(self.buffer[: self._size])

    def forward(self) -> None:
        """From the leaves to the roots."""
        self._run(0)

    def back(self) -> None:
        """From the roots to the leaves."""
        self._run(1)

    def _run(self, direction: int) -> None:
        if self._segments is None and self._worth_a_tape and COMPILER.kernel is not None:
            self._segments = [_segments(steps, self, COMPILER.kernel) for steps in self._steps]
        if self._segments is not None:
            for segment in self._segments[direction]:
                segment()
            return
        run(self._calls[direction], self.scales)
        if self._worth_a_tape:
            COMPILER.spent(_SECONDS_PER_STEP * len(self._steps[direction]), enough=_SECONDS_BEFORE_COMPILING)


def _segments(steps: Sequence[Instruction], runner: Runner, kernel: Kernel) -> list[partial[None]]:
    """Runs of small steps as tapes, the others as NumPy calls."""
    segments: list[partial[None]] = []
    waiting: list[Any] = []
    for small, group in groupby(steps, key=fits):
        members = list(group)
        if small and len(members) >= _SHORTEST_TAPE:
            segments += [partial(run, waiting, runner.scales)] if waiting else []
            waiting = []
            segments.append(partial(kernel, written(members), runner.buffer, runner.scales))
        else:
            waiting += [in_pieces(bound(step, runner.buffer)) for step in members]
    return segments + ([partial(run, waiting, runner.scales)] if waiting else [])
