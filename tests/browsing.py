"""A real browser for the tests of the studio, and axe-core to look at its pages for barriers."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
# What finds barriers is not part of the project: `make axe` puts it there.
AXE = ROOT / ".axe" / "node_modules" / "axe-core" / "axe.min.js"
REQUIRED = "PRIORY_REQUIRE_BROWSER"


def chromium() -> str:
    """The path of a Chromium; the test is skipped where there is none, or fails where one is required."""
    found = os.environ.get("PRIORY_CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        _lacking("no Chromium was found: install one, or say where it is with PRIORY_CHROMIUM")
    return str(found)


@cache
def axe() -> str:
    """The script of axe-core; the test is skipped where it is missing, or fails where browsers are required."""
    path = Path(os.environ.get("PRIORY_AXE") or AXE)
    if not path.is_file():
        _lacking("axe-core was not found: make axe gets it by npm, or say where it is with PRIORY_AXE")
    return path.read_text(encoding="utf-8")


def _lacking(words: str) -> None:
    if os.environ.get(REQUIRED):
        pytest.fail(f"{words} ({REQUIRED} is set)")
    pytest.skip(words)


@contextmanager
def browsing() -> Iterator[Any]:
    """A browser for as long as the block lasts."""
    path = chromium()
    if os.environ.get(REQUIRED):
        import playwright.sync_api as playwright
    else:
        playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    # Chromium's own sandbox does not start where tests run as root; it opens nothing but our own pages.
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
        yield browser
        browser.close()


class Person:
    """Somebody at a browser: what they do, and everything that a browser complains of."""

    def __init__(self, browser: Any, address: str, token: str, **options: Any) -> None:
        self.context = browser.new_context(viewport={"width": 1280, "height": 900}, **options)
        self.context.set_default_timeout(300_000)
        self.page = self.context.new_page()
        self.address = address
        self.complaints: list[str] = []
        self.page.on("console", lambda said: self._hear(said.type, said.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda request: self._outside(request.url))
        self.page.goto(f"{address}/enter?token={token}")
        self.page.wait_for_url(lambda url: "/enter" not in url)

    def _hear(self, kind: str, text: str) -> None:
        if kind in ("error", "warning"):
            self.complaints.append(text)

    def _outside(self, url: str) -> None:
        if not url.startswith((self.address, "data:", "blob:")):
            self.complaints.append(f"a request to {url}")

    def goes(self, path: str) -> None:
        """Open a page by its address."""
        self.page.goto(self.address + path)

    def reads(self) -> str:
        """What the page says."""
        return str(self.page.inner_text("main"))

    @contextmanager
    def leaves(self) -> Iterator[None]:
        """Do something that opens another page, and wait until that page is there and complete.

        A click only begins to load a page: what is read or opened next would still meet the old one.
        """
        self.page.evaluate("window.isLeft = true")
        yield
        self.page.wait_for_function("() => !window.isLeft && document.readyState === 'complete'")

    def presses(self, name: str) -> None:
        """Press a button that sends a form, by its name, and wait for the answer; for a file there is `gets`."""
        with self.leaves():
            self.page.get_by_role("button", name=name, exact=True).click()

    def follows(self, name: str) -> None:
        """Follow a link, by its name, and wait for its page."""
        with self.leaves():
            self.page.get_by_role("link", name=name, exact=True).click()

    def waits_for(self, text: str) -> None:
        """Wait until the page says something; if it loads itself anew for that, until this is complete."""
        self.page.get_by_text(text).first.wait_for()
        self.page.wait_for_load_state()

    def gets(self, button: str) -> Path:
        """The file that a button, or else a link, of this name gives."""
        with self.page.expect_download() as given:
            found = self.page.get_by_role("button", name=button, exact=True)
            (found if found.count() else self.page.get_by_role("link", name=button, exact=True)).first.click()
        return Path(given.value.path())

    def barriers(self) -> list[str]:
        """What axe-core calls serious or critical on the page; in the dark, contrast alone is another."""
        found = []
        self.page.evaluate(axe())
        for scheme, options in {"light": "{}", "dark": "{runOnly: ['color-contrast']}"}.items():
            self.page.emulate_media(color_scheme=scheme)
            for each in self.page.evaluate(f"axe.run(document, {options})")["violations"]:
                if each["impact"] in ("serious", "critical"):
                    found.append(f"{self.page.url} ({scheme}): {each['id']}: {each['nodes'][0]['html']}")
        self.page.emulate_media(color_scheme="light")
        return found

    def overflow(self) -> list[str]:
        """The widths at which the page is wider than its window."""
        found = []
        for width in (400, 1600):
            self.page.set_viewport_size({"width": width, "height": 900})
            if self.page.evaluate("document.documentElement.scrollWidth > document.documentElement.clientWidth"):
                found.append(f"{self.page.url} at {width}")
        self.page.set_viewport_size({"width": 1280, "height": 900})
        return found
