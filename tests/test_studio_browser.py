"""The studio in a real browser, on the town: the whole flow, with and without public data, and when it goes wrong.

Where there is no Chromium these tests are skipped, and say so; PRIORY_REQUIRE_BROWSER=1 makes them fail instead.
"""

import gzip
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from browsing import Person, browsing
from priory import town
from priory.privacy.ledger import Ledger
from priory.release import load
from studio_site import Site, site

ROWS = 1500


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with browsing() as found:
        yield found


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A project folder with the first rows of the town's two years."""
    for source, name in ((town.THIS_YEAR, "register_2025.csv"), (town.LAST_YEAR, "register_2024.csv")):
        with gzip.open(source, "rt", encoding="utf-8") as file:
            lines = [line for line, _ in zip(file, range(ROWS + 1), strict=False)]
        (tmp_path / name).write_text("".join(lines), encoding="utf-8")
    return tmp_path


@pytest.fixture
def studio(folder: Path) -> Iterator[Site]:
    with site(folder) as found:
        yield found


@pytest.fixture
def person(studio: Site, browser: Any) -> Iterator[Person]:
    found = Person(browser, studio.address, studio.studio.keys.token)
    yield found
    found.context.close()
    assert found.complaints == []


def chooses_files(person: Person, *, public: bool = True) -> None:
    person.page.check("input[name=private][value='register_2025.csv']")
    if public:
        person.page.check("input[name=public][value='register_2024.csv']")
    person.page.fill("#name", "klosterwiek")
    person.presses("Next")


def uploads_schema(person: Person) -> None:
    """The town's own schema, by the form for files."""
    person.goes("/columns/yaml")
    person.page.set_input_files("#file", str(town.SCHEMA))
    person.presses("Save")
    person.waits_for("15 columns")


def protects_persons(person: Person) -> None:
    person.goes("/persons")
    person.page.check("input[name=protects][value=person]")
    person.page.select_option("#person", "person id")
    person.presses("Next")


def makes_ledger(
    person: Person, *, total: str = "3", delta: str = "1e-6", epsilon: str = "1", rows: str = str(ROWS)
) -> None:
    person.page.fill("#rows", rows)
    person.page.fill("#total_epsilon", total)
    person.page.fill("#total_delta", delta)
    person.page.fill("#epsilon", epsilon)
    person.presses("Make the ledger")
    person.waits_for("The ledger was made")


def prepares(person: Person, **budget: str) -> None:
    """The steps to the run; without a number of rows, and so without a forecast, which would be made meanwhile."""
    chooses_files(person)
    uploads_schema(person)
    protects_persons(person)
    makes_ledger(person, rows="", **budget)
    person.page.select_option("#effort", "low")
    person.presses("Next")


def barriers(person: Person) -> list[str]:
    return person.barriers() + person.overflow()


def test_from_files_to_downloads_with_public_data(person: Person, folder: Path) -> None:
    found = barriers(person)
    chooses_files(person)
    person.presses("Draft from the public table")
    person.waits_for("A schema was drafted")
    found += barriers(person)
    person.follows("income")
    assert person.page.locator("svg.bars rect").count() > 3
    found += barriers(person)
    # What is typed and wrong stays, with the reason beside its field, also after a reload and by the back button.
    person.page.fill("#low", "1000000")
    person.presses("Save")
    person.page.reload()
    assert person.page.input_value("#low") == "1000000"
    assert person.page.locator("[aria-invalid=true]").count() >= 1
    found += barriers(person)
    person.presses("Forget what was typed")
    uploads_schema(person)
    found += barriers(person)
    # A click on a step sends what was typed.
    person.goes("/persons")
    person.page.check("input[name=protects][value=person]")
    person.page.select_option("#person", "person id")
    with person.leaves():
        person.page.locator("nav.steps a[data-step=budget]").click()
    assert "/budget" in person.page.url
    person.page.go_back()
    assert person.page.is_checked("input[name=protects][value=person]")
    found += barriers(person)
    person.goes("/budget")
    makes_ledger(person)
    person.page.select_option("#effort", "low")
    person.presses("Save")
    # The slider moves ε, the meaning follows at once, the forecast as it comes.
    person.page.locator("#forecast [data-part]:not([hidden])").wait_for()
    before = person.page.inner_text("#meaning")
    person.page.focus("#epsilon-slider")
    person.page.keyboard.press("ArrowLeft")
    assert person.page.input_value("#epsilon") == "0.75"
    person.page.wait_for_function("before => document.querySelector('#meaning').innerText !== before", arg=before)
    found += barriers(person)
    person.page.fill("#epsilon", "1")
    person.presses("Next")
    found += barriers(person)
    person.page.fill("#purpose", "a test")
    person.presses("Pay and start")
    person.waits_for("It has ended well")
    found += barriers(person)
    person.follows("Explore it")
    found += barriers(person)
    name = "klosterwiek.priory"
    assert load(folder / name).statement.ledger == "file"
    explores(person, found)
    person.goes("/history")
    assert "a test" in person.reads()
    person.page.locator("[data-comes]").first.wait_for(state="detached")
    found += barriers(person)
    assert found == []


def explores(person: Person, found: list[str]) -> None:
    """Questions, rows and files; what is found on the way is added to the list."""
    person.follows("Ask")
    person.page.select_option("#what", "mean")
    person.page.select_option("#column", "income")
    person.page.select_option("#by-0", "district")
    person.page.select_option("#test-column-1", "sex")
    person.page.fill("#test-value-1", "female")
    person.presses("Ask")
    person.page.locator("figure svg[role=img]").wait_for()
    person.page.get_by_text("The figures as a table").click()
    assert person.page.locator("figure tbody tr").count() == 9
    found += barriers(person)
    assert person.gets("Download as CSV").read_text().startswith("district,estimate,low,high,source\n")
    person.follows("Synthetic rows")
    person.page.fill("#rows", "20")
    person.page.select_option("#format", "xlsx")
    assert person.gets("Download").read_bytes()[:2] == b"PK"
    found += barriers(person)
    person.follows("Hand on")
    found += barriers(person)
    assert b"differential privacy" in person.gets("Download").read_bytes()


def test_measuring_more_is_paid_for_and_combined(person: Person, folder: Path) -> None:
    prepares(person)
    person.presses("Pay and start")
    person.waits_for("It has ended well")
    person.follows("Explore it")
    person.follows("Measure more of sex")
    assert person.page.is_checked("input[name=columns][value=sex]")
    person.page.check("input[name=columns][value=smoker]")
    person.page.fill("#epsilon", "0.5")
    found = barriers(person)
    person.presses("Show the price")
    found += barriers(person)
    person.presses("Pay and start")
    person.waits_for("It has ended well")
    assert [entry.number for entry in Ledger.open(folder / "priory.ledger").entries()] == [1, 2]
    combined = load(folder / "klosterwiek-combined.priory")
    assert {"sex", "smoker"} in [set(m.query.clique) for m in combined.measurements]
    first = load(folder / "klosterwiek.priory")
    assert len(combined.measurements) > len(first.measurements)
    assert found == []


def test_from_names_alone_by_discovery(person: Person, folder: Path) -> None:
    # Few columns are enough to see the way; discovery looks at each.
    lines = [line.split(",")[:5] for line in (folder / "register_2025.csv").read_text().splitlines()]
    (folder / "register_2025.csv").write_text("\n".join(",".join(line) for line in lines) + "\n", encoding="utf-8")
    chooses_files(person, public=False)
    person.page.check("input[name=header]")
    person.presses("Begin with names alone")
    person.waits_for("nothing else")
    found = barriers(person)
    # What is known is declared: nobody discovers which column names the person.
    person.follows("person id")
    person.page.select_option("#kind", "id")
    person.presses("Save, and all columns")
    protects_persons(person)
    makes_ledger(person, total="20", delta="1e-3", rows="")
    person.goes("/columns/discover")
    person.page.fill("#discover_epsilon", "8")
    person.page.fill("#discover_delta", "1e-4")
    person.presses("Save, and show the price")
    found += barriers(person)
    person.presses("Pay and start")
    person.waits_for("It has ended well")
    person.follows("To the columns")
    person.presses("Use what it learnt")
    assert "female" in person.reads()
    found += barriers(person)
    person.goes("/budget")
    person.page.fill("#epsilon", "4")
    person.page.select_option("#effort", "low")
    person.presses("Next")
    person.presses("Pay and start")
    person.waits_for("It has ended well")
    person.follows("Explore it")
    assert "above the noise" in person.reads()
    assert load(folder / "klosterwiek.priory").statement.discovered is not None
    assert found == []


def test_a_ledger_that_runs_out_refuses_the_next_run(person: Person, folder: Path) -> None:
    prepares(person, total="1", epsilon="1")
    person.presses("Pay and start")
    person.waits_for("It has ended well")
    left = Ledger.open(folder / "priory.ledger").left()
    person.goes("/budget")
    assert "more than is left in the ledger" in person.reads()
    found = barriers(person)
    person.goes("/run")
    assert person.page.get_by_role("button", name="Pay and start").count() == 0
    found += barriers(person)
    assert Ledger.open(folder / "priory.ledger").left() == left
    person.goes("/explore")
    assert "above the noise" in person.reads()
    assert found == []


def held(folder: Path) -> None:
    ends = time.monotonic() + 300
    while not (folder / "holding").exists():
        assert time.monotonic() < ends
        time.sleep(0.05)


def test_a_cancelled_run_says_what_was_spent_and_can_still_be_released(person: Person, folder: Path) -> None:
    prepares(person)
    # Single attributes are answered together, and written down then.
    (folder / "hold").write_text("9")
    person.presses("Pay and start")
    held(folder)
    # Closing the browser, or leaving the page, does not stop it.
    person.goes("/table")
    assert "A run goes on" in person.page.inner_text("body")
    person.goes("/run/0001")
    assert "running" in person.reads()
    # The page of a run loads itself anew when it ends: this one is held, and so can be looked at.
    found = barriers(person)
    person.presses("Cancel the run")
    person.waits_for("It was cancelled")
    assert "entry 1 of the ledger" in person.page.inner_text("#spent")
    found += barriers(person)
    (folder / "hold").unlink()
    person.presses("Make the release of what was paid for")
    person.waits_for("It has ended well")
    assert load(folder / "klosterwiek.priory").measurements
    assert found == []


def test_a_killed_server_loses_nothing(folder: Path, browser: Any) -> None:
    with Served(folder) as served:
        person = Person(browser, served.address, served.token)
        prepares(person)
        (folder / "hold").touch()
        person.presses("Pay and start")
        held(folder)
        served.kill()
        person.waits_for("The server does not answer")
        person.context.close()
    # The run goes on without the server, and a new one finds it.
    with Served(folder) as served:
        person = Person(browser, served.address, served.token)
        person.goes("/run/0001")
        person.waits_for("It is running")
        (folder / "hold").unlink()
        person.waits_for("It has ended well")
        person.context.close()
    assert np.isfinite(load(folder / "klosterwiek.priory").model.total)
    assert len(Ledger.open(folder / "priory.ledger").entries()) == 1


class Served:
    """A studio in a process of its own, which can be killed."""

    def __init__(self, folder: Path) -> None:
        command = [sys.executable, str(Path(__file__).with_name("served_studio.py")), str(folder)]
        self._process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        assert self._process.stderr is not None
        line = next(line for line in self._process.stderr if "token=" in line)
        self.address, self.token = line.split()[-1].split("/enter?token=")

    def kill(self) -> None:
        self._process.send_signal(signal.SIGKILL if sys.platform != "win32" else signal.SIGTERM)
        self._process.wait()

    def __enter__(self) -> "Served":
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        assert self._process.stderr is not None
        self._process.stderr.close()
