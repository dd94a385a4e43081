"""Counting: all pairs of Adult in memory; of twenty million rows in DuckDB and from a stream, with two gigabytes."""

import itertools
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from priory.data.kinds import Boolean, Category, Column, Moment, Number
from priory.data.schema import Schema
from priory.data.sources.duckdb import open_in_duckdb
from priory.data.sources.files import connect
from priory.data.sources.opening import open_source
from priory.data.sources.source import Source

ROWS = 20_000_000
BATCH = 50_000
MEMORY = 2 * 10**9
FIRST_DAY = 10_957  # 2000-01-01


def run(quick: bool) -> None:  # noqa: FBT001 - the benchmarks' one signature
    """Print each, with its targets; Adult only where PRIORY_DATA says where it is."""
    folder = os.environ.get("PRIORY_DATA")
    if folder:
        found = adult(Path(folder))
        print(f"Adult, {found['pairs']:.0f} pairs in memory: {found['cpu_seconds']:.4f} CPU s (target 0.05)")
    else:
        print("Adult: skipped, set PRIORY_DATA")
    rows = ROWS // 20 if quick else ROWS
    for how, found in (("in DuckDB", large(rows)), ("from an Arrow stream", streamed(rows))):
        print(
            f"{found['rows']:,.0f} rows of 15 columns {how} with 2 GB, {found['pairs']:.0f} pairs: encoding "
            f"{found['encode_seconds']:.1f} s, counting {found['count_seconds']:.1f} s, {found['cpu_seconds']:.1f} CPU "
            f"s, peak {found['peak_gigabytes']:.2f} GB (target 3)"
        )


def adult(data: Path) -> dict[str, float]:
    """CPU seconds for all pairs of Adult's attributes, the median of nine runs."""
    schema = Schema.coded(json.loads((data / "adult_coded15" / "domain.json").read_text()))
    source = open_source(data / "adult_coded15" / "adult.csv.gz", schema)
    pairs = list(itertools.combinations(schema.domain, 2))
    seconds = sorted(_cpu_seconds(lambda: source.count(pairs)) for _ in range(9))
    return {"pairs": len(pairs), "cpu_seconds": seconds[4]}


def large(rows: int = ROWS) -> dict[str, float]:
    """Make a Parquet file, and count all pairs of its columns in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "large.parquet"
        _make_large(path, rows)
        return _in_a_process(str(path))


def streamed(rows: int = ROWS) -> dict[str, float]:
    """Read a stream of batches that are made as they are asked for, and count all pairs, in a process of its own."""
    return _in_a_process(str(rows))


def _in_a_process(what: str) -> dict[str, float]:
    command = [sys.executable, "-m", "bench.counting", what]
    found = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return dict(json.loads(found))


def _cpu_seconds(work: object) -> float:
    before = time.process_time()
    work()  # type: ignore[operator]
    return time.process_time() - before


def columns() -> dict[str, tuple[str, Column]]:
    """Fifteen columns of all kinds: what makes each in SQL, and what the schema says of it."""
    made: dict[str, tuple[str, Column]] = {}
    for i in range(5):
        number = Number.of(f"i{i}", whole=True, low=0, high=99, edges=range(0, 101, 5), other=0)
        made[number.name] = ("(random() * 100)::INTEGER", number)
    for i in range(4):
        text = Category.of(f"t{i}", [f"level {j}" for j in range(12)], other="other")
        made[text.name] = ("'level ' || (random() * 12)::INTEGER", text)
    edges = [0.0, *(10 ** (k / 4) for k in range(1, 21)), 2e5]
    for i in range(3):
        real = Number.of(f"r{i}", whole=False, low=0, high=2e5, edges=edges, nullable=True)
        made[real.name] = ("exp(random() * 12)", real)
    last = FIRST_DAY + 9000
    for i in range(2):
        days = [*range(FIRST_DAY, last, 365), last + 1]
        date = Moment.of(f"d{i}", clock=False, low=FIRST_DAY, high=last, edges=days, nullable=True)
        made[date.name] = ("DATE '2000-01-01' + (random() * 9000)::INTEGER", date)
    made["b"] = ("random() < 0.3", Boolean.of("b", nullable=True))
    return made


def _make_large(path: Path, rows: int) -> None:
    cells = ", ".join(f"{sql} AS {name}" for name, (sql, _) in columns().items())
    with connect(memory_limit=f"{MEMORY}B") as connection:
        connection.execute(f"COPY (SELECT {cells} FROM range({rows})) TO '{path}' (FORMAT parquet)")


def _stream(rows: int) -> Any:  # noqa: ANN401 - pyarrow is optional
    """A stream of so many rows, in which one batch comes again and again: what is timed is the reading."""
    import pyarrow as pa

    cells = ", ".join(f"{sql} AS {name}" for name, (sql, _) in columns().items())
    with connect() as connection:
        batch = connection.sql(f"SELECT {cells} FROM range({BATCH})").to_arrow_table().combine_chunks().to_batches()[0]
    return pa.RecordBatchReader.from_batches(batch.schema, (batch for _ in range(rows // BATCH)))


def _count_large(what: str) -> dict[str, float]:
    schema = Schema.of([column for _, column in columns().values()], name="large")
    stream = _stream(int(what)) if what.isdigit() else None
    start, cpu = time.perf_counter(), time.process_time()
    if stream is None:
        source: Source = open_in_duckdb(Path(what), schema, None, memory=MEMORY)
    else:
        source = open_source(stream, schema, memory=MEMORY)
    encoded = time.perf_counter()
    pairs = list(itertools.combinations(schema.domain, 2))
    rows = source.count(pairs)[0].total
    return {
        "rows": rows,
        "pairs": len(pairs),
        "encode_seconds": encoded - start,
        "count_seconds": time.perf_counter() - encoded,
        "cpu_seconds": time.process_time() - cpu,
        "peak_gigabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9,
    }


if __name__ == "__main__":
    print(json.dumps(_count_large(sys.argv[1])))
