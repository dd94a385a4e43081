"""Progress: how far a verb has come, on stderr: a bar for whoever watches, a line every few seconds in a pipe."""

import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn

from priory.cli.output import say
from priory.data.table import Table
from priory.data.visible import visible
from priory.privacy.progress import Progress as Tell
from priory.privacy.progress import Step, silent, time_left

# In a pipe nothing is said before the first of these seconds, and then a line as often as the second.
FIRST, EVERY = 2.0, 5.0


@contextmanager
def shown(what: str, *, is_wanted: bool = True) -> Iterator[Tell]:
    """The round, what was spent and the time left, as a bar or as lines; nothing where it is not wanted."""
    console = Console(stderr=True, highlight=False)
    if not is_wanted:
        yield silent
        return
    if not console.is_terminal:
        with _Lines(what) as lines:
            yield lines
        return
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=20),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        yield _Teller(bar, bar.add_task(what, total=None))


class _Pace:
    """What was told when, and the time left: by rounds where their number is known, else by what was spent."""

    def __init__(self, what: str) -> None:
        self.started = time.monotonic()
        self.words = what
        self.done = 0.0
        self._seen: list[tuple[float, float]] = []

    def told(self, step: Step) -> None:
        self.done = (step.number - 1) / step.of if step.of else step.share
        self.words = visible(f"{step}")
        self._seen.append((time.monotonic() - self.started, self.done))

    def __str__(self) -> str:
        left = time_left(self._seen)
        if left is None:
            return self.words
        # What was left when the last round began, less the time since.
        remaining = max(0.0, left - (time.monotonic() - self.started - self._seen[-1][0]))
        return f"{self.words}, about {spoken(remaining)} left"


class _Teller:
    """Turns steps into a bar."""

    def __init__(self, bar: Progress, task: TaskID) -> None:
        self._bar, self._task, self._pace = bar, task, _Pace("")

    def __call__(self, step: Step) -> None:
        self._pace.told(step)
        self._bar.update(self._task, description=str(self._pace), total=1.0, completed=self._pace.done)


class _Lines:
    """Says from a thread of its own, every few seconds, what was told last: rounds may take longer than that."""

    def __init__(self, what: str) -> None:
        self._pace = _Pace(what)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._talk, name="priory-progress", daemon=True)

    def __call__(self, step: Step) -> None:
        self._pace.told(step)

    def __enter__(self) -> "_Lines":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _talk(self) -> None:
        wait = FIRST
        while not self._ended.wait(wait):
            wait = EVERY
            say(f"{spoken(time.monotonic() - self._pace.started)}: {self._pace}")


def spoken(seconds: float) -> str:
    """A duration for people.

    >>> spoken(7), spoken(200), spoken(10_000)
    ('7 s', '3 min', '2.8 h')
    """
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


@contextmanager
def working(what: str, *, is_wanted: bool = True) -> Iterator[None]:
    """The same for work whose length is not known: what it is and how long it has taken."""
    with shown(what, is_wanted=is_wanted):
        yield


def counting(batches: Iterable[Table], wanted: int | None, what: str) -> Iterator[Table]:
    """The batches, with how many rows there were so far."""
    console = Console(stderr=True, highlight=False)
    if not console.is_terminal:
        yield from _counted_lines(batches, wanted, what)
        return
    columns = (
        TextColumn("{task.completed:,} {task.description}", markup=False),
        BarColumn(bar_width=20),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(what, total=wanted)
        for batch in batches:
            yield batch
            bar.advance(task, len(batch))


def _counted_lines(batches: Iterable[Table], wanted: int | None, what: str) -> Iterator[Table]:
    started, done, due = time.monotonic(), 0, FIRST
    for batch in batches:
        yield batch
        done += len(batch)
        elapsed = time.monotonic() - started
        if elapsed >= due:
            due = elapsed + EVERY
            left = f", about {spoken(elapsed * (wanted - done) / done)} left" if wanted and done else ""
            say(f"{spoken(elapsed)}: {done:,} {what}{left}")
