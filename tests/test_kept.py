"""Kept: what is found of a release's errors is found once, and nothing breaks where it cannot be kept."""

from pathlib import Path

import numpy as np
import pytest

from priory.answer.errors import Errors
from priory.app.fit import fit
from priory.data.schema import Schema
from priory.privacy.randomness import Replay
from priory.release import Release, kept

SCHEMA = Schema.coded({"a": 5, "b": 4, "c": 3})


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PRIORY_CACHE", str(tmp_path / "cache"))
    rng = np.random.default_rng(0)
    data = {name: rng.integers(0, size, 2000) for name, size in zip(SCHEMA.domain, SCHEMA.domain.shape, strict=True)}
    fit(data, SCHEMA, rho=1, mechanism="mst", randomness=Replay(seed=0)).save(tmp_path / "a.priory")
    return tmp_path / "a.priory"


def kept_files(file: Path) -> list[Path]:
    return sorted((file.parent / "cache" / "errors").glob("*"))


def test_the_second_process_reads_what_the_first_one_found(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = Release.load(file).marginal("a", "b").to_dict()
    assert len(kept_files(file)) == 1

    def never(*_: object) -> Errors:
        raise AssertionError("it was found before")

    monkeypatch.setattr("priory.answer.redraws.errors_of", never)
    assert Release.load(file).marginal("a", "b").to_dict() == first


@pytest.mark.parametrize("damage", [b"", b"{}", b"[1", b'{"temperature": "x"}', b"\xff\xfe"])
def test_what_is_kept_but_damaged_is_found_anew(file: Path, damage: bytes) -> None:
    first = Release.load(file).marginal("a").to_dict()
    [found] = kept_files(file)
    found.write_bytes(damage)
    assert Release.load(file).marginal("a").to_dict() == first
    assert kept_files(file)[0].read_bytes() != damage


def test_nothing_is_kept_where_nothing_can_be(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = Release.load(file).marginal("a").to_dict()
    blocked = file.parent / "file"
    blocked.write_text("no folder")
    for place in ("", str(blocked), str(blocked / "below")):
        monkeypatch.setenv("PRIORY_CACHE", place)
        assert Release.load(file).marginal("a").to_dict() == first
    assert blocked.read_text() == "no folder"


def test_releases_of_other_measurements_or_models_share_nothing(file: Path) -> None:
    release = Release.load(file)
    sections = release.files()
    digest = kept.digest_of(sections)
    assert digest == release.digest
    assert release.with_model(release.model).digest == ""
    for section in ("domain", "measurements", "model"):
        for name, data in sections[section].items():
            changed = {**sections, section: {**sections[section], name: data + b" "}}
            assert kept.digest_of(changed) != digest


def test_a_release_that_was_never_a_file_keeps_nothing(file: Path) -> None:
    assert not kept_files(file)
    release = Release.load(file)
    release.with_model(release.model).marginal("a")
    assert not kept_files(file)


def test_the_oldest_go_when_there_are_too_many(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "_MOST_FILES", 3)
    redraws = Release.load(file).redrawing().redraws
    assert redraws is not None
    errors = redraws.errors
    for number in range(5):
        kept.write(f"{number}", errors)
    assert len(kept_files(file)) == 3
    assert kept.read("4") is not None
