"""Studio: how long the local page takes on the embedded town, from the command to the first page and page by page."""

import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

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
    """Print the seconds to the first page and of every page, the first time and later, and of a forecast."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        _prepare(folder)
        started = time.perf_counter()
        command = [sys.executable, "-m", "priory", "studio", place, "--no-browser"]
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        assert process.stderr is not None
        found = re.search(r"http://\S+", process.stderr.readline())
        assert found is not None
        with httpx.Client(base_url=found[0].split("/enter")[0], follow_redirects=True, timeout=60) as client:
            client.get(found[0]).raise_for_status()
            print(f"first page            {time.perf_counter() - started:.2f} s after the command")
            for path in PAGES:
                seconds = [_seconds(lambda path=path: client.get(path).raise_for_status()) for _ in range(TIMES)]
                print(f"{path:20}  {seconds[0]:.3f} s the first time, {min(seconds[1:]):.3f} s later")
            print(f"{'forecast':20}  {_seconds(lambda: _forecast(client)):.2f} s")
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


def _forecast(client: httpx.Client) -> None:
    while client.get("/budget/forecast.json", params={"epsilon": "1"}).json()["state"] == "working":
        time.sleep(0.05)
