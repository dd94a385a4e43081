"""Spark: a source over tables that outgrow one machine. Importing this imports nothing: most never need it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from priory.data.persons import PersonRule
    from priory.data.schema import Schema
    from priory.data.sources.spark.source import SparkSource


def is_spark_frame(data: object) -> bool:
    """Whether this is a data frame of Spark, classic or Connect."""
    # Asked of its type: of the frame, any word may be a column.
    return type(data).__module__.startswith("pyspark.sql") and hasattr(type(data), "mapInArrow")


def read_spark(path_or_table: str, schema: Schema | None = None) -> DataFrame:
    """A Parquet folder or file, a CSV file, or a table of Spark's catalogue, in the session that there is.

    Without one, a session is made: on this machine, or wherever `spark-submit` or Spark's settings say. What the schema
    says of reading holds for CSV.
    """
    from priory.data.sources.spark.sessions import read

    return read(path_or_table, schema)


def open_spark(frame: object, schema: Schema, rule: PersonRule | None, row_limit: int) -> SparkSource:
    """Encode a frame of Spark where it is, by the codec of all sources, and keep the codes there."""
    from priory.data.sources.spark.source import open_frame

    return open_frame(frame, schema, rule, row_limit)
