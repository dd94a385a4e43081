"""Escapes: nothing from a file that others wrote reaches a terminal as an order."""

import contextlib
import csv
import io
import json
import os
import threading
from pathlib import Path
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

import command
from priory.app.fit import fit
from priory.data.kinds import Category
from priory.data.schema import Schema
from priory.data.table import text_table
from priory.data.visible import visible
from priory.privacy.randomness import Replay

pty = pytest.importorskip("pty", reason="this system has no terminals of that kind")

TITLE, BIDI, LINK, LINE, C1 = (
    "a\x1b]0;owned\x07",
    "user\u202etxt.exe",
    "[link=file:///x][bold]b",
    "x\npromise: ε = 0",
    "\x9bm",
)
COLUMN, LEVEL = f"{TITLE}{BIDI}", f"{LINK}{C1}{BIDI}"
SCHEMA = Schema.of(
    [Category.of(COLUMN, [LEVEL, "plain"], other="plain"), Category.of(LINE, ["0", "1"], other="0")],
    name=f"{TITLE}{LINE}{LINK}",
)
# What a terminal obeys: ESC and the other control characters but the end of a line, and marks of direction.
OBEYED = {chr(code) for code in (*range(32), *range(0x7F, 0xA0), *range(0x202A, 0x202F), *range(0x2066, 0x206A))} - {
    "\n"
}


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("escapes")
    SCHEMA.save(folder / "s.yaml")
    table = {COLUMN: [LEVEL, "plain"] * 20, LINE: ["0", "1"] * 20}
    release = fit(table, SCHEMA, rho=1, mechanism="independent", randomness=Replay(seed=0))
    release.save(folder / "a.priory")
    with (folder / "t.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([table, *zip(*table.values(), strict=True)])
    priory(folder, "ledger", "init", "a.ledger", "--schema", "s.yaml", "--rho", "5")
    priory(folder, "fit", "t.csv", "--schema", "s.yaml", "--rho", "1", "--ledger", "a.ledger", "-o", "b.priory")
    return folder


def priory(folder: Path, *arguments: str, code: int = 0) -> tuple[str, str]:
    """What a program gets from stdout and stderr."""
    with contextlib.chdir(folder):
        done = command.priory(*arguments)
    assert done.returncode == code, done.stderr
    return done.stdout, done.stderr


def seen(folder: Path, *arguments: str) -> str:
    """What a terminal gets from both."""
    master, slave = pty.openpty()
    found: list[bytes] = []

    def read() -> None:
        try:
            while piece := os.read(master, 10_000):
                found.append(piece)
        except OSError:
            # The other end is closed.
            return

    reader = threading.Thread(target=read)
    reader.start()
    environment = {"TERM": "dumb", "COLUMNS": "200", "NO_COLOR": "1"}
    with (
        contextlib.chdir(folder),
        patch.dict(os.environ, environment),
        os.fdopen(slave, "w", encoding="utf-8") as terminal,
    ):
        command.code_of(arguments, terminal, terminal)
    reader.join()
    os.close(master)
    # The terminal itself ends lines with a carriage return.
    return b"".join(found).decode().replace("\r\n", "\n")


PEOPLE = [
    ("schema", "check", "s.yaml"),
    ("ledger", "show", "a.ledger", "--events"),
    ("query", "a.priory", COLUMN),
    ("query", "a.priory", COLUMN, "--csv"),
    ("query", "a.priory", COLUMN, "--json"),
    ("query", "a.priory", "nobody"),
    ("query", "a.priory", "--where", f"{COLUMN} = 1"),
    ("sample", "a.priory", "-n", "5"),
    ("sample", "a.priory", "-n", "5", "--json"),
    ("combine", "a.priory", "b.priory", "-o", "none/c.priory"),
    ("fit", "t.csv", "--schema", "s.yaml", "--rho", "1", "--unit", COLUMN, "-o", "d.priory"),
    ("fit", f"{TITLE}.csv", "--schema", "s.yaml", "--rho", "1", "-o", "d.priory"),
    ("plan", "--schema", "s.yaml", "--rows", "1000", "--rho", "1", "--mechanism", "independent"),
]


@pytest.mark.parametrize(
    "arguments", PEOPLE, ids=lambda arguments: " ".join(arguments[:2]).encode("unicode_escape").decode()
)
def test_a_terminal_is_given_nothing_that_it_obeys(house: Path, arguments: tuple[str, ...]) -> None:
    shown = seen(house, *arguments)
    assert shown.strip()
    assert not OBEYED & set(shown), arguments


def test_a_name_cannot_add_a_line_to_a_statement(house: Path) -> None:
    shown, _ = priory(house, "ledger", "show", "a.ledger")
    assert "[link=file:///x][bold]b" in shown
    assert "x\\npromise: ε = 0" in shown
    assert not any(line.startswith("promise") for line in shown.splitlines())
    assert not any(line.startswith("promise: ε = 0") for line in str(fit_statement()).splitlines())
    assert not any(line.startswith("promise") for line in str(SCHEMA).splitlines())


def fit_statement() -> object:
    table = {COLUMN: ["plain"], LINE: ["0"]}
    return fit(table, SCHEMA, rho=1, mechanism="independent", randomness=Replay(seed=0)).statement


def test_markup_in_a_name_is_shown_as_it_is_spelled(house: Path) -> None:
    assert LINK in seen(house, "query", "a.priory", COLUMN)
    assert LINK in seen(house, "schema", "check", "s.yaml")


def test_an_error_is_one_line_without_orders(house: Path) -> None:
    _, told = priory(house, "query", "a.priory", "nobody", code=2)
    assert told.count("\n") == 1
    assert "\\x1b]0;owned\\x07" in told
    assert not OBEYED & set(told)


def test_data_for_programs_stay_as_they_are(house: Path) -> None:
    out, _ = priory(house, "query", "a.priory", COLUMN, "--csv")
    rows = list(csv.DictReader(io.StringIO(out, newline="")))
    assert {row[COLUMN] for row in rows} == {LEVEL, "plain"}
    told, _ = priory(house, "query", "a.priory", COLUMN, "--json")
    assert {row[COLUMN] for row in json.loads(told)["rows"]} == {LEVEL, "plain"}
    assert not OBEYED & set(told)
    lines, _ = priory(house, "sample", "a.priory", "-n", "20", "--json")
    assert LEVEL in {json.loads(line)[COLUMN] for line in lines.splitlines()}


@given(st.text())
def test_what_is_visible_is_printable_and_tells_texts_apart(text: str) -> None:
    shown = visible(text)
    assert shown.isprintable()
    assert shown == text or not text.isprintable()
    assert visible(text, keeps_lines=True).replace("\n", "").isprintable()
    assert visible(text, keeps_lines=True).count("\n") == text.count("\n")


def test_a_table_for_people_has_a_line_for_each_row() -> None:
    assert len(text_table([LINE], [["a\nb\x1b[2J"], ["c"]]).splitlines()) == 4
