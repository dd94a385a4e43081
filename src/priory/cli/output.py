"""Output: data to stdout, talk to stderr."""

import json
import sys
from typing import Annotated, Any

import typer
from rich.console import Console

from priory.errors import Spent

AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON, for programs.")]


class Stopped(Exception):
    """A verb was stopped from outside: by a person, the system, or for want of memory.

    Attributes:
        spent: what it had spent by then; None where its result was written.
        exit_code: what the command line returns.
    """

    def __init__(self, word: str, spent: Spent | None, *, exit_code: int) -> None:
        super().__init__(word)
        self.spent = spent
        self.exit_code = exit_code

    @property
    def kind(self) -> str:
        """What programs call it: "Interrupted", "Terminated" or "OutOfMemory"."""
        return str(self).title().replace(" ", "")


def say(text: str) -> None:
    """Tell the person something; never data."""
    Console(stderr=True, highlight=False, soft_wrap=True).print(text, markup=False)


def show(renderable: object) -> None:
    """Print a result for people, as wide as their terminal; wide enough for any of ours where there is none."""
    Console(highlight=False, width=None if sys.stdout.isatty() else 160).print(renderable, markup=False)


def write(text: str) -> None:
    """Print a result as it is."""
    sys.stdout.write(text if text.endswith("\n") else text + "\n")


def write_json(result: Any) -> None:  # noqa: ANN401 - whatever JSON can hold
    """Print a result for programs."""
    write(json.dumps(result, ensure_ascii=False, indent=2))
