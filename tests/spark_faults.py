"""Spark faults: tasks of Spark that fail or die in the middle, once, for tests; workers import them from here."""

import os
import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from priory.data.sources.spark.tallies import Tally
from priory.data.sources.spark.workers import Encoder, FirstInLine


def is_first(flag: str) -> bool:
    """Whether nobody has asked this before, in any process."""
    folder = Path(os.environ.get("PRIORY_FAULTS") or (_ for _ in ()).throw(RuntimeError("no folder for flags")))
    try:
        (folder / flag).touch(exist_ok=False)
    except FileExistsError:
        return False
    return True
