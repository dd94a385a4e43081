"""Public rows on Spark: checked there, and thinned there to what a model can start from."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from priory.data.public import Misfit, misfit, refuse
from priory.data.sources.spark.blocks import BLOCKS, BlockLayout
from priory.data.sources.spark.sessions import spark_errors
from priory.data.sources.spark.source import selected
from priory.data.sources.spark.workers import Encoder, mute
from priory.data.survey import survey_frame
from priory.version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

    from priory.data.schema import Schema

# About as many rows come to the driver at most. A value that one row in a million has is among them with probability
# 0.65; with half as many, with 0.41.
MOST_ROWS = 2**20
MISFITS = "place int, wrong long, shown string, others long, infinite long, cells long"


@dataclass(frozen=True)
class Survey:
    """Counts the cells of public columns that do not fit the schema, and shows some of them: they are public."""

    encoder: Encoder
    version: str = __version__

    @mute
    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        """A row for each column and batch."""
        import pyarrow as pa

        types = (pa.int32(), pa.int64(), pa.string(), pa.int64(), pa.int64(), pa.int64())
        for cells in self.encoder.cells(batches):
            seen = survey_frame(cells)
            found = [misfit(column, seen[i]) for i, column in enumerate(self.encoder.schema.modelled)]
            rows = [(i, m.wrong, m.shown, m.others, m.infinite, m.cells) for i, m in enumerate(found)]
            arrays = [pa.array([row[i] for row in rows], kind) for i, kind in enumerate(types)]
            yield pa.RecordBatch.from_arrays(arrays, ["place", "wrong", "shown", "others", "infinite", "cells"])


@dataclass(frozen=True)
class Thinned:
    """Encodes public rows, each kept with a probability; in one partition always the same."""

    encoder: Encoder
    share: float = field(default=1.0)
    version: str = __version__

    @mute
    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Blocks of the codes of the rows that are kept."""
        from pyspark import TaskContext

        context = TaskContext.get()
        rng = np.random.default_rng([0, context.partitionId() if context else 0])
        codes = (self.encoder.codes(cells) for cells in self.encoder.cells(batches))
        yield from self.encoder.layout.packed(self._some(columns, rng) for columns in codes)

    def _some(self, columns: list[Any], rng: np.random.Generator) -> list[Any]:
        kept = rng.random(len(columns[0])) < self.share
        return [column[kept] for column in columns]


def spark_misfits(schema: Schema, frame: object) -> list[Misfit]:
    """How each modelled column of a public frame of Spark fits the schema."""
    from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

    encoder = _encoder(schema)
    with spark_errors("the public table"):
        found = selected(frame, encoder.names).mapInArrow(Survey(encoder), MISFITS)
        sums = [F.sum(name).alias(name) for name in ("wrong", "others", "infinite", "cells")]
        # Of what was seen in several batches, one batch is shown.
        rows = found.groupBy("place").agg(*sums, F.max("shown").alias("shown")).collect()
    seen = {row["place"]: row for row in rows}
    names = encoder.names
    columns = [(name, seen[i]) for i, name in enumerate(names) if i in seen]
    return [
        Misfit(name, row["wrong"], row["shown"], row["others"], row["infinite"], row["cells"]) for name, row in columns
    ]


def spark_codes(schema: Schema, frame: object) -> NDArray[np.int64]:
    """The codes of a public frame of Spark that fits the schema, of about MOST_ROWS rows where it has more."""
    found = spark_misfits(schema, frame)
    refuse(found)
    encoder = _encoder(schema)
    rows = max((each.cells for each in found), default=0)
    with spark_errors("the public table"):
        thinned = Thinned(encoder, min(1.0, MOST_ROWS / max(1, rows)))
        blocks = selected(frame, encoder.names).mapInArrow(thinned, BLOCKS).collect()
    return _unpacked(encoder.layout, blocks)


def _encoder(schema: Schema) -> Encoder:
    return Encoder(schema, tuple(column.name for column in schema.modelled))


def _unpacked(layout: BlockLayout, blocks: list[Any]) -> NDArray[np.int64]:
    """The records of all blocks, one row each."""
    tables = [np.zeros((0, len(layout.sizes)), dtype=np.int64)]
    for records, block in blocks:
        columns = layout.columns(np.frombuffer(block, dtype=np.uint8)[None], records)
        tables.append(np.stack(columns, axis=1, dtype=np.int64))
    return np.concatenate(tables)
