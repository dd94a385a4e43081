"""Whatever pays, fit or discovery, has tried its outputs before, and has what it bought on the disk however it ends."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from command import priory
from houses import DOMAIN, random_rows
from priory.app.discover import Discovery, discover
from priory.app.fit import fit
from priory.data.schema import Schema
from priory.data.schema.open import OpenSchema
from priory.errors import NOTHING_SPENT, OptionError, PrioryError, ReleaseError
from priory.privacy.budget import Budget
from priory.privacy.curator import Curator
from priory.privacy.ledger import EntryState, Ledger, Terms
from priory.privacy.outputs import PartialText, partial_path

SCHEMA = Schema.coded(dict(zip(DOMAIN.attributes, DOMAIN.shape, strict=True)), name="people")
ROWS = {
    "town": ["north", "south", "west"] * 200,
    "age": [str(20 + i % 50) for i in range(600)],
    "sex": ["f", "m"] * 300,
}


def fitted(book: Ledger, output: Path) -> None:
    fit(random_rows(), SCHEMA, epsilon=1, ledger=book, output=output, mechanism="independent")


def discovered(book: Ledger, output: Path) -> None:
    discover(ROWS, epsilon=20, delta="1e-6", ledger=book, output=output)


def counted(book: Ledger, output: Path) -> None:
    discover(ROWS, epsilon=20, delta="1e-6", ledger=book, output=book.path.with_name("ok.yaml"), counts=output)  # type: ignore[union-attr]


# Everything that pays, by what it is asked to write.
PAYING: dict[str, Callable[[Ledger, Path], None]] = {"fit": fitted, "discover": discovered, "counts": counted}


@pytest.fixture
def book(tmp_path: Path) -> Ledger:
    total = Budget.of(epsilon=50, delta="1e-5", additive="1e-6")
    return Ledger.create(tmp_path / "a.ledger", Terms("people", "", total))


@pytest.fixture(params=PAYING)
def pays(request: pytest.FixtureRequest) -> Callable[[Ledger, Path], None]:
    return PAYING[request.param]


def refused(book: Ledger, run: Callable[[], object], match: str) -> None:
    """Nothing is spent, nothing is reserved, and no file is there that was not there before."""
    assert book.path is not None
    before = sorted(book.path.parent.rglob("*"))
    with pytest.raises(OptionError, match=match) as caught:
        run()
    assert caught.value.spent == NOTHING_SPENT
    assert book.entries() == ()
    assert sorted(book.path.parent.rglob("*")) == before


UNWRITABLE = ["/proc/a", "/sys/a", "/dev/full", "/proc/self/fd/a", "/dev/null/a"]


@pytest.mark.parametrize("place", [*UNWRITABLE, "none/a", "a.ledger/a", "x" * 255, "x" * 256, "a\0b", "folder", "."])
def test_an_output_that_cannot_be_written_is_found_before_anything_is_reserved(
    place: str, pays: Callable[[Ledger, Path], None], book: Ledger, tmp_path: Path
) -> None:
    (tmp_path / "folder").mkdir()
    if place.startswith("/") and not Path(place).parent.exists():
        pytest.skip("this system has no such place")
    refused(book, lambda: pays(book, tmp_path / place), "output|counts")


def test_a_disk_that_is_too_full_is_found_before_anything_is_reserved(
    pays: Callable[[Ledger, Path], None], book: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(10**9, 10**9, 1000))
    refused(book, lambda: pays(book, tmp_path / "a.out"), "1,000 are free")


def test_a_partial_file_that_is_there_is_never_written_over(
    pays: Callable[[Ledger, Path], None], book: Ledger, tmp_path: Path
) -> None:
    (tmp_path / "a.out.partial").write_text("bought before")
    refused(book, lambda: pays(book, tmp_path / "a.out"), "ended early")
    assert (tmp_path / "a.out.partial").read_text() == "bought before"


@pytest.mark.parametrize("other", ["a.yaml", "sub/../a.yaml", "a.yaml.partial", "A.YAML"])
def test_two_outputs_in_one_file_are_refused_before_anything_is_reserved(
    other: str, book: Ledger, tmp_path: Path
) -> None:
    (tmp_path / "sub").mkdir()

    def run() -> None:
        discover(ROWS, epsilon=20, ledger=book, output=tmp_path / "a.yaml", counts=tmp_path / other)

    refused(book, run, "a name of its own")


def test_a_notebook_is_tried_as_its_release_is(book: Ledger, tmp_path: Path) -> None:
    SCHEMA.save(tmp_path / "schema.yaml")
    (tmp_path / "table.csv").write_text(",".join(DOMAIN) + "\n0,0,0\n")
    given = ["fit", "table.csv", "--schema", "schema.yaml", "--ledger", "a.ledger", "--epsilon", 1, "--delta", "1e-9"]
    with contextlib.chdir(tmp_path):
        for output, notebook in (("a.priory", "/proc/a.ipynb"), ("a.ipynb", "a.ipynb"), ("a.priory", "none/a.ipynb")):
            done = priory(*given, "-o", output, "--notebook", notebook)
            assert (done.returncode, "Nothing was spent" in done.stderr) == (2, True), done.stderr
    assert book.entries() == ()


# Where a discovery can end, in order, and whether private rows were looked at and something was learnt by then.
STAGES = {
    "priory.privacy.outputs.check_place": (False, False),
    "priory.privacy.outputs.PartialText.create": (False, False),
    "priory.app.discover.job.open_raw": (False, False),
    "priory.app.discover.keeping.LearntSoFar.make_room": (False, False),
    "priory.privacy.ledger.Reservation.charge": (False, False),
    "priory.privacy.truths.Truths.of": (True, False),
    "priory.app.discover.columns.grid_of": (True, False),
    "priory.privacy.curator.Curator.values": (True, True),
    "priory.privacy.ledger.Ledger.close": (True, True),
    "priory.privacy.outputs.PartialText.finish": (True, True),
}


@pytest.mark.parametrize("kind", [KeyboardInterrupt, ReleaseError])
@pytest.mark.parametrize("stage", STAGES)
def test_a_discovery_that_ends_in_any_stage_says_what_the_ledger_charges_and_loses_nothing_learnt(
    stage: str, kind: type[BaseException], book: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked, learnt = STAGES[stage]
    outputs = tmp_path / "a.yaml", tmp_path / "a.json"

    def fail(*_: object, **__: object) -> None:
        raise kind("planted")

    with monkeypatch.context() as patch:
        patch.setattr(stage, fail)
        with pytest.raises(kind) as caught:
            discover(ROWS, epsilon=20, delta="1e-6", ledger=book, output=outputs[0], counts=outputs[1])
    spent = caught.value.spent  # type: ignore[attr-defined]
    assert bool(spent) is looked
    assert spent.amount == sum(entry.charged for entry in book.entries())
    assert not any(output.exists() for output in outputs)
    assert [partial_path(output).exists() for output in outputs] == [learnt, learnt]
    so_far = caught.value.partial  # type: ignore[attr-defined]
    assert isinstance(so_far, Discovery) is learnt
    if learnt:
        assert spent.partial == str(partial_path(outputs[0]))
        kept = partial_path(outputs[0]).read_text()
        assert kept == so_far.dump()
        assert partial_path(outputs[1]).read_text() == so_far.dump_counts()
        assert {column.name for column in OpenSchema.parse(kept).columns} == set(ROWS)


@contextlib.contextmanager
def small_disk(place: Path, size: str) -> Iterator[Path]:
    """A disk of its own."""
    place.mkdir()
    mount = ["/bin/mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(place)]
    if not Path(mount[0]).exists() or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("this process may not mount a disk")
    try:
        yield place
    finally:
        subprocess.run(["/bin/umount", str(place)], check=True)


def fill(folder: Path) -> None:
    handle = os.open(folder / "others", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    with contextlib.suppress(OSError):
        while True:
            os.write(handle, bytes(4096))
    os.close(handle)


def test_a_discovery_on_a_disk_that_fills_up_writes_all_that_it_paid_for(
    book: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = Curator.answer

    def answer(self: Curator, *given: Any, **more: Any) -> Any:
        fill(tmp_path / "disk")
        return right(self, *given, **more)

    with small_disk(tmp_path / "disk", "1m") as disk:
        monkeypatch.setattr(Curator, "answer", answer)
        learnt = discover(ROWS, epsilon=20, delta="1e-6", ledger=book, output=disk / "a.yaml", counts=disk / "a.json")
        assert (disk / "a.yaml").read_text() == learnt.dump()
        assert (disk / "a.json").read_text() == learnt.dump_counts()
        assert {path.name for path in disk.iterdir()} == {"a.yaml", "a.json", "others"}
        assert (disk / "others").stat().st_size > 0


def test_a_text_that_finds_no_room_leaves_the_one_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = PartialText.create(tmp_path / "a.partial", "first", 10, "output")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    file.save("a second one")
    assert file.path.read_text().split() == ["a", "second", "one"]
    with pytest.raises(PrioryError, match="No space left"):
        file.save("x" * 2**20)
    monkeypatch.setattr(PartialText, "_write", full)
    file.make_room(10)
    with pytest.raises(ReleaseError, match="nothing more was looked at"):
        file.make_room(2**20)
    file.leave()
    assert file.path.read_text() == "a second one"


# The command line, which waits before a look at values once so many were made.
HELD = """
import pathlib, sys, time
from priory.cli import main
from priory.privacy import curator
right, calls = curator.Curator.values, []
def values(self, *given):
    calls.append(given)
    if len(calls) > int(sys.argv[1]):
        pathlib.Path("sign").touch()
        time.sleep(60)
    return right(self, *given)
curator.Curator.values = values
main(sys.argv[2:])
"""


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
@pytest.mark.parametrize("looks", [0, 1])
def test_what_a_killed_discovery_had_learnt_is_gone_on_with(
    looks: int, how: signal.Signals, book: Ledger, tmp_path: Path
) -> None:
    lines = zip(*ROWS.values(), strict=True)
    (tmp_path / "table.csv").write_text(",".join(ROWS) + "\n" + "".join(",".join(line) + "\n" for line in lines))
    given = ["schema", "discover", "table.csv", "--epsilon", "20", "--delta", "1e-6", "--ledger", "a.ledger"]
    command = [sys.executable, "-c", HELD, str(looks), *given, "--has-header", "-o", "a.yaml", "--counts", "a.json"]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while not (tmp_path / "sign").exists():
        assert process.poll() is None, process.stderr and process.stderr.read()
        time.sleep(0.02)
    process.send_signal(how)
    _, said = process.communicate()
    [entry] = book.entries()
    assert entry.charged > 0
    assert entry.state is (EntryState.OPEN if how is signal.SIGKILL else EntryState.INTERRUPTED)
    assert how is signal.SIGKILL or "What it had learnt is in a.yaml.partial" in said
    kept = OpenSchema.load(tmp_path / "a.yaml.partial")
    assert kept.discovered
    assert len(kept.open) < len(ROWS) if looks else {column.name for column in kept.columns} == set(ROWS)
    (tmp_path / "a.yaml.partial").rename(tmp_path / "before.yaml")
    (tmp_path / "a.json.partial").unlink()
    with contextlib.chdir(tmp_path):
        done = priory(*given, "--schema", "before.yaml", "-o", "a.yaml", "--counts", "a.json")
    assert done.returncode == 0, done.stderr
    assert Schema.load(tmp_path / "a.yaml").discovered
    assert {path.name for path in tmp_path.glob("a.*")} == {"a.ledger", "a.yaml", "a.json"}


def test_what_is_paid_for_needs_a_file(book: Ledger, tmp_path: Path) -> None:
    (tmp_path / "table.csv").write_text("a\n1\n")
    with contextlib.chdir(tmp_path):
        done = priory("schema", "discover", "table.csv", "--has-header", "--epsilon", 1, "--ledger", "a.ledger")
    assert done.returncode == 2
    assert "--output" in done.stderr
    assert book.entries() == ()
