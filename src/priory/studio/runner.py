"""Runner: one command of the studio in a process of its own, which goes on when the server ends.

It is started by its path, with the folder of a job as its argument, and uses the standard library alone. As long as it
lives it holds the lock of the job: from that others know that the job runs, also after a server was killed.
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

EVERY = 0.1  # seconds between two looks at whether the command has ended or is to be cancelled
JOB, LOCK, CANCEL, ENDED, OUT, ERR = "job.json", "lock", "cancel", "ended.json", "stdout", "stderr"


def lock(handle: int) -> bool:
    """Take the lock of an open file, if nobody has it; it is given up when the process ends, however it does."""
    try:
        if os.name == "nt":  # pragma: no cover
            import msvcrt

            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined,unused-ignore]
        else:
            import fcntl

            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def run(folder: Path) -> None:
    """Run the commands of the job one after the other, until one fails, and write down how it ended."""
    job = json.loads((folder / JOB).read_text(encoding="utf-8"))
    handle = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    if not lock(handle):
        return
    code, was_cancelled = 0, False
    with (folder / OUT).open("ab") as out, (folder / ERR).open("ab") as err:
        for command in job["commands"]:
            process = subprocess.Popen(command, cwd=job["cwd"], stdin=subprocess.DEVNULL, stdout=out, stderr=err)  # noqa: S603 - our own command line
            while (ended := process.poll()) is None:
                if not was_cancelled and (folder / CANCEL).exists():
                    was_cancelled = True
                    process.terminate()
                time.sleep(EVERY)
            code = ended
            if code != 0:
                break
    draft = folder / f".{ENDED}"
    draft.write_text(json.dumps({"code": code, "was_cancelled": was_cancelled, "at": time.time()}), encoding="utf-8")
    draft.replace(folder / ENDED)


if __name__ == "__main__":
    run(Path(sys.argv[1]))
