"""Arrow: streams of record batches from any library that exports them, opened and read.

Nothing here quotes a cell: what a stream's own library says of an error may, so it is replaced by our words.
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from priory.data.sources.adbc import Database
from priory.errors import DataError, MissingExtra, PrioryError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

# Rows that are encoded at a time: small batches are put together and large ones are cut.
BLOCK = 2**17
# Readers that gave all they had: read again, they would be tables without rows.
_READ: weakref.WeakSet[Any] = weakref.WeakSet()


@dataclass(frozen=True, eq=False)
class Stream:
    """A table that arrives in batches, once."""

    schema: Any  # the Arrow schema
    batches: Iterator[Any]  # the record batches

    @property
    def names(self) -> list[str]:
        """The columns' names."""
        return list(self.schema.names)

    def blocks(self) -> Iterator[Any]:
        """The rows as Arrow tables of at most BLOCK rows; a `DataError` where the stream fails."""
        import pyarrow as pa

        pending: list[Any] = []
        rows = 0
        for batch in self._safely():
            pending.append(batch)
            rows += batch.num_rows
            if rows >= BLOCK:
                table, pending, rows = pa.Table.from_batches(pending, self.schema), [], 0
                yield from (table.slice(start, BLOCK) for start in range(0, len(table), BLOCK))
        if rows:
            yield pa.Table.from_batches(pending, self.schema)

    def table(self) -> Any:  # noqa: ANN401 - pyarrow is optional
        """All of it as one Arrow table, in memory."""
        import pyarrow as pa

        try:
            return pa.Table.from_batches(list(self._safely()), self.schema)
        finally:
            self.close()

    def close(self) -> None:
        """Let go of what gives the batches, such as a connection to a database."""
        if hasattr(self.batches, "close"):
            self.batches.close()

    def _safely(self) -> Iterator[Any]:
        while True:
            try:
                batch = next(self.batches, None)
            except (PrioryError, MemoryError):
                raise
            except Exception:  # noqa: BLE001 - what its library says of an error may quote a cell
                raise DataError("the stream failed before its end; see that it can be read, and give it anew") from None
            if batch is None:
                return
            yield batch


def is_stream(data: object) -> bool:
    """Whether this is read as a stream: a database's query, a pyarrow data set, anything with `__arrow_c_stream__`.

    Frames that are in memory as a whole are none.
    """
    library = type(data).__module__.partition(".")[0]
    is_frame = library in ("pandas", "polars") or (library == "pyarrow" and hasattr(data, "column_names"))
    has_batches = _is_dataset(data) or hasattr(type(data), "__arrow_c_stream__")
    return isinstance(data, Database) or (has_batches and not is_frame)


def stream_of(data: object, wanted: Sequence[str] | None = None) -> Stream:
    """Open a stream; a data set reads no columns but those wanted, where it has all of them."""
    if isinstance(data, Database):
        return Stream(*data.batches())
    try:
        import pyarrow as pa
    except ImportError:
        raise MissingExtra("pyarrow", "pyarrow") from None
    if isinstance(data, pa.RecordBatchReader):
        if data in _READ:
            raise DataError("this stream was read before and has nothing more to give; make a new one")
        _READ.add(data)
    try:
        reader = _scanned(data, wanted) if _is_dataset(data) else pa.RecordBatchReader.from_stream(data)
    except (PrioryError, MemoryError):
        raise
    except Exception:  # noqa: BLE001 - what its library says of an error may quote a cell
        raise DataError(f"this {type(data).__name__} cannot be read as a stream of Arrow batches") from None
    return Stream(reader.schema, iter(reader))


def _is_dataset(data: object) -> bool:
    """A pyarrow data set or a scanner of one, which have no `__arrow_c_stream__`."""
    is_arrow = type(data).__module__.partition(".")[0] == "pyarrow"
    return is_arrow and (hasattr(data, "scanner") or hasattr(data, "projected_schema"))


def _scanned(data: Any, wanted: Sequence[str] | None) -> Any:  # noqa: ANN401 - pyarrow is optional
    if not hasattr(data, "scanner"):
        return data.to_reader()
    has_all = wanted is not None and all(list(data.schema.names).count(name) == 1 for name in wanted)
    return data.scanner(columns=list(wanted) if wanted is not None and has_all else None).to_reader()
