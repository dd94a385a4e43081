"""Evaluate: the curator's verb that judges a release by the private table."""

from pathlib import Path
from typing import Annotated

import typer

from priory.cli.output import AsJson, json_text, say, write, write_json
from priory.cli.privacy import Unit, check_output
from priory.cli.progress import working
from priory.cli.report import MARK
from priory.cli.tables import Adbc, DatabaseQuery, Driver, Engine, table_of
from priory.data.writing import write_secret
from priory.errors import OptionError
from priory.release import load


def evaluate(
    release: Annotated[Path, typer.Argument(help="The release file.")],
    private: Annotated[str | None, typer.Argument(help="The private table that it was made of.")] = None,
    *,
    adbc: Adbc = None,
    query: DatabaseQuery = None,
    driver: Driver = None,
    engine: Engine = None,
    target: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="The column to be learned; default: the last with few values.")
    ] = None,
    ledger: Annotated[Path | None, typer.Option(help="The book of the release, so that the same rows count.")] = None,
    unit: Unit = None,
    seed: Annotated[int, typer.Option(help="Of the synthetic rows that are learned from.")] = 0,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help=f"Also write it as JSON; the name must contain {MARK}.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Judge a release by the private table, with one score. NOT PRIVATE: for the curator's eyes, inside the house.

    Nothing is paid, and no promise covers what it prints. Never publish it, nor choose by it what to publish.
    """
    from priory.report.evaluation import STAMP
    from priory.report.evaluation import evaluate as evaluated

    if output is not None:
        if MARK not in output.name:
            raise OptionError("--output", f"the name of such a file must contain {MARK}, as in people.{MARK}.json")
        check_output(output)
    table = table_of(private, adbc, query, driver)
    with working("reading the table", is_wanted=not as_json):
        found = evaluated(load(release), table, target=target, ledger=ledger, unit=unit, engine=engine, seed=seed)
    if output is not None:
        write_secret(output, json_text(found.to_dict()))
    if as_json:
        write_json(found.to_dict())
    else:
        write(str(found))
    if output is not None:
        say(f"Wrote {output}. {STAMP}")
