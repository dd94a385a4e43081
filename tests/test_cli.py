import json
import subprocess
import sys
from pathlib import Path

import pytest

from priory import town
from priory.app.fit import fit
from priory.cli import main
from priory.data.schema import Schema
from priory.errors import MissingExtra, PrioryError
from priory.release import Release


def run(*arguments: object, capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        main([str(argument) for argument in arguments])
    out, err = capsys.readouterr()
    return int(ended.value.code or 0), out, err


def test_the_demo_answers_with_intervals_and_leaves_rows_and_a_report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("altair", reason="the extra [report] is not installed")
    code, out, err = run("demo", "--output", tmp_path / "new" / "demo", capsys=capsys)
    assert code == 0
    assert "promise: ε = 1, δ = 1e-09" in out
    [line] = [line.split() for line in out.splitlines() if line.startswith("Sankt Jürgen") and "measured" in line]
    estimate, low, high = (float(text) for text in line[2:5])
    # 5,379 of 25,418 live there; noise of a standard deviation of about 30 is never off by 1,000.
    assert low <= estimate <= high
    assert abs(estimate - 5_379) < 1_000
    folder = tmp_path / "new" / "demo"
    assert len((folder / "klosterwiek-synthetic.csv").read_text(encoding="utf-8").splitlines()) == 10_001
    assert "What is promised" in (folder / "klosterwiek.html").read_text(encoding="utf-8")
    assert "priory query" in err
    assert run("query", folder / "klosterwiek.priory", "sex", capsys=capsys)[0] == 0


def test_the_demo_as_json_is_json_and_works_without_the_libraries_that_draw(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(*_: object) -> None:
        raise MissingExtra("altair", "priory[report]")

    def quick(data: Path, schema: Schema, **_: object) -> Release:
        return fit(data, schema, epsilon=1, delta="1e-9", mechanism="independent")

    monkeypatch.setattr("priory.cli.demo.fit", quick)
    monkeypatch.setattr(Release, "report", missing)
    code, out, err = run("demo", "--json", "--output", tmp_path, capsys=capsys)
    assert code == 0
    assert "priory[report]" in err
    found = json.loads(out)
    assert found["files"]["report"] is None
    districts = found["answers"]["How many live in each district?"]
    # Noise of a standard deviation of about 30 on each of 9 counts of 25,418 persons: 2,000 is beyond all chance.
    assert abs(sum(districts["estimate"]) - 25_418) < 2_000


def test_a_good_schema_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run("schema", "check", town.SCHEMA, "--public", town.LAST_YEAR, capsys=capsys)
    assert code == 0
    assert "health visits" in out
    code, out, _ = run("schema", "check", town.SCHEMA, "--json", capsys=capsys)
    assert json.loads(out)["attributes"]["district"] == 9


def test_a_drafted_schema_fits_the_table_it_came_from(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    draft = tmp_path / "draft.yaml"
    assert run("schema", "init", town.LAST_YEAR, "--output", draft, capsys=capsys)[0] == 0
    assert run("schema", "check", draft, "--public", town.LAST_YEAR, capsys=capsys)[0] == 0
    code, _, err = run("schema", "init", town.LAST_YEAR, "--output", draft, capsys=capsys)
    assert code == 2
    assert "exists" in err
    code, out, _ = run("schema", "init", town.LAST_YEAR, capsys=capsys)
    assert Schema.parse(out) == Schema.load(draft)
    assert "# Left out" not in out.partition("priory: 1")[2]


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["schema", "check", "missing.yaml"], 3, "missing.yaml"),
        (["schema", "init", "missing.csv"], 4, "missing.csv"),
        (["schema", "chek"], 2, "check"),
        (["fly"], 2, "fly"),
        (["schema", "check"], 2, "path"),
    ],
)
def test_errors_are_one_line_with_their_exit_code(
    arguments: list[str], code: int, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    found, out, err = run(*arguments, capsys=capsys)
    assert (found, out, err.count("\n")) == (code, "", 1)
    assert err.startswith("priory: ")
    assert words in err.lower()
    assert json.loads(run(*arguments, "--json", capsys=capsys)[2])["message"]


def test_ctrl_c_ends_with_130_and_one_line(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("priory.data.schema.Schema.load", interrupted)
    code, _, err = run("schema", "check", town.SCHEMA, capsys=capsys)
    assert (code, err) == (130, "priory: interrupted\n")


def test_every_error_has_an_exit_code_of_its_own() -> None:
    kinds = PrioryError.__subclasses__()
    assert len({kind.exit_code for kind in kinds}) == len(kinds)
    assert not {kind.exit_code for kind in kinds} & {0, 1, 130}


def test_the_module_runs_as_a_command_and_survives_a_closed_pipe() -> None:
    version = subprocess.run([sys.executable, "-m", "priory", "--version"], capture_output=True, text=True, check=True)
    assert version.stdout.startswith("priory ")
    piped = f"{sys.executable} -m priory schema check {town.SCHEMA} 2>/dev/null | head -n 1"
    ended = subprocess.run(["bash", "-c", f"set -o pipefail; {piped}"], capture_output=True, text=True, check=False)  # noqa: S607
    assert "klosterwiek" in ended.stdout.lower()
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize(("reader", "code", "said"), [("| true", 0, ""), ("> /dev/full", 1, "No space left")])
def test_output_that_nobody_takes_ends_the_command_in_one_line_at_most(
    reader: str, code: int, said: str, tmp_path: Path
) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("there is no /dev/full here")
    release = tmp_path / "t.priory"
    schema = Schema.load(town.SCHEMA)
    fit(town.THIS_YEAR, schema, epsilon=1, delta=1e-9, mechanism="independent").save(release)
    command = f"set -o pipefail; {sys.executable} -m priory sample {release} --rows 20000 {reader}"
    ended = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)  # noqa: S607
    assert ended.returncode == code
    assert said in ended.stderr
    assert len(ended.stderr.splitlines()) == bool(said)


def test_public_texts_that_look_like_numbers_are_checked_as_texts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    schema, table = tmp_path / "s.yaml", tmp_path / "t.csv"
    schema.write_text("priory: 1\nname: zips\ncolumns:\n  zip: {kind: category, levels: ['007', '1'], other: '1'}\n")
    table.write_text("zip\n007\n1\n")
    assert run("schema", "check", schema, "--public", table, capsys=capsys)[0] == 0
    table.write_text("zip\n7\n")
    code, _, err = run("schema", "check", schema, "--public", table, capsys=capsys)
    assert code == 4
    assert "'7'" in err


@pytest.mark.parametrize("output", ["missing folder/s.yaml", "/proc/s.yaml"])
def test_a_place_that_cannot_be_written_is_named_and_nothing_is_left(
    output: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code, _, err = run("schema", "init", town.LAST_YEAR, "--output", output, capsys=capsys)
    assert code == 2
    assert output in err
    assert "cannot be written" in err
    assert list(tmp_path.iterdir()) == []


def test_without_arguments_the_help_is_shown_and_nothing_else(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys=capsys)
    assert (code, err) == (2, "")
    assert "Usage: priory" in out
