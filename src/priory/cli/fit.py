"""Fit: the verb that makes a release."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from priory.cli.output import AsJson, Stopped, say, write, write_json
from priory.cli.privacy import Delta, Epsilon, Rho, Unit, check_output
from priory.cli.progress import shown
from priory.errors import PrioryError
from priory.mechanisms.fit import fit as make_release
from priory.mechanisms.registry import MECHANISMS
from priory.release import Release
from priory.release.encoding import encode_statement


def complete_mechanism(incomplete: str) -> list[tuple[str, str]]:
    """The mechanisms whose names begin so, for shells."""
    return [(name, entry.summary) for name, entry in MECHANISMS.items() if name.startswith(incomplete)]


def fit(
    data: Annotated[Path, typer.Argument(help="The private table: CSV (.gz) or Parquet.")],
    schema: Annotated[Path, typer.Option(help="The schema of the table.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The release file to write.")],
    *,
    epsilon: Epsilon = None,
    delta: Delta = None,
    rho: Rho = None,
    mechanism: Annotated[
        str | None,
        typer.Option(help="Which recipe; default: aim, or prior with --public.", autocompletion=complete_mechanism),
    ] = None,
    public: Annotated[Path | None, typer.Option(help="A public table with the same columns, to start from.")] = None,
    by: Annotated[
        list[str] | None, typer.Option(help="Columns, with commas, that make groups; again for finer.")
    ] = None,
    ledger: Annotated[Path | None, typer.Option(help="The book that pays; without one, nothing is remembered.")] = None,
    relation: Annotated[str | None, typer.Option(help="add-remove or replace-one; default: the ledger's.")] = None,
    unit: Unit = None,
    max_rows: Annotated[int | None, typer.Option(help="With --unit, how many rows of one person count.")] = None,
    randomness: Annotated[str, typer.Option(help="Who draws the noise: priory, or opendp (an extra).")] = "priory",
    row_limit: Annotated[
        int | None, typer.Option(help="How many rows the table may have at most; default: 2^32.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Make a release of a private table."""
    with _spending():
        check_output(output)
        with shown("reading the table", is_wanted=not as_json) as progress:
            release = make_release(
                data,
                schema,
                epsilon=epsilon,
                delta=delta,
                rho=rho,
                mechanism=mechanism,
                public=public,
                by=[level.split(",") for level in by] if by else None,
                ledger=ledger,
                relation=relation,
                unit=unit,
                max_rows=max_rows,
                row_limit=row_limit,
                progress=progress,
                randomness=randomness,
            )
    output = _saved(release, output)
    if as_json:
        write_json({"output": str(output), "statement": encode_statement(release.statement)})
        return
    write(str(release.statement))
    say(f"Wrote {output}.")


@contextmanager
def _spending() -> Iterator[None]:
    """Let no error leave the question open what was spent."""
    try:
        yield
    except PrioryError as error:
        if not hasattr(error, "__notes__") and "othing was" not in str(error):
            error.add_note("Nothing was spent")
        raise
    except KeyboardInterrupt as error:
        notes = getattr(error, "__notes__", ["nothing was spent"])
        raise Stopped(f"interrupted; {'; '.join(notes)}") from None


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
