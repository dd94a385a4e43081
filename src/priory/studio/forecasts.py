"""Forecasts: rehearsals of the next run for the slider, in a process of their own, one at a time, kept once made."""

import json
import subprocess
import threading
from collections.abc import Sequence
from typing import Any

from priory.studio.folder import Folder

MOST_KEPT = 200
PAIRS_SHOWN = 20


class Forecasts:
    """The forecasts of a project. Whoever asks for another one than is being made stops that."""

    def __init__(self, folder: Folder, command: Sequence[str]) -> None:
        self._folder = folder
        self._command = tuple(command)
        self._made: dict[tuple[str, ...], dict[str, Any]] = {}
        self._now: tuple[tuple[str, ...], subprocess.Popen[bytes]] | None = None
        self._lock = threading.Lock()

    def asked(self, arguments: tuple[str, ...], key: tuple[str, ...]) -> dict[str, Any]:
        """What a command line has forecast so far; `key` says what it depends on."""
        with self._lock:
            found = self._made.get(key)
            if (found is None or found["state"] == "working") and (self._now is None or self._now[0] != key):
                self._stop()
                self._begin(arguments, key)
            return found or {"state": "working"}

    def end(self) -> None:
        """Stop what is being made."""
        with self._lock:
            self._stop()

    def _stop(self) -> None:
        if self._now is not None:
            self._now[1].kill()
            self._now = None

    def _begin(self, arguments: tuple[str, ...], key: tuple[str, ...]) -> None:
        process = subprocess.Popen(  # noqa: S603 - our own command line
            [*self._command, *arguments, "--json-lines"],
            cwd=self._folder.root,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self._now = key, process
        threading.Thread(target=self._follow, args=(key, process), daemon=True, name="priory-forecast").start()

    def _follow(self, key: tuple[str, ...], process: "subprocess.Popen[bytes]") -> None:
        """Keep each forecast as it comes; the last one is the closest."""
        assert process.stdout is not None  # noqa: S101  it was asked for
        assert process.stderr is not None  # noqa: S101  the same
        with process.stdout as lines, process.stderr as said:
            for line in lines:
                self._keep(key, process, _read(line))
            err = said.read()
        code = process.wait()
        with self._lock:
            if self._now is None or self._now[1] is not process:
                return  # it was stopped
            self._now = None
            known = self._made.get(key)
            if code != 0 or known is None:
                self._made[key] = _wrong(err, self._folder)
            else:
                self._made[key] = {**known, "state": "done"}

    def _keep(self, key: tuple[str, ...], process: "subprocess.Popen[bytes]", found: dict[str, Any]) -> None:
        with self._lock:
            if self._now is not None and self._now[1] is process:
                self._made[key] = found
            while len(self._made) > MOST_KEPT:
                self._made.pop(next(iter(self._made)))


def _read(line: bytes) -> dict[str, Any]:
    found = json.loads(line)
    return {
        "state": "done" if found["is_final"] else "working",
        "seconds": found["cpu_seconds"],
        "memory": found["memory_in_bytes"],
        "mean": found["mean_error"],
        "columns": found["columns"],
        "pairs": found["pairs"][:PAIRS_SHOWN],
        "rehearsed": found["columns_rehearsed"],
        "of": found["columns_of"],
    }


def _wrong(err: bytes, folder: Folder) -> dict[str, Any]:
    """What the command said to people; anything else is a bug of ours, and not for a page."""
    lines = [line for line in err.decode("utf-8", "replace").splitlines() if line.startswith("priory: ")]
    message = lines[-1].removeprefix("priory: ") if lines else "No forecast could be made."
    return {"state": "wrong", "message": folder.shown(message)}
