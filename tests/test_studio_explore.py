"""Exploring a release in the studio: what the page answers, the printed command line and Python answer, too."""

import csv
import io
import json
import re
import shlex
import time
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from priory.answer.where import Where
from priory.app.fit import fit
from priory.cli import main
from priory.data.schema import Schema
from priory.privacy.randomness import Replay
from priory.release import load
from priory.studio import bins, pictures
from priory.studio.question import SIGNS, VERBS, Question, Restriction
from studio_site import Browser, problems_of, site

EVIL = "<script>alert('x')</script>"
SCHEMA = Schema.parse(
    f"""
priory: 1
name: people
columns:
  hours-per-week: {{kind: integer, bounds: [0, 99], bins: {{edges: [0, 20, 40, 99]}}, nullable: true}}
  "Größe, in cm": {{kind: real, bounds: [0, 250], bins: 5, nullable: true}}
  sex: {{kind: category, levels: [F, M, "it's; \\"odd\\""], other: M}}
  "-x": {{kind: boolean, nullable: true}}
  born: {{kind: date, bounds: [1990-01-01, 1999-12-31], bins: {{every: year}}, nullable: true}}
  "{EVIL}": {{kind: ordinal, levels: ["{EVIL}", "b & c"], nullable: true}}
"""
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    data: dict[str, list[Any]] = {
        "hours-per-week": [3, 30, 50] * 200,
        "Größe, in cm": [120.0, 180.5, None] * 200,
        "sex": ["F", "M", "F"] * 200,
        "-x": [True, False, True] * 200,
        "born": ["1990-05-01", "1995-01-01", "1999-12-31"] * 200,
        EVIL: [EVIL, "b & c", EVIL] * 200,
    }
    folder = tmp_path_factory.mktemp("project")
    release = fit(data, SCHEMA, rho=1, mechanism="mst", randomness=Replay(seed=0))
    release.save(folder / "a.priory")
    return folder


@pytest.fixture(scope="module")
def browser(folder: Path) -> Iterator[Browser]:
    with site(folder) as found:
        yield found.browser()


def answered(browser: Browser, **asked: Any) -> str:
    """The page with the answer; it waits for the first one as a browser does."""
    while True:
        page = browser.get("/explore/ask", params={"release": "a.priory", **asked}).text
        if 'http-equiv="refresh"' not in page:
            return page


def printed(page: str) -> tuple[list[str], str]:
    """The command line and the Python that a page shows last."""
    command, python = re.findall(r"<pre[^>]*>(.*?)</pre>", page, re.DOTALL)[-2:]
    return shlex.split(unescape(command)), unescape(python)


QUESTIONS: list[dict[str, Any]] = [
    {"what": "count"},
    {"what": "count", "by": "sex"},
    {"what": "count", "by": ["sex", EVIL]},
    {"what": "count", "by": "-x", "level": "0.5"},
    {"what": "mean", "column": "hours-per-week", "by": "sex"},
    {"what": "mean", "column": "born", "by": "sex"},
    {"what": "sum", "column": "hours-per-week"},
    {"what": "median", "column": "born"},
    {"what": "quantile", "column": "Größe, in cm", "at": "0.1 0.9"},
    {"what": "share", "column": "-x", "by": "sex"},
    {"what": "cdf", "column": "hours-per-week"},
    {"what": "count", "by": "sex", "test-column": "hours-per-week", "test-sign": ">=", "test-value": "20"},
    {"what": "count", "test-column": "sex", "test-sign": "=", "test-value": 'it\'s; "odd"', "condition": '"-x"'},
]


def assert_alike(one: str, other: str) -> None:
    """The same cells, but for the last digits of numbers: sums in another order round differently."""
    rows = [list(csv.reader(io.StringIO(text))) for text in (one, other)]
    for mine, theirs in zip(*rows, strict=True):
        for cell, its in zip(mine, theirs, strict=True):
            try:
                assert float(cell) == pytest.approx(float(its), rel=1e-9, abs=1e-6)
            except ValueError:
                assert cell == its


@pytest.mark.parametrize("asked", QUESTIONS, ids=lambda asked: "-".join(map(str, asked.values()))[:40])
def test_the_page_answers_what_its_command_line_and_its_python_answer(
    asked: dict[str, Any],
    browser: Browser,
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    page = answered(browser, **asked)
    assert problems_of(page) == {}
    downloaded = browser.get("/explore/answers.csv", params={"release": "a.priory", **asked}).text
    command, python = printed(page)
    monkeypatch.chdir(folder)
    with pytest.raises(SystemExit):
        main([command[1], "--csv", *command[2:]])
    assert_alike(capsys.readouterr().out, downloaded)
    *lines, last = python.splitlines()
    names: dict[str, Any] = {}
    exec("\n".join([*lines, f"found = {last}"]), names)  # noqa: S102 - our own lines
    file = io.StringIO()
    file.write(names["found"].csv_header())
    file.writelines(names["found"].csv_lines())
    assert_alike(file.getvalue(), downloaded)
    assert len(list(csv.DictReader(io.StringIO(downloaded)))) >= 1


@pytest.mark.parametrize(
    ("asked", "field"),
    [
        ({"what": "mean"}, "column"),
        ({"what": "mean", "column": "sex"}, "column"),
        ({"what": "count", "by": "nothing"}, "by"),
        ({"what": "count", "condition": "sex = "}, "condition"),
        ({"what": "count", "test-column": "sex", "test-sign": "=", "test-value": "Q"}, "condition"),
        ({"what": "quantile", "column": "born", "at": "2"}, "at"),
        ({"what": "count", "level": "7"}, "level"),
        ({"what": "nothing"}, "what"),
    ],
)
def test_a_question_that_cannot_be_answered_says_so_beside_its_field(
    asked: dict[str, Any], field: str, browser: Browser
) -> None:
    assert list(problems_of(answered(browser, **asked))) == [field]


def test_every_picture_has_words_and_a_table_behind_it(browser: Browser) -> None:
    for asked in ({"by": "sex"}, {"by": ["sex", "born"]}, {"what": "mean", "column": "born", "by": "sex"}):
        page = answered(browser, **{"what": "count", **asked})
        assert re.search(r'<svg role="img" aria-label="[^"]+"', page)
        assert "The figures as a table" in page
        assert page.count("<td") > 3


PAGES = (
    "/explore",
    "/explore/ask?what=count&by=sex",
    f"/explore/ask?what=share&column={EVIL}",
    "/explore/rows",
    "/explore/more",
    "/explore/handing",
)


@pytest.mark.parametrize("path", PAGES)
def test_no_page_runs_what_stands_in_a_name(path: str, browser: Browser) -> None:
    found = browser.get(path)
    assert found.status_code == 200
    markup = found.text
    assert EVIL not in markup
    assert ("&lt;script&gt;alert" in markup) == (path not in ("/explore/more", "/explore/handing"))
    # The content policy would refuse both; nothing of ours may need them.
    assert re.findall(r"<script(?! src=\"/static/)", markup) == []
    assert re.findall(r"<[^>]+ (?:style|on\w+)=", markup) == []


@pytest.mark.parametrize("kind", ["csv", "parquet", "xlsx"])
def test_downloaded_rows_are_those_of_the_printed_command(kind: str, browser: Browser, folder: Path) -> None:
    asked: dict[str, str] = {"release": "a.priory", "rows": "50", "seed": "3", "where": "sex = 'F'"}
    page = browser.get("/explore/rows", params=asked).text
    found = browser.get("/explore/rows/file", params={**asked, "format": kind})
    assert f"a-rows.{kind}" in found.headers["content-disposition"]
    same = load(folder / "a.priory").sample(50, where="sex = 'F'", seed=3)
    command, python = printed(page)
    assert command[:3] == ["priory", "sample", "a.priory"]
    assert "sample(50, where=\"sex = 'F'\", seed=3)" in python
    if kind == "csv":
        assert found.text == same.csv_header() + "".join(same.csv_lines())
    else:
        assert found.content[:4] == {"parquet": b"PAR1", "xlsx": b"PK\x03\x04"}[kind]
    # What was made for the download is removed once it is out.
    ends = time.monotonic() + 60
    while list((folder / ".priory-studio").glob("priory-*")):
        assert time.monotonic() < ends
        time.sleep(0.01)


def test_more_rows_than_a_page_gives_are_refused(browser: Browser) -> None:
    page = browser.get("/explore/rows", params={"rows": "1e9", "seed": "x"}).text
    assert "rows" in problems_of(page)
    assert browser.get("/explore/rows/file", params={"rows": "99999999999"}).status_code == 400


def test_what_is_handed_on_can_be_read(browser: Browser, folder: Path) -> None:
    statement = load(folder / "a.priory").statement
    text = browser.get("/explore/statement").text
    assert text.splitlines() == list(statement.lines)
    assert browser.get("/explore/file").content == (folder / "a.priory").read_bytes()
    notebook = json.loads(browser.get("/explore/notebook").text)
    assert any("pr.load('a.priory')" in "".join(cell["source"]) for cell in notebook["cells"])
    # Made with test randomness, it is not for the registry, and says so everywhere.
    assert browser.get("/explore/registry").status_code == 400
    assert "NOT PRIVATE" in browser.get("/explore").text
    report = browser.get("/explore/report")
    assert "sandbox" in report.headers["content-security-policy"]
    assert EVIL not in report.text


def test_a_private_release_has_an_entry_for_the_registry(tmp_path: Path) -> None:
    schema = Schema.coded({"a": 2, "b": 3})
    fit({"a": [0, 1], "b": [1, 2]}, schema, rho=1, mechanism="independent").save(tmp_path / "b.priory")
    with site(tmp_path) as found:
        entry = yaml.safe_load(found.browser().get("/explore/registry").text)
    assert "TO FILL" in str(entry)


LEVELS = ["F", "M", 'it\'s; "odd"']


@given(st.sampled_from(LEVELS), st.sampled_from(["=", "!="]))
def test_a_condition_on_a_level_selects_that_level(level: str, sign: str) -> None:
    [box] = Where.of(Restriction("sex", sign, level).text, SCHEMA).boxes
    [column] = [column for column in SCHEMA.modelled if column.name == "sex"]
    weights = box["sex"].weights(column).tolist()
    assert [bool(weight) for weight in weights] == [(each == level) == (sign == "=") for each in LEVELS]


@given(
    st.sampled_from(list(VERBS)),
    st.lists(st.sampled_from(["sex", "-x", "born"]), max_size=3),
    st.sampled_from(list(SIGNS)),
    st.text(min_size=1).filter(str.strip),
)
def test_a_question_is_one_command_whatever_is_typed(what: str, by: list[str], sign: str, value: str) -> None:
    question = Question.of(what, column="born", by=by, tests=[Restriction("sex", sign, value)])
    words = question.command("a.priory")
    assert shlex.split(shlex.join(words)) == words
    assert [word for word in words if word == "priory"] == ["priory"]
    assert len(set(question.by)) == len(question.by)


def test_bins_are_drawn_to_scale_and_spikes_apart() -> None:
    drawn = bins.picture(
        [
            bins.Bar("0", 50, 0.5, is_spike=True, low=0.0, high=1.0),
            bins.Bar("[1, 10)", 30, 0.3, is_spike=False, low=1.0, high=10.0),
            bins.Bar("[10, 40)", 20, 0.2, is_spike=False, low=10.0, high=40.0),
            bins.Bar("null", 5, 0.05, is_spike=False, low=None, high=None),
        ],
        EVIL,
    )
    widths = [float(width) for width in re.findall(r'<rect[^>]* width="([\d.]+)"', drawn)]
    assert widths[1] == pytest.approx(30 / 9 * widths[0], rel=0.01)
    assert drawn.count('class="spike"') == 1
    assert EVIL not in drawn


def test_cells_of_nothing_known_are_dashes() -> None:
    assert [pictures.cell_text(value) for value in (None, float("nan"), 12345.6, True)] == ["–", "–", "12,346", "true"]


def test_printed_commands_and_calls_have_every_digit_of_shares_and_levels() -> None:
    question = Question("quantile", "age", at=(0.12345678, 1.0), level=0.99999999)
    assert question.command("a.priory")[-6:] == ["--at", "0.12345678", "--at", "1", "--level", "0.99999999"]
    assert question.call == "release.quantile('age', [0.12345678, 1.0], level=0.99999999)"
