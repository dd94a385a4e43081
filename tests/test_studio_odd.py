"""Odd folders and tables in the studio: whatever lies there, nothing breaks, nothing is lost, and the page says why."""

import os
import re
import socket
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from priory.errors import DataError
from priory.privacy.ledger import Ledger
from priory.release import load
from priory.studio.bins import Bar, picture
from priory.studio.folder import Folder
from priory.studio.later import Coming, Later
from studio_site import Browser, Site, field_of, prepare, problems_of, site, write_tables

PAGES = ("/table", "/columns", "/columns/yaml", "/persons", "/budget", "/run", "/explore", "/history")


@pytest.fixture(scope="module")
def ready(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A project with a ledger and no run."""
    folder = tmp_path_factory.mktemp("ready")
    write_tables(folder)
    with site(folder) as found:
        prepare(found.browser())
        yield found


def all_answer(browser: Browser) -> dict[str, str]:
    """The pages of all steps; none of them is a bug."""
    found = {path: browser.get(path) for path in PAGES}
    assert {path: answer.status_code for path, answer in found.items()} == dict.fromkeys(PAGES, 200)
    return {path: answer.text for path, answer in found.items()}


def runs(browser: Browser, private: str, public: str) -> dict[str, Any]:
    """From files to a release."""
    browser.submit("/table", private=private, public=public, name="")
    browser.submit("/columns/draft")
    browser.submit("/table", private=private, public="", name="")
    made = browser.submit(
        "/budget", rows="50", total_epsilon="9", total_delta="1e-6", epsilon="5", mechanism="mst", go="make"
    )
    assert "The ledger was made" in made.text, made.text
    page = browser.get("/run").text
    job = str(browser.submit("/run/start", plan=field_of(page, "plan")).url).rsplit("/", 1)[1]
    found = browser.waits(job)
    assert found["state"] == "ended", browser.get(f"/run/{job}").text
    return found


def test_names_with_spaces_and_other_scripts_and_lines_as_windows_ends_them(tmp_path: Path) -> None:
    rows = "".join(f"{i % 7},{'ja' if i % 3 else 'nein'}\r\n" for i in range(60))
    for name in ("Käufer 2025 (neu) & alt.csv", "öffentlich 日本.csv"):
        (tmp_path / name).write_bytes(f"größe,Haus & Hof?\r\n{rows}".encode())
    with site(tmp_path) as found:
        browser = found.browser()
        page = unescape(browser.get("/table").text)
        assert "Käufer 2025 (neu) & alt.csv" in page
        output = runs(browser, "Käufer 2025 (neu) & alt.csv", "öffentlich 日本.csv")["output"]
        assert load(tmp_path / output).columns.column("Haus & Hof?").kind in ("boolean", "category")
        pages = all_answer(browser)
        [link] = re.findall(r'href="(/explore\?release=[^"]+)"', pages["/history"])
        assert "größe" in browser.get(unescape(link)).text
        statement = browser.get(f"/explore/statement?release={output}")
        assert statement.status_code == 200
        assert "filename*=UTF-8''" in statement.headers["content-disposition"]


@pytest.mark.parametrize(("header", "rows"), [("a", ["x", "y", "x"] * 20), ("a,b", ["x,1"])])
def test_a_table_of_one_column_and_one_of_one_row_are_released(header: str, rows: list[str], tmp_path: Path) -> None:
    for name in ("people.csv", "public.csv"):
        (tmp_path / name).write_text("\n".join([header, *rows]) + "\n")
    with site(tmp_path) as found:
        browser = found.browser()
        output = runs(browser, "people.csv", "public.csv")["output"]
        assert load(tmp_path / output).measurements
        all_answer(browser)
        assert browser.get("/explore/ask?what=count&by=a").status_code == 200
        assert browser.get("/explore/rows").status_code == 200


def test_an_empty_folder_says_what_to_put_there(tmp_path: Path) -> None:
    with site(tmp_path) as found:
        pages = all_answer(found.browser())
        assert "There is no table in the folder" in pages["/table"]
        assert "choose the private table" in pages["/run"]
        assert "no release in this folder yet" in pages["/explore"]


def test_a_folder_that_cannot_be_written_to_is_refused_at_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Whoever runs the tests may write everywhere.
    monkeypatch.setattr(os, "access", lambda *_args, **_options: False)
    with pytest.raises(DataError, match="cannot be written to"):
        Folder.of(tmp_path)


def test_a_disk_that_fails_is_said_without_a_path(ready: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(**_typed: str) -> None:
        raise OSError(28, "No space left on device", str(ready.studio.folder.root / "priory-project.yaml"))

    browser = ready.browser()
    before = ready.studio.settings
    monkeypatch.setattr(ready.studio, "change", full)
    answer = browser.submit("/budget", rows="77")
    assert answer.status_code == 500
    assert "No space left on device" in answer.text
    assert str(ready.studio.folder.root) not in answer.text
    assert ready.studio.settings == before


@pytest.mark.parametrize("gone", ["people.csv", "public.csv", "schema.yaml", "priory.ledger"])
def test_a_file_that_was_removed_between_two_steps_is_missed_and_nothing_is_started(gone: str, tmp_path: Path) -> None:
    write_tables(tmp_path)
    with site(tmp_path) as found:
        browser = found.browser()
        prepare(browser)
        browser.submit("/table", private="people.csv", public="public.csv", name="people")
        browser.submit("/budget", mechanism="")
        plan = field_of(browser.get("/run").text, "plan")
        (tmp_path / gone).unlink()
        pages = all_answer(browser)
        assert 'name="plan"' not in pages["/run"]
        assert 'class="missing"' in pages["/run"]
        assert "Nothing was started" in browser.submit("/run/start", plan=plan).text
        assert found.studio.jobs.all() == []
        if gone != "priory.ledger":
            assert Ledger.open(tmp_path / "priory.ledger").entries() == ()


def test_a_release_that_cannot_be_read_is_named_and_the_others_are_shown(ready: Site) -> None:
    folder = ready.studio.folder.root
    (folder / "broken.priory").write_bytes(b"PK\x03\x04 not a release")
    browser = ready.browser()
    history = browser.get("/history")
    assert history.status_code == 200
    assert "broken.priory" in history.text
    assert str(folder) not in history.text
    answer = browser.get("/explore?release=broken.priory")
    assert answer.status_code == 400
    assert str(folder) not in answer.text
    (folder / "broken.priory").unlink()


def test_many_columns_are_listed_and_planned(tmp_path: Path) -> None:
    levels = ", ".join(f"v{j}" for j in range(9))
    lines = [f"  column {i}: {{kind: category, levels: [{levels}], nullable: true}}" for i in range(42)]
    (tmp_path / "schema.yaml").write_text("\n".join(["priory: 1", "name: wide", "columns:", *lines]) + "\n")
    names = [f"column {i}" for i in range(42)]
    (tmp_path / "wide.csv").write_text(",".join(names) + "\n" + ",".join("v1" for _ in names) + "\n")
    with site(tmp_path) as found:
        browser = found.browser()
        browser.submit("/table", private="wide.csv", public="", name="wide")
        browser.submit("/budget", rows="1000000", total_epsilon="3", total_delta="", epsilon="1", go="make")
        pages = all_answer(browser)
        assert pages["/columns"].count('data-label="Kind"') == 42
        assert 'name="plan"' in pages["/run"]
        assert browser.get("/columns/edit/42").status_code == 200
        assert "if the 42 columns share" in " ".join(pages["/budget"].split())


REFUSED: list[tuple[str, dict[str, str], str, str]] = [
    ("/columns/edit/2", {"kind": "integer", "low": "9", "high": "1", "nullable": "yes"}, "low", "9"),
    ("/columns/yaml", {"text": "priory: 1\nname: people\ncolumns:\n  age: {kind: nonsense}"}, "text", "nonsense"),
    ("/budget", {"rows": "about ten", "epsilon": "1"}, "rows", "about ten"),
    ("/run", {"purpose": "tables of the annual report"}, "", "tables of the annual report"),
    ("/columns/discover", {"discover_epsilon": "0.25", "discover_delta": "1e-7"}, "", ""),
]


@pytest.mark.parametrize(("path", "typed", "field", "kept"), REFUSED)
def test_reload_and_back_lose_nothing_that_was_typed(
    path: str, typed: dict[str, str], field: str, kept: str, ready: Site
) -> None:
    browser = ready.browser()
    browser.submit("/budget", rows="400", epsilon="1")
    browser.submit(path, **typed)
    for _ in ("reload", "there and back"):
        page = browser.get(path).text
        assert kept in unescape(page)
        if field:
            assert field in problems_of(page)
        browser.get("/history")
    settings = ready.studio.settings
    assert all(getattr(settings, name) == text for name, text in typed.items() if hasattr(settings, name))
    for undo in ("/columns/edit/2", "/columns/yaml"):
        browser.submit(undo, go="forget")


def test_a_run_that_is_cancelled_twice_and_reloaded_is_one_run(ready: Site) -> None:
    browser = ready.browser()
    browser.submit("/budget", rows="400", epsilon="0.5")
    (ready.studio.folder.root / "hold").touch()
    page = browser.get("/run").text
    sent = browser.submit("/run/start", plan=field_of(page, "plan"), purpose="kept")
    job = str(sent.url).rsplit("/", 1)[1]
    # Back and send again; reload; cancel; back and cancel again.
    assert browser.submit("/run/start", plan=field_of(page, "plan")).url.path == f"/run/{job}"
    assert browser.get(f"/run/{job}").status_code == 200
    for _ in range(2):
        browser.submit(f"/run/{job}/cancel")
    assert browser.waits(job)["state"] == "cancelled"
    (ready.studio.folder.root / "hold").unlink()
    assert len(ready.studio.jobs.all()) == 1
    assert len(Ledger.open(ready.studio.folder.root / "priory.ledger").entries()) <= 1
    assert "kept" in browser.get("/history").text + browser.get(f"/run/{job}").text


def test_edges_of_bins_are_drawn_over_narrower_bars() -> None:
    bars = [Bar(f"[{i}, {i + 1})", 3, 0.1, is_spike=False, low=float(i), high=i + 1.0) for i in range(10)]
    drawn = picture(bars, "age", "Rows as counted with noise", (0.0, 5.0, 10.0))
    assert drawn.count('class="edge"') == 3
    assert picture(bars, "age").count('class="edge"') == 0


def test_what_comes_later_is_worked_out_once_and_errors_are_kept() -> None:
    later: Later[int] = Later()
    calls: list[int] = []
    left, right = socket.socketpair()

    def slow() -> int:
        calls.append(1)
        return len(right.recv(1))

    with left, right:
        with pytest.raises(Coming):
            later.value("key", slow, 0.01)
        left.send(b"x")
        assert later.value("key", slow) == 1
    assert later.value("key", slow, 0) == 1
    assert calls == [1]

    def wrong() -> int:
        raise DataError("no")

    for _ in range(2):
        with pytest.raises(DataError, match="no"):
            later.value("other", wrong)
