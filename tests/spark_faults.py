"""Spark faults: tasks of Spark that fail or die in the middle, once each, for tests; workers import them from here."""

import os
import signal
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from priory.data.cells import Cells
from priory.data.codec import Codes
from priory.data.sources.spark.tallies import BlockTally
from priory.data.sources.spark.workers import Encoder, mute


def is_first(flag: Path) -> bool:
    """Whether nobody has asked this before, in any process."""
    try:
        flag.touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


@dataclass(frozen=True)
class FailingEncoder(Encoder):
    """Fails with a message that quotes all cells, in the first task."""

    flag: Path = Path()
    always: bool = False

    def codes(self, cells: dict[str, Cells]) -> list[Codes]:
        if self.always or is_first(self.flag):
            raise ValueError(f"cannot read {[column.values.tolist() for column in cells.values()]}")
        return super().codes(cells)


@dataclass(frozen=True)
class DyingTally(BlockTally):
    """Kills its executor when it has sent a partial sum, in the first task."""

    flag: Path = Path()

    @mute
    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        for part in BlockTally.__call__(self, batches):
            yield part
            if is_first(self.flag):
                os.kill(executor(), signal.SIGKILL)


def executor() -> int:
    """The process of Java that this worker works for: above the daemon that forks workers."""
    pid = os.getpid()
    while "java" not in Path(f"/proc/{pid}/cmdline").read_text().split("\0")[0]:
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return pid
