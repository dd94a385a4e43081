"""A second user of the machine: sees nothing that opens the page, nor a private cell, and locks nobody out of it."""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from browsing import browsing, chromium
from priory.data.writing import write_secret
from priory.errors import DataError
from priory.studio import connections
from priory.studio.folder import Folder
from priory.studio.hub import Studio
from priory.studio.server import HOST
from studio_site import CANARY, Browser, address_in, field_of, site, until, write_tables

resource = pytest.importorskip("resource", reason="Windows has other limits, and no modes")

PAGE = (sys.executable, "-P", "-m", "priory", "studio")
# Not told by any answer: one person's name.
PERSON = "Ouagadougou-5518"
# A browser that writes down what it was to open, and stays as long as who started it.
BROWSER = """
import os, pathlib, sys, time
parent = os.getppid()
pathlib.Path(sys.argv[1]).write_text(sys.argv[2])
while os.getppid() == parent:
    time.sleep(0.05)
"""
# The page with a bug: it gives the browser the address itself.
TELLING = """
import re, sys, urllib.request, webbrowser
from priory.cli import main
right = webbrowser.open
webbrowser.open = lambda page: right(re.findall("http://[^\\"]+", urllib.request.urlopen(page).read().decode())[-1])
main(sys.argv[1:])
"""
# What a browser needs of its own, in containers too; it opens nothing but our own pages.
HEADLESS = "--headless --no-sandbox --disable-gpu --no-first-run --remote-debugging-port=0"


class Machine:
    """A folder that everybody may enter, with a project, a folder for temporary files and a log; and a second user."""

    def __init__(self, root: Path) -> None:
        self.root, self.log = root, root / "page.log"
        self.project, self.temporary, self.own = (root / name for name in ("project", "temporary", "own"))
        root.chmod(0o755)
        self.project.mkdir(mode=0o755)
        self.temporary.mkdir()
        self.temporary.chmod(0o1777)
        self.own.mkdir(mode=0o700)
        write_tables(self.project)
        table = self.project / "people.csv"
        table.write_text(table.read_text().replace(CANARY, "blue").replace("p17,", f"{PERSON},"))
        # What the curator brings has the modes that they gave it.
        table.chmod(0o600)

    @contextmanager
    def page(
        self, *options: str, browser: str = "", command: tuple[str, ...] = PAGE
    ) -> Iterator["subprocess.Popen[bytes]"]:
        """The page, as it is started from a shell whose messages go to a log."""
        settings = {**os.environ, "TMPDIR": str(self.temporary), "BROWSER": browser}
        self.log.touch(mode=0o644)
        with self.log.open("ab") as log:
            process = subprocess.Popen([*command, str(self.project), *options], stderr=log, env=settings)
        try:
            yield process
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(30)

    @contextmanager
    def second_user(self) -> Iterator[list[bytes]]:
        """What somebody else sees while the block lasts; it is there when it has ended."""
        seen: list[bytes] = []
        command = [sys.executable, str(Path(__file__).with_name("second_user.py")), str(self.root)]
        spy = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        try:
            yield seen
        finally:
            seen.append(spy.communicate()[0])


@pytest.fixture
def machine() -> Iterator[Machine]:
    # Not pytest's own folder, which nobody else may enter.
    root = Path(tempfile.mkdtemp(prefix="machine-"))
    yield Machine(root)
    shutil.rmtree(root, ignore_errors=True)


def discovers_and_fits(browser: Browser) -> None:
    """Both kinds of runs that read private rows, and the page of true counts."""
    browser.submit("/table", private="people.csv", public="", name="people")
    browser.submit("/columns/names", header="yes")
    browser.submit("/persons", protects="person", person="person", max_rows="1", relation="add-remove")
    browser.submit("/budget", rows="400", total_epsilon="20", total_delta="1e-4", epsilon="2", go="make")
    browser.submit("/columns/discover", discover_epsilon="10", discover_delta="1e-5", go="stay")
    runs(browser, "/columns/discover")
    browser.submit("/columns/adopt")
    runs(browser, "/run")
    assert "NOT PRIVATE" in browser.submit("/history/truth/people.priory", confirmed="yes").text


def runs(browser: Browser, path: str) -> None:
    job = str(browser.submit(f"{path}/start", plan=field_of(browser.get(path).text, "plan")).url).rsplit("/", 1)[1]
    assert browser.waits(job)["state"] == "ended", browser.get(f"/run/{job}").text


def test_nothing_that_opens_the_page_and_no_private_cell_is_seen_by_another_user(machine: Machine) -> None:
    opened = machine.own / "opened"
    (machine.own / "browser.py").write_text(BROWSER)
    opening = f"{sys.executable} {machine.own / 'browser.py'} {opened} %s"
    with machine.second_user() as seen, machine.page(browser=opening):
        until(lambda: opened.is_file() and opened.read_text() != "")
        given = opened.read_text()
        address = address_in(given)
        with Browser(address.split("/enter")[0]) as browser:
            assert browser.get(address).status_code == 200
            csrf, session = browser.csrf(), next(iter(browser.cookies.values()))
            until(lambda: "another" in machine.log.read_text())
            another = address_in(machine.log.read_text())
            assert another != address
            discovers_and_fits(browser)
    [all_seen] = seen
    # They do look: at the process list, at the folders, at the log.
    if Path("/proc/self").is_dir():
        assert given.encode() in all_seen
    assert b"green" in all_seen
    assert b"A browser was let in" in all_seen
    for secret in (*address.split("/enter?token="), *another.split("/enter?token=")[1:], csrf, session, PERSON):
        assert secret.encode() not in all_seen
    # What led to the page is gone with it.
    assert not list(machine.project.rglob("enter*"))


def test_an_address_in_the_command_line_of_the_browser_is_seen_by_another_user(machine: Machine) -> None:
    opened = machine.own / "opened"
    (machine.own / "browser.py").write_text(BROWSER)
    opening = f"{sys.executable} {machine.own / 'browser.py'} {opened} %s"
    command = (sys.executable, "-c", TELLING, "studio")
    with machine.second_user() as seen, machine.page(browser=opening, command=command):
        until(lambda: opened.is_file() and opened.read_text() != "")
        address = opened.read_text()
        time.sleep(1)  # they look twenty times a second
    assert "token=" in address
    assert address.encode() in seen[0] or not Path("/proc/self").is_dir()


def test_the_address_is_on_a_terminal_and_in_no_log(machine: Machine) -> None:
    with machine.page("--no-browser"):
        until(lambda: "file://" in machine.log.read_text())
        [page] = machine.project.rglob("enter*")
        assert page.stat().st_mode & 0o777 == 0o600
        assert page.parent.stat().st_mode & 0o777 == 0o700
        assert "token=" not in machine.log.read_text()
    ours, terminal = os.openpty()
    process = subprocess.Popen([*PAGE, str(machine.project), "--no-browser"], stderr=terminal)
    try:
        assert b"/enter?token=" in os.read(ours, 4096)
        assert not list(machine.project.rglob("enter*"))
    finally:
        process.terminate()
        process.wait(30)
        os.close(ours)
        os.close(terminal)


def test_the_file_that_a_browser_gets_opens_the_page_in_it(machine: Machine) -> None:
    profile = machine.own / "profile"
    opening = f"{chromium()} {HEADLESS} --user-data-dir={profile} %s"
    with ExitStack() as stack:
        playwright = stack.enter_context(browsing())
        seen = stack.enter_context(machine.second_user())
        stack.enter_context(machine.page(browser=opening))
        until((profile / "DevToolsActivePort").is_file)
        port = (profile / "DevToolsActivePort").read_text().split()[0]
        launched = playwright.browser_type.connect_over_cdp(f"http://127.0.0.1:{port}")
        page = launched.contexts[0].pages[0]
        page.wait_for_url("**/table", timeout=60_000)
        assert "Which tables?" in page.title()
        launched.new_browser_cdp_session().send("Browser.close")
    assert b"/enter?token=" not in seen[0]
    assert str(profile).encode() in seen[0] or not Path("/proc/self").is_dir()


def test_what_others_could_read_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # A disk without modes, as many that are carried about.
    monkeypatch.setattr(Path, "touch", lambda path, **_: path.write_bytes(b""))
    with pytest.raises(DataError, match="other users"):
        write_secret(tmp_path / "secret", "word")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_of_the_page_that_others_could_open_is_closed(tmp_path: Path) -> None:
    (tmp_path / ".priory-studio").mkdir()
    (tmp_path / ".priory-studio").chmod(0o755)
    Studio(Folder.of(tmp_path))
    assert (tmp_path / ".priory-studio").stat().st_mode & 0o777 == 0o700


def test_half_open_connections_lock_nobody_out(machine: Machine) -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = 1300 if before[1] == resource.RLIM_INFINITY else min(1300, before[1])
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, before[1]))
    with ExitStack() as stack:
        try:
            stack.enter_context(machine.page("--no-browser"))
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (max(most, before[0]), before[1]))
        stack.callback(resource.setrlimit, resource.RLIMIT_NOFILE, before)
        until(lambda: "file://" in machine.log.read_text())
        address = address_in(machine.log.read_text())
        port = int(re.findall(r":([0-9]+)/", address)[0])
        for i in range(most - 200):
            held = stack.enter_context(socket.socket())
            held.settimeout(0)
            held.connect_ex((HOST, port))
            if i % 2:
                with suppress(OSError):  # it is not let in yet, or not any more
                    held.send(b"GET / HTTP/1.1\r\nHost: ")
        started = time.monotonic()
        with Browser(address.split("/enter")[0]) as browser:
            browser.timeout = 10
            assert browser.get(address).status_code == 200
            assert browser.get("/table").status_code == 200
        assert time.monotonic() - started < 10


def test_a_connection_that_asks_nothing_ends_soon_and_one_that_asked_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "SECONDS_SILENT", 0.3)
    with site(tmp_path) as found:
        asked = (
            f"POST /columns/yaml HTTP/1.1\r\nHost: 127.0.0.1:{found.port}\r\nOrigin: {found.address}\r\n"
            f"Cookie: priory-{found.port}={found.studio.keys.session}\r\nContent-Length: 4\r\n\r\n"
        )
        for begun in (b"", asked[:40].encode()):
            with socket.create_connection((HOST, found.port), timeout=5) as held:
                held.send(begun)
                assert held.recv(1) == b""
        with socket.create_connection((HOST, found.port), timeout=5) as held:
            held.send(asked.encode())
            time.sleep(0.6)
            held.send(b"form")
            assert held.recv(8) == b"HTTP/1.1"
