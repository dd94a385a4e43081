"""Runner: a program's steps bound to a buffer, carried out in linear space by NumPy or from a compiled tape."""

from collections.abc import Sequence
from functools import partial
from itertools import groupby
from typing import Any

import numpy as np

from priory.model.engine.algebra import bound, exponentiated, in_pieces, run
from priory.model.engine.program import Instruction, Program
from priory.model.engine.tape import COMPILER, Kernel, fits, written

# Compiling takes about as long as this, even from numba's cache, so it starts when as much could have been saved.
_SECONDS_BEFORE_COMPILING = 0.8
# What a tape saves of a small step is the call of NumPy; the arithmetic takes as long either way.
_SECONDS_PER_STEP = 0.75e-6
# Shorter runs of small steps are left to NumPy.
_SHORTEST_TAPE = 12


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
