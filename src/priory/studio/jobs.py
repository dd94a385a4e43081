"""Jobs: runs of the command line that the studio started, one at a time, each in a process of its own."""

import json
import os
import re
import secrets
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from priory.errors import DataError
from priory.studio import runner
from priory.studio.folder import Folder
from priory.studio.locking import alone

State = Literal["running", "ended", "failed", "cancelled", "interrupted"]
Kind = Literal["fit", "discover", "estimate", "combine"]
# The command line, as a process. -P: files in the folder of the project are no code to be imported.
PRIORY = (sys.executable, "-P", "-m", "priory")
_NAME = re.compile("[0-9]{4}")
_MOST_SAID = 64 << 10


@dataclass(frozen=True)
class Job:
    """A run of the command line.

    Attributes:
        name: its number, as four digits or more.
        kind: what it does.
        arguments: of each command, what stands after `priory`.
        output: the name of the file it makes.
        paid: the name of the file that its paid command makes, where another one follows.
        purpose: what it was for, in the words of whoever started it.
        python: the same as Python.
        plan: the digest of what was confirmed, by which the same form is known that is sent twice.
        started: when, in seconds since 1970.
        lines: how many lines the ledger had before.
        state: how it stands.
        code: the exit code of its last command, once it has ended.
        ended: when, in seconds since 1970, or None.
        said: what it has said to people, without what is not for a page.
        progress: the last line of that which says how far it is.
    """

    name: str
    kind: Kind
    arguments: tuple[tuple[str, ...], ...]
    output: str
    paid: str
    purpose: str
    python: str
    plan: str
    started: float
    lines: int
    state: State
    code: int | None
    ended: float | None
    said: tuple[str, ...]
    progress: str

    @property
    def seconds(self) -> float:
        """How long it took, or has taken so far."""
        return (time.time() if self.ended is None else self.ended) - self.started

    @property
    def when(self) -> str:
        """When it was started, in UTC."""
        return datetime.fromtimestamp(self.started, UTC).isoformat(sep=" ", timespec="seconds")[:19]


class Busy(DataError):
    """Another run of the studio goes on in the folder."""


class Jobs:
    """The jobs of a project; all is on the disk, so that a new server knows them, too."""

    def __init__(self, folder: Folder, command: Sequence[str] = PRIORY) -> None:
        self._folder = folder
        self._command = tuple(command)

    @property
    def _place(self) -> Path:
        place = self._folder.kept / "jobs"
        place.mkdir(mode=0o700, exist_ok=True)
        return place

    def start(
        self,
        kind: Kind,
        arguments: Sequence[Sequence[str]],
        *,
        output: str,
        paid: str = "",
        purpose: str = "",
        plan: str = "",
        lines: int = 0,
        python: str = "",
    ) -> Job:
        """Start a job, unless one that makes the same output was started before: then that one.

        Raises:
            Busy: another one is running.
        """
        # Also of two servers of the same folder only one starts it.
        with alone(self._place / ".starting"):
            for job in self.all():
                if job.output == output and job.kind == kind:
                    return job
            if (other := self.running()) is not None:
                raise Busy(f"run {other.name} goes on; wait for its end, or cancel it")
            name = self._write(
                {
                    "kind": kind,
                    "commands": [[*self._command, *each] for each in arguments],
                    "arguments": [list(each) for each in arguments],
                    "cwd": str(self._folder.root),
                    "output": output,
                    "paid": paid or output,
                    "purpose": purpose,
                    "plan": plan,
                    "python": python,
                    "started": time.time(),
                    "lines": lines,
                }
            )
            self._launch(self._place / name)
            return self.job(name)

    def all(self) -> list[Job]:
        """Every job, the newest first."""
        names = sorted(each.name for each in self._place.iterdir() if _NAME.fullmatch(each.name))
        return [self.job(name) for name in reversed(names)]

    def running(self) -> Job | None:
        """The job that runs, if one does."""
        return next((job for job in self.all() if job.state == "running"), None)

    def job(self, name: str) -> Job:
        """The job of that name; a `DataError` if there is none."""
        place = self._place / name
        if not _NAME.fullmatch(name) or not (place / runner.JOB).is_file():
            raise DataError(f"there is no run {name!r}")
        known = json.loads((place / runner.JOB).read_text(encoding="utf-8"))
        state, ended = self._state(place, known)
        said, progress = _said(place / runner.ERR, self._folder)
        return Job(
            name=name,
            kind=known["kind"],
            arguments=tuple(tuple(each) for each in known["arguments"]),
            output=known["output"],
            paid=known["paid"],
            purpose=known["purpose"],
            python=known.get("python", ""),
            plan=known["plan"],
            started=known["started"],
            lines=known["lines"],
            state=state,
            code=ended.get("code"),
            ended=ended.get("at"),
            said=said,
            progress=progress,
        )

    def cancel(self, name: str) -> Job:
        """Ask a job to end; what it has paid for stays paid for."""
        job = self.job(name)
        if job.state == "running":
            (self._place / name / runner.CANCEL).touch(mode=0o600)
        return job

    def _write(self, known: dict[str, Any]) -> str:
        """The folder of a new job: it is there with all that it says, or not at all."""
        draft = self._place / f".{secrets.token_hex(8)}"
        draft.mkdir(mode=0o700)
        (draft / runner.JOB).write_text(json.dumps(known), encoding="utf-8")
        number = 1
        while True:
            try:
                draft.rename(self._place / f"{number:04d}")
            except OSError:
                if number >= 9999:
                    raise
                number += 1
            else:
                return f"{number:04d}"

    def _launch(self, place: Path) -> None:
        options: dict[str, Any] = {"start_new_session": True}
        if os.name == "nt":  # pragma: no cover
            options = {"creationflags": getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0)}
        # -P: the studio's own folder is no place to import from.
        process = subprocess.Popen(  # noqa: S603 - our own file
            [sys.executable, "-P", str(Path(runner.__file__)), str(place)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            **options,
        )
        # Whoever starts a process must ask how it ended.
        threading.Thread(target=process.wait, daemon=True, name="priory-job").start()
        while process.poll() is None and not _is_locked(place / runner.LOCK) and not (place / runner.ENDED).exists():
            time.sleep(0.01)

    def _state(self, place: Path, known: dict[str, Any]) -> tuple[State, dict[str, Any]]:
        if (place / runner.ENDED).exists():
            return _ended(place)
        if _is_locked(place / runner.LOCK):
            return "running", {}
        # It may have ended between the two looks.
        if (place / runner.ENDED).exists():
            return _ended(place)
        last = max((file.stat().st_mtime for file in place.iterdir()), default=known["started"])
        return "interrupted", {"at": last}


def _ended(place: Path) -> tuple[State, dict[str, Any]]:
    ended: dict[str, Any] = json.loads((place / runner.ENDED).read_text(encoding="utf-8"))
    state: State = "ended" if ended["code"] == 0 else "cancelled" if ended["was_cancelled"] else "failed"
    return state, ended


def _is_locked(path: Path) -> bool:
    """Whether a living process holds the lock."""
    try:
        handle = os.open(path, os.O_RDWR)
    except OSError:
        return False
    try:
        return not runner.lock(handle)
    finally:
        os.close(handle)


_PROGRESS = re.compile(r"\d+(\.\d+)? (s|min|h): (.*)")


def _said(path: Path, folder: Folder) -> tuple[tuple[str, ...], str]:
    """What the command has said to people: its own lines alone, never a traceback; and how far it was at last."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - _MOST_SAID))
            lines = file.read().decode("utf-8", "replace").splitlines()
    except OSError:
        return (), ""
    progress = [found[3] for line in lines if (found := _PROGRESS.fullmatch(line))]
    spoken = [line for line in lines if line.startswith(("priory: ", "Warning: "))]
    return tuple(folder.shown(line.removeprefix("priory: ")) for line in spoken), progress[-1] if progress else ""
