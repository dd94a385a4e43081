"""Make screenshots: the steps of priory studio on the embedded town, in a real browser.

Needs a Chromium (PRIORY_CHROMIUM, or one in the path) and playwright. What the documentation shows is written to
docs/images/studio: what is in the window, as WebP. With --all FOLDER the whole length of every page is written to that
folder, too, as PNG, to be looked at. Both are at 1280 and 400 pixels, light and dark.
"""

import argparse
import base64
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Page

ROOT = Path(__file__).resolve().parents[1]
SHOWN = ROOT / "docs" / "images" / "studio"
SIZES = {1280: 900, 400: 800}
SCHEMES = ("light", "dark")
# What the documentation shows: the seven steps in all sizes and colours, and of some others one each.
STEPS = ("table", "columns", "persons", "budget", "run", "quality", "history")
FEW = (("column", 1280, "light"), ("running", 400, "light"), ("ask", 1280, "light"), ("heat", 400, "dark"))


class Camera:
    """Takes the page as it is, at the sizes and in the colours that are wanted."""

    def __init__(self, page: "Page", looked_at: Path | None) -> None:
        self.page, self._looked_at = page, looked_at

    def take(self, name: str, show: str = "") -> None:
        """Pictures of the page; in those of the window, `show` is scrolled to the top."""
        self.page.wait_for_load_state()
        self.page.locator("[data-comes]").first.wait_for(state="detached")
        for width, height in SIZES.items():
            for scheme in SCHEMES:
                self.page.set_viewport_size({"width": width, "height": height})
                self.page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
                self.page.evaluate("window.scrollTo(0, 0)")
                if self._looked_at is not None:
                    path = self._looked_at / f"{name}-{width}-{scheme}.png"
                    self.page.screenshot(path=str(path), full_page=True)
                if name in STEPS or (name, width, scheme) in FEW:
                    self._show(SHOWN / f"{name}-{width}-{scheme}.webp", show)
        self.page.set_viewport_size({"width": 1280, "height": SIZES[1280]})
        self.page.emulate_media(color_scheme="light")

    def _show(self, path: Path, show: str) -> None:
        """What is in the window as WebP, which is a third as large as PNG."""
        if show:
            self.page.locator(show).first.evaluate("each => each.scrollIntoView()")
        session = self.page.context.new_cdp_session(self.page)
        taken = session.send("Page.captureScreenshot", {"format": "webp", "quality": 60})
        path.write_bytes(base64.b64decode(taken["data"]))
        session.detach()
        print(f"{path.name}: {path.stat().st_size // 1000} kB", flush=True)


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """A studio of the folder; the address of a file that lets a browser in."""
    command = [sys.executable, "-m", "priory", "studio", str(folder), "--no-browser"]
    path = os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": path})
    if process.stderr is None:
        raise RuntimeError("the studio says nothing")
    try:
        yield next(line.split()[-1] for line in process.stderr if "file://" in line)
    finally:
        process.terminate()
        process.wait()


def walk(camera: Camera, address: str) -> None:
    """The whole flow on the town, from files to a release, and what can be done with it."""
    page = camera.page
    page.goto(address)
    page.wait_for_url("**/table")
    base = page.url.removesuffix("/table")
    page.check("input[name=private][value='register_2025.csv.gz']")
    page.check("input[name=public][value='register_2024.csv.gz']")
    page.fill("#name", "klosterwiek residents")
    camera.take("table")
    page.get_by_role("button", name="Next", exact=True).click()
    page.get_by_role("button", name="Draft from the public table").click()
    camera.take("columns")
    page.get_by_role("link", name="income", exact=True).click()
    camera.take("column")
    page.goto(f"{base}/columns/yaml")
    page.set_input_files("#file", str(ROOT / "src" / "priory" / "town" / "town.yaml"))
    page.get_by_role("button", name="Save", exact=True).click()
    page.goto(f"{base}/persons")
    page.check("input[name=protects][value=person]")
    page.select_option("#person", "person id")
    camera.take("persons")
    page.get_by_role("button", name="Next", exact=True).click()
    page.fill("#rows", "25000")
    page.fill("#total_epsilon", "3")
    page.get_by_role("button", name="Make the ledger").click()
    page.locator("#forecast [data-part]:not([hidden])").wait_for()
    page.locator("#forecast[aria-busy=false]").wait_for()
    camera.take("budget", "fieldset:nth-of-type(3)")
    page.get_by_role("button", name="Next", exact=True).click()
    page.fill("#purpose", "tables of the annual report")
    camera.take("run")
    page.get_by_role("button", name="Pay and start").click()
    camera.take("running")
    page.get_by_role("link", name="Explore it").click()
    explore(camera, base)


def explore(camera: Camera, base: str) -> None:
    """What there is once there is a release."""
    page = camera.page
    page.goto(f"{base}/explore")
    camera.take("quality")
    page.goto(f"{base}/explore/ask?what=mean&column=income&by=district&test-column=sex&test-sign==&test-value=female")
    page.locator("figure svg[role=img]").wait_for()
    camera.take("ask", "fieldset")
    page.goto(f"{base}/explore/ask?what=share&column=employment&by=district")
    camera.take("heat", "#answer")
    for name in ("rows", "more", "handing"):
        page.goto(f"{base}/explore/{name}")
        camera.take(name)
    page.goto(f"{base}/history")
    camera.take("history")


def main() -> None:
    """Make them."""
    parser = argparse.ArgumentParser(description="Screenshots of priory studio.")
    parser.add_argument("--all", type=Path, help="a folder for the whole length of every page")
    asked = parser.parse_args()
    from playwright.sync_api import sync_playwright

    for folder in filter(None, (SHOWN, asked.all)):
        folder.mkdir(parents=True, exist_ok=True)
    chromium = os.environ.get("PRIORY_CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
    with tempfile.TemporaryDirectory() as made, sync_playwright() as playwright:
        project = Path(made) / "klosterwiek"
        project.mkdir()
        for file in (ROOT / "src" / "priory" / "town").glob("*.csv.gz"):
            shutil.copy(file, project)
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_context(viewport={"width": 1280, "height": SIZES[1280]}).new_page()
        page.set_default_timeout(1_800_000)
        with served(project) as address:
            walk(Camera(page, asked.all), address)
        browser.close()


if __name__ == "__main__":
    main()
