"""Tables that are odd but good: from a file by way of the command line to answers and rows."""

import csv
import io
import json
from pathlib import Path

import pytest

from priory.app.fit import fit
from priory.cli import main
from priory.data.schema import Schema
from priory.privacy.randomness import Replay

ONE = "priory: 1\nname: one\ncolumns: {x: {kind: category, levels: [a], other: a}}\n"
NULLS = """priory: 1
name: nulls
columns:
  x: {kind: integer, bounds: [0, 3], nullable: true}
  y: {kind: boolean, nullable: true}
"""
NAMES = """priory: 1
name: "Ämter, Straßen & 数"
columns:
  "größe, in cm": {kind: real, bounds: [0, 250], bins: 5, nullable: true}
  marital-status: {kind: category, levels: [Never-married, "it's", 'say "no"', "a,b", " x", "😀"], other: "😀"}
  "名 前": {kind: boolean, other: false}
"""
TABLES = {
    "one row": (ONE, "x\na\n"),
    "no row": (ONE, "x\n"),
    "one value a thousand times": (ONE, "x\n" + "a\n" * 1000),
    "nothing but nulls": (NULLS, "x,y\n" + ",\n" * 50),
    "some nulls": (NULLS, "x,y\n" + "1,true\n,\n3,\n" * 50),
    "windows": (NULLS, "\ufeffx,y\r\n" + "1,true\r\n2,false\r\n" * 50),
    "semicolons": (NULLS, "x;y\n" + "1;true\n" * 9),
    "odd names": (NAMES, '"größe, in cm",marital-status,"名 前"\n' + '180.5,it\'s,true\n,"a,b",false\n' * 40),
}


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    with pytest.raises(SystemExit) as ended:
        main([str(argument) for argument in arguments])
    out, err = capsys.readouterr()
    assert not ended.value.code, err
    return out


@pytest.mark.parametrize("name", list(TABLES))
@pytest.mark.parametrize("mechanism", ["independent", "mwem+pgm"])
def test_an_odd_table_goes_all_the_way(
    name: str, mechanism: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text, table = TABLES[name]
    Path("s.yaml").write_text(text, encoding="utf-8")
    Path("t.csv").write_text(table, encoding="utf-8", newline="")
    run(capsys, "fit", "t.csv", "--schema", "s.yaml", "--epsilon", 1, "--mechanism", mechanism, "-o", "a.priory")
    columns = [column.name for column in Schema.load("s.yaml").modelled]
    told = json.loads(run(capsys, "query", "a.priory", *columns, "--json"))
    assert told["of"] == len(told["rows"]) > 0
    assert all(row["estimate"] >= 0 for row in told["rows"])
    rows = list(csv.DictReader(io.StringIO(run(capsys, "sample", "a.priory", "-n", 30, "--seed", 1))))
    assert len(rows) == 30
    assert list(rows[0]) == columns
    # What was drawn can be read back by the same schema.
    run(capsys, "sample", "a.priory", "-n", 30, "--seed", 1, "-o", "rows.csv")
    run(capsys, "schema", "check", "s.yaml", "--public", "rows.csv")
    run(capsys, "sample", "a.priory", "-n", 5, "-o", "rows.parquet")


@pytest.mark.parametrize(
    "where",
    [
        "marital-status = 'it''s'",
        "marital-status in (Never-married, 'a,b', '😀', ' x')",
        '"größe, in cm" >= 100 and "名 前"',
        "marital-status = 'say \"no\"'",
        "`名 前` = false",
    ],
)
def test_odd_names_and_levels_can_be_asked_for(where: str) -> None:
    schema = Schema.parse(NAMES)
    data = {"größe, in cm": [180.0, None] * 20, "marital-status": ["it's", "a,b"] * 20, "名 前": [True, False] * 20}
    release = fit(data, schema, rho=1, randomness=Replay(seed=0))
    assert release.count(where, draws=2).to_dict()["estimate"][0] >= 0
    assert len(release.sample(4, where=where, seed=0)) == 4


def test_very_many_levels_are_answered_and_cut_where_people_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    schema = Schema.coded({"id": 5_000, "b": 2}, name="many")
    release = fit({"id": [5, 4_000], "b": [0, 1]}, schema, rho=1, randomness=Replay(seed=0))
    release.save(tmp_path / "a.priory")
    told = json.loads(run(capsys, "query", tmp_path / "a.priory", "id", "--limit", 3, "--json"))
    assert (len(told["rows"]), told["of"]) == (3, 5_000)
    assert len(release.share("id", draws=2)) == 5_000
    assert len(str(release.marginal("id", draws=2)).splitlines()) < 20


def test_measurements_from_elsewhere_answer_and_obey(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = (
        "priory: 1\nname: t\ncolumns: {a: {kind: boolean, other: false}, b: {kind: boolean, other: false}}\n"
        "constraints: [{forbid: {a: true, b: true}}]\n"
    )
    (tmp_path / "s.yaml").write_text(text)
    (tmp_path / "m.csv").write_text("a,value,stddev\nfalse,70,2\ntrue,30,2\n")
    common = ("estimate", tmp_path / "m.csv", "--schema", tmp_path / "s.yaml", "--epsilon", 1)
    for stop in ("fission", "converged"):
        run(capsys, *common, "--stop", stop, "-o", tmp_path / f"{stop}.priory")
        [_, true] = json.loads(run(capsys, "query", tmp_path / f"{stop}.priory", "a", "--json"))["rows"]
        assert 20 < true["low"] < true["estimate"] < true["high"] < 40
        impossible = json.loads(run(capsys, "query", tmp_path / f"{stop}.priory", "--where", "a and b", "--json"))
        assert impossible["rows"][0]["estimate"] == 0
