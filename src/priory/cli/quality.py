"""Quality: the verb that says what of a release is above the noise."""

from pathlib import Path
from typing import Annotated

import typer

from priory.cli.output import AsJson, say, write, write_json
from priory.cli.progress import working
from priory.data.lines import plain_rows
from priory.data.visible import visible
from priory.release import Release

SHOWN = 30


def quality(
    release: Annotated[Path, typer.Argument(help="The release file.")],
    *,
    redraw: Annotated[
        bool, typer.Option("--redraw", help="Find the errors by redrawing the noise: closer, and slower.")
    ] = False,
    limit: Annotated[int | None, typer.Option(help=f"How many pairs to print; {SHOWN} by default.", min=0)] = None,
    as_json: AsJson = False,
) -> None:
    """Say which columns and pairs of a release are above the noise. Free: no private row is read."""
    with working("comparing errors with noise", is_wanted=not as_json):
        loaded = Release.load(release)
        found = loaded.quality(redraw=redraw)
    if as_json:
        write_json({"rows": plain_rows(found), "notes": list(found.notes)})
        return
    rows = len(loaded.domain) + (SHOWN if limit is None else limit)
    write(found.head(rows).lines())
    if rows < len(found):
        say(f"{len(found) - rows:,} more pairs; --limit {len(found) - len(loaded.domain)} shows them all.")
    for note in found.notes:
        say(f"Note: {visible(note)}.")
