import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from command import priory
from priory.app.fit import fit
from priory.data.schema import Schema
from priory.release import Release

SCHEMA = Schema.coded({"age": 3, "sex": 2}, name="people")


@pytest.fixture
def house(tmp_path: Path) -> Path:
    SCHEMA.save(tmp_path / "schema.yaml")
    pairs = [f"{a},{s},{100 * (1 + a + s)},2" for a in range(3) for s in range(2)]
    (tmp_path / "m.csv").write_text("age,sex,value,stddev\n" + "\n".join(pairs) + "\n")
    return tmp_path


def test_noisy_counts_made_elsewhere_become_a_release(house: Path) -> None:
    common = ("estimate", house / "m.csv", "--schema", house / "schema.yaml", "--epsilon", 1)
    made = priory(*common, "-o", house / "a.priory", "--marginal", "age")
    assert made.returncode == 0, made.stderr
    header, *rows = [line.split(",") for line in made.stdout.splitlines()]
    assert header == ["age", "estimate"]
    np.testing.assert_allclose([float(row[1]) for row in rows], [300, 500, 700], rtol=0.05)
    release = Release.load(house / "a.priory")
    assert [m.query.clique for m in release.measurements] == [("age", "sex")]
    assert "measured elsewhere" in str(release.statement)
    found = json.loads(priory(*common, "-o", house / "b.priory", "--marginal", "sex,age", "--json").stdout)
    assert found["total"] == pytest.approx(1500, rel=0.01)
    assert np.shape(found["marginals"][0]["values"]) == (2, 3)


def test_what_cannot_be_estimated_is_one_line_and_its_exit_code(house: Path) -> None:
    common = ("--schema", house / "schema.yaml", "-o", house / "a.priory")
    assert priory("estimate", house / "m.csv", *common).returncode == 2
    assert priory("estimate", house / "m.csv", *common, "--epsilon", 1, "--marginal", "height").returncode == 5
    assert priory("estimate", house / "no.csv", *common, "--epsilon", 1).returncode == 4
    assert priory("estimate", house / "m.csv", *common, "--epsilon", 1, "--stop", "late").returncode == 2
    assert not (house / "a.priory").exists()


def test_several_files_need_no_schema_and_lead_to_answers_and_rows(house: Path) -> None:
    (house / "tall.csv").write_text("\ufefftall,value,stddev\nyes,600,5\nno,900,5\n", encoding="utf-8")
    made = priory("estimate", house / "m.csv", house / "tall.csv", "--epsilon", 1, "-o", house / "a.priory")
    assert made.returncode == 0, made.stderr
    release = Release.load(house / "a.priory")
    assert release.domain.attributes == ("age", "sex", "tall")
    np.testing.assert_allclose(release.model.project("tall").values, [600, 900], rtol=0.05)
    assert len(release.sample(20, seed=0)) == 20
    asked = priory("query", house / "a.priory", "sex", "tall")
    assert asked.stdout.splitlines()[0].startswith("sex,tall,estimate,low,high")


def test_a_public_total_is_kept_in_the_release(house: Path) -> None:
    made = priory("estimate", house / "m.csv", "--epsilon", 1, "--total", 1400, "-o", house / "a.priory")
    assert made.returncode == 0, made.stderr
    release = Release.load(house / "a.priory")
    assert release.model.total == 1400
    assert replace(release, estimate=None).model.total == 1400


def test_files_without_attributes_or_values_are_refused(house: Path) -> None:
    (house / "none.csv").write_text("value,stddev\n10,1\n")
    (house / "empty.csv").write_text("age,sex,value,stddev\n1,,10,1\n")
    for name, told in (("none.csv", "any attribute"), ("empty.csv", "sex")):
        made = priory("estimate", house / name, "--epsilon", 1, "-o", house / "a.priory")
        assert made.returncode == 4
        assert told in made.stderr
    assert not (house / "a.priory").exists()


def test_the_partial_file_of_a_fit_is_known_by_its_contents_and_given_alone(
    house: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    rows = {"age": [0, 1, 2] * 20, "sex": [0, 1] * 30}
    with monkeypatch.context() as patch:
        patch.setattr(Release, "save", stop)
        with pytest.raises(KeyboardInterrupt):
            fit(rows, SCHEMA, epsilon=1, mechanism="independent", output=house / "a.priory")
    (house / "a.priory.partial").rename(house / "measured.csv")
    for more in (("--epsilon", 1), ("--schema", house / "schema.yaml"), (house / "m.csv",)):
        refused = priory("estimate", house / "measured.csv", *more, "-o", house / "b.priory")
        assert refused.returncode == 2
        assert "given alone" in refused.stderr
    made = priory("estimate", house / "measured.csv", "-o", house / "b.priory", "--marginal", "age", "--json")
    assert made.returncode == 0, made.stderr
    told = json.loads(made.stdout)
    assert told["measurements"] == 2
    assert np.shape(told["marginals"][0]["values"]) == (3,)
    assert Release.load(house / "b.priory").statement.mechanism == "independent, ended early"
    assert priory("estimate", house / "measured.csv", "-o", house / "c.priory", "--alone").returncode == 0
    assert "noisy answers alone" in Release.load(house / "c.priory").statement.mechanism
    refused = priory("estimate", house / "m.csv", "-o", house / "d.priory", "--epsilon", 1, "--alone")
    assert (refused.returncode, "partial file" in refused.stderr) == (2, True)
