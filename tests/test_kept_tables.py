"""Kept tables: questions that were asked before are answered from a file, as the release itself answers them."""

import contextlib
import csv
import io
import itertools
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from priory.answer import cache
from priory.answer.basis import Basis
from priory.answer.kept_tables import KeptTables, NotKept
from priory.answer.questions import Question
from priory.app.fit import fit
from priory.cli import main
from priory.cli.asking import OPTIONS, Asked, asked_plainly, kept_answer
from priory.cli.frame import VERBS, app_of, command
from priory.data.schema import Schema
from priory.privacy.randomness import Replay
from priory.release import Release
from priory.release.keeping import keep

SCHEMA = Schema.parse(
    """
priory: 1
name: people
columns:
  id: {kind: id}
  hours: {kind: integer, bounds: [0, 99], bins: {edges: [0, 20, 40, 60, 99]}, nullable: true}
  "Größe, \\"in cm\\"": {kind: real, bounds: [0, 250], bins: 5, nullable: true}
  born: {kind: date, bounds: [1920-01-01, 2000-01-01], bins: 8, nullable: true}
  sex: {kind: category, levels: [F, M], other: M}
  town: {kind: category, levels: [a, b, c, d], other: d}
constraints:
  - forbid: {sex: [F], town: [a]}
"""
)
QUESTIONS = [
    Question(),
    Question(by=("sex",)),
    Question(by=("town", "sex")),
    Question(by=("hours",), where='"Größe, ""in cm""" >= 130 and sex = F', level=0.5),
    Question("mean", "hours", by=("town",)),
    Question("mean", "born", where="town = b or sex = M"),
    Question("sum", "hours", where="hours > 30"),
    Question("median", "born", by=("sex",)),
    Question("quantile", "hours", at=(0.1, 0.9), where="town <> c"),
    Question("share", "town", by=("sex",), level=None),
    Question("cdf", "hours", by=("town",)),
]


def made(path: Path, mechanism: str = "mst") -> Path:
    rng = np.random.default_rng(0)
    town = rng.integers(0, 4, 3000)
    data = {
        "id": np.arange(3000),
        "hours": [None if h < 5 else int(h) for h in np.clip(rng.normal(20 + 10 * town, 15), 0, 99)],
        'Größe, "in cm"': rng.uniform(100, 200, 3000),
        "born": [f"{1930 + y}-03-04" for y in rng.integers(0, 60, 3000)],
        "sex": ["M" if t == 0 else "FM"[b] for t, b in zip(town, rng.integers(0, 2, 3000), strict=True)],
        "town": ["abcd"[t] for t in town],
    }
    fit(data, SCHEMA, rho=1, mechanism=mechanism, randomness=Replay(seed=0)).save(path)
    return path


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made(tmp_path_factory.mktemp("kept") / "a.priory")


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PRIORY_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "answers"


def asked(file: Path, question: Question) -> Asked:
    return Asked(file, question, None, as_csv=False, as_json=False)


def ended(*arguments: object) -> tuple[str, str, object]:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), pytest.raises(SystemExit) as end:
        main([str(argument) for argument in arguments])
    # A slow machine is told every few seconds what is being done.
    said = [line for line in err.getvalue().splitlines() if not re.match(r"\d+ s: ", line)]
    return out.getvalue(), "\n".join(said), end.value.code


def close(one: dict[str, list[Any]], other: dict[str, list[Any]]) -> None:
    assert list(one) == list(other)
    for name, values in one.items():
        if all(isinstance(value, float) for value in values):
            assert values == pytest.approx(other[name], rel=1e-6, abs=1e-6)
        else:
            assert values == other[name]


@pytest.mark.parametrize("question", QUESTIONS)
def test_what_was_kept_answers_as_the_release_does(file: Path, question: Question) -> None:
    release = Release.load(file)
    keep(release, file, question.cliques(release.columns))
    found, wanted = kept_answer(asked(file, question)), release.ask(question)
    assert found is not None
    assert found.notes == wanted.notes
    assert any("NOT PRIVATE" in note for note in found.notes)
    close(found.to_dict(), wanted.to_dict())


def test_every_column_and_measured_clique_is_answered_by_what_the_first_question_kept(file: Path) -> None:
    release = Release.load(file)
    keep(release, file)
    for clique in [(), *((name,) for name in release.domain), *(m.query.clique for m in release.evidence)]:
        assert kept_answer(asked(file, Question(by=clique))) is not None


@pytest.mark.parametrize("mechanism", ["aim", "mst", "independent"])
def test_whatever_is_not_kept_is_carried_through_the_tree_as_the_release_answers_it(
    mechanism: str, tmp_path: Path, place: Path
) -> None:
    file = made(tmp_path / "b.priory", mechanism)
    release = Release.load(file)
    keep(release, file)
    [path] = place.iterdir()
    tables, carried = KeptTables.read(path).facts["tables"], 0
    for clique in [c for k in (2, 3, 4, 5) for c in itertools.combinations(release.domain, k)]:
        carried += json.dumps(clique) not in tables
        found = kept_answer(asked(file, Question(by=clique)))
        assert found is not None
        close(found.to_dict(), release.marginal(*clique).to_dict())
    assert carried >= 10


def test_a_tree_that_is_too_large_is_not_kept_but_pairs_are(
    file: Path, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("priory.release.keeping.MOST_TREE_BYTES", 1)
    monkeypatch.setattr("priory.release.keeping._SECONDS", float("inf"))
    keep(Release.load(file), file)
    [path] = place.iterdir()
    known = KeptTables.read(path)
    assert "tree" not in known.facts
    for pair in itertools.combinations(known.domain, 2):
        assert known.table(pair).clique == pair
    with pytest.raises(NotKept):
        known.table(known.domain.attributes[:4])


def test_others_are_kept_when_they_are_asked(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("priory.release.keeping.MOST_TREE_BYTES", 1)
    release, three = Release.load(file), Question(by=("hours", "sex", "town"))
    keep(release, file)
    assert kept_answer(asked(file, three)) is None
    keep(release, file, three.cliques(release.columns))
    assert kept_answer(asked(file, three)) is not None
    assert kept_answer(asked(file, Question("mean", "hours", by=("town",), where="sex = M"))) is not None
    assert kept_answer(asked(file, QUESTIONS[1])) is not None


def test_the_command_line_gives_the_same_answer_again_without_reading_the_release(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = ("query", file, "town", "--mean", "hours", "--where", "sex = M")
    first = ended(*arguments)
    assert len(list(csv.DictReader(io.StringIO(first[0])))) == 4
    assert not first[2]

    def never(*_: object) -> Release:
        raise AssertionError("it was asked before")

    monkeypatch.setattr(Release, "load", never)
    assert ended(*arguments) == first
    told = json.loads(ended(*arguments, "--json")[0])
    assert told["of"] == 4
    assert len(ended(*arguments, "--limit", 1)[0].splitlines()) == 2


def test_a_question_that_was_asked_before_imports_no_more_than_it_needs(file: Path, place: Path) -> None:
    ended("query", file, "sex")
    code = "import sys; from priory.cli import main\ntry:\n    main()\nexcept SystemExit:\n    print(*sys.modules)"
    environment = {**os.environ, "PRIORY_CACHE": str(place.parent)}
    done = subprocess.run(
        [sys.executable, "-c", code, "query", file, "sex"], env=environment, capture_output=True, text=True, check=True
    )
    loaded = set(done.stdout.splitlines()[-1].split())
    heavy = {"typer", "pydantic", "rich", "yaml", "scipy", "duckdb", "narwhals", "numpy.random", "difflib", "zipfile"}
    assert not loaded & heavy
    assert not [name for name in loaded if name.startswith(("priory.estimate", "priory.model", "priory.release"))]


def damages(data: bytes) -> list[bytes]:
    half = len(data) // 2
    flipped = bytearray(data)
    flipped[-9] ^= 1
    return [b"", data[:30], data[:half], data[:-8], bytes(flipped), b"x" + data, b"\0" * len(data)]


@pytest.mark.parametrize("number", range(7))
def test_a_damaged_file_is_as_good_as_none(file: Path, place: Path, number: int) -> None:
    first = ended("query", file, "sex", "town")
    [kept] = place.iterdir()
    kept.write_bytes(damages(kept.read_bytes())[number])
    assert ended("query", file, "sex", "town")[0] == first[0]


def test_no_byte_of_it_can_be_changed_to_give_another_answer(file: Path, place: Path) -> None:
    keep(Release.load(file), file)
    [path] = place.iterdir()
    whole, question = path.read_bytes(), asked(file, Question(by=("town",)))
    wanted = kept_answer(question)
    assert wanted is not None

    @settings(max_examples=60)
    @given(st.integers(0, len(whole) - 1) | st.integers(0, 4000), st.integers(1, 255))
    def check(at: int, change: int) -> None:
        path.write_bytes(whole[:at] + bytes([whole[at] ^ change]) + whole[at + 1 :])
        found = kept_answer(question)
        assert found is None or found.to_dict() == wanted.to_dict()

    check()


def test_a_header_that_fits_its_checksum_but_not_the_release_is_as_good_as_none(file: Path, place: Path) -> None:
    from priory.answer.kept_tables import KeptFile

    release = Release.load(file)
    keep(release, file)
    [path] = place.iterdir()
    known = KeptTables.read(path)
    wrong: list[dict[str, Any]] = [{}, {"domain": []}, {"domain": [["sex", 9]]}, {"schema": {"list": []}}]
    for each in wrong:
        facts = {**known.facts, **each} if each else each
        path.write_bytes(KeptFile(facts, [known.arrays()]).data())
        assert kept_answer(asked(file, Question(by=("sex",)))) is None


def test_nothing_is_kept_where_nothing_can_be(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("no folder")
    monkeypatch.setenv("PRIORY_CACHE", str(tmp_path / "cache"))
    first = ended("query", file, "sex")[0]
    for where in ("", str(blocked)):
        monkeypatch.setenv("PRIORY_CACHE", where)
        assert ended("query", file, "sex")[0] == first
    with pytest.raises(NotKept):
        KeptTables.read(tmp_path / "nothing")


def test_a_changed_release_shares_nothing(file: Path, tmp_path: Path) -> None:
    keep(Release.load(file), file)
    other = tmp_path / "b.priory"
    other.write_bytes(file.read_bytes() + b"\0")
    assert cache.answers_file(other) != cache.answers_file(file)
    assert kept_answer(asked(other, Question())) is None


def test_large_tables_are_not_kept_and_old_files_go(file: Path, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    release = Release.load(file)
    monkeypatch.setattr("priory.release.keeping.MOST_CELLS", 4)
    keep(release, file)
    [path] = place.iterdir()
    kept = KeptTables.read(path)
    assert kept_answer(asked(file, Question(by=("town",)))) is not None
    with pytest.raises(NotKept):
        Basis(kept.schema(lambda _: True), kept).ground.drawn([], 0.9) or kept.table(("hours",))
    # What was asked for may be larger.
    keep(release, file, [("hours",)])
    assert KeptTables.read(path).table(("hours",)).clique == ("hours",)
    for number in range(4):
        (place / f"{number}.kept").write_bytes(b"")
        os.utime(place / f"{number}.kept", (number, number))
    cache.remove_oldest(place, 2)
    assert sorted(place.iterdir()) == sorted([path, place / "3.kept"])


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        [],
        ["a", "--wher", "x"],
        ["a", "--limit", "-1"],
        ["a", "--limit", "x"],
        ["a", "--mean"],
        ["a", "--mean", "--json"],
        ["a", "--csv=1"],
        ["a", "--no-csv"],
        ["a", "--mean", "x", "--sum", "y"],
        ["a", "--at", "0.5"],
        ["a", "--", "b"],
        ["a", "-h"],
        ["a", "--where", "x", "--where", "y"],
    ],
)
def test_what_is_not_plainly_a_question_is_left_to_the_whole_command_line(arguments: list[str]) -> None:
    assert asked_plainly(arguments) is None


def test_mistakes_are_said_the_same_whether_something_was_kept_or_not(file: Path) -> None:
    mistakes = [["hour"], ["--mean", "sex"], ["--where", "town = e"], ["--level", "2"], ["sex", "sex"]]
    before = [ended("query", file, *each) for each in mistakes]
    ended("query", file)
    assert [ended("query", file, *each) for each in mistakes] == before
    assert all(code == 2 for _, _, code in before)


def test_both_ways_to_an_answer_know_the_same_options() -> None:
    assert "query" in VERBS
    verb = command(app_of(["query"])).commands["query"]
    known = {name for option in verb.params for name in (*option.opts, *option.secondary_opts) if name.startswith("-")}
    switches = {f"--no-{option.name}" for option in OPTIONS if option.kind == "switch"}
    assert known - {"-h", "--help"} == {f"--{option.name}" for option in OPTIONS} | switches


def test_a_question_that_the_release_must_answer_waits_for_nothing_that_reads_options(file: Path, place: Path) -> None:
    code = "import sys; from priory.cli import main\ntry:\n    main()\nexcept SystemExit:\n    print(*sys.modules)"
    environment = {**os.environ, "PRIORY_CACHE": str(place.parent)}
    done = subprocess.run(
        [sys.executable, "-c", code, "query", file, "sex"], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[0] == "sex,estimate,low,high,source"
    assert not set(done.stdout.splitlines()[-1].split()) & {"pydantic", "scipy", "duckdb", "narwhals"}


def test_the_tree_takes_no_room_from_measured_tables(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("priory.release.keeping.MOST_BYTES", 3_000)
    release = Release.load(file)
    for _ in range(2):
        keep(release, file)
    path = cache.answers_file(file)
    assert path is not None
    known = KeptTables.read(path)
    assert known.facts["tree"]["bytes"] > 8 * sum(release.domain.shape)
    for each in release.evidence:
        assert known.table(each.query.clique).source == "measured"
