"""A studio in a thread of the tests, on the loopback address, and a browser without scripts for it."""

import re
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

import httpx
import numpy as np

from priory.studio.folder import Folder
from priory.studio.hub import Studio
from priory.studio.server import HOST, app_of, server_of

# The command line with replayed randomness.
REPLAYED = (sys.executable, "-P", str(Path(__file__).with_name("replayed_cli.py")))
# What a part of a page has that is still being worked out.
COMING = "data-comes"
# What no page, log or error may show: it stands in the private table alone.
CANARY = "Zanzibar-7391"


class Site:
    """A studio that answers."""

    def __init__(self, studio: Studio, port: int) -> None:
        self.studio, self.port = studio, port
        self.address = f"http://{HOST}:{port}"
        self.browsers: list[Browser] = []

    def browser(self, *, enters: bool = True) -> "Browser":
        """A browser; one that was let in, or that was not."""
        browser = Browser(self.address)
        self.browsers.append(browser)
        if enters:
            entered = browser.get(f"/enter?token={self.studio.keys.token}")
            assert entered.status_code == 200
        return browser


class Browser(httpx.Client):
    """What a browser without scripts does: cookies, redirects, and the Origin of forms."""

    def __init__(self, address: str) -> None:
        super().__init__(base_url=address, follow_redirects=True, timeout=120)
        self.address = address

    def get(self, *given: Any, **options: Any) -> httpx.Response:
        """A page with all that comes later, as a browser shows it after a while."""
        ends = time.monotonic() + 300
        while COMING in (answer := super().get(*given, **options)).text:
            assert time.monotonic() < ends
            time.sleep(0.05)
        return answer

    def csrf(self) -> str:
        """The token of the forms."""
        return field_of(self.get("/table").text, "csrf")

    def submit(self, path: str, **fields: Any) -> httpx.Response:
        """Send a form."""
        answer = self.post(path, data={"csrf": self.csrf(), **fields}, headers={"origin": self.address})
        return self.get(answer.url) if COMING in answer.text else answer

    def waits(self, job: str) -> dict[str, Any]:
        """How a run ended."""
        found: dict[str, Any] = {}

        def has_ended() -> bool:
            found.update(self.get(f"/run/{job}.json").json())
            return bool(found["state"] != "running")

        until(has_ended)
        return found


def until(condition: Callable[[], bool]) -> None:
    """Wait for something that comes soon, or never does."""
    ends = time.monotonic() + 300
    while not condition():
        assert time.monotonic() < ends
        time.sleep(0.05)


@contextmanager
def site(folder: Path, command: tuple[str, ...] = REPLAYED) -> Iterator[Site]:
    """A studio of `folder` for as long as the block lasts."""
    studio = Studio(Folder.of(folder), command)
    with socket.socket() as listening:
        listening.bind((HOST, 0))
        port = listening.getsockname()[1]
        server = server_of(app_of(studio, port))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        while not server.started:
            time.sleep(0.01)
        found = Site(studio, port)
        try:
            yield found
        finally:
            for browser in found.browsers:
                browser.close()
            studio.forecasts.end()
            server.should_exit = True
            thread.join()


def address_in(said: str) -> str:
    """The address that the page said, itself or by a file that leads to it, the newest of them."""
    found = re.findall(r"(?:http|file)://[^\s\"]+", said)[-1]
    return found if found.startswith("http") else address_in(Path(url2pathname(urlsplit(found).path)).read_text())


def field_of(markup: str, name: str) -> str:
    """The value of a field of a page."""
    found = re.search(rf'name="{re.escape(name)}"[^>]*?value="([^"]*)"', markup)
    assert found is not None, name
    return unescape(found[1])


def problems_of(markup: str) -> dict[str, str]:
    """What a page says is wrong, by field."""
    found = re.findall(r'class="problem"[^>]*id="problem-([^"]+)"[^>]*>([^<]*)<', markup)
    return {name: unescape(text).strip() for name, text in found}


def write_tables(folder: Path, rows: int = 400) -> None:
    """A private table with a canary in it, and a public one of the same columns."""
    rng = np.random.default_rng(0)
    for file, seen in (("people.csv", CANARY), ("public.csv", "blue")):
        lines = ["person,age,colour,smoker"]
        for i in range(rows):
            colour = rng.choice(["red", "green", seen], p=[0.5, 0.4, 0.1])
            lines.append(f"{file[0]}{i},{rng.integers(18, 80)},{colour},{rng.choice(['yes', 'no'])}")
        (folder / file).write_text("\n".join(lines) + "\n", encoding="utf-8")


def prepare(browser: Browser, *, total: str = "3", epsilon: str = "1", mechanism: str = "mst") -> None:
    """Do steps 1 to 4; a mechanism that is named starts without the public table."""
    browser.submit("/table", private="people.csv", public="public.csv", name="people")
    browser.submit("/columns/draft")
    if mechanism:
        browser.submit("/table", private="people.csv", public="", name="people")
    browser.submit("/persons", protects="row", relation="add-remove", max_rows="1", person="")
    made = browser.submit(
        "/budget", rows="400", total_epsilon=total, total_delta="1e-6", epsilon=epsilon, mechanism=mechanism, go="make"
    )
    assert "The ledger was made" in made.text, made.text
