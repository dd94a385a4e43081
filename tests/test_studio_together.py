"""What stands beside the studio: its printed Python, a second server, a ledger and releases of the command line."""

import json
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from html import unescape
from pathlib import Path

import numpy as np
import pytest

from priory.privacy.ledger import EntryState, Ledger
from priory.release import Release, load
from studio_site import REPLAYED, Browser, Site, field_of, prepare, site, until, write_tables


@pytest.fixture
def studio(tmp_path: Path) -> Iterator[Site]:
    write_tables(tmp_path)
    with site(tmp_path) as found:
        yield found


def entries(folder: Path) -> list[tuple[str, EntryState]]:
    return [(entry.mechanism, entry.state) for entry in Ledger.open(folder / "priory.ledger").entries()]


def code_of(page: str) -> str:
    """The Python that a page shows."""
    [shown] = re.findall(r"<h3>Python</h3>\s*<pre>(.*?)</pre>", page, re.DOTALL)
    return unescape(shown)


def run_code(folder: Path, code: str) -> str:
    """Run what was printed in a folder, with replayed randomness; what it prints."""
    command = [sys.executable, str(Path(__file__).with_name("replayed_python.py"))]
    done = subprocess.run(command, cwd=folder, input=code, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def assert_same(one: Release, other: Release) -> None:
    assert one.statement == other.statement
    assert [m.query for m in one.measurements] == [m.query for m in other.measurements]
    for mine, theirs in zip(one.measurements, other.measurements, strict=True):
        np.testing.assert_array_equal(mine.values, theirs.values)


def started(browser: Browser) -> str:
    plan = field_of(browser.get("/run").text, "plan")
    return str(browser.submit("/run/start", plan=plan, purpose="a test").url).rsplit("/", 1)[1]


def test_the_printed_python_of_every_step_does_what_the_page_does(
    studio: Site, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder, browser = studio.studio.folder.root, studio.browser()
    copy = tmp_path_factory.mktemp("copy") / "project"
    copy.mkdir()
    write_tables(copy)
    browser.submit("/table", private="people.csv", public="public.csv", name="people")
    code = [code_of(browser.get("/columns").text)]
    browser.submit("/columns/draft")
    browser.submit("/table", private="people.csv", public="", name="people")
    browser.submit("/persons", protects="person", person="person", max_rows="2", relation="replace-one")
    browser.submit("/budget", rows="400", total_epsilon="3", total_delta="1e-6", epsilon="1", mechanism="mst")
    code.append(code_of(browser.get("/persons").text))
    browser.submit("/budget", go="make")
    code.append(code_of(browser.get("/run").text))
    assert browser.waits(started(browser))["state"] == "ended"
    asked = {"release": "people.priory", "columns": ["age", "colour"], "epsilon": "0.5", "delta": "1e-6"}
    page = browser.get("/run/more", params=asked).text
    code.append(code_of(page))
    job = str(browser.submit("/run/more/start", **asked, plan=field_of(page, "plan")).url).rsplit("/", 1)[1]
    assert browser.waits(job)["state"] == "ended", browser.get(f"/run/{job}").text
    assert code_of(browser.get(f"/run/{job}").text) == code[-1]
    code.append(code_of(browser.get("/history").text))
    printed = run_code(copy, "\n".join(code))
    assert (copy / "schema.yaml").read_text() == (folder / "schema.yaml").read_text()
    mine, theirs = (Ledger.open(each / "priory.ledger") for each in (folder, copy))
    assert mine.terms.total == theirs.terms.total
    assert mine.terms.person == theirs.terms.person == "person"
    assert mine.left() == theirs.left()
    assert str(theirs.left()) in printed
    for name in ("people.priory", "people-combined.priory"):
        assert_same(load(folder / name), load(copy / name))


def test_names_alone_and_discovery_as_python_are_those_of_the_page(tmp_path: Path) -> None:
    write_tables(tmp_path)
    copy = tmp_path / "copy"
    copy.mkdir()
    shutil.copy(tmp_path / "people.csv", copy)
    with site(tmp_path) as found:
        browser = found.browser()
        browser.submit("/table", private="people.csv", public="", name="people")
        code = [code_of(browser.get("/columns").text)]
        browser.submit("/columns/names", header="yes")
        assert run_code(copy, code[0]) == ""
        assert (copy / "schema.yaml").read_text() == (tmp_path / "schema.yaml").read_text()
        browser.submit("/persons", protects="person", person="person", max_rows="1", relation="add-remove")
        browser.submit("/budget", rows="400", total_epsilon="20", total_delta="1e-4", epsilon="2")
        code = [code_of(browser.get("/persons").text)]
        browser.submit("/budget", go="make")
        browser.submit("/columns/discover", discover_epsilon="10", discover_delta="1e-5", go="stay")
        page = browser.get("/columns/discover").text
        code.append(code_of(page))
        job = str(browser.submit("/columns/discover/start", plan=field_of(page, "plan")).url).rsplit("/", 1)[1]
        assert browser.waits(job)["state"] == "ended", browser.get(f"/run/{job}").text
        browser.submit("/columns/adopt")
        run_code(copy, "\n".join(code))
        assert (copy / "schema-discovered.yaml").read_text() == (tmp_path / "schema-discovered.yaml").read_text()
        # In which order values are counted, and with that their noise, is each ledger's own.
        mine, theirs = (json.loads((each / "schema-discovered.counts.json").read_text()) for each in (tmp_path, copy))
        assert {name: counts["edges"] for name, counts in mine.items()} == {
            name: counts["edges"] for name, counts in theirs.items()
        }
        # What was learnt is drawn, of numbers with the bins over it and of levels.
        age, colour = (browser.get(f"/columns/edit/{number}").text for number in (2, 3))
        assert "As discovered, with noise" in age
        assert 'class="bars"' in age
        assert "As discovered, with noise" in colour
        assert "green" in colour.split("<figure>")[1].split("</figure>")[0]


def test_two_servers_of_one_folder_start_one_run_and_pay_once(studio: Site) -> None:
    folder = studio.studio.folder.root
    with site(folder) as other:
        browsers = [studio.browser(), other.browser()]
        prepare(browsers[0])
        (folder / "hold").touch()
        plans = {field_of(browser.get("/run").text, "plan") for browser in browsers}
        assert len(plans) == 1
        [plan], reached = plans, list[str]()
        tokens = [browser.csrf() for browser in browsers]

        def start(number: int) -> None:
            browser, token = browsers[number % 2], tokens[number % 2]
            sent = browser.post("/run/start", data={"csrf": token, "plan": plan}, headers={"origin": browser.address})
            reached.append(sent.url.path)

        threads = [threading.Thread(target=start, args=(number,)) for number in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert set(reached) == {"/run/0001"}
        until((folder / "holding").exists)
        # The other server sees the run, and can cancel it; both say what it has cost.
        assert "It is running" in browsers[1].get("/run/0001").text
        browsers[1].submit("/run/0001/cancel")
        states = [browser.waits("0001") for browser in browsers]
        assert [state["state"] for state in states] == ["cancelled", "cancelled"]
        assert states[0]["spent"] == states[1]["spent"]
    assert entries(folder) == [("mst", EntryState.INTERRUPTED)]


def test_what_two_servers_write_at_once_is_all_kept(studio: Site) -> None:
    with site(studio.studio.folder.root) as other:
        browsers = [studio.browser(), other.browser()]
        prepare(browsers[0])
        tokens = [browser.csrf() for browser in browsers]
        wrong = [
            ("/columns/edit/2", {"kind": "integer", "low": "9", "high": "1"}),
            ("/columns/edit/3", {"kind": "category", "levels": "a\na"}),
        ]

        def write(number: int) -> None:
            browser, token, (path, typed) = browsers[number], tokens[number], wrong[number]
            headers = {"origin": browser.address}
            for i in range(5):
                browser.post(path, data={"csrf": token, **typed}, headers=headers)
                field = ("rows", "epsilon")[number]
                browser.post("/budget", data={"csrf": token, field: str(i + 1)}, headers=headers)

        threads = [threading.Thread(target=write, args=(number,)) for number in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert set(other.studio.drafts.read()) == {"age", "colour"}
        assert (other.studio.settings.rows, other.studio.settings.epsilon) == ("5", "5")


def test_a_ledger_and_a_release_of_the_command_line_are_known(studio: Site) -> None:
    folder, browser = studio.studio.folder.root, studio.browser()
    browser.submit("/table", private="people.csv", public="public.csv", name="people")
    browser.submit("/columns/draft")
    browser.submit("/table", private="people.csv", public="", name="people")
    commands = (
        "ledger init priory.ledger --dataset people --epsilon 3 --delta 1e-6",
        "fit people.csv --schema schema.yaml --epsilon 1 --delta 1e-6 --mechanism mst --ledger priory.ledger "
        "--output mine.priory",
    )
    for command in commands:
        subprocess.run([*REPLAYED, *command.split()], cwd=folder, check=True, capture_output=True)
    history = browser.get("/history").text
    assert "mine.priory" in history
    assert "not of the studio" in history
    assert "bound to this schema" in browser.get("/columns").text
    browser.submit("/budget", rows="400", epsilon="1", mechanism="mst")
    assert browser.waits(started(browser))["state"] == "ended"
    assert entries(folder) == [("mst", EntryState.SPENT)] * 2
