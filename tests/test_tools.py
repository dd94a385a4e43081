"""The scripts for the repository: the walk of a fit, the constraints, and the check of a release."""

import os
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import check_release
import make_session
import walk
import write_constraints
from walk import Visit

LAYERS = [("cli",), ("mechanisms",), ("release",), ("estimate",), ("measure",), ("privacy", "model"), ("data",)]
PATHS = {"PYTHONPATH": os.pathsep.join(str(walk.ROOT / folder) for folder in ("src", "tools"))}
# The walk with the same noise each time: which functions a fit needs depends a little on it.
SEEDED = """
import os, random
os.urandom = random._urandom = random.Random(0).randbytes
import sys, walk
sys.argv[1:] = {options!r}
walk.main()
"""
IN_ORDER = ("data", "privacy", "measure", "estimate", "release")


def visits_of(*rooms: str, caller: str | None = "cli") -> list[Visit]:
    return [Visit(room, f"{room}/a.py", f"f{number}", caller) for number, room in enumerate(rooms)]


@given(st.lists(st.sampled_from(["a", "b", "c"]), max_size=12))
def test_changes_of_room_are_one_less_than_runs_of_one_room(rooms: list[str]) -> None:
    runs = [room for place, room in enumerate(rooms) if place == 0 or rooms[place - 1] != room]
    assert walk.switches(rooms) == max(len(runs) - 1, 0)


@given(st.permutations(IN_ORDER))
def test_only_the_order_of_the_story_has_no_room_entered_early(order: list[str]) -> None:
    assert bool(walk.early(visits_of(*order), LAYERS)) == (tuple(order) != IN_ORDER)


def test_an_early_room_names_the_rooms_of_the_steps_it_came_before() -> None:
    [case] = walk.early(visits_of("mechanisms", "data", "release", "privacy", "measure", "data"), LAYERS)
    assert (case.visit.room, case.missing) == ("release", ("privacy", "measure"))


def test_a_room_that_no_higher_one_entered_is_not_early() -> None:
    assert not walk.early(visits_of("release", "data", caller=None), LAYERS)
    assert not walk.early([Visit("release", "release/a.py", "f", "data"), *visits_of("data")], LAYERS)


def test_the_layers_of_the_project_hold_every_room_of_the_story() -> None:
    layers = walk.layers_of(walk.ROOT / "pyproject.toml")
    assert {room for step in walk.STEPS for room in step} <= {room for layer in layers for room in layer}


def test_the_walk_of_a_fit_begins_at_the_command_line_and_reads_before_it_measures() -> None:
    visits = walk.fit_of_the_town("independent")
    rooms = [visit.room for visit in walk.entrances(visits)]
    assert (visits[0].room, visits[0].caller) == ("cli", None)
    assert rooms.index("data") < rooms.index("privacy") < rooms.index("measure")
    assert "changes of room" in walk.described(visits, walk.layers_of(walk.ROOT / "pyproject.toml"))


def test_the_walk_of_a_fit_is_the_one_on_the_architecture_page() -> None:
    # In a process of its own: what other tests have worked out is kept, and would not be visited.
    command = [sys.executable, "-c", SEEDED.format(options=[])]
    printed = subprocess.run(command, capture_output=True, text=True, check=True, env=os.environ | PATHS).stdout
    _, on_page, _ = re.split("|".join(walk.MARKS), walk.PAGE.read_text(encoding="utf-8"))
    stated, entered = (
        [room for room in re.findall(pattern, text, re.MULTILINE) if any(room in step for step in walk.STEPS)]
        for pattern, text in ((r"^(\w+) +\S+: ", on_page), (r"^  (\w+) +\d+ functions", printed))
    )
    assert stated == entered


def test_a_page_is_given_another_walk_and_keeps_the_rest() -> None:
    page = "".join(["before\n", walk.MARKS[0], "old\n", walk.MARKS[1], "after\n"])
    assert walk.with_walk(page, "new\n") == page.replace("old", "new")


def test_constraints_name_versions_and_no_folder_or_address() -> None:
    frozen = ["numpy==2.4.6", "-e /some/folder", "altair @ file:///altair.whl", "# a comment", "Jinja2==3.1.6", ""]
    assert write_constraints.pinned(frozen) == ["Jinja2==3.1.6", "numpy==2.4.6"]
    lines = write_constraints.CONSTRAINTS.read_text(encoding="utf-8").splitlines()
    assert [line for line in lines if not line.startswith("#")] == write_constraints.pinned(lines)


def test_a_wheel_that_lacks_data_or_holds_junk_is_refused(tmp_path: Path) -> None:
    wheel = tmp_path / "priory-1-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for name in check_release.needed_in_wheel():
            archive.writestr(name, "")
    assert check_release.wheel_problems(wheel) == []
    with zipfile.ZipFile(wheel, "w") as archive:
        for name in check_release.needed_in_wheel():
            if name != "priory/py.typed":
                archive.writestr(name, "")
        archive.writestr("priory/__pycache__/a.pyc", "")
        archive.writestr("tests/a.py", "")
    problems = " ".join(check_release.wheel_problems(wheel))
    assert "lacks priory/py.typed" in problems
    assert "holds priory/__pycache__/a.pyc" in problems
    assert "holds tests/" in problems


def test_an_sdist_holds_old_ledgers_for_its_tests_and_no_others(tmp_path: Path) -> None:
    sdist = tmp_path / "priory-1.tar.gz"
    assert any(name.endswith(".ledger") for name in check_release.needed_in_sdist())
    for more in ([], ["people.ledger"]):
        with tarfile.open(sdist, "w:gz") as archive:
            for name in [*check_release.needed_in_sdist(), *more]:
                archive.addfile(tarfile.TarInfo(f"priory-1/{name}"))
        assert check_release.sdist_problems(sdist) == [f"priory-1.tar.gz holds {name}" for name in more]


@pytest.mark.parametrize(
    ("citation", "changelog", "count"),
    [
        ("version: 1.2.0\n", "## [1.2.0]\n", 0),
        ("version: 1.2.0\n", "## [Unreleased]\n", 0),
        ("version: 1.1.0\n", "## [1.2.0]\n", 1),
        ("version: 1x2.0\n", "## [1.1.0]\n", 2),
    ],
)
def test_a_version_is_the_same_everywhere(citation: str, changelog: str, count: int) -> None:
    assert len(check_release.version_problems("1.2.0", citation=citation, changelog=changelog)) == count


def test_the_page_of_a_first_session_shows_its_commands_in_order() -> None:
    page = make_session.PAGE.read_text(encoding="utf-8")
    places = [page.index(f"$ {command}") for step in make_session.STEPS for command in step.commands]
    assert places == sorted(places)
    assert page.startswith(make_session.INTRODUCTION)
    assert all(f"## {step.title}" in page for step in make_session.STEPS)


def test_the_table_of_a_first_session_is_the_same_each_time(tmp_path: Path) -> None:
    for name in ("one.csv", "other.csv"):
        make_session.write_table(tmp_path / name)
    one, other = ((tmp_path / name).read_text(encoding="utf-8") for name in ("one.csv", "other.csv"))
    assert one == other
    assert one.count("\n") > make_session.PATIENTS
