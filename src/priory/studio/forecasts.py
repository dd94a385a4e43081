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
        """The forecast that a command line makes, or that it is being worked on; `key` says what it depends on."""
        with self._lock:
            if key in self._made:
                return self._made[key]
            if self._now is None or self._now[0] != key:
                self._stop()
                self._begin(arguments, key)
        return {"state": "working"}

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
            [*self._command, *arguments, "--json"],
            cwd=self._folder.root,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self._now = key, process
        threading.Thread(target=self._finish, args=(key, process), daemon=True, name="priory-forecast").start()

    def _finish(self, key: tuple[str, ...], process: "subprocess.Popen[bytes]") -> None:
        out, err = process.communicate()
        with self._lock:
            if self._now is None or self._now[1] is not process:
                return  # it was stopped
            self._now = None
            self._made[key] = _read(out) if process.returncode == 0 else _wrong(err, self._folder)
            while len(self._made) > MOST_KEPT:
                self._made.pop(next(iter(self._made)))


def _read(out: bytes) -> dict[str, Any]:
    found = json.loads(out)
    last = found["rehearsals"][-1]
    return {
        "state": "done",
        "mechanism": found["mechanism"],
        "rehearsed_on": found["rehearsed_on"],
        "seconds": last["cpu_seconds"],
        "memory": last["memory_in_bytes"],
        "mean": last["mean_error"],
        "columns": last["columns"],
        "pairs": last["pairs"][:PAIRS_SHOWN],
        "rehearsed": last["columns_rehearsed"],
        "of": found["columns"],
    }


def _wrong(err: bytes, folder: Folder) -> dict[str, Any]:
    """What the command said, where it said it as data; anything else is a bug of ours, and not for a page."""
    lines = err.decode("utf-8", "replace").strip().splitlines()
    try:
        message = json.loads(lines[-1])["message"]
    except (IndexError, ValueError, KeyError, TypeError):
        message = "No forecast could be made."
    return {"state": "wrong", "message": folder.shown(message)}
