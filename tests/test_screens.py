"""What people see on their screens, and names that promise something else than they get."""

import json
import os
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import priory as pr
from priory import town
from priory.app.registry import MECHANISMS, registered
from priory.cli import main, output
from priory.cli.notebook import write_notebook
from priory.data.cells import Cells
from priory.privacy.budget import Budget
from priory.privacy.cautions import warn_after, warn_before
from priory.privacy.ledger import Ledger, describe

SCHEMA = """
priory: 1
name: few
columns:
  sex: {kind: category, levels: [f, m], other: f}
  age: {kind: integer, bounds: [0, 9], other: 0}
"""


def ended(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as stopped:
        main([str(each) for each in arguments])
    out, err = capsys.readouterr()
    return int(stopped.value.code or 0), out, err


@pytest.fixture(scope="module")
def release() -> pr.Release:
    rows = {"sex": ["f", "m"] * 100, "age": [2, 3, 5, 7] * 50}
    return pr.fit(rows, pr.Schema.parse(SCHEMA), epsilon=5, mechanism="independent")


@pytest.mark.parametrize(
    ("arguments", "meant"),
    [
        (["fit", "--eps", "1"], "--epsilon; see priory fit --help"),
        (["fit", "--outptu", "x"], "--output; see priory fit --help"),
        (["sample", "--n", "5"], "-n; see priory sample --help"),
        (["ledger", "show", "--evnts"], "--events; see priory ledger show --help"),
        (["report", "--privat"], "--not-private; see priory report --help"),
    ],
)
def test_an_unknown_option_names_the_close_one_of_its_verb(
    arguments: list[str], meant: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, err = ended(capsys, *arguments)
    assert code == 2
    assert f"did you mean {meant}" in err


def test_an_option_of_another_verb_is_not_suggested(capsys: pytest.CaptureFixture[str]) -> None:
    _, _, err = ended(capsys, "quality", "--epsilon", "1", "x")
    assert err == "priory: No such option: --epsilon; see priory quality --help\n"


@pytest.mark.parametrize("verb", [["fit"], ["query"], ["ledger", "show"], []])
def test_help_shows_flags_as_flags(verb: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = ended(capsys, *verb, "--help")
    assert code == 0
    assert "--help" in out
    assert "<bool>" not in out


@pytest.mark.parametrize("name", ["rows.csv", "rows.parquet", "page.html", "page.pdf"])
def test_a_release_is_not_written_under_the_name_of_something_else(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, err = ended(capsys, "fit", "x.csv", "--schema", "x.yaml", "--epsilon", "1", "-o", tmp_path / name)
    assert code == 2
    assert f"call it {name.split('.', maxsplit=1)[0]}.priory" in err
    assert "Nothing was spent" in err


def test_a_report_is_not_written_as_pdf(
    release: pr.Release, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    release.save(tmp_path / "r.priory")
    code, _, err = ended(capsys, "report", tmp_path / "r.priory", "-o", tmp_path / "r.pdf")
    assert code == 2
    assert "r.html, and print it from a browser as PDF" in err
    assert not (tmp_path / "r.pdf").exists()


@pytest.mark.parametrize("name", MECHANISMS)
def test_a_mechanism_is_known_in_any_case(name: str) -> None:
    assert (
        registered(name.upper()) is registered(name.title()) is registered(name.replace("-", "_")) is MECHANISMS[name]
    )


def test_the_repr_of_a_table_is_a_table() -> None:
    table = pr.Table.of({"a": Cells(np.arange(3))})
    assert repr(table) == str(table)
    assert repr(table).splitlines()[0] == "a"


def test_a_ledger_says_what_is_left_as_epsilon_and_one_run_can_spend_it() -> None:
    book = Ledger.in_memory(Budget.approximate(3, "1e-9"))
    with book.reserve(Budget.approximate(1, "1e-9"), "test"):
        pass
    left = describe(book)["left_epsilon"]
    assert 2 < float(left) <= 3
    assert Budget.approximate(left, "1e-9").amount <= book.left()
    assert "left_epsilon" not in describe(Ledger.in_memory(Budget.zcdp(1)))


def test_a_large_epsilon_and_a_large_delta_are_said() -> None:
    # Warnings are errors in tests: what is not expected would fail.
    warn_before(Budget.approximate(20, "1e-9"))
    warn_before(Budget.zcdp(100))
    for budget in (Budget.approximate(21, "1e-9"), Budget.pure(21)):
        with pytest.warns(UserWarning, match="ε = 21"):
            warn_before(budget)
    warn_after(Budget.approximate(1, "1e-3"), 1000)
    warn_after(Budget.pure(1), 1e9)
    with pytest.warns(UserWarning, match="1 in 1,001"):
        warn_after(Budget.approximate(1, "1e-3"), 1001)


def test_fitting_with_a_large_budget_warns_before_and_after() -> None:
    rows = {"sex": ["f", "m"] * 100, "age": [2, 3, 5, 7] * 50}
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        pr.fit(rows, pr.Schema.parse(SCHEMA), epsilon=30, delta="1/10", mechanism="Independent")
    assert ["ε =" in str(said[0].message), "δ =" in str(said[1].message)] == [True, True]


@pytest.mark.parametrize("verb", ["query", "report", "quality", "statement"])
def test_an_empty_release_file_says_so(verb: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "r.priory").touch()
    code, _, err = ended(capsys, verb, tmp_path / "r.priory")
    assert (code, err) == (9, f"priory: {tmp_path / 'r.priory'} is empty\n")


def test_empty_ledgers_tables_and_measurements_say_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    empty, written = tmp_path / "empty.csv", tmp_path / "r.priory"
    empty.touch()
    assert "is empty" in ended(capsys, "ledger", "show", empty)[2]
    assert "is empty" in ended(capsys, "estimate", empty, "-o", written, "--epsilon", "1")[2]
    assert "is empty" in ended(capsys, "fit", empty, "--schema", town.SCHEMA, "--epsilon", "1", "-o", written)[2]


def test_a_notebook_opens_asks_draws_and_samples_the_release(
    release: pr.Release, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("altair")
    (tmp_path / "notes").mkdir()
    release.save(tmp_path / "r.priory")
    write_notebook(tmp_path / "notes" / "r.ipynb", release, tmp_path / "r.priory")
    notebook = json.loads((tmp_path / "notes" / "r.ipynb").read_text(encoding="utf-8"))
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 4)
    monkeypatch.chdir(tmp_path / "notes")
    code = ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]
    names: dict[str, Any] = {}
    exec("\n".join(code), names)  # noqa: S102 - our own notebook
    assert len(names["rows"]) == 1000


def test_a_fit_writes_a_notebook_and_refuses_other_names(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "few.yaml").write_text(SCHEMA)
    (tmp_path / "few.csv").write_text("sex,age\n" + "f,3\nm,4\n" * 100)
    asked = ["fit", tmp_path / "few.csv", "--schema", tmp_path / "few.yaml", "--epsilon", "1"]
    asked += ["--mechanism", "Independent", "-o", tmp_path / "few.priory", "--notebook"]
    code, _, err = ended(capsys, *asked, tmp_path / "few.py")
    assert code == 2
    assert ".ipynb" in err
    assert not (tmp_path / "few.priory").exists()
    code, _, _ = ended(capsys, *asked, tmp_path / "few.ipynb")
    assert code == 0
    assert "few.priory" in (tmp_path / "few.ipynb").read_text(encoding="utf-8")


@pytest.mark.parametrize("columns", [40, 80, 200])
def test_a_statement_on_a_terminal_wraps_between_words(
    columns: int, release: pr.Release, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setattr("shutil.get_terminal_size", lambda: os.terminal_size((columns, 24)))
    statement = replace(release.statement, dataset="a data set with a very long name " * 3)
    output.write_statement(statement)
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= columns
    assert " ".join(" ".join(lines).split()) == " ".join(str(statement).split())
