"""Releases that version 0.1 wrote open, and answer as that version answered."""

import json
from pathlib import Path

import numpy as np
import pytest

from priory.release import Release

GOLDEN = Path(__file__).parent / "golden"
# The number of rows and all marginals of one and two attributes, computed by version 0.1 from the same files.
ANSWERS = json.loads((GOLDEN / "answers.json").read_text())


@pytest.mark.parametrize("name", sorted(ANSWERS))
def test_a_release_of_an_earlier_version_answers_as_it_did(name: str) -> None:
    release = Release.load(GOLDEN / name)
    assert release.estimate is not None
    assert release.model.total == pytest.approx(ANSWERS[name]["total"], rel=1e-9)
    for clique, values in ANSWERS[name]["marginals"]:
        found = release.model.project(tuple(clique)).values.ravel()
        np.testing.assert_allclose(found, values, rtol=1e-9, atol=1e-6)


@pytest.mark.parametrize("name", sorted(ANSWERS))
def test_a_release_is_written_again_as_it_was_read(name: str, tmp_path: Path) -> None:
    release = Release.load(GOLDEN / name)
    release.save(tmp_path / "again.priory")
    assert Release.load(tmp_path / "again.priory").files() == release.files()
