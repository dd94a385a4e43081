"""Frame: the command itself, and how it ends."""

import json
import os
import sys
from typing import Annotated, NoReturn

import typer

import priory
from priory.cli import audit, combine, demo, estimate, fit, plan, privacy, query, report, sample, schema, statement
from priory.cli.output import Stopped
from priory.data.visible import visible
from priory.errors import PrioryError

INTERRUPTED = 130

app = typer.Typer(
    name="priory",
    help="Release statistics and synthetic tables under differential privacy.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("demo")(demo.demo)
app.add_typer(schema.app, name="schema")
app.command("plan")(plan.plan)
app.command("fit")(fit.fit)
app.command("query")(query.query)
app.command("sample")(sample.sample)
app.command("combine")(combine.combine)
app.command("estimate")(estimate.estimate)
app.command("report")(report.report)
app.add_typer(privacy.ledger, name="ledger")
app.command("statement")(statement.statement)
app.command("explain")(privacy.explain)
app.command("audit")(audit.audit)


def _show_version(*, wanted: bool) -> None:
    if wanted:
        sys.stdout.write(f"priory {priory.__version__}\n")
        raise typer.Exit


@app.callback()
def options(
    *,
    version: Annotated[
        bool, typer.Option("--version", callback=lambda wanted: _show_version(wanted=wanted), is_eager=True)
    ] = False,
) -> None:
    """Release statistics and synthetic tables under differential privacy."""


def main(arguments: list[str] | None = None) -> NoReturn:
    """Run the command line and end the process with its exit code."""
    arguments = sys.argv[1:] if arguments is None else arguments
    try:
        ended = app(args=arguments, prog_name="priory", standalone_mode=False)
        sys.stdout.flush()
    except PrioryError as error:
        told = ". ".join([str(error).rstrip("."), *getattr(error, "__notes__", [])])
        _complain(told, type(error).__name__, as_json="--json" in arguments)
        sys.exit(error.exit_code)
    except Stopped as stopped:
        _complain(str(stopped), "Interrupted", as_json="--json" in arguments)
        sys.exit(INTERRUPTED)
    except typer.TyperException as error:
        # Without arguments Typer shows the help, and has nothing more to say.
        if str(error):
            _complain(_usage(error, arguments), "UsageError", as_json="--json" in arguments)
        sys.exit(2)
    except (KeyboardInterrupt, typer.Abort):
        _complain("interrupted", "Interrupted", as_json="--json" in arguments)
        sys.exit(INTERRUPTED)
    except (BrokenPipeError, SystemExit) as error:
        # Typer ends with 1 where the reader of our output went away, as `head` does: nothing is wrong.
        if isinstance(error, SystemExit) and not isinstance(error.__context__, BrokenPipeError):
            raise
        _silence()
        sys.exit(0)
    except OSError as error:
        _complain(f"the output could not be written: {error.strerror}", "OSError", as_json="--json" in arguments)
        _silence()
        sys.exit(1)
    if ended == INTERRUPTED:
        # Typer catches most of these itself, and returns their code in silence.
        _complain("interrupted", "Interrupted", as_json="--json" in arguments)
    sys.exit(ended if isinstance(ended, int) else 0)


def _silence() -> None:
    """What is left in the buffer has nowhere to go when the process ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _usage(error: typer.TyperException, arguments: list[str]) -> str:
    """What Typer has to say, with the option it speaks of or the nearest there is."""
    said = error.format_message() if hasattr(error, "format_message") else str(error)
    near = getattr(error, "possibilities", None)
    if near:
        said = f"{error}; did you mean {near[0]}"
    spent = ". Nothing was spent" if arguments[:1] == ["fit"] else ""
    return f"{said.rstrip('.?')}; see priory --help{spent}"


def _complain(message: str, kind: str, *, as_json: bool) -> None:
    line = " ".join(message.split())
    told = json.dumps({"error": kind, "message": line}) if as_json else f"priory: {visible(line)}"
    sys.stderr.write(f"{told}\n")
