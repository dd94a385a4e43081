"""Another user of the machine: reads all that the system lets them of the process list and below some folders.

It looks again and again until its stdin ends, and then writes everything it has seen to stdout. Where the tests may not
become another user, it stays the same one and reads only what the modes let everybody read.
"""

import os
import select
import stat
import sys
from collections.abc import Iterator
from pathlib import Path

NOBODY = 65534
MOST_BYTES = 1 << 20


def main(folders: list[str]) -> None:
    """Look until there is nothing more to look for."""
    is_other = _becomes_nobody()
    seen: dict[bytes, None] = {}
    known: set[tuple[str, int, int]] = set()
    while not select.select([sys.stdin], [], [], 0.05)[0]:
        for path in _processes():
            seen[_read(path, is_other=is_other)] = None
        for folder in folders:
            for path in _files(folder, is_other=is_other):
                stamp = _stamp(path)
                if stamp not in known:
                    known.add(stamp)
                    seen[path.encode() + b"\n" + _read(path, is_other=is_other)] = None
    sys.stdout.buffer.write(b"\n".join(seen))


def _becomes_nobody() -> bool:
    try:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
    except (AttributeError, PermissionError):
        return False
    return True


def _processes() -> Iterator[str]:
    for place in Path("/proc").glob("[0-9]*"):
        yield from (f"{place}/cmdline", f"{place}/environ")


def _files(folder: str, *, is_other: bool) -> Iterator[str]:
    for place, inner, files in os.walk(folder):
        inner[:] = [each for each in inner if is_other or _is_open(f"{place}/{each}", stat.S_IROTH | stat.S_IXOTH)]
        yield from (f"{place}/{each}" for each in (*inner, *files))


def _is_open(path: str, modes: int) -> bool:
    """Whether everybody may do it."""
    try:
        return os.lstat(path).st_mode & modes == modes
    except OSError:
        return False


def _stamp(path: str) -> tuple[str, int, int]:
    try:
        facts = os.lstat(path)
    except OSError:
        return path, 0, 0
    return path, facts.st_mtime_ns, facts.st_size


def _read(path: str, *, is_other: bool) -> bytes:
    if not is_other and not _is_open(path, stat.S_IROTH):
        return b""
    try:
        with Path(path).open("rb") as file:
            return file.read(MOST_BYTES)
    except OSError:
        return b""


if __name__ == "__main__":
    main(sys.argv[1:])
