"""Forecasts: rehearsals of the next run for the slider, in a process of their own, kept once made."""

import json
import subprocess
import sys
import threading
from typing import Any

from priory.studio.folder import Folder

MOST_KEPT = 200
PAIRS_SHOWN = 20
# -P: files in the folder of the project are no code to be imported.
REHEARSER = (sys.executable, "-P", "-m", "priory.studio.rehearser")
NONE_MADE = "No forecast could be made."


class Forecasts:
    """The forecasts of a project. Whoever asks for another one than is being made stops that."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._made: dict[str, dict[str, Any]] = {}
        self._process: subprocess.Popen[bytes] | None = None
        self._number, self._now = 0, ""  # of the last question, and its key
        self._lock = threading.Lock()

    def asked(self, question: dict[str, Any]) -> dict[str, Any]:
        """What has been forecast so far; `question` has a table, a budget and seconds, and other contents are other."""
        key = json.dumps(question, sort_keys=True)
        with self._lock:
            found = self._made.get(key)
            if found is None or (found["state"] == "working" and self._now != key):
                self._number, self._now = self._number + 1, key
                self._made.setdefault(key, {"state": "working"})
                self._send({"number": self._number, **question})
            return self._made[key]

    def warm(self) -> None:
        """Start the process, so that the first question does not wait for it."""
        with self._lock:
            self._started()

    def end(self) -> None:
        """End the process."""
        with self._lock:
            process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()

    def _started(self) -> "subprocess.Popen[bytes]":
        if self._process is None or self._process.poll() is not None:
            self._process = subprocess.Popen(  # noqa: S603 - our own module
                REHEARSER,
                cwd=self._folder.root,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
            threading.Thread(target=self._follow, args=(self._process,), daemon=True, name="priory-forecast").start()
        return self._process

    def _send(self, question: dict[str, Any]) -> None:
        process = self._started()
        assert process.stdin is not None  # noqa: S101  it was asked for
        try:
            process.stdin.write(json.dumps(question).encode() + b"\n")
            process.stdin.flush()
        except OSError:
            self._made[self._now] = {"state": "wrong", "message": NONE_MADE}

    def _follow(self, process: "subprocess.Popen[bytes]") -> None:
        """Keep each forecast as it comes; the last one is the closest."""
        assert process.stdin is not None  # noqa: S101  it was asked for
        assert process.stdout is not None  # noqa: S101  the same
        with process.stdin, process.stdout as lines:
            for line in lines:
                self._keep(json.loads(line))
        process.wait()
        with self._lock:
            # It ended by itself: whoever waits for it waits in vain.
            if self._process is process and self._made.get(self._now, {}).get("state") == "working":
                self._made[self._now] = {"state": "wrong", "message": NONE_MADE}

    def _keep(self, found: dict[str, Any]) -> None:
        with self._lock:
            if found["number"] == self._number and not _is_worse(found, self._made.get(self._now, {})):
                self._made[self._now] = _read(found, self._folder)
            while len(self._made) > MOST_KEPT:
                self._made.pop(next(iter(self._made)))


def _is_worse(found: dict[str, Any], known: dict[str, Any]) -> bool:
    """Whether a forecast is from fewer columns than another one, which follows from other budgets."""
    return bool(known.get("interpolated")) and found.get("columns_rehearsed", 0) < known["of"] and "wrong" not in found


def _read(found: dict[str, Any], folder: Folder) -> dict[str, Any]:
    if "wrong" in found:
        return {"state": "wrong", "message": folder.shown(found["wrong"])}
    return {
        "state": "done" if found["is_final"] else "working",
        "seconds": found["cpu_seconds"],
        "memory": found["memory_in_bytes"],
        "mean": found["mean_error"],
        "columns": found["columns"],
        "pairs": found["pairs"][:PAIRS_SHOWN],
        "rehearsed": found["columns_rehearsed"],
        "of": found["columns_of"],
        "interpolated": found["is_interpolated"],
    }
