"""The laws of drafts, on every awkward file."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from awkward import AwkwardFile, awkward_files, csv_bytes, made
from priory.cli import main
from priory.data.codec import decode, encode
from priory.data.drafting import Draft, draft_schema
from priory.data.public import misfits, read_public_file
from priory.data.schema import Schema
from priory.data.sources import frames

FILES = {each.name: each for each in awkward_files()}


def test_there_are_enough_files_and_they_come_from_the_seed() -> None:
    assert len(FILES) >= 60
    assert [each.data for each in awkward_files() if not each.name.endswith(".zip")] == [
        each.data for each in FILES.values() if not each.name.endswith(".zip")
    ]


@pytest.mark.parametrize("name", FILES)
def test_a_draft_fits_its_file_drops_nothing_unsaid_and_every_cell_comes_back(name: str, tmp_path: Path) -> None:
    given, path = FILES[name], tmp_path / name
    path.write_bytes(given.data)
    draft = draft_schema(path, name="awkward", reading=given.reading)
    assert Schema.parse(draft.dump()) == draft.schema
    assert [(each.column, each.shown) for each in misfits(draft.schema, path) if each.wrong] == []
    check_what_is_said(given, draft)
    check_round_trip(draft.schema, path, tmp_path / "again.csv")


def check_what_is_said(given: AwkwardFile, draft: Draft) -> None:
    text, kinds = draft.dump(), {column.name: column.kind for column in draft.schema.columns}
    assert len(kinds) == given.columns
    assert {name: kinds.get(name) for name in given.kinds} == given.kinds
    for name, words in given.declared.items():
        [entry] = [part for part in text.split("\n  # Seen:") if f"\n  {name}:" in part]
        assert [word for word in words if word not in entry] == [], entry
    left_out = {name for name, kind in kinds.items() if kind in ("id", "text")}
    assert set(draft.left_out) == left_out
    head = " ".join(text.partition("priory: 1")[0].replace("\n# ", " ").split())
    assert all(f"{name} (" in head for name in left_out)


def check_round_trip(schema: Schema, path: Path, again: Path) -> None:
    before = encode(schema, frames.cells_of(read_public_file(path, schema), schema.domain))
    table = decode(schema, before, np.random.default_rng(0))
    # In memory, and through a text file in the words of the schema, which always names its columns.
    table.write_csv(again)
    named = replace(schema, reading=replace(schema.reading, header=True))
    for cells in (table.columns, frames.cells_of(read_public_file(again, named), schema.domain)):
        for name, codes in encode(schema, cells).items():
            np.testing.assert_array_equal(codes, before[name], name)


def test_the_command_line_names_what_it_leaves_out_and_its_draft_passes_its_check(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, schema = tmp_path / "people.csv", tmp_path / "people.yaml"
    columns = made(np.random.default_rng(0), ["remarks", "numbering", "empty", "yes", "zeros"])
    path.write_bytes(csv_bytes(columns, ";"))
    for arguments in (["init", str(path), "-o", str(schema)], ["check", str(schema), "--public", str(path)]):
        with pytest.raises(SystemExit) as ended:
            main(["schema", *arguments])
        assert ended.value.code == 0
    said = capsys.readouterr().err
    for line in ("remarks: free text", "numbering: id-like", "empty: empty"):
        assert f"{line} – left out" in said
    assert "zeros: zero-heavy" in said
    assert "2 of 5 columns are modelled" in said
