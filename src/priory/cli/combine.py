"""Combine: the verb that makes one release of several."""

from pathlib import Path
from typing import Annotated

import typer

from priory.cli.output import AsJson, say, write_json, write_statement
from priory.cli.privacy import check_output, check_release_name
from priory.cli.progress import working
from priory.privacy.encoding import encode_statement
from priory.release import Release
from priory.release import combine as combined


def combine(
    releases: Annotated[list[Path], typer.Argument(help="Release files of one data set, at least two.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The release file to write.")],
    *,
    as_json: AsJson = False,
) -> None:
    """Make one release of several of the same data set: all measurements, one model, budgets added up.

    Free: nothing is spent that was not spent before.
    """
    check_release_name(output)
    check_output(output)
    with working("estimating", is_wanted=not as_json):
        release = combined([Release.load(path) for path in releases])
    release.save(output)
    if as_json:
        write_json({"output": str(output), "statement": encode_statement(release.statement)})
        return
    write_statement(release.statement)
    say(f"Wrote {output}: {len(release.measurements)} measurements of {len(releases)} releases.")
