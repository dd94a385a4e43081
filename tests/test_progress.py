import io
import itertools
import sys
import threading
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest

from priory import work
from priory.app.fit import fit
from priory.cli import output, progress
from priory.cli.progress import EVERY, FIRST, Lines, Pace, counting, paced, spoken, time_left, working
from priory.data.cells import Cells
from priory.data.schema import Schema
from priory.data.table import Table
from priory.privacy.budget import Budget
from priory.privacy.progress import Step


class Clock:
    """A clock that stands still unless somebody moves it."""

    seconds = 100.0

    def __call__(self) -> float:
        return self.seconds


def test_the_time_left_goes_on_as_it_grew() -> None:
    assert time_left([(0.0, 0.0)]) is None
    assert time_left([(0.0, 0.0), (1.0, 0.0)]) is None
    even = [(3.0 + 100 * x, x) for x in np.linspace(0, 0.5, 20).tolist()]
    assert time_left(even) == pytest.approx(50)
    # Where rounds take longer and longer, the time to a share x is 100 x².
    slower = [(3.0 + 100 * x**2, x) for x in np.linspace(0, 0.5, 20).tolist()]
    assert time_left(slower) == pytest.approx(75)


@pytest.mark.parametrize("reports", [10, 20_000])
def test_the_time_left_is_true_of_even_work_however_often_it_reports(reports: int) -> None:
    clock = Clock()
    pace = Pace("working", clock)
    for number in range(reports // 2 + 1):
        clock.seconds = 100 + 60 * number / reports
        pace.reached(number / reports, "half")
    assert pace.left == pytest.approx(30, rel=0.01)
    assert str(pace) == "half, about 30 s left"
    clock.seconds += 10
    assert pace.left == pytest.approx(20, rel=0.01)
    clock.seconds += 100
    assert pace.left is None
    assert str(pace) == "half"


def test_a_pipe_hears_nothing_of_short_work_and_a_line_every_few_seconds_of_long_work() -> None:
    clock = Clock()
    lines = Lines(Pace("reading the table", clock))
    said = []
    for tenth in range(200):
        clock.seconds = 100 + tenth / 10
        if (line := lines.due()) is not None:
            said.append((tenth / 10, line))
    assert [when for when, _ in said] == [FIRST, FIRST + EVERY, FIRST + 2 * EVERY, FIRST + 3 * EVERY]
    assert said[1][1] == "7 s: reading the table"


def test_rounds_of_a_fit_say_what_was_spent_and_how_long_it_takes() -> None:
    clock = Clock()
    pace = Pace("reading the table", clock)
    for number in (1, 2, 3):
        clock.seconds = 100 + 8 * number
        pace.told(Step(number, 4, Fraction(number - 1, 4), Budget.zcdp(1)))
    assert str(pace) == "round 3 of 4, ρ = 0.5 of 1 spent, about 16 s left"
    assert spoken(59.6) == "60 s"


def test_the_last_step_of_a_fit_is_reckoned_by_itself_once_everything_is_spent() -> None:
    clock = Clock()
    pace = Pace("reading the table", clock)
    pace.told(Step(1, None, Fraction(0), Budget.zcdp(1)))
    clock.seconds += 5
    pace.told(Step(2, None, Fraction(1, 2), Budget.zcdp(1)))
    # Before the end, what estimates report of themselves says nothing of the whole.
    pace.heard(0.9, "estimating")
    assert pace.left == pytest.approx(5)
    clock.seconds += 5
    pace.told(Step(3, None, Fraction(1), Budget.zcdp(1), note="weighing rows"))
    assert pace.left is None
    for share in (0.25, 0.1, 0.75):
        clock.seconds += 10
        pace.heard(share, "weighing rows")
    assert str(pace) == "round 3, ρ = 1 of 1 spent: weighing rows, about 10 s left"


def test_a_fit_that_weighs_rows_reports_how_far_its_last_step_is() -> None:
    spent: list[float] = []
    heard: list[float] = []
    rng = np.random.default_rng(0)
    likely = rng.integers(0, 3, 500)

    def told(step: Step) -> None:
        spent.append(step.share)
        heard.clear()

    with work.heard_by(lambda share, _: heard.append(share)):
        fit(
            {name: np.where(rng.random(500) < 0.7, likely, rng.integers(0, 3, 500)) for name in "abcde"},
            Schema.coded(dict.fromkeys("abcde", 3)),
            epsilon=1,
            delta=1e-6,
            mechanism="weighing",
            progress=told,
        )
    assert spent[-1] == 1
    shares = [share for share in heard if share >= 0.2]
    assert len(shares) >= 3
    assert shares == sorted(shares)


def test_work_that_another_clock_measures_reports_that_it_goes_on() -> None:
    heard: list[tuple[float, str]] = []
    shares = iter((0.2, 0.3, 0.4))
    with work.heard_by(lambda share, note: heard.append((share, note))), work.stage(0.5, 1.0, "second half"):
        with work.measured_by(lambda: next(shares), "rehearsing"):
            for _ in work.tracked(range(2), "fitting"):
                pass
            work.reached(0.99, "nearly done")
        work.reached(1.0, "done")
    assert heard == [
        (0.5, "second half"),
        (pytest.approx(0.6), "rehearsing"),
        (pytest.approx(0.65), "rehearsing"),
        (pytest.approx(0.7), "rehearsing"),
        (1.0, "done"),
    ]


def test_loops_inside_loops_refine_the_share() -> None:
    heard: list[tuple[float, str]] = []
    with work.heard_by(lambda share, note: heard.append((share, note))):
        for _ in work.tracked(range(2), "outer"):
            for _ in work.tracked("ab", "inner"):
                pass
        with work.stage(0.5, 1.0, "stage"):
            work.reached(0.5, "half of it")
    assert heard == [
        *((0.0, "outer"), (0.0, "inner"), (0.25, "inner"), (0.5, "outer"), (0.5, "inner"), (0.75, "inner")),
        *((0.5, "stage"), (0.75, "half of it")),
    ]
    # Nobody listens any more, and a loop that was left in the middle leaves nothing behind.
    assert list(work.tracked([1, 2], "nothing")) == [1, 2]
    with work.heard_by(lambda share, note: heard.append((share, note))):
        list(itertools.islice(work.tracked(range(4), "left"), 2))
        work.reached(1.0, "all")
    assert heard[-1] == (1.0, "all")


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Let lines be due at once, and wait until one was said."""
    monkeypatch.setattr(progress, "FIRST", 0.0)
    monkeypatch.setattr(progress, "EVERY", 0.01)
    said = threading.Event()
    say = output.say

    def heard(text: str) -> None:
        say(text)
        said.set()

    monkeypatch.setattr(progress, "say", heard)
    return lambda: said.clear() or (said.wait(10), None)[1]  # type: ignore[func-returns-value]


def test_a_pipe_is_told_while_the_work_goes_on(hurried: Callable[[], None], capsys: pytest.CaptureFixture[str]) -> None:
    with working("reading the table"):
        hurried()
        for _ in work.tracked(range(4), "comparing"):
            hurried()
    said = capsys.readouterr().err
    assert "reading the table" in said
    assert "comparing, about " in said
    with working("reading the table", is_wanted=False), paced("reading", is_wanted=False):
        pass
    assert capsys.readouterr().err == ""


def test_rows_are_counted_with_the_time_left(hurried: Callable[[], None], capsys: pytest.CaptureFixture[str]) -> None:
    batch = Table.of({"a": Cells.objects([1, 2])})
    for _ in counting(iter([batch] * 3), 8, "rows"):
        hurried()
        hurried()
    said = capsys.readouterr().err
    assert "drawing rows" in said
    assert "4 rows, about " in said


def test_a_terminal_is_shown_a_bar_with_the_words(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    shown = Terminal()
    monkeypatch.setattr(sys, "stderr", shown)
    monkeypatch.setenv("TERM", "xterm")
    with working("reading the table"):
        for _ in work.tracked(range(2), "comparing"):
            pass
    assert "comparing" in shown.getvalue()
