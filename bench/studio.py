"""Studio: how long the local page takes on the embedded town, from the command to the first page and page by page."""

import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

import httpx

from priory import town
from priory.app.fit import fit
from priory.studio.folder import Folder
from priory.studio.hub import Studio
from priory.studio.steps.budget import make_ledger

PAGES = (
    "/table",
    "/columns",
    "/columns/edit/11",
    "/columns/yaml",
    "/persons",
    "/budget",
    "/run",
    "/history",
    "/explore",
)
TIMES = 5


def run(_quick: bool) -> None:  # noqa: FBT001 - the signature of all benchmarks
    """Print the seconds to the first page, of every page the first time and later, and of forecasts as they come."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        _prepare(folder)
        started = time.perf_counter()
        command = [sys.executable, "-m", "priory", "studio", place, "--no-browser"]
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        assert process.stderr is not None
        page = Path(url2pathname(urlsplit(process.stderr.readline().split()[-1]).path))
        found = re.search(r'http://[^"]+', page.read_text(encoding="utf-8"))
        assert found is not None
        with httpx.Client(base_url=found[0].split("/enter")[0], follow_redirects=True, timeout=60) as client:
            client.get(found[0]).raise_for_status()
            client.get("/").raise_for_status()
            print(f"first page            {time.perf_counter() - started:.2f} s after the command")
            for path in PAGES:
                first = _seconds(lambda path=path: client.get(path).raise_for_status())
                whole = first + _seconds(lambda path=path: _complete(client, path))
                later = min(_seconds(lambda path=path: client.get(path).raise_for_status()) for _ in range(TIMES))
                print(f"{path:20}  {first:.3f} s the first time, complete after {whole:.3f} s, {later:.3f} s later")
            for epsilon in ("1", "0.5", "0.75", "2"):
                print(f"forecast at ε = {epsilon:6} {_forecast(client, epsilon)}")
        process.terminate()
        process.communicate()


def _prepare(folder: Path) -> None:
    """A project of the town with a ledger and a release."""
    for table, name in ((town.THIS_YEAR, "private.csv.gz"), (town.LAST_YEAR, "public.csv.gz")):
        shutil.copy(table, folder / name)
    shutil.copy(town.SCHEMA, folder / "schema.yaml")
    studio = Studio(Folder.of(folder))
    studio.change(private="private.csv.gz", public="public.csv.gz", name="klosterwiek", rows="25000")
    make_ledger(studio)
    fit(
        folder / "private.csv.gz",
        folder / "schema.yaml",
        epsilon=1,
        delta="1e-8",
        public=folder / "public.csv.gz",
        ledger=folder / "priory.ledger",
        output=folder / "town.priory",
    )


def _seconds(action: Callable[[], object]) -> float:
    started = time.perf_counter()
    action()
    return time.perf_counter() - started


def _complete(client: httpx.Client, path: str) -> None:
    """Wait until nothing of a page is still to come."""
    while "data-comes" in client.get(path).text:
        time.sleep(0.02)


def _forecast(client: httpx.Client, epsilon: str) -> str:
    """When facts, errors and the time were there, and all of it."""
    started, when = time.perf_counter(), dict[str, float]()
    while True:
        found = client.get("/budget/forecast.json", params={"epsilon": epsilon}).json()
        now = time.perf_counter() - started
        when.setdefault("facts", now)
        if found.get("mean") is not None:
            when.setdefault("errors", now)
            if found["rehearsed"] == found["of"]:
                when.setdefault("time", now)
        if found["state"] != "working":
            return ", ".join(f"{name} {seconds:.2f} s" for name, seconds in (*when.items(), ("all", now)))
        time.sleep(0.02)
