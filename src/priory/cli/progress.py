"""Progress: how far a verb has come, on stderr and only where somebody watches."""

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn

from priory.data.table import Table
from priory.data.visible import visible
from priory.privacy.progress import Progress as Tell
from priory.privacy.progress import Step, silent

# Rounds whose times are averaged for the time left; later ones are slower than earlier ones.
_RECENT = 5


@contextmanager
def shown(what: str, *, is_wanted: bool = True) -> Iterator[Tell]:
    """A line on stderr with the round, what was spent and the time left; nothing where stderr is no terminal."""
    console = Console(stderr=True, highlight=False)
    if not is_wanted or not console.is_terminal:
        yield silent
        return
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=20),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        yield _Teller(bar, bar.add_task(what, total=None))


class _Teller:
    """Turns steps into a bar: by rounds where their number is known, otherwise by what was spent."""

    def __init__(self, bar: Progress, task: TaskID) -> None:
        self._bar = bar
        self._task = task
        self._seen: list[tuple[float, float]] = []

    def __call__(self, step: Step) -> None:
        done = (step.number - 1) / step.of if step.of else step.share
        self._seen.append((time.monotonic(), done))
        left = time_left(self._seen)
        words = visible(f"{step}") + ("" if left is None else f", about {spoken(left)} left")
        self._bar.update(self._task, description=words, total=1.0, completed=done)


def time_left(seen: list[tuple[float, float]]) -> float | None:
    """Seconds until all is done, from when which share was: at the pace of the last few rounds.

    >>> time_left([(0.0, 0.0), (10.0, 0.25), (20.0, 0.5)])
    20.0
    """
    recent = seen[-_RECENT - 1 :]
    if len(recent) < 2 or recent[-1][1] <= recent[0][1]:
        return None
    pace = (recent[-1][0] - recent[0][0]) / (recent[-1][1] - recent[0][1])
    return pace * (1 - recent[-1][1])


def spoken(seconds: float) -> str:
    """A duration for people.

    >>> spoken(7), spoken(200), spoken(10_000)
    ('7 s', '3 min', '2.8 h')
    """
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


def counting(batches: Iterable[Table], wanted: int | None, what: str) -> Iterator[Table]:
    """The batches, with a bar of how many rows there were so far."""
    console = Console(stderr=True, highlight=False)
    if not console.is_terminal:
        yield from batches
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
