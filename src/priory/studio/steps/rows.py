"""Rows: synthetic rows of a release, to look at and to take away."""

import shlex
import tempfile
from dataclasses import dataclass
from pathlib import Path

from starlette.background import BackgroundTask
from starlette.responses import Response

from priory.data.streaming import write_batches
from priory.errors import OptionError, PrioryError
from priory.studio import pictures
from priory.studio.steps.explore import needed, shared
from priory.studio.visit import Visit

PREVIEWED = 20
# A page makes no more rows than this; the command line has no such bound.
MOST_ROWS = 5_000_000
FORMATS = {
    "csv": ("CSV", "text/csv; charset=utf-8"),
    "csv.gz": ("CSV, packed", "application/gzip"),
    "parquet": ("Parquet", "application/vnd.apache.parquet"),
    "xlsx": ("Excel workbook", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"),
}


@dataclass(frozen=True)
class Wanted:
    """Which rows are wanted, as they were typed."""

    rows: int | None
    where: str
    seed: int | None

    def command(self, release: str, file: str) -> list[str]:
        """The command line that draws the same rows."""
        words = ["priory", "sample", release]
        words += ["--rows", str(self.rows)] if self.rows is not None else []
        words += ["--where", self.where] if self.where else []
        words += ["--seed", str(self.seed)] if self.seed is not None else []
        return [*words, "--output", file]

    def call(self) -> str:
        """The call that draws the same rows."""
        parts = [str(self.rows)] if self.rows is not None else []
        parts += [f"where={self.where!r}"] if self.where else []
        parts += [f"seed={self.seed}"] if self.seed is not None else []
        return f"release.sample({', '.join(parts)})"


def show(visit: Visit) -> Response:
    """The first rows, and the form for a file of them."""
    look = needed(visit)
    shown, problems = None, {}
    try:
        wanted = _wanted(visit)
        shown = pictures.shown(look.release.sample(PREVIEWED, where=wanted.where or None, seed=wanted.seed))
    except OptionError as error:
        wanted = Wanted(None, "", None)
        reason = str(error).removeprefix(f"{error.argument}: ")
        problems = {error.argument: f"{reason[:1].upper()}{reason[1:]}."}
    file = f"{Path(look.name).stem}-rows.csv"
    return visit.page(
        "explore-rows.html",
        title="Explore: synthetic rows",
        shown=shown,
        problems=problems,
        form={name: visit.query.get(name, "") for name in ("rows", "where", "seed")},
        total=f"{round(look.release.model.total):,}",
        formats=FORMATS,
        command=[shlex.join(wanted.command(look.name, file))],
        python=f"import priory as pr\n\nrelease = pr.load({look.name!r})\n{wanted.call()}.write_csv({file!r})",
        **shared(visit, look, "rows"),
    )


def download(visit: Visit) -> Response:
    """A file of synthetic rows."""
    look, wanted = needed(visit, None), _wanted(visit)
    kind = visit.query.get("format", "csv")
    if kind not in FORMATS:
        raise OptionError("format", f"one of {', '.join(FORMATS)}; got {kind!r}")
    batches = look.release.batches(wanted.rows, where=wanted.where or None, seed=wanted.seed)
    folder = tempfile.TemporaryDirectory(prefix="priory-", dir=visit.studio.folder.kept)
    path = Path(folder.name) / f"rows.{kind}"
    try:
        write_batches(batches, path)
    except (PrioryError, OSError):
        folder.cleanup()
        raise
    response = visit.download(path, f"{Path(look.name).stem}-rows.{kind}", FORMATS[kind][1])
    response.background = BackgroundTask(folder.cleanup)
    return response


def _wanted(visit: Visit) -> Wanted:
    rows, seed = (_whole(name, visit.query.get(name, "")) for name in ("rows", "seed"))
    if rows is not None and rows > MOST_ROWS:
        raise OptionError("rows", f"at most {MOST_ROWS:,} here; the command line has no such bound")
    return Wanted(rows, visit.query.get("where", "").strip(), seed)


def _whole(name: str, text: str) -> int | None:
    text = text.strip().replace(",", "")
    if not text:
        return None
    if not text.isascii() or not text.isdigit() or len(text) > 15:
        raise OptionError(name, f"a whole number, or nothing; got {text[:40]!r}")
    return int(text)


ROUTES = [("/explore/rows", "GET", show), ("/explore/rows/file", "GET", download)]
