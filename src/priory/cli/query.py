"""Query: the verb that asks a release."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from priory.cli.output import AsJson, say, stdout, write, write_json
from priory.cli.progress import working
from priory.data.streaming import plain_rows, write_csv
from priory.data.table import Table
from priory.data.visible import visible
from priory.errors import OptionError
from priory.release import Release

SHOWN = 50


@dataclass(frozen=True)
class Details:
    """Options of every answer: which rows, which confidence, and which quantiles."""

    where: str | None
    level: float | None
    at: tuple[float, ...]


def query(
    release: Annotated[Path, typer.Argument(help="The release file.")],
    columns: Annotated[
        list[str] | None, typer.Argument(help="One answer for each combination of these columns' values.")
    ] = None,
    *,
    where: Annotated[str | None, typer.Option(help="Which rows count, as in SQL: \"age >= 30 and sex = 'F'\".")] = None,
    mean: Annotated[str | None, typer.Option(metavar="COLUMN", help="The mean of a column instead of counts.")] = None,
    total: Annotated[str | None, typer.Option("--sum", metavar="COLUMN", help="The sum of a column.")] = None,
    median: Annotated[str | None, typer.Option(metavar="COLUMN", help="The median of a column.")] = None,
    quantile: Annotated[str | None, typer.Option(metavar="COLUMN", help="A quantile of a column; see --at.")] = None,
    at: Annotated[
        list[float] | None, typer.Option(help="Which quantile: a share from 0 to 1; may be repeated.")
    ] = None,
    share: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Shares of a column's values, given the columns.")
    ] = None,
    cdf: Annotated[str | None, typer.Option(metavar="COLUMN", help="Which share has at most each value.")] = None,
    level: Annotated[float, typer.Option(help="How often intervals should hold the truth.")] = 0.9,
    intervals: Annotated[bool, typer.Option(help="Give each answer its interval.")] = True,
    limit: Annotated[
        int | None, typer.Option(help=f"How many rows to print; on a terminal {SHOWN} by default.")
    ] = None,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV, as a pipe gets anyway.")] = False,
    as_json: AsJson = False,
) -> None:
    """Answer from a release, in the words of its schema, with an interval for each answer. Free: nothing is spent.

    Without columns, the number of rows; with them, a marginal.
    """
    if limit is not None and limit < 0:
        raise OptionError("--limit", f"a number of rows, at least 0; got {limit}")
    if at and quantile is None:
        raise OptionError("--at", "it says which quantile: name the column with --quantile")
    options = {"mean": mean, "sum": total, "median": median, "quantile": quantile, "share": share, "cdf": cdf}
    asked = [(what, column) for what, column in options.items() if column is not None]
    if len(asked) > 1:
        raise OptionError(f"--{asked[1][0]}", f"ask one thing at a time; --{asked[0][0]} is given, too")
    how = Details(where, level if intervals else None, tuple(at or [0.5]))
    with working("answering", is_wanted=not as_json):
        table = _answered(Release.load(release), asked, columns or [], how)
    _print(table, limit, as_csv=as_csv, as_json=as_json)


def _answered(release: Release, asked: list[tuple[str, str]], by: list[str], how: Details) -> Table:
    if not asked:
        return release.marginal(by, where=how.where, level=how.level)
    [(what, column)] = asked
    if what == "share":
        return release.share(column, given=by, where=how.where, level=how.level)
    if what == "quantile":
        return release.quantile(
            column, how.at if len(how.at) > 1 else how.at[0], by=by, where=how.where, level=how.level
        )
    verbs = {"mean": release.mean, "sum": release.sum, "median": release.median, "cdf": release.cdf}
    return verbs[what](column, by=by, where=how.where, level=how.level)


def _print(table: Table, limit: int | None, *, as_csv: bool, as_json: bool) -> None:
    is_terminal = sys.stdout.isatty() and not (as_csv or as_json)
    shown = table.head(SHOWN if limit is None and is_terminal else len(table) if limit is None else limit)
    if as_json:
        write_json({"rows": plain_rows(shown), "of": len(table), "notes": list(table.notes)})
        return
    if is_terminal:
        write(shown.lines())
    else:
        write_csv([shown], stdout())
    if len(shown) < len(table):
        say(f"{len(table) - len(shown):,} more rows; --limit {len(table)} shows them all.")
    for note in table.notes:
        say(f"Note: {visible(note)}.")
