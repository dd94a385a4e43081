"""Progress: how far a verb has come, on stderr: a bar for whoever watches, a line every few seconds in a pipe."""

import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, SpinnerColumn, Task, TimeElapsedColumn
from rich.text import Text

from priory.cli.output import say
from priory.data.table import Table
from priory.data.visible import visible
from priory.privacy.progress import Progress as Tell
from priory.privacy.progress import Step, silent
from priory.work import heard_by, meanwhile

# In a pipe nothing is said before the first of these seconds, and then a line as often as the second.
FIRST, EVERY = 2.0, 5.0
# Later rounds are slower than earlier ones: the time to a share x of all grows like a power of x between these.
_SLOWEST_GROWTH, _FASTEST_GROWTH = 1.0, 3.0
# How many of the last reports the time left is reckoned from: of fast loops there are very many.
MOST_SEEN = 500


class Pace:
    """Which share was done when, and the time left.

    Args:
        what: what is being done, until something more is reported.
        now: seconds by some clock.
    """

    def __init__(self, what: str, now: Callable[[], float] = time.monotonic) -> None:
        self.words = what
        self.done = 0.0
        self._now, self._began = now, now()
        self._seen: list[tuple[float, float]] = []
        self.is_spent = False  # whether a fit has come to its last step, in which it only estimates

    @property
    def elapsed(self) -> float:
        """Seconds since it began."""
        return self._now() - self._began

    def reached(self, share: float, words: str) -> None:
        """A share of all is done, and what happens now."""
        self.done, self.words = share, visible(words)
        self._seen.append((self.elapsed, share))
        if len(self._seen) > MOST_SEEN:
            del self._seen[1::2]

    def told(self, step: Step) -> None:
        """A round of a fit begins: by rounds where their number is known, else by what was spent."""
        self.reached((step.number - 1) / step.of if step.of else step.share, f"{step}")
        if step.of is None and step.share >= 1:
            # What is spent says nothing of the last step: it is reckoned by itself.
            self.is_spent, self._seen = True, [(self.elapsed, 0.0)]

    def heard(self, share: float, _: str) -> None:
        """A share of the last step of a fit is done."""
        if self.is_spent and share > self._seen[-1][1]:
            self._seen.append((self.elapsed, share))

    @property
    def left(self) -> float | None:
        """Seconds until the end, as far as they can be told."""
        left = time_left(list(self._seen))
        # What was left when the last report came, less the time since; where it takes longer, nobody knows.
        rest = None if left is None else left - (self.elapsed - self._seen[-1][0])
        return rest if rest is None or rest > 0 else None

    def __str__(self) -> str:
        left = self.left
        return self.words if left is None else f"{self.words}, about {spoken(left)} left"


class Lines:
    """Which lines are due in a pipe: none in the first seconds, then one every few."""

    def __init__(self, pace: Pace) -> None:
        self._pace, self._due = pace, FIRST

    def due(self) -> str | None:
        """What is to be said now, where it is time."""
        elapsed = self._pace.elapsed
        if elapsed < self._due:
            return None
        self._due = elapsed + EVERY
        return f"{spoken(elapsed)}: {self._pace}"

    def say_due(self) -> None:
        """Say what is to be said now."""
        if (line := self.due()) is not None:
            say(line)

    @property
    def wait(self) -> float:
        """Seconds until the next line."""
        return max(0.0, self._due - self._pace.elapsed)


@contextmanager
def paced(what: str, *, is_wanted: bool = True) -> Iterator[Pace]:
    """A pace that is shown while it lasts, as a bar or as lines; nothing where it is not wanted."""
    console = Console(stderr=True, highlight=False)
    pace = Pace(what)
    if not is_wanted:
        yield pace
    elif console.is_terminal:
        columns = (SpinnerColumn(), _Words(pace), BarColumn(bar_width=20), TimeElapsedColumn())
        with Progress(*columns, console=console, transient=True) as bar:
            bar.add_task(what, total=None)
            yield pace
    else:
        # Rounds may take longer than a line may be late: a thread says it.
        lines = Lines(pace)
        with meanwhile(lines.say_due, lambda: lines.wait):
            yield pace


class _Words(ProgressColumn):
    """What a pace says, whenever the bar is drawn; the bar grows with it."""

    def __init__(self, pace: Pace) -> None:
        super().__init__()
        self._pace = pace

    def render(self, task: Task) -> Text:
        if self._pace.done > 0:
            task.total, task.completed = 1.0, self._pace.done
        return Text(str(self._pace))


@contextmanager
def shown(what: str, *, is_wanted: bool = True) -> Iterator[Tell]:
    """The round of a fit, what was spent and the time left."""
    with paced(what, is_wanted=is_wanted) as pace, ExitStack() as stack:

        def tell(step: Step) -> None:
            pace.told(step)
            if pace.is_spent:
                # Until then rounds say more than the estimates inside them.
                stack.enter_context(heard_by(pace.heard))

        yield tell if is_wanted else silent


@contextmanager
def working(what: str, *, is_wanted: bool = True) -> Iterator[None]:
    """The same for other work that is done inside: what it reports of itself, or what it is and for how long."""
    with paced(what, is_wanted=is_wanted) as pace, heard_by(pace.reached):
        yield


def counting(batches: Iterable[Table], wanted: float | None, what: str, *, is_wanted: bool = True) -> Iterator[Table]:
    """The batches, with how many rows there were so far, of about how many."""
    done = 0
    with paced(f"drawing {what}", is_wanted=is_wanted) as pace:
        for batch in batches:
            yield batch
            done += len(batch)
            pace.reached(min(1.0, done / wanted) if wanted else 0.0, f"{done:,} {what}")


def time_left(seen: Sequence[tuple[float, float]]) -> float | None:
    """Seconds until all is done, from when which share of it was.

    The seconds to a share x grow like a power of x, which is fitted to what was seen: later rounds, with larger models,
    take longer than earlier ones.

    >>> time_left([(0.0, 0.0), (10.0, 0.25), (20.0, 0.5)])
    20.0
    """
    begun, start = seen[0] if seen else (0.0, 0.0)
    points = [(t - begun, (x - start) / (1 - start)) for t, x in seen if x > start and t > begun]
    if not points:
        return None
    elapsed, share = points[-1]
    logs = [(math.log(share / x), math.log(elapsed / t)) for t, x in points if x < share and t < elapsed]
    square = sum(x * x for x, _ in logs)
    power = sum(x * t for x, t in logs) / square if square > 0 else 1.0
    return elapsed * (math.pow(share, -min(max(power, _SLOWEST_GROWTH), _FASTEST_GROWTH)) - 1)


def spoken(seconds: float) -> str:
    """A duration for people.

    >>> spoken(7), spoken(200), spoken(10_000)
    ('7 s', '3 min', '2.8 h')
    """
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"
