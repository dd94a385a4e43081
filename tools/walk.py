"""Walk: the rooms of the code that one `priory fit` visits, in the order in which it first needs them.

A *room* is a top-level package or module of priory (`data`, `privacy`, `measure`, …). The walk is the list of all
functions under `src/priory` that `priory fit` on the embedded town calls, each once, in the order of their first
calls. Bodies of modules and classes, comprehensions and generator expressions do not count: they belong to the function
they stand in. Three things are read from it:

- *Switches*: how often two neighbours in the list are in different rooms. A reader who follows the fit for the first
  time, function by function, changes room that often.
- *The order of rooms*: the rooms by their first function.
- *Rooms entered early*. The story of a fit has five steps, in `STEPS`; a step begins when one of its rooms is first
  entered. A room is entered early if the function that entered it first was called from a room in a higher layer (the
  layers in `pyproject.toml`) while an earlier step, which the walk reaches later, had not begun. Rooms outside the
  story have no turn: those that drive it (`cli`, `mechanisms`, …) and the vocabulary all of it shares (`errors`,
  `queries`).

The noise differs between runs, so the counts can differ by a few.
"""

import argparse
import contextlib
import inspect
import sys
import tempfile
import threading
import tomllib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from types import CodeType, FrameType

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "priory"
PAGE = ROOT / "docs" / "architecture.md"
# Between these lines of the page `make walk` prints the walk of a fit by default.
MARKS = ("<!-- walk -->\n", "<!-- end of the walk -->\n")
STEPS = (("data",), ("privacy",), ("select", "measure"), ("estimate", "model"), ("answer", "release"))


@dataclass(frozen=True)
class Visit:
    """The first call of a function.

    Attributes:
        room: the room the function is in.
        file: its file, below the package.
        function: its qualified name.
        caller: the room of the nearest caller in another room; None if there is none.
    """

    room: str
    file: str
    function: str
    caller: str | None


@dataclass(frozen=True)
class Early:
    """A room that was entered before its turn.

    Attributes:
        visit: the visit that entered it.
        missing: the rooms of earlier steps that had not begun, in the story's order.
    """

    visit: Visit
    missing: tuple[str, ...]


def switches(rooms: Sequence[str]) -> int:
    """How often two neighbours differ."""
    return sum(first != second for first, second in pairwise(rooms))


def entrances(visits: Iterable[Visit]) -> list[Visit]:
    """The visit that first enters each room, in order."""
    first: dict[str, Visit] = {}
    for visit in visits:
        first.setdefault(visit.room, visit)
    return list(first.values())


def early(visits: Iterable[Visit], layers: Sequence[Sequence[str]]) -> list[Early]:
    """The rooms that were entered before their turn; `layers` are the rooms from the highest layer down."""
    level = {room: height for height, layer in enumerate(layers) for room in layer}
    entered = entrances(visits)
    order = {visit.room: turn for turn, visit in enumerate(entered)}
    begun = [min((order[room] for room in step if room in order), default=None) for step in STEPS]
    found = []
    for visit in entered:
        step = next((number for number, rooms in enumerate(STEPS) if visit.room in rooms), None)
        from_above = visit.caller is not None and level[visit.caller] < level[visit.room]
        if step is None or not from_above:
            continue
        later = [number for number in range(step) if (turn := begun[number]) is not None and turn > order[visit.room]]
        if later:
            found.append(Early(visit, tuple(room for number in later for room in STEPS[number] if room in order)))
    return found


def layers_of(pyproject: Path) -> list[tuple[str, ...]]:
    """The layers of the importlinter contract, from the highest down."""
    contracts = tomllib.loads(pyproject.read_text(encoding="utf-8"))["tool"]["importlinter"]["contracts"]
    [contract] = [contract for contract in contracts if contract["type"] == "layers"]
    return [tuple(room.strip(" ()") for room in layer.split("|")) for layer in contract["layers"]]


def visited(job: Callable[[], object]) -> list[Visit]:
    """The functions of priory that `job` calls, on any thread, in the order of their first calls."""
    seen: set[CodeType] = set()
    visits: list[Visit] = []

    def profile(frame: FrameType, event: str, _: object) -> None:
        if event != "call" or frame.f_code in seen:
            return
        seen.add(frame.f_code)
        if is_function(frame.f_code):
            room = room_of(frame.f_code)
            if room is not None:
                file = Path(frame.f_code.co_filename).relative_to(PACKAGE).as_posix()
                visits.append(Visit(room, file, frame.f_code.co_qualname, caller_of(frame, room)))

    threading.setprofile(profile)
    sys.setprofile(profile)
    try:
        job()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return visits


def is_function(code: CodeType) -> bool:
    """Whether the code is a function's or a lambda's, and not the body of something else."""
    is_body = not code.co_flags & inspect.CO_OPTIMIZED
    return not is_body and (code.co_name == "<lambda>" or not code.co_name.startswith("<"))


def room_of(code: CodeType) -> str | None:
    """The room of a piece of code; None for code that is not priory's."""
    path = Path(code.co_filename)
    if not path.is_relative_to(PACKAGE):
        return None
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def caller_of(frame: FrameType, room: str) -> str | None:
    """The room of the nearest caller in another room."""
    for back in callers(frame):
        other = room_of(back.f_code)
        if other not in {None, room}:
            return other
    return None


def callers(frame: FrameType) -> Iterator[FrameType]:
    """The frames above a frame, nearest first."""
    back = frame.f_back
    while back is not None:
        yield back
        back = back.f_back


def fit_of_the_town(mechanism: str | None) -> list[Visit]:
    """The walk of `priory fit` on the embedded town, into a folder that is thrown away."""
    # The verb is imported before anybody looks: what modules do when they are imported is no part of the walk.
    import priory.cli.fit  # noqa: F401
    from priory import town
    from priory.cli import main

    options = [] if mechanism is None else ["--mechanism", mechanism]
    with tempfile.TemporaryDirectory() as folder:
        output = ["--output", str(Path(folder) / "people.priory")]
        promise = ["--schema", str(town.SCHEMA), "--epsilon", "1", "--delta", "1e-9"]

        def job() -> None:
            try:
                # What the fit prints is not the tool's output.
                with contextlib.redirect_stdout(sys.stderr):
                    # With --json nobody is told of progress, which comes from another thread at any time.
                    main(["fit", str(town.THIS_YEAR), *promise, *options, *output, "--json"])
            except SystemExit as ended:
                if ended.code:
                    raise

        return visited(job)


def described(visits: Sequence[Visit], layers: Sequence[Sequence[str]]) -> str:
    """The walk in words."""
    lines = ["Rooms in the order of their first function:"]
    for visit in entrances(visits):
        inside = [other for other in visits if other.room == visit.room]
        files = len({other.file for other in inside})
        via = "" if visit.caller is None else f" from {visit.caller}"
        lines.append(f"  {visit.room:<12}{len(inside):>4} functions in {files:>2} files; first {visit.function}{via}")
    rooms = [visit.room for visit in visits]
    files = len({visit.file for visit in visits})
    lines.append(
        f"{files} files, {len(visits)} functions, {switches(rooms)} changes of room in the order of first visits"
    )
    too_early = early(visits, layers)
    lines.append(f"{len(too_early)} rooms entered from above before their turn")
    lines += [
        f"  {case.visit.room}: by {case.visit.caller}, for {case.visit.file} {case.visit.function}, "
        f"before {', '.join(case.missing)}"
        for case in too_early
    ]
    return "\n".join(lines)


def drawn(visits: Sequence[Visit]) -> str:
    """The walk as the architecture page has it: each room, the function that first enters it, and who calls that."""
    lines = [
        f"{visit.room:<11} {visit.file}: {visit.function}" + (f"  (from {visit.caller})" if visit.caller else "")
        for visit in entrances(visits)
    ]
    return "\n".join(["```text", *lines, "```", ""])


def with_walk(page: str, walk: str) -> str:
    """The page with this walk in the place of the one it has."""
    before, rest = page.split(MARKS[0])
    _, after = rest.split(MARKS[1])
    return "".join([before, MARKS[0], walk, MARKS[1], after])


def path_of(visits: Iterable[Visit]) -> str:
    """Every function on a line, with a mark where the room changes."""
    room, lines = None, []
    for visit in visits:
        mark, room = "  " if visit.room == room else "> ", visit.room
        lines.append(f"{mark}{visit.file} {visit.function}")
    return "\n".join(lines)


def main() -> None:
    """Print the walk of one fit."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--mechanism", help="another mechanism than the default")
    parser.add_argument("--functions", action="store_true", help="print every function, marking changes of room")
    parser.add_argument("--write", action="store_true", help="put the walk into docs/architecture.md")
    options = parser.parse_args()
    visits = fit_of_the_town(options.mechanism)
    if options.write:
        PAGE.write_text(with_walk(PAGE.read_text(encoding="utf-8"), drawn(visits)), encoding="utf-8")
    if options.functions:
        print(path_of(visits))
    print(described(visits, layers_of(ROOT / "pyproject.toml")))


if __name__ == "__main__":
    main()
