"""Counting: all pairs of Adult in memory, and of twenty million rows in DuckDB with two gigabytes."""

import itertools
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from priory.data.kinds import Boolean, Category, Column, Moment, Number
from priory.data.schema import Schema
from priory.data.sources.duckdb import open_in_duckdb
from priory.data.sources.files import connect
from priory.data.sources.opening import open_source

ROWS = 20_000_000
MEMORY = 2 * 10**9
FIRST_DAY = 10_957  # 2000-01-01


def run(quick: bool) -> None:  # noqa: FBT001 - the benchmarks' one signature
    """Print both, with their targets; Adult only where PRIORY_DATA says where it is."""
    folder = os.environ.get("PRIORY_DATA")
    if folder:
        found = adult(Path(folder))
        print(f"Adult, {found['pairs']:.0f} pairs in memory: {found['cpu_seconds']:.4f} CPU s (target 0.05)")
    else:
        print("Adult: skipped, set PRIORY_DATA")
    found = large(ROWS // 20 if quick else ROWS)
    print(
        f"{found['rows']:,.0f} rows of 15 columns in DuckDB with 2 GB, {found['pairs']:.0f} pairs: encoding "
        f"{found['encode_seconds']:.1f} s, counting {found['count_seconds']:.1f} s, {found['cpu_seconds']:.1f} CPU s, "
        f"peak {found['peak_gigabytes']:.2f} GB (target 3)"
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
        command = [sys.executable, "-m", "bench.counting", str(path)]
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


def _count_large(path: Path) -> dict[str, float]:
    schema = Schema.of([column for _, column in columns().values()], name="large")
    start, cpu = time.perf_counter(), time.process_time()
    source = open_in_duckdb(path, schema, None, memory=MEMORY)
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
    print(json.dumps(_count_large(Path(sys.argv[1]))))
