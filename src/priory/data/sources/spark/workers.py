"""Workers: what runs where the rows are, in Spark's Python processes, and never says a word about a cell."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

import numpy as np

from priory.data.codec import encode
from priory.data.persons import record_hash
from priory.data.sources.frames import cells_of
from priory.data.sources.spark.blocks import BLOCKS_AT_ONCE, BlockLayout, binary, bytes_of
from priory.data.spelling import person_texts
from priory.version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from priory.data.cells import Cells
    from priory.data.codec import Codes
    from priory.data.schema import Schema

    Batches = Iterable[Any]

# What a worker says whatever went wrong: Spark writes it to its logs, and the driver looks for it.
FAILED = "priory: a task failed; what it says is left out, for it may quote a cell"
OTHER_VERSION = "priory: a worker has another version of priory than the driver"

P = ParamSpec("P")
T = TypeVar("T")
Self = TypeVar("Self")


class TaskFailure(Exception):
    """A task could not be done. It says nothing of why: Spark writes it to logs."""


def mute(
    work: Callable[Concatenate[Self, P], Iterator[T]],
) -> Callable[Concatenate[Self, P], Iterator[T]]:
    """Let no exception of a worker's method leave it with what it says, which may quote a cell."""

    @wraps(work)
    def muted(self: Self, /, *args: P.args, **options: P.kwargs) -> Iterator[T]:
        if getattr(self, "version", __version__) != __version__:
            raise TaskFailure(OTHER_VERSION)
        try:
            yield from work(self, *args, **options)
        except Exception:  # noqa: BLE001 - whatever it is, its text would stand in Spark's logs
            has_failed = True
        else:
            has_failed = False
        if has_failed:
            # Here, where nothing of the first exception hangs on this one.
            raise TaskFailure(FAILED)

    return muted


@dataclass(frozen=True)
class Encoder:
    """Encodes rows, as Arrow batches whose columns have the names in `names`, by the codec of all sources."""

    schema: Schema = field(repr=False)
    names: tuple[str, ...]  # of the columns that come, in their order
    person: str | None = None  # the column that says who a row is about, where that matters
    version: str = __version__

    @property
    def layout(self) -> BlockLayout:
        """How the codes lie in bytes."""
        return BlockLayout(self.schema.domain.shape)

    def __call__(self, batches: Batches) -> Iterator[Any]:
        """Blocks of codes; with `person`, single records with the text that stands for their person."""
        return self._records(batches) if self.person else self._blocks(batches)

    @mute
    def _blocks(self, batches: Batches) -> Iterator[Any]:
        yield from self.layout.packed(self.codes(cells) for cells in self.cells(batches))

    @mute
    def _records(self, batches: Batches) -> Iterator[Any]:
        import pyarrow as pa

        for cells in self.cells(batches):
            persons = person_texts(cells[str(self.person)])
            # Rows of nobody do not count.
            known = [i for i, person in enumerate(persons) if person is not None]
            texts = [str(persons[i]).encode(errors="surrogatepass") for i in known]
            table = self.layout.record_table(self.codes(cells))[known]
            yield pa.RecordBatch.from_arrays([pa.array(texts, pa.binary()), binary(table)], ["person", "record"])

    def codes(self, cells: dict[str, Cells]) -> list[Codes]:
        """The codes of each attribute."""
        return list(encode(self.schema, cells).values())

    def cells(self, batches: Batches) -> Iterator[dict[str, Cells]]:
        """The cells of a bounded number of rows at a time."""
        import pyarrow as pa

        step = BLOCKS_AT_ONCE * 16
        for batch in batches:
            for start in range(0, batch.num_rows, step):
                part = pa.Table.from_arrays(batch.slice(start, step).columns, names=list(self.names))
                yield cells_of(part, self.names)


@dataclass(frozen=True)
class FirstInLine:
    """Of records sorted by person and codes, the first `max_rows` of each person by the keyed hash, as blocks.

    A person's records come one after the other, and equal ones too: no more than a batch and `max_rows` records are
    held, however many a person has.
    """

    layout: BlockLayout
    max_rows: int
    key: bytes = field(repr=False)
    version: str = __version__

    @mute
    def __call__(self, batches: Batches) -> Iterator[Any]:
        """Blocks of the records that count."""
        yield from self.layout.packed(self.layout.record_columns(table) for table in self._kept(batches))

    def _kept(self, batches: Batches) -> Iterator[np.ndarray[Any, np.dtype[np.uint8]]]:
        """Rows of bytes that count; a person that may go on in the next batch waits in a line."""
        line = PersonLine(self)
        for batch in batches:
            if not batch.num_rows:
                continue
            persons, records = batch.column(0), bytes_of(batch.column(1)).reshape(batch.num_rows, -1)
            starts = _starts(persons)
            ends = np.append(starts[1:], batch.num_rows)
            if line.person != persons[0].as_py():
                yield line.first()
                line = PersonLine(self, persons[0].as_py())
            line.add(records[: ends[0]])
            if len(starts) > 1:
                yield line.first()
                yield self._whole(persons, records, starts[1:-1], ends[1:-1])
                line = PersonLine(self, persons[int(starts[-1])].as_py())
                line.add(records[starts[-1] :])
        yield line.first()

    def _whole(self, persons: Any, records: Any, starts: Any, ends: Any) -> np.ndarray[Any, np.dtype[np.uint8]]:  # noqa: ANN401 - arrays of optional libraries
        """The records that count of persons all of whose records are here."""
        if not len(starts):
            return records[:0]  # type: ignore[no-any-return]
        kept = np.zeros(len(records), dtype=bool)
        kept[starts[0] : ends[-1]] = True
        many = np.flatnonzero(ends - starts > self.max_rows)
        rows = np.concatenate([starts[:0], *(np.arange(starts[i], ends[i]) for i in many)])
        # All at once: a step of NumPy for each person would take longer than the hashes.
        codes = zip(*(column.tolist() for column in self.layout.record_columns(records[rows])), strict=True)
        for i in many:
            person = persons[int(starts[i])].as_py().decode(errors="surrogatepass")
            line, last, copies = [], None, 0
            for row, record in zip(range(starts[i], ends[i]), codes, strict=False):
                copies = copies + 1 if record == last else 1
                last = record
                line.append((record_hash(self.key, person, record, copies), row))
            kept[[row for _, row in sorted(line)[self.max_rows :]]] = False
        return records[kept]  # type: ignore[no-any-return]


class PersonLine:
    """The records of one person so far, by their place in line; it keeps no more of them than can count."""

    def __init__(self, rule: FirstInLine, person: bytes = b"") -> None:
        self.rule, self.person = rule, person
        self._places: list[tuple[str, bytes]] = []
        self._last, self._copies = b"", 0
        self._waiting: list[bytes] = []

    def add(self, records: np.ndarray[Any, np.dtype[np.uint8]]) -> None:
        """Records that come next, equal ones one after the other."""
        self._waiting += [record.tobytes() for record in records]
        if len(self._waiting) + len(self._places) > self.rule.max_rows:
            self._stand()

    def first(self) -> np.ndarray[Any, np.dtype[np.uint8]]:
        """The records that count."""
        records = self._waiting or [record for _, record in self._places]
        return np.frombuffer(b"".join(records), dtype=np.uint8).reshape(len(records), self.rule.layout.record_bytes)

    def _stand(self) -> None:
        """Give the waiting records their places, and keep the first."""
        person = self.person.decode(errors="surrogatepass")
        table = np.frombuffer(b"".join(self._waiting), dtype=np.uint8).reshape(len(self._waiting), -1)
        columns = [column.tolist() for column in self.rule.layout.record_columns(table)]
        for record, codes in zip(self._waiting, zip(*columns, strict=True), strict=True):
            self._copies = self._copies + 1 if record == self._last else 1
            self._last = record
            self._places.append((record_hash(self.rule.key, person, codes, self._copies), record))
        self._places = sorted(self._places)[: self.rule.max_rows]
        self._waiting = []


def _starts(persons: Any) -> np.ndarray[Any, np.dtype[np.intp]]:  # noqa: ANN401 - pyarrow is optional
    """Where each person's records begin."""
    import pyarrow.compute as pc

    changes = pc.not_equal(persons.slice(1), persons.slice(0, len(persons) - 1)).to_numpy(zero_copy_only=False)
    return np.flatnonzero(np.concatenate([[True], changes]))
