"""Sample: the verb for synthetic rows."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from priory.cli.output import AsJson, json_escaped, say, stdout, write_json
from priory.cli.privacy import check_output
from priory.cli.progress import counting
from priory.data.lines import json_lines, write_csv
from priory.data.streaming import check_suffix, write_batches
from priory.data.table import Table
from priory.release import Release


def sample(
    release: Annotated[Path, typer.Argument(help="The release file.")],
    *,
    rows: Annotated[int | None, typer.Option("--rows", "-n", help="How many; default: as many as there are.")] = None,
    where: Annotated[str | None, typer.Option(help="Which rows are wanted, as in SQL; bins are taken whole.")] = None,
    seed: Annotated[int | None, typer.Option(help="To draw the same rows again.")] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="A .csv, .csv.gz, .parquet or .xlsx file; default: CSV to stdout."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Draw synthetic rows from a release. Free: nothing is spent.

    Columns, types and missing values are the schema's, and no row breaks its constraints. With --json and no file,
    every row is a line of JSON.
    """
    if output is not None:
        check_suffix(output)
        check_output(output)
    found = Release.load(release)
    batches = found.batches(rows, where=where, seed=seed)
    if not found.statement.is_private:
        say(found.statement.lines[0])
    wanted = found.model.total if rows is None else rows
    counted = counting(batches, wanted, "rows", is_wanted=not as_json and (output is not None or not _is_watched()))
    if output is None:
        _print(counted, as_json=as_json)
        return
    written = write_batches(counted, output)
    if as_json:
        write_json({"output": str(output), "rows": written})
        return
    say(f"Wrote {written:,} synthetic rows to {output}.")


def _is_watched() -> bool:
    """Whether a person reads the rows as they come."""
    return sys.stdout.isatty()


def _print(batches: Iterator[Table], *, as_json: bool) -> None:
    if not as_json:
        write_csv(batches, stdout())
        return
    for batch in batches:
        stdout().writelines(map(json_escaped, json_lines(batch)))
