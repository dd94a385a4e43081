"""Fit: the verb that spends."""

import tempfile
from pathlib import Path
from typing import Annotated

import typer

from priory.cli.output import AsJson, say, write, write_json
from priory.cli.privacy import Delta, Epsilon, Rho, Unit, check_output
from priory.errors import PrioryError
from priory.mechanisms.fit import fit as make_release
from priory.release import Release
from priory.release.encoding import encode_statement


def fit(
    data: Annotated[Path, typer.Argument(help="The private table: CSV (.gz) or Parquet.")],
    schema: Annotated[Path, typer.Option(help="The schema of the table.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The release file to write.")],
    *,
    epsilon: Epsilon = None,
    delta: Delta = None,
    rho: Rho = None,
    mechanism: Annotated[str, typer.Option(help="Which recipe.")] = "independent",
    public: Annotated[Path | None, typer.Option(help="A public table with the same columns, to start from.")] = None,
    ledger: Annotated[Path | None, typer.Option(help="The book that pays; without one, nothing is remembered.")] = None,
    relation: Annotated[str | None, typer.Option(help="add-remove or replace-one; default: the ledger's.")] = None,
    unit: Unit = None,
    max_rows: Annotated[int | None, typer.Option(help="With --unit, how many rows of one person count.")] = None,
    as_json: AsJson = False,
) -> None:
    """Make a release of a private table."""
    check_output(output)
    release = make_release(
        data,
        schema,
        epsilon=epsilon,
        delta=delta,
        rho=rho,
        mechanism=mechanism,
        public=public,
        ledger=ledger,
        relation=relation,
        unit=unit,
        max_rows=max_rows,
    )
    output = _saved(release, output)
    if as_json:
        write_json({"output": str(output), "statement": encode_statement(release.statement)})
        return
    write(str(release.statement))
    say(f"Wrote {output}.")


def _saved(release: Release, output: Path) -> Path:
    """Where the release was written: it is paid for, so a disk that is full by now must not lose it."""
    try:
        release.save(output)
    except PrioryError as error:
        elsewhere = Path(tempfile.mkdtemp(prefix="priory-")) / output.name
        say(f"priory: {error}. The release is paid for; writing it to {elsewhere} instead")
        release.save(elsewhere)
        return elsewhere
    return output
