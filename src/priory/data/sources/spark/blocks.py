"""Blocks: the codes of some hundred records as one run of bytes, so that Spark moves blocks and never single codes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from priory.data.codec import code_type

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from priory.data.codec import Codes

# Spark sends 10,000 rows to a worker at a time by default: 40 MB of such blocks. Twice the size doubles that memory and
# saves nothing that can be measured; at a quarter, Spark's own work on each row begins to show.
BLOCK_BYTES = 2**12
# Blocks that are unpacked or sent at a time, whatever number of rows Spark sends.
BLOCKS_AT_ONCE = 2**12
# The columns of a table of blocks.
BLOCKS = "records int, block binary"
# The columns of a table of single records with their persons, which a shuffle brings together.
PERSONS = "person binary, record binary"


@dataclass(frozen=True)
class BlockLayout:
    """How the codes of records lie in bytes: in a block one attribute after the other, in a record likewise."""

    sizes: tuple[int, ...]  # how many values each attribute can take

    @cached_property
    def types(self) -> list[np.dtype[np.unsignedinteger[Any]]]:
        """The type of the codes of each attribute."""
        return [code_type(size) for size in self.sizes]

    @cached_property
    def record_bytes(self) -> int:
        """The bytes of a record."""
        return sum(each.itemsize for each in self.types)

    @cached_property
    def block_records(self) -> int:
        """The records of a full block."""
        return max(1, BLOCK_BYTES // self.record_bytes)

    def packed(self, pieces: Iterable[Sequence[Codes]]) -> Iterator[Any]:
        """Arrow batches of blocks with the records of all pieces, each of which has the codes of all attributes.

        All blocks are full but the last.
        """
        rest: list[NDArray[Any]] = []
        for piece in pieces:
            columns = [np.concatenate(pair) for pair in zip(rest, piece, strict=True)] if rest else list(piece)
            records = len(columns[0])
            full = records - records % self.block_records
            step = BLOCKS_AT_ONCE * self.block_records
            for start in range(0, full, step):
                stop = min(full, start + step)
                yield self._batch([column[start:stop] for column in columns], self.block_records)
            rest = [column[full:] for column in columns]
        if rest and len(rest[0]):
            padding = self.block_records - len(rest[0])
            yield self._batch([np.pad(column, (0, padding)) for column in rest], len(rest[0]))

    def unpacked(self, batches: Iterable[Any]) -> Iterator[tuple[list[Codes], int]]:
        """The codes of each attribute and the number of records, for a bounded number of blocks at a time."""
        for batch in batches:
            for start in range(0, batch.num_rows, BLOCKS_AT_ONCE):
                part = batch.slice(start, BLOCKS_AT_ONCE)
                records = part.column(0).to_numpy()
                blocks = bytes_of(part.column(1)).reshape(len(records), self.record_bytes * self.block_records)
                full = records == self.block_records
                if full.any():
                    yield self.columns(blocks[full], self.block_records), int(records[full].sum())
                for i in np.flatnonzero(~full):
                    yield self.columns(blocks[i : i + 1], int(records[i])), int(records[i])

    def record_columns(self, table: NDArray[np.uint8]) -> list[Codes]:
        """The codes of each attribute of records that are rows of bytes."""
        ends = np.cumsum([each.itemsize for each in self.types])
        parts = [table[:, end - each.itemsize : end] for end, each in zip(ends, self.types, strict=True)]
        return [np.ascontiguousarray(part).view(each)[:, 0] for part, each in zip(parts, self.types, strict=True)]

    def record_table(self, columns: Sequence[Codes]) -> NDArray[np.uint8]:
        """Records as rows of bytes."""
        parts = [np.ascontiguousarray(column)[:, None].view(np.uint8) for column in columns]
        return np.concatenate(parts, axis=1)

    def _batch(self, columns: Sequence[NDArray[Any]], records: int) -> Any:  # noqa: ANN401 - pyarrow is optional
        import pyarrow as pa

        blocks = len(columns[0]) // self.block_records
        parts = [np.ascontiguousarray(column).view(np.uint8).reshape(blocks, -1) for column in columns]
        table = np.concatenate(parts, axis=1)
        counts = pa.array(np.full(blocks, records, dtype=np.int32))
        return pa.RecordBatch.from_arrays([counts, binary(table)], ["records", "block"])

    def columns(self, blocks: NDArray[np.uint8], records: int) -> list[Codes]:
        """The codes of each attribute of blocks with so many records each."""
        columns, start = [], 0
        for each in self.types:
            part = blocks[:, start : start + records * each.itemsize]
            columns.append(np.ascontiguousarray(part).reshape(-1).view(each))
            start += self.block_records * each.itemsize
        return columns


def binary(table: NDArray[np.uint8]) -> Any:  # noqa: ANN401 - pyarrow is optional
    """The rows of a table of bytes as Arrow binaries, without a loop over them."""
    import pyarrow as pa

    offsets = np.arange(len(table) + 1, dtype=np.int32) * np.int32(table.shape[1])
    data = np.ascontiguousarray(table)
    return pa.Array.from_buffers(pa.binary(), len(table), [None, pa.py_buffer(offsets), pa.py_buffer(data)])


def bytes_of(column: Any) -> NDArray[np.uint8]:  # noqa: ANN401 - pyarrow is optional
    """The bytes of Arrow binaries without nulls, one after the other."""
    import pyarrow as pa

    offset_type = np.int64 if pa.types.is_large_binary(column.type) else np.int32
    _, offsets, data = column.buffers()
    if data is None or not len(column):
        return np.zeros(0, dtype=np.uint8)
    ends = np.frombuffer(offsets, dtype=offset_type)[column.offset : column.offset + len(column) + 1]
    return np.frombuffer(data, dtype=np.uint8)[ends[0] : ends[-1]]
