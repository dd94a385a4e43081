"""Trees: the memory and CPU time of a process and all that it started, read from /proc while it runs."""

import os
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

PAUSE = 0.5
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass
class Usage:
    """What a tree of processes has used."""

    peak_bytes: int = 0  # of all together, memory that several share counted once
    cpu_seconds: dict[int, float] = field(default_factory=dict)  # of each process, until it was last seen

    @property
    def cpu(self) -> float:
        """CPU seconds of all processes."""
        return sum(self.cpu_seconds.values())

    def look(self, root: int) -> None:
        """Read what the tree below `root` uses now."""
        pids = _tree(root)
        self.peak_bytes = max(self.peak_bytes, sum(map(_bytes, pids)))
        self.cpu_seconds |= {pid: seconds for pid in pids if (seconds := _cpu(pid)) is not None}


def watched(command: Sequence[str], environment: Mapping[str, str], *, log: Path) -> tuple[str, Usage]:
    """What a command writes to its standard output, and what it and all that it started have used."""
    usage = Usage()
    with log.open("w") as errors:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True, env=dict(environment))
        is_over = threading.Event()

        def watch() -> None:
            while not is_over.is_set():
                usage.look(process.pid)
                time.sleep(PAUSE)

        thread = threading.Thread(target=watch)
        thread.start()
        output, _ = process.communicate()
        is_over.set()
        thread.join()
    if process.returncode:
        raise RuntimeError(f"{command} failed; see {log}")
    return output, usage


def _tree(root: int) -> list[int]:
    children: dict[int, list[int]] = {}
    for path in Path("/proc").iterdir():
        if path.name.isdigit():
            try:
                parent = int((path / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
            children.setdefault(parent, []).append(int(path.name))
    found = [root]
    for pid in found:
        found += children.get(pid, [])
    return found


def _bytes(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return next((1024 * int(line.split()[1]) for line in lines if line.startswith("Pss:")), 0)


def _cpu(pid: int) -> float | None:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return (int(fields[11]) + int(fields[12])) / TICKS
