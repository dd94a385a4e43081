"""Report: the verb that makes a release a page to look at."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from priory.cli.output import AsJson, say, write_json
from priory.cli.privacy import Unit, check_output
from priory.cli.progress import working
from priory.data.writing import write_secret
from priory.errors import OptionError
from priory.release import Release, load

MARK = "not-private"


def report(
    release: Annotated[Path, typer.Argument(help="The release file.")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="The HTML file to write; default: named after the release.")
    ] = None,
    *,
    against: Annotated[
        Path | None, typer.Option(help="The private table: write a page of true errors for the curator instead.")
    ] = None,
    not_private: Annotated[
        bool, typer.Option("--not-private", help="With --against: I know that this page is not private.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="With --against: do not ask again.")] = False,
    ledger: Annotated[
        Path | None, typer.Option(help="With --against: the book of the release, so that the same rows count.")
    ] = None,
    unit: Unit = None,
    as_json: AsJson = False,
) -> None:
    """Write a release as one HTML file that opens offline: distributions, pairs, the model, what was spent."""
    loaded = load(release)
    if against is None:
        if not_private or yes or ledger is not None or unit is not None:
            said = "--not-private, --yes, --ledger and --unit are about a private table; name it"
            raise OptionError("--against", said)
        output = _checked_page(output or release.with_suffix(".html"))
        check_output(output)
        with working("making the page", is_wanted=not as_json):
            loaded.report(output)
    else:
        output = _checked_page(output or release.with_suffix(f".{MARK}.html"))
        _check_confirmed(output, not_private=not_private, yes=yes)
        with working("comparing", is_wanted=not as_json):
            _write_truth(loaded, against, output, ledger, unit)
    if as_json:
        write_json({"output": str(output), "is_private": against is None and loaded.statement.is_private})
        return
    say(f"Wrote {output}.")


def _checked_page(path: Path) -> Path:
    if path.suffix.lower() in (".pdf", ".docx", ".png", ".svg", ".md", ".csv", ".json", ".ipynb", ".priory"):
        page = path.with_suffix(".html")
        raise OptionError("--output", f"a report is one HTML file: call it {page}, and print it from a browser as PDF")
    return path


def _check_confirmed(output: Path, *, not_private: bool, yes: bool) -> None:
    """Everything that must be said before private rows are read for nothing."""
    if not not_private:
        said = "a page of true errors shows private counts and is no release; say --not-private if you mean it"
        raise OptionError("--against", said)
    if MARK not in output.name:
        raise OptionError("--output", f"the name of such a page must contain {MARK}, as in people.{MARK}.html")
    check_output(output)
    if yes:
        return
    if not sys.stdin.isatty():
        raise OptionError("--yes", "nobody is there to be asked; give it if private counts may be written to the file")
    say("This reads the private table without paying and writes true counts to a file. Only the curator may see it.")
    typer.confirm("Write it?", abort=True, err=True)


def _write_truth(release: Release, table: Path, output: Path, ledger: Path | None, unit: str | None) -> None:
    from priory.report.evaluation import private_source
    from priory.report.truth import truth_page

    source = private_source(release, table, ledger, unit)
    write_secret(output, str(truth_page(release, source, confirmed=True)))
