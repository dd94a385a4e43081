"""The laws of drafts, on every awkward file."""

from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from awkward import AwkwardFile, awkward_files
from priory.data.codec import decode, encode
from priory.data.drafting import Draft, draft_schema
from priory.data.public import misfits, read_public_file
from priory.data.schema import Schema
from priory.data.sources import frames

FILES = {each.name: each for each in awkward_files()}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("awkward")


@pytest.fixture(params=list(FILES))
def file(request: pytest.FixtureRequest, folder: Path) -> tuple[AwkwardFile, Path]:
    given = FILES[request.param]
    (folder / given.name).write_bytes(given.data)
    return given, folder / given.name


@cache
def drafted(given: AwkwardFile, path: Path) -> Draft:
    return draft_schema(path, name="awkward", reading=given.reading)


def test_there_are_enough_files_and_they_come_from_the_seed() -> None:
    assert len(FILES) >= 60
    assert [each.data for each in awkward_files() if not each.name.endswith(".zip")] == [
        each.data for each in FILES.values() if not each.name.endswith(".zip")
    ]


def test_a_draft_fits_its_own_file_and_drops_nothing_unsaid(file: tuple[AwkwardFile, Path]) -> None:
    given, path = file
    draft = drafted(given, path)
    text = draft.dump()
    schema = Schema.parse(text)
    assert schema == draft.schema
    assert [(each.column, each.shown) for each in misfits(schema, path) if each.wrong] == []
    kinds = {column.name: column.kind for column in schema.columns}
    assert {name: kinds.get(name) for name in given.kinds} == given.kinds
    for name, words in given.declared.items():
        [entry] = [part for part in text.split("\n  # Seen:") if f"\n  {name}:" in part]
        assert [word for word in words if word not in entry] == [], entry
    left_out = {name for name, kind in kinds.items() if kind in ("id", "text")}
    assert set(draft.left_out) == left_out
    head = " ".join(text.partition("priory: 1")[0].replace("\n# ", " ").split())
    assert all(f"{name} (" in head for name in left_out if name.isprintable())
    assert len(kinds) == given.columns


def test_every_cell_keeps_its_bin_or_level_on_a_round_trip(file: tuple[AwkwardFile, Path], tmp_path: Path) -> None:
    schema = drafted(*file).schema
    before = encode(schema, frames.cells_of(read_public_file(file[1], schema), schema.domain))
    table = decode(schema, before, np.random.default_rng(0))
    for name, codes in encode(schema, table.columns).items():
        np.testing.assert_array_equal(codes, before[name], name)
    # And through a text file in the words of the schema.
    table.write_csv(tmp_path / "again.csv")
    named = replace(schema, reading=replace(schema.reading, header=True))
    after = encode(named, frames.cells_of(read_public_file(tmp_path / "again.csv", named), schema.domain))
    for name, codes in after.items():
        np.testing.assert_array_equal(codes, before[name], name)
