import contextlib
import csv
import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from priory import town
from priory.app.fit import fit
from priory.cli import main
from priory.data.schema import Schema
from priory.data.table import Table
from priory.privacy.randomness import Replay
from priory.release import Release

pty = pytest.importorskip("pty", reason="this system has no terminals of that kind")
SCHEMA = Schema.parse(
    """
priory: 1
name: people
columns:
  hours-per-week: {kind: integer, bounds: [0, 99], bins: {edges: [0, 20, 40, 99]}, nullable: true}
  "Größe, in cm": {kind: real, bounds: [0, 250], bins: 5, nullable: true}
  sex: {kind: category, levels: [F, M], other: M}
"""
)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    data = {"hours-per-week": [3, 30, 50] * 30, "Größe, in cm": [120.0, 180.5, None] * 30, "sex": ["F", "M", "F"] * 30}
    path = tmp_path_factory.mktemp("house") / "a.priory"
    fit(data, SCHEMA, rho=1, mechanism="independent", randomness=Replay(seed=0)).save(path)
    return path


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[str, str]:
    with pytest.raises(SystemExit) as ended:
        main([str(argument) for argument in arguments])
    out, err = capsys.readouterr()
    assert not ended.value.code, err
    return out, err


def rows_of(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


@pytest.mark.parametrize(
    ("options", "ask"),
    [
        (["sex"], lambda r: r.marginal("sex")),
        ([], lambda r: r.count()),
        (["--where", "hours-per-week >= 20"], lambda r: r.count("hours-per-week >= 20")),
        (["sex", "--mean", "hours-per-week"], lambda r: r.mean("hours-per-week", by="sex")),
        (["--sum", "Größe, in cm"], lambda r: r.sum("Größe, in cm")),
        (["--median", "hours-per-week"], lambda r: r.median("hours-per-week")),
        (["sex", "--quantile", "Größe, in cm", "--at", "0.9"], lambda r: r.quantile("Größe, in cm", 0.9, by="sex")),
        (
            ["sex", "--quantile", "hours-per-week", "--at", "0.1", "--at", "0.9"],
            lambda r: r.quantile("hours-per-week", [0.1, 0.9], by="sex"),
        ),
        (["sex", "--share", "hours-per-week"], lambda r: r.share("hours-per-week", given="sex")),
        (["--cdf", "hours-per-week"], lambda r: r.cdf("hours-per-week")),
        (["sex", "--level", "0.5"], lambda r: r.marginal("sex", level=0.5)),
    ],
)
def test_a_pipe_gets_the_answers_of_python_as_csv_and_json(
    file: Path, capsys: pytest.CaptureFixture[str], options: list[str], ask: Any
) -> None:
    wanted: Table = ask(Release.load(file))
    found = rows_of(run(capsys, "query", file, *options)[0])
    again = rows_of(run(capsys, "query", file, *options)[0])
    # Sums in another order may differ in their last digits, but not from one time to the next.
    assert again == found
    assert _numbers(found, "estimate") == pytest.approx(_plain(wanted, "estimate"), nan_ok=True)
    told = json.loads(run(capsys, "query", file, *options, "--json")[0])
    assert told["of"] == len(wanted)
    assert told["notes"] == list(wanted.notes)
    named = [name for name in wanted.names if name not in ("estimate", "low", "high")]
    assert [[row[name] for name in named] for row in told["rows"]] == [
        list(row) for row in zip(*(wanted.to_dict()[name] for name in named), strict=True)
    ]
    lows = [float("nan" if row["low"] is None else row["low"]) for row in told["rows"]]
    assert lows == pytest.approx(_plain(wanted, "low"), nan_ok=True)


def _numbers(rows: list[dict[str, str]], name: str) -> list[float]:
    return [float(row[name] or "nan") for row in rows]


def _plain(table: Table, name: str) -> list[float]:
    return [float("nan" if each is None else each) for each in table.to_dict()[name]]


def test_answers_without_intervals_have_no_ends(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, _ = run(capsys, "query", file, "sex", "--no-intervals")
    wanted = Release.load(file).marginal("sex").to_dict()
    assert list(rows_of(out)[0]) == ["sex", "estimate", "source"]
    assert _numbers(rows_of(out), "estimate") == pytest.approx(wanted["estimate"])


def test_a_terminal_gets_a_table_and_notes_go_to_stderr(file: Path) -> None:
    master, slave = pty.openpty()
    command = [sys.executable, "-m", "priory", "query", str(file), "sex", "--where", "hours-per-week > 30"]
    done = subprocess.run(command, stdout=slave, stderr=subprocess.PIPE, text=True, check=True)
    os.close(slave)
    shown = os.read(master, 10_000).decode()
    assert "────" in shown
    assert "estimate" in shown
    assert "[20, 40) of 'hours-per-week' is one bin" in done.stderr


def test_a_long_answer_is_cut_where_one_asks(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, err = run(capsys, "query", file, "sex", "hours-per-week", "--limit", 3)
    assert len(rows_of(out)) == 3
    assert "5 more rows" in err


def test_rows_go_to_stdout_to_csv_to_parquet_and_as_lines_of_json(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ("sample", file, "-n", 20, "--seed", 5, "--where", "sex = 'F'")
    out, _ = run(capsys, *options)
    assert {row["sex"] for row in rows_of(out)} == {"F"}
    lines = run(capsys, *options, "--json")[0].splitlines()
    assert [json.loads(line)["hours-per-week"] for line in lines] == [
        int(row["hours-per-week"]) if row["hours-per-week"] else None for row in rows_of(out)
    ]
    run(capsys, *options, "-o", tmp_path / "a.csv")
    assert (tmp_path / "a.csv").read_text(encoding="utf-8") == out
    told = json.loads(run(capsys, *options, "-o", tmp_path / "a.parquet", "--json")[0])
    assert told == {"output": str(tmp_path / "a.parquet"), "rows": 20}


def test_releases_are_combined(file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = {"hours-per-week": [3], "Größe, in cm": [120.0], "sex": ["F"]}
    fit(data, SCHEMA, rho=1, mechanism="independent").save(tmp_path / "b.priory")
    out, err = run(capsys, "combine", file, tmp_path / "b.priory", "-o", tmp_path / "c.priory")
    assert "promise: ρ = 2" in out
    assert "NOT PRIVATE" in out
    assert "6 measurements of 2 releases" in err
    told = json.loads(run(capsys, "combine", file, tmp_path / "b.priory", "-o", tmp_path / "d.priory", "--json")[0])
    assert told["statement"]["spent"] == "2"


def test_a_plan_forecasts_without_a_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    SCHEMA.save(tmp_path / "s.yaml")
    common = ("plan", "--schema", tmp_path / "s.yaml", "-n", 5_000, "--delta", "1e-6", "--mechanism", "independent")
    out, err = run(capsys, *common, "--epsilon", "0.1", "--epsilon", "5")
    assert "independent on 5,000 rows of 'people'" in out
    assert "hours-per-week × Größe, in cm" in out
    assert "--public" in err
    told = json.loads(run(capsys, *common, "--epsilon", "0.01", "--epsilon", "10", "--runs", 3, "--json")[0])
    errors = [each["columns"][0]["error"] for each in told["rehearsals"]]
    assert errors[1] < errors[0] / 2
    pairs = [tuple(each["columns"]) for each in told["rehearsals"][0]["pairs"]]
    assert sorted(pairs) == sorted(
        [("hours-per-week", "Größe, in cm"), ("hours-per-week", "sex"), ("Größe, in cm", "sex")]
    )


def test_a_plan_says_what_is_known_at_once_and_each_forecast_as_it_comes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    SCHEMA.save(tmp_path / "s.yaml")
    common = ("plan", "--schema", tmp_path / "s.yaml", "-n", 5_000, "--mechanism", "independent", "--runs", 1)
    out, err = run(capsys, *common, "--rho", "1/2")
    # One count of a table with all of ρ = 1/2 has a standard deviation of 1, three columns' counts of √3.
    assert re.search(r"ρ = 0.5 +1.0 +1.7", out)
    assert out.index("noise of a single count") < out.index("rehearsed on")
    assert re.search(r"ρ = 0.5: .* CPU s, mean error 0\.", err)
    lines = run(capsys, *common, "--rho", "1/2", "--rho", "2", "--json-lines")[0].splitlines()
    found = [json.loads(line) for line in lines]
    assert [each["is_final"] for each in found] == [False, False, True, True]
    assert {each["budget"] for each in found} == {"ρ = 0.5", "ρ = 2"}


def test_a_plan_can_be_rehearsed_on_public_rows(capsys: pytest.CaptureFixture[str]) -> None:
    options = ("--public", town.LAST_YEAR, "--epsilon", 1, "--delta", "1e-9", "--mechanism", "independent", "--json")
    told = json.loads(run(capsys, "plan", "--schema", town.SCHEMA, "-n", 3_000_000, *options)[0])
    assert told["rehearsed_on"] == "public rows, drawn anew"
    assert len(told["rehearsals"][0]["pairs"]) == 13 * 12 / 2
    # Three million rows leave nearly no noise; what is left is what independent columns cannot express.
    assert max(each["error"] for each in told["rehearsals"][0]["columns"]) < 0.01
    assert told["rehearsals"][0]["mean_error"] > 0.01


def test_completion_knows_the_verbs_and_the_mechanisms() -> None:
    environment = {**os.environ, "_PRIORY_COMPLETE": "complete_bash", "COMP_CWORD": "1", "COMP_WORDS": "priory qu"}
    done = subprocess.run(
        [sys.executable, "-m", "priory"], env=environment, capture_output=True, text=True, check=False
    )
    assert "query" in done.stdout
    words = "priory fit --mechanism mw"
    environment |= {"COMP_WORDS": words, "COMP_CWORD": "3"}
    done = subprocess.run(
        [sys.executable, "-m", "priory"], env=environment, capture_output=True, text=True, check=False
    )
    assert done.stdout.split() == ["mwem", "mwem+pgm"]


def test_a_fit_on_a_terminal_shows_its_rounds_and_a_program_sees_nothing_of_them(tmp_path: Path) -> None:
    SCHEMA.save(tmp_path / "s.yaml")
    (tmp_path / "t.csv").write_text('hours-per-week,"Größe, in cm",sex\r\n3,120,F\r\n', encoding="utf-8", newline="")
    command = [sys.executable, "-m", "priory", "fit", tmp_path / "t.csv", "--schema", tmp_path / "s.yaml", "--rho", "1"]
    command += ["--mechanism", "mwem+pgm", "-o"]
    asked = [*map(str, command), str(tmp_path / "a.priory"), "--json"]
    quiet = subprocess.run(asked, capture_output=True, text=True, check=True)
    assert "round" not in quiet.stderr
    master, slave = pty.openpty()
    with subprocess.Popen(
        [*map(str, command), str(tmp_path / "b.priory")], stdout=subprocess.PIPE, stderr=slave
    ) as run:
        os.close(slave)
        shown = _all_of(master)
    assert run.returncode == 0
    assert "round" in shown
    assert "spent" in shown


def _all_of(terminal: int) -> str:
    """What was written to a terminal until the last who could write was gone; one read may return less."""
    pieces = []
    with contextlib.suppress(OSError):
        while piece := os.read(terminal, 4096):
            pieces.append(piece)
    os.close(terminal)
    return b"".join(pieces).decode()
