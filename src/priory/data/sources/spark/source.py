"""Spark source: records held as blocks of codes by Spark, which counts them where they are."""

from __future__ import annotations

import secrets
import weakref
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from priory.data.sources.private import guarded, position
from priory.data.sources.source import ROW_LIMIT
from priory.data.sources.spark.blocks import BLOCKS, PERSONS
from priory.data.sources.spark.sessions import spark_errors
from priory.data.sources.spark.stages import followed
from priory.data.sources.spark.tallies import CHUNK, FAN_IN, HELD_CELLS, PARTS, BlockTally, CellLine, Sum
from priory.data.sources.spark.workers import Encoder, FirstInLine
from priory.queries.domain import checked_cliques

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame

    from priory.data.persons import PersonRule
    from priory.data.schema import Schema
    from priory.queries.domain import Clique, Domain
    from priory.queries.factor import Factor

# Partial sums that come to the driver at once: bytes, taken as four for each cell.
DRIVER_BYTES = 2**26


@dataclass(frozen=True, eq=False, repr=False)
class KeptBlocks:
    """Blocks of codes that Spark keeps, under the name of a temporary view."""

    table: DataFrame
    view: str

    def forget(self) -> None:
        """Let Spark forget them."""
        # Where the session is gone, so are the codes.
        with suppress(Exception):
            self.table.unpersist()
            self.table.sparkSession.catalog.dropTempView(self.view)


@dataclass(frozen=True, eq=False, repr=False)
class SparkSource:
    """Records held as blocks of codes by Spark, in memory and on disk of its machines."""

    domain: Domain  # the attributes and their sizes
    blocks: KeptBlocks  # the codes
    partitions: int  # of the blocks, up to the last that has some
    row_limit: int = ROW_LIMIT  # how many rows are declared

    def close(self) -> None:
        """Let Spark forget the codes; also done when the source is no longer used."""
        self.blocks.forget()

    def __repr__(self) -> str:
        return f"SparkSource({len(self.domain)} attributes)"

    @guarded()
    def count(self, cliques: Sequence[Clique]) -> list[Factor]:
        """All cliques in one pass over the codes; what several tasks counted of a cell is summed up a tree."""
        asked = checked_cliques(self.domain, cliques)
        if not asked:
            return []
        # Tasks hold the counts of the first cliques: so many are held as can be.
        order = sorted(range(len(asked)), key=lambda i: asked[i].size)
        line = CellLine(tuple(asked[i] for i in order))
        total = np.zeros(line.size, dtype=np.int64)
        with spark_errors(), followed(self.blocks.table, "counting on Spark"):
            for row in _rows(self._summed(line), line):
                start = row["chunk"] * CHUNK
                line.add(total[start : start + CHUNK], row["chunk"], row["cells"], row["counts"])
        factors = dict(zip(order, line.factors(total), strict=True))
        return [factors[i] for i in range(len(asked))]

    def _summed(self, line: CellLine) -> DataFrame:
        """Partial sums, few enough for the driver: from each partition, or from levels of tasks that add them up."""
        from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

        sums = self.blocks.table.mapInArrow(BlockTally(self.domain, line, HELD_CELLS), PARTS)
        parts = self.partitions
        while parts > FAN_IN or (parts > 1 and 4 * parts * line.size > DRIVER_BYTES):
            parts = -(-parts // FAN_IN)
            tasks = min(parts * line.chunks, _shuffle_partitions(sums))
            together = sums.repartition(tasks, F.col("chunk"), F.expr(f"part div {FAN_IN}"))
            sums = together.sortWithinPartitions("chunk", "part").mapInArrow(Sum(line, FAN_IN), PARTS)
        return sums


def open_frame(frame: object, schema: Schema, rule: PersonRule | None, row_limit: int) -> SparkSource:
    """See `priory.data.sources.spark.open_spark`."""
    with spark_errors():
        blocks = _kept(encoded(frame, schema, rule))
    try:
        with spark_errors(), followed(blocks.table, "encoding the table on Spark"):
            partitions = _partitions(blocks.table)
    except BaseException:
        blocks.forget()
        raise
    source = SparkSource(schema.domain, blocks, partitions, row_limit)
    weakref.finalize(source, blocks.forget)
    return source


def encoded(frame: Any, schema: Schema, rule: PersonRule | None) -> DataFrame:  # noqa: ANN401 - pyspark is optional
    """The table of blocks of a frame's codes; with a rule, of the records of each person that count."""
    wanted = [column.name for column in schema.modelled] + ([rule.column] if rule else [])
    plain = selected(frame, wanted)
    encoder = Encoder(schema, tuple(wanted), rule.column if rule else None)
    if rule is None:
        return plain.mapInArrow(encoder, BLOCKS)
    records = plain.mapInArrow(encoder, PERSONS)
    # All records of a person meet in one partition. The key is inside the function, which no plan shows.
    together = records.repartition("person").sortWithinPartitions("person", "record")
    return together.mapInArrow(FirstInLine(encoder.layout, rule.max_rows, rule.key), BLOCKS)


def selected(frame: Any, wanted: Sequence[str]) -> DataFrame:  # noqa: ANN401 - pyspark is optional
    """The columns wanted, under names that need no quotes; a `DataError` where one is missing or there twice."""
    places = [position(frame.columns, name) for name in wanted]
    names = [f"c{i}" for i in range(len(frame.columns))]
    plain: DataFrame = frame.toDF(*names).select(*(names[place] for place in places))
    return plain


def _kept(blocks: DataFrame) -> KeptBlocks:
    # A Connect server makes the plan of a frame anew for each request and does not see that its rows are kept. What it
    # knows by name it does.
    view = f"priory_{secrets.token_hex(8)}"
    blocks.createTempView(view)
    return KeptBlocks(blocks.sparkSession.table(view).persist(), view)


def _partitions(blocks: DataFrame) -> int:
    """The number of partitions up to the last with a block; this is the pass in which the codes are made."""
    from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

    numbers = blocks.select(F.spark_partition_id().alias("number"))
    [row] = numbers.agg(F.max("number").alias("last")).collect()
    return 0 if row["last"] is None else int(row["last"]) + 1


def _rows(sums: DataFrame, line: CellLine) -> Any:  # noqa: ANN401 - rows of Spark
    """The rows at once where they are few, else one partition after the other."""
    return sums.collect() if 8 * line.size <= DRIVER_BYTES else sums.toLocalIterator()


def _shuffle_partitions(frame: DataFrame) -> int:
    setting = str(frame.sparkSession.conf.get("spark.sql.shuffle.partitions"))
    # Some managed clusters say "auto".
    return int(setting) if setting.isdigit() else 200
