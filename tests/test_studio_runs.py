"""Runs of the studio: each is the printed command line, is paid for once, and is not lost however it ends."""

import asyncio
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from html import unescape
from pathlib import Path

import httpx
import numpy as np
import pytest

from priory.data.schema.open import OpenSchema
from priory.privacy.ledger import EntryState, Ledger
from priory.release import Release, load
from priory.studio.folder import Folder
from priory.studio.hub import Studio
from priory.studio.steps.run import resume
from studio_site import CANARY, REPLAYED, Browser, Site, address_in, field_of, prepare, site, until, write_tables


@pytest.fixture
def studio(tmp_path: Path) -> Iterator[Site]:
    write_tables(tmp_path)
    with site(tmp_path) as found:
        yield found


@pytest.fixture
def browser(studio: Site) -> Browser:
    browser = studio.browser()
    prepare(browser)
    return browser


def entries(folder: Path) -> list[tuple[str, EntryState]]:
    return [(entry.mechanism, entry.state) for entry in Ledger.open(folder / "priory.ledger").entries()]


def printed(page: str) -> list[list[str]]:
    """The command lines that a page shows."""
    [shown] = re.findall(r"<pre[^>]*>(priory .*?)</pre>", page, re.DOTALL)
    return [shlex.split(line)[1:] for line in unescape(shown).strip().splitlines()]


def run_printed(folder: Path, commands: list[list[str]]) -> None:
    for command in commands:
        subprocess.run([*REPLAYED, *command], cwd=folder, check=True, capture_output=True)


def started(browser: Browser) -> str:
    """The number of the run that the confirmed page starts."""
    plan = field_of(browser.get("/run").text, "plan")
    return str(browser.submit("/run/start", plan=plan, purpose="a test").url).rsplit("/", 1)[1]


def hold(folder: Path) -> None:
    """Let the next run wait after its first answer."""
    (folder / "hold").touch()


def is_held(folder: Path) -> None:
    until((folder / "holding").exists)


def assert_same(one: Release, other: Release) -> None:
    assert one.statement == other.statement
    assert [m.query for m in one.measurements] == [m.query for m in other.measurements]
    assert [m.stddev for m in one.measurements] == [m.stddev for m in other.measurements]
    for mine, theirs in zip(one.measurements, other.measurements, strict=True):
        np.testing.assert_array_equal(mine.values, theirs.values)


@pytest.mark.parametrize("mechanism", ["", "aim"])
def test_the_release_of_the_page_is_that_of_the_printed_command_line(
    mechanism: str, studio: Site, browser: Browser, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = studio.studio.folder.root
    browser.submit("/budget", mechanism=mechanism)
    browser.submit("/table", private="people.csv", public="" if mechanism else "public.csv", name="people")
    page = browser.get("/run").text
    copy = tmp_path_factory.mktemp("copy") / "project"
    shutil.copytree(folder, copy)
    for name in ("numpy.py", "yaml.py", "typer.py", "priory.py"):
        # Code in the folder is not run.
        (folder / name).write_text("open('run', 'w').close()\n")
    job = started(browser)
    assert browser.waits(job)["state"] == "ended", browser.get(f"/run/{job}").text
    assert not (folder / "run").exists()
    run_printed(copy, printed(page))
    assert_same(load(folder / "people.priory"), load(copy / "people.priory"))
    assert Ledger.open(folder / "priory.ledger").left() == Ledger.open(copy / "priory.ledger").left()
    history = browser.get("/history").text
    assert "a test" in history
    assert CANARY not in history


def test_the_printed_command_makes_the_same_ledger(
    studio: Site, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    browser, copy = studio.browser(), tmp_path_factory.mktemp("copy")
    browser.submit("/table", private="people.csv", public="public.csv", name="people")
    browser.submit("/columns/draft")
    edited = (tmp_path / "schema.yaml").read_text()
    shutil.copy(tmp_path / "schema.yaml", copy)
    assert "person: {kind: id}" in edited
    browser.submit("/persons", protects="household", person="person", max_rows="3", relation="replace-one")
    browser.submit("/budget", rows="400", total_epsilon="3", total_delta="", epsilon="1")
    run_printed(copy, printed(browser.get("/budget").text)[:1])
    browser.submit("/budget", go="make")
    mine, theirs = (Ledger.open(place / "priory.ledger").terms for place in (tmp_path, copy))
    assert mine == theirs
    assert mine.unit == "a person (column 'person'), with at most 3 of their rows"


def test_measuring_more_is_paid_once_and_combined(studio: Site, browser: Browser) -> None:
    folder = studio.studio.folder.root
    browser.waits(started(browser))
    asked = {"release": "people.priory", "columns": ["age", "colour"], "epsilon": "0.5", "delta": "1e-6"}
    page = browser.get("/run/more", params=asked).text
    confirmed = {**asked, "plan": field_of(page, "plan"), "purpose": "more"}
    job = str(browser.submit("/run/more/start", **confirmed).url).rsplit("/", 1)[1]
    assert browser.waits(job)["state"] == "ended", browser.get(f"/run/{job}").text
    assert browser.submit("/run/more/start", **confirmed).url.path == f"/run/{job}"
    assert [name for name, _ in entries(folder)] == ["mst", "hdmm"]
    one, both = load(folder / "people.priory"), load(folder / "people-combined.priory")
    assert len(both.measurements) > len(one.measurements)
    assert any(m.query.clique == ("age", "colour") for m in both.measurements)


def test_measuring_more_is_refused_before_it_is_paid_where_it_could_not_be_combined(
    studio: Site, browser: Browser
) -> None:
    folder = studio.studio.folder.root
    browser.waits(started(browser))
    # The release is of another schema than the run would be: a label was changed since, in the file and in the ledger.
    release = load(folder / "people.priory")
    assert release.schema is not None
    other = replace(release.schema, name="other people")
    replace(release, statement=replace(release.statement, dataset="other people")).with_schema(other).save(
        folder / "other.priory"
    )
    asked = {"release": "other.priory", "columns": ["age", "colour"], "epsilon": "0.5", "delta": "1e-6"}
    page = browser.get("/run/more", params=asked).text
    refused = browser.submit("/run/more/start", **asked, plan=field_of(page, "plan"), purpose="more")
    assert "the releases have different schemas" in refused.text
    assert [name for name, _ in entries(folder)] == ["mst"]


def test_two_tabs_start_one_run_and_pay_once(studio: Site, browser: Browser) -> None:
    folder = studio.studio.folder.root
    hold(folder)
    tabs = [studio.browser() for _ in range(4)]
    plans = {field_of(tab.get("/run").text, "plan") for tab in tabs}
    assert len(plans) == 1
    [plan], csrf, reached = plans, browser.csrf(), list[str]()

    def start(tab: Browser) -> None:
        sent = tab.post("/run/start", data={"csrf": csrf, "plan": plan}, headers={"origin": tab.address})
        reached.append(sent.url.path)

    threads = [threading.Thread(target=start, args=(tab,)) for tab in tabs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(reached) == {"/run/0001"}
    is_held(folder)
    browser.submit("/budget", epsilon="0.5")
    again = browser.submit("/run/start", plan=field_of(browser.get("/run").text, "plan"))
    assert "Another run goes on" in again.text
    (folder / "hold").unlink()
    assert browser.waits("0001")["state"] == "ended"
    assert entries(folder) == [("mst", EntryState.SPENT)]


def test_two_hundred_requests_at_once_are_answered_and_pay_once(studio: Site, browser: Browser) -> None:
    folder = studio.studio.folder.root
    plan, csrf = field_of(browser.get("/run").text, "plan"), browser.csrf()
    pages = (
        "/table",
        "/columns",
        "/persons",
        "/budget",
        "/run",
        "/history",
        "/columns/edit/2",
        "/budget/forecast.json",
    )

    async def asked(client: httpx.AsyncClient, number: int) -> int:
        if number % 2:
            return (await client.get(pages[number // 2 % len(pages)])).status_code
        sent = await client.post("/run/start", data={"csrf": csrf, "plan": plan}, headers={"origin": studio.address})
        return sent.status_code

    async def all_asked() -> list[int]:
        # More connections that have not asked yet are not held; no browser opens as many.
        limits = httpx.Limits(max_connections=100)
        async with httpx.AsyncClient(
            base_url=studio.address, cookies=browser.cookies, limits=limits, timeout=120
        ) as client:
            return list(await asyncio.gather(*(asked(client, number) for number in range(200))))

    statuses = asyncio.run(all_asked())
    assert set(statuses) == {200, 303}
    assert browser.waits("0001")["state"] == "ended"
    assert entries(folder) == [("mst", EntryState.SPENT)]
    assert len(studio.studio.jobs.all()) == 1


def test_what_was_changed_after_the_price_was_shown_is_not_started(studio: Site, browser: Browser) -> None:
    plan = field_of(browser.get("/run").text, "plan")
    studio.browser().submit("/budget", epsilon="2")
    again = browser.submit("/run/start", plan=plan)
    assert "Nothing was started" in again.text
    assert studio.studio.jobs.all() == []
    assert entries(studio.studio.folder.root) == []


def test_a_ledger_that_runs_out_refuses_before_anything_is_read(studio: Site, browser: Browser) -> None:
    folder = studio.studio.folder.root
    browser.submit("/budget", epsilon="3")
    plan = field_of(browser.get("/run").text, "plan")
    assert browser.waits(started(browser))["state"] == "ended"
    (folder / "people.csv").unlink()
    page = browser.get("/run").text
    assert "more than is left" in page
    assert 'name="plan"' not in page
    assert "Nothing was started" in browser.submit("/run/start", plan=plan[::-1]).text
    assert entries(folder) == [("mst", EntryState.SPENT)]
    assert "Nothing is left" in browser.get("/budget").text


def test_a_cancelled_run_says_what_was_spent_and_its_release_is_made_of_that(studio: Site, browser: Browser) -> None:
    folder = studio.studio.folder.root
    hold(folder)
    job = started(browser)
    is_held(folder)
    browser.submit(f"/run/{job}/cancel")
    ended = browser.waits(job)
    assert ended["state"] == "cancelled"
    assert ended["spent"].startswith("ρ = ")
    assert "entry 1 of the ledger" in ended["spent"]
    page = browser.get(f"/run/{job}").text
    assert "entry 1 of priory.ledger" in page
    assert str(folder.parent) not in page
    (folder / "hold").unlink()
    made = str(browser.submit(f"/run/{job}/estimate").url).rsplit("/", 1)[1]
    assert browser.waits(made)["state"] == "ended"
    assert "ended early" in load(folder / "people.priory").statement.mechanism
    assert entries(folder) == [("mst", EntryState.INTERRUPTED)]
    assert browser.submit(f"/run/{job}/estimate").status_code == 400


def test_a_run_that_failed_says_why_without_a_path(studio: Site, browser: Browser) -> None:
    folder = studio.studio.folder.root
    (folder / "people.csv").write_bytes(b"\xff\xfe\x00broken")
    job = started(browser)
    assert browser.waits(job)["state"] == "failed"
    page = browser.get(f"/run/{job}").text
    assert "people.csv" in page
    assert str(folder.parent) not in page
    assert "othing" in page


def killed(folder: Path) -> None:
    """Kill everything that works in the folder, as a power cut does."""
    for place in Path("/proc").glob("[0-9]*"):
        try:
            command = (place / "cmdline").read_bytes()
            is_there = (place / "cwd").readlink() == folder or str(folder).encode() in command
        except OSError:
            continue
        if is_there and int(place.name) != os.getpid() and b"pytest" not in command:
            os.kill(int(place.name), signal.SIGKILL)


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="processes are found by Linux's list of them")
def test_after_a_power_cut_the_release_is_estimated_from_what_was_paid(tmp_path: Path) -> None:
    write_tables(tmp_path)
    with site(tmp_path) as found:
        browser = found.browser()
        prepare(browser)
        hold(tmp_path)
        job = started(browser)
        is_held(tmp_path)
    killed(tmp_path)
    (tmp_path / "hold").unlink()
    again = Studio(Folder.of(tmp_path), REPLAYED)
    until(lambda: again.jobs.running() is None)
    assert again.jobs.job(job).state in ("interrupted", "failed")
    assert resume(again) is not None
    with site(tmp_path) as found:
        browser = found.browser()
        assert "stays charged" in browser.get(f"/run/{job}").text
        assert browser.waits("0002")["state"] == "ended"
        assert "people.priory" in browser.get("/history").text
    assert "ended early" in load(tmp_path / "people.priory").statement.mechanism
    assert entries(tmp_path) == [("mst", EntryState.OPEN)]


def served(folder: Path, *options: str) -> tuple["subprocess.Popen[str]", str]:
    """A studio in a process of its own, and its address with the token."""
    command = [sys.executable, "-P", "-m", "priory", "studio", str(folder), "--no-browser", *options]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    return process, address_in(process.stderr.readline())


def test_a_run_outlives_its_server_and_a_new_server_knows_it(tmp_path: Path) -> None:
    write_tables(tmp_path)
    server, address = served(tmp_path)
    with Browser(address.split("/enter")[0]) as browser:
        assert browser.get(address).status_code == 200
        prepare(browser)
        job = started(browser)
    server.kill()
    server.communicate()
    with site(tmp_path) as found:
        assert found.browser().waits(job)["state"] == "ended"
    assert load(tmp_path / "people.priory").statement.is_private
    assert entries(tmp_path) == [("mst", EntryState.SPENT)]


def test_an_idle_server_ends_itself_if_asked_to(tmp_path: Path) -> None:
    server, _ = served(tmp_path, "--idle", "0.005")
    _, said = server.communicate(timeout=60)
    assert server.returncode == 0
    assert "Traceback" not in said


def test_a_discovery_that_is_cancelled_is_used_as_far_as_it_came(studio: Site) -> None:
    folder, browser = studio.studio.folder.root, studio.browser()
    browser.submit("/table", private="people.csv", public="", name="people")
    browser.submit("/columns/names", header="yes")
    browser.submit("/persons", protects="person", person="person", max_rows="1", relation="add-remove")
    browser.submit("/budget", rows="400", total_epsilon="20", total_delta="1e-4", epsilon="2", go="make")
    browser.submit("/columns/discover", discover_epsilon="10", discover_delta="1e-5", go="stay")
    hold(folder)
    page = browser.get("/columns/discover").text
    job = str(browser.submit("/columns/discover/start", plan=field_of(page, "plan")).url).rsplit("/", 1)[1]
    is_held(folder)
    browser.submit(f"/run/{job}/cancel")
    assert browser.waits(job)["state"] == "cancelled"
    assert entries(folder) == [("schema discovery", EntryState.INTERRUPTED)]
    assert "What it had learnt is in" in browser.get(f"/run/{job}").text
    browser.submit("/columns/adopt")
    left = {path.name for path in folder.glob("schema-discovered*")}
    assert left == {"schema-discovered.yaml", "schema-discovered.counts.json"}
    assert OpenSchema.load(folder / "schema-discovered.yaml").discovered


def test_columns_are_discovered_for_a_price_and_used(studio: Site) -> None:
    folder, browser = studio.studio.folder.root, studio.browser()
    browser.submit("/table", private="people.csv", public="", name="people")
    refused = browser.submit("/columns/names")
    assert refused.status_code == 400
    assert "never guessed" in refused.text
    assert "not known yet" in browser.submit("/columns/names", header="yes").text
    assert "make the ledger" in browser.get("/columns/discover").text
    browser.submit("/persons", protects="person", person="person", max_rows="1", relation="add-remove")
    browser.submit("/budget", rows="400", total_epsilon="20", total_delta="1e-4", epsilon="2", go="make")
    browser.submit("/columns/discover", discover_epsilon="10", discover_delta="1e-5", go="stay")
    page = browser.get("/columns/discover").text
    job = str(browser.submit("/columns/discover/start", plan=field_of(page, "plan")).url).rsplit("/", 1)[1]
    assert browser.waits(job)["state"] == "ended", browser.get(f"/run/{job}").text
    assert "Use what it learnt" in browser.get("/columns").text
    adopted = browser.submit("/columns/adopt").text
    assert "colour" in adopted
    run = started(browser)
    assert browser.waits(run)["state"] == "ended", browser.get(f"/run/{run}").text
    assert [name for name, _ in entries(folder)] == ["schema discovery", "weighing"]
    statement = load(folder / "people.priory").statement
    assert "learning the schema from the same table" in str(statement)
    # The page states one total, wherever it states one.
    for page in ("/explore", "/explore/handing", "/explore/report", "/explore/statement"):
        assert statement.headline in browser.get(page).text
    history = browser.get("/history").text
    assert statement.promise in history
    assert f"{statement.discovered}, for learning the schema" in history
    assert f"which cost {statement.discovered}:" in browser.get("/budget").text
