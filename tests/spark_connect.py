"""Spark Connect: the contract's tables counted through a Connect server, in a process of their own."""

import shutil
import sys
from pathlib import Path

import numpy as np
from pyarrow import parquet
from pyspark.sql import SparkSession

from contracts.test_every_source import CLIQUES, RULES, SCHEMA, TABLES, expected
from priory.data.public import public_codes
from priory.data.schema import Schema
from priory.data.sources.spark import is_spark_frame, open_spark
from sources_at_hand import parts


def main(folder: Path) -> None:
    """Count some tables under some rules, when their files are gone."""
    session = SparkSession.builder.remote("local[2]").getOrCreate()
    for table, rule in [*(("typed", rule) for rule in RULES), ("texts", "three rows"), ("no rows", "rows")]:
        place = folder / f"{table} {rule}"
        place.mkdir()
        for i, part in enumerate(parts(TABLES[table])):
            parquet.write_table(part, place / f"{i}.parquet")
        frame = session.read.parquet(str(place))
        assert is_spark_frame(frame)
        source = open_spark(frame, SCHEMA, RULES[rule], 2**32)
        shutil.rmtree(place)
        for factor, truth in zip(source.count(CLIQUES), expected(table, rule), strict=True):
            np.testing.assert_array_equal(factor.values, truth)
        source.close()
    public = session.range(100).selectExpr("cast(id % 3 as int) x")
    assert np.bincount(public_codes(Schema.coded({"x": 3}), public)[:, 0]).tolist() == [34, 33, 33]
    print("equal")  # noqa: T201 - what the test waits for


if __name__ == "__main__":
    main(Path(sys.argv[1]))
