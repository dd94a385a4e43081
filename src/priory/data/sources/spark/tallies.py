"""Tallies: the counts of many cliques in one pass over blocks of codes, and their sums.

The cells of all cliques of a request stand in one line, one clique after the other. The line is cut into chunks, and a
task says for each chunk that it has records in how many: of all cells where many have some, else of those.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from priory.data.sources.memory import tally
from priory.data.sources.spark.blocks import BlockLayout
from priory.data.sources.spark.workers import mute
from priory.queries.factor import Factor, cell_codes
from priory.version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from priory.data.codec import Codes
    from priory.queries.domain import Domain

    Batches = Iterable[Any]
    Counts = NDArray[np.int64]

# The cells of a chunk; their places in it fit 16 bits.
CHUNK = 2**16
# Cells that a task holds counts of until it ends, 32 MB; the counts of further cliques leave it piece by piece.
HELD_CELLS = 2**22
# How many partial sums of a chunk are summed by one task.
FAN_IN = 64
# The columns of a table of partial sums.
PARTS = "chunk long, part long, cells binary, counts binary"


@dataclass(frozen=True)
class CellLine:
    """The cells of some cliques, one after the other."""

    cliques: tuple[Domain, ...]

    @cached_property
    def offsets(self) -> list[int]:
        """Where the cells of each clique begin, and where the last ends."""
        return [0, *np.cumsum([clique.size for clique in self.cliques], dtype=np.int64).tolist()]

    @property
    def size(self) -> int:
        """The cells of all cliques."""
        return self.offsets[-1]

    @property
    def chunks(self) -> int:
        """The number of chunks."""
        return -(-self.size // CHUNK)

    def chunk_size(self, chunk: int) -> int:
        """The cells of a chunk; the last may have fewer."""
        return min(CHUNK, self.size - chunk * CHUNK)

    def parts(self, cells: Counts, counts: Counts, part: int) -> Any:  # noqa: ANN401 - pyarrow is optional
        """An Arrow batch of partial sums: of these cells, in their order, with counts above 0."""
        import pyarrow as pa

        edges = np.searchsorted(cells, np.arange(self.chunks + 1) * CHUNK)
        rows = [
            (chunk, part, *self._packed(chunk, cells[start:stop], counts[start:stop]))
            for chunk, (start, stop) in enumerate(pairwise(edges))
            if stop > start
        ]
        columns = [[row[i] for row in rows] for i in range(4)]
        types = (pa.int64(), pa.int64(), pa.binary(), pa.binary())
        arrays = [pa.array(column, kind) for column, kind in zip(columns, types, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, ["chunk", "part", "cells", "counts"])

    def add(self, total: Counts, chunk: int, cells: bytes, counts: bytes) -> None:
        """Add a partial sum of a chunk to the counts of its cells."""
        if not cells:
            total += np.frombuffer(counts, dtype=f"u{len(counts) // self.chunk_size(chunk)}")
            return
        places = np.frombuffer(cells, dtype=np.uint16)
        total[places] += np.frombuffer(counts, dtype=f"u{len(counts) // len(places)}").astype(np.int64)

    def factors(self, total: Counts) -> list[Factor]:
        """The counts of each clique, of those of the whole line."""
        spans = zip(self.cliques, self.offsets, self.offsets[1:], strict=False)
        return [Factor(clique, total[start:stop].reshape(clique.shape)) for clique, start, stop in spans]

    def _packed(self, chunk: int, cells: Counts, counts: Counts) -> tuple[bytes, bytes]:
        places = (cells - chunk * CHUNK).astype(np.uint16)
        small = counts.astype(np.min_scalar_type(int(counts.max())))
        size = self.chunk_size(chunk)
        if len(small) * (2 + small.itemsize) < size * small.itemsize:
            return places.tobytes(), small.tobytes()
        dense = np.zeros(size, dtype=small.dtype)
        dense[places] = small
        return b"", dense.tobytes()


@dataclass(frozen=True)
class BlockTally:
    """Counts the records of a partition in the cells of all cliques, in one pass over its blocks."""

    domain: Domain
    line: CellLine
    held_cells: int = HELD_CELLS
    version: str = __version__

    @mute
    def __call__(self, batches: Batches) -> Iterator[Any]:
        """Partial sums, each with the number of the partition."""
        from pyspark import TaskContext

        context = TaskContext.get()
        part = context.partitionId() if context else 0
        held = np.zeros(max(end for end in self.line.offsets if end <= self.held_cells), dtype=np.int64)
        is_any = False
        for columns, records in BlockLayout(self.domain.shape).unpacked(batches):
            is_any = True
            for clique, start in zip(self.line.cliques, self.line.offsets, strict=False):
                codes = [columns[self.domain.axis[name]] for name in clique]
                if start + clique.size <= len(held):
                    held[start : start + clique.size] += tally(codes, clique, records)
                else:
                    cells, counts = distinct_cells(codes, clique, records)
                    yield self.line.parts(start + cells, counts, part)
        if is_any:
            cells = np.flatnonzero(held)
            yield self.line.parts(cells, held[cells], part)


@dataclass(frozen=True)
class Sum:
    """Adds up partial sums of the same chunk that come one after the other, those of `fan_in` parts into one."""

    line: CellLine
    fan_in: int = FAN_IN
    version: str = __version__

    @mute
    def __call__(self, batches: Batches) -> Iterator[Any]:
        """One partial sum for each chunk and group of parts."""
        last: tuple[int, int] | None = None
        total = np.zeros(0, dtype=np.int64)
        for batch in batches:
            for chunk, part, cells, counts in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                if (chunk, part // self.fan_in) != last:
                    yield from self._part(last, total)
                    last, total = (chunk, part // self.fan_in), np.zeros(self.line.chunk_size(chunk), dtype=np.int64)
                self.line.add(total, chunk, cells, counts)
        yield from self._part(last, total)

    def _part(self, key: tuple[int, int] | None, total: Counts) -> Iterator[Any]:
        if key is not None:
            cells = np.flatnonzero(total)
            yield self.line.parts(key[0] * CHUNK + cells, total[cells], key[1])


def distinct_cells(codes: Sequence[Codes], clique: Domain, records: int) -> tuple[Counts, Counts]:
    """The cells of a clique that have records, in order, and how many."""
    if clique.size <= 4 * records:
        counts = tally(codes, clique, records)
        cells = np.flatnonzero(counts)
        return cells, counts[cells]
    cells, found = np.unique(cell_codes(codes, clique.shape), return_counts=True)
    return cells, found.astype(np.int64)
