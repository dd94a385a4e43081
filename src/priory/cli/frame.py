"""Frame: the command itself, and how it ends."""

import difflib
import json
import os
import sys
import traceback
from collections.abc import Callable, Iterable
from dataclasses import asdict
from functools import partial
from importlib import import_module
from typing import Annotated, Any, NoReturn

import typer

import priory
from priory.cli.output import Stopped
from priory.data.visible import visible, without_passwords
from priory.errors import NOTHING_SPENT, PrioryError, Spent

INTERRUPTED = 130

# Each verb with the module of the command line that has it and its name there; groups of verbs are apps of their own.
VERBS = {
    "demo": ("demo", "demo"),
    "schema": ("schema", "app"),
    "plan": ("plan", "plan"),
    "fit": ("fit", "fit"),
    "query": ("query", "query"),
    "quality": ("quality", "quality"),
    "sample": ("sample", "sample"),
    "combine": ("combine", "combine"),
    "estimate": ("estimate", "estimate"),
    "report": ("report", "report"),
    "evaluate": ("evaluate", "evaluate"),
    "ledger": ("privacy", "ledger"),
    "statement": ("statement", "statement"),
    "explain": ("privacy", "explain"),
    "studio": ("studio", "studio"),
    "audit": ("audit", "audit"),
}


def app_of(verbs: Iterable[str] = VERBS) -> typer.Typer:
    """The command with these verbs: whoever asks a release does not wait for what fits one."""
    app = typer.Typer(
        name="priory",
        help="Release statistics and synthetic tables under differential privacy.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_options)
    for verb in verbs:
        module, name = VERBS[verb]
        found = getattr(import_module(f"priory.cli.{module}"), name)
        if isinstance(found, typer.Typer):
            app.add_typer(found, name=verb)
        else:
            app.command(verb)(found)
    return app


def _show_version(*, wanted: bool) -> None:
    if wanted:
        sys.stdout.write(f"priory {priory.__version__}\n")
        raise typer.Exit


def _options(
    *,
    version: Annotated[
        bool, typer.Option("--version", callback=lambda wanted: _show_version(wanted=wanted), is_eager=True)
    ] = False,
) -> None:
    """Release statistics and synthetic tables under differential privacy."""


def command(app: typer.Typer) -> Any:  # noqa: ANN401 - Typer's own class
    """The command of an app; its help shows flags as flags."""
    whole = typer.main.get_command(app)
    groups: list[Any] = [whole]
    while groups:
        each = groups.pop()
        groups += getattr(each, "commands", {}).values()
        for option in (*each.params, each.get_help_option(typer.Context(each, help_option_names=["-h", "--help"]))):
            # Typer would write <bool> after them, as if they took a word.
            if getattr(option, "is_flag", False):
                option.metavar = ""
    return whole


def command_line(arguments: list[str]) -> object:
    """Run the verb that was asked for; the exit code, where Typer knows one."""
    verbs = arguments[:1] if arguments and arguments[0] in VERBS else VERBS
    return command(app_of(verbs))(args=arguments, prog_name="priory", standalone_mode=False)


def run(arguments: list[str], what: Callable[[list[str]], object]) -> NoReturn:
    """Do something with the arguments and end the process with its exit code."""
    complain = partial(_complain, as_json="--json" in arguments)
    try:
        ended = what(arguments)
        sys.stdout.flush()
    except (PrioryError, Stopped) as error:
        kind = error.kind if isinstance(error, Stopped) else type(error).__name__
        complain(str(error), kind, spent=error.spent)
        sys.exit(error.exit_code)
    except typer.TyperException as error:
        # Without arguments Typer shows the help, and has nothing more to say.
        if str(error):
            is_paid = arguments[:1] == ["fit"] or arguments[:2] == ["schema", "discover"]
            nothing = NOTHING_SPENT if is_paid else None
            complain(_usage(error), "UsageError", spent=nothing)
        sys.exit(2)
    except (KeyboardInterrupt, typer.Abort):
        complain("interrupted", "Interrupted")
        sys.exit(INTERRUPTED)
    except (BrokenPipeError, SystemExit) as error:
        # Typer ends with 1 where the reader of our output went away, as `head` does: nothing is wrong.
        if isinstance(error, SystemExit) and not isinstance(error.__context__, BrokenPipeError):
            raise
        _silence()
        sys.exit(0)
    except Exception as error:
        if not _is_explained(error, complain):
            raise
        sys.exit(1)
    if ended == INTERRUPTED:
        # Typer catches most of these itself, and returns their code in silence.
        complain("interrupted", "Interrupted")
    sys.exit(ended if isinstance(ended, int) else 0)


def _is_explained(error: Exception, complain: Callable[..., None]) -> bool:
    """Say what there is to say of output that went nowhere, or of a bug in a fit, which has a price."""
    spent = getattr(error, "spent", None)
    if spent is not None:
        traceback.print_exception(error)
        complain("this is a bug of ours", type(error).__name__, spent=spent)
    elif isinstance(error, OSError):
        complain(f"the output could not be written: {error.strerror}", "OSError")
        _silence()
    return spent is not None or isinstance(error, OSError)


def _silence() -> None:
    """What is left in the buffer has nowhere to go when the process ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _usage(error: typer.TyperException) -> str:
    """What Typer has to say, with the option it speaks of or the nearest there is."""
    said = error.format_message() if hasattr(error, "format_message") else str(error)
    context = getattr(error, "ctx", None)
    wrong = getattr(error, "option_name", None)
    if context is not None and wrong is not None:
        near = _nearest(wrong, [name for option in context.command.params for name in option.opts])
        said = f"No such option: {wrong}" + (f"; did you mean {near}" if near else "")
    verb = "priory" if context is None else context.command_path
    return f"{said.rstrip('.?')}; see {verb} --help"


def _nearest(wrong: str, names: list[str]) -> str | None:
    """The option that begins as a wrong one does, or that is spelled most alike, if one is."""
    spelled = {name.lstrip("-"): name for name in names if name.startswith("-")}
    word = wrong.lstrip("-")
    likely = [each for each in spelled if each.startswith(word)] or difflib.get_close_matches(word, spelled)
    return spelled[likely[0]] if likely else None


def _complain(message: str, kind: str, *, as_json: bool, spent: Spent | None = None) -> None:
    """One line on stderr; where a run was made or refused, with what it spent."""
    line = " ".join(without_passwords(message).split())
    if spent is not None:
        line = f"{line.rstrip('.')}. {spent.text[:1].upper()}{spent.text[1:]}"
    if not as_json:
        sys.stderr.write(f"priory: {visible(line)}\n")
        return
    described: dict[str, object] = {"error": kind, "message": line}
    if spent is not None:
        described["spent"] = {**asdict(spent), "amount": str(spent.amount)}
    sys.stderr.write(json.dumps(described) + "\n")
