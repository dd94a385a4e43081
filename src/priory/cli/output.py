"""Output: data to stdout, talk to stderr.

Names and levels come from files that others wrote. What people read shows them with escapes for whatever a terminal
would obey; data for programs stays as it is.
"""

import json
import re
import shutil
import sys
from collections.abc import Iterable, Sequence
from textwrap import TextWrapper
from typing import IO, Annotated, Any, cast

import typer
from rich.console import Console
from rich.table import Table as RichTable

from priory.data.visible import visible
from priory.errors import Spent

AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON, for programs.")]
# JSON itself escapes what is below a space, and may escape anything else: the data are the same.
UNSEEN = re.compile("[\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff]")


class Stopped(Exception):
    """A verb was stopped from outside: by a person, the system, or for want of memory."""

    def __init__(self, word: str, spent: Spent | None, *, exit_code: int) -> None:
        super().__init__(word)
        self.spent = spent  # None where its result was written
        self.exit_code = exit_code

    @property
    def kind(self) -> str:
        """What programs call it: "Interrupted", "Terminated" or "OutOfMemory"."""
        return str(self).title().replace(" ", "")


class _Terminal:
    """A terminal that obeys nothing in what is written to it."""

    def write(self, text: str) -> int:
        return sys.stdout.write(visible(text, keeps_lines=True))

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)


def stdout() -> IO[str]:
    """Where data goes: as they are to a file or a program, with escapes to a terminal."""
    return cast(IO[str], _Terminal()) if sys.stdout.isatty() else sys.stdout


def say(text: str) -> None:
    """Tell the person something; never data."""
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    console.print(visible(text, keeps_lines=True), markup=False, emoji=False)


def show(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table for people, as wide as their terminal; wide enough for any of ours where there is none."""
    table = RichTable(box=None, pad_edge=False)
    for heading in headings:
        table.add_column(visible(heading))
    for row in rows:
        table.add_row(*map(visible, row))
    width = None if sys.stdout.isatty() else 160
    Console(highlight=False, markup=False, emoji=False, width=width).print(table)


def write(text: str) -> None:
    """Print a result for people."""
    sys.stdout.write(_ended(visible(text, keeps_lines=True)))


def write_statement(statement: object) -> None:
    """Print a statement, one fact a line; a terminal gets lines that end between words, the next ones indented."""
    lines = str(statement).splitlines()
    if sys.stdout.isatty():
        width = max(20, shutil.get_terminal_size().columns)
        wrap = TextWrapper(width, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
        lines = [piece for line in lines for piece in wrap.wrap(line)]
    write("\n".join(lines))


def write_data(text: str) -> None:
    """Print a result as it is, or with escapes where it goes to a terminal."""
    stdout().write(_ended(text))


def write_json(result: Any) -> None:  # noqa: ANN401 - whatever JSON can hold
    """Print a result for programs; what cannot be seen is written as JSON's own escapes."""
    sys.stdout.write(json_text(result))


def write_json_line(result: Any) -> None:  # noqa: ANN401
    """Print one of several results for programs on a line of its own, at once."""
    sys.stdout.write(_ended(json_escaped(json.dumps(result, ensure_ascii=False))))
    sys.stdout.flush()


def json_text(result: Any) -> str:  # noqa: ANN401
    """A result as JSON without a character that a terminal obeys."""
    return _ended(json_escaped(json.dumps(result, ensure_ascii=False, indent=2)))


def json_escaped(text: str) -> str:
    """The same JSON without a character that a terminal obeys."""
    return UNSEEN.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def _ended(text: str) -> str:
    return text if text.endswith("\n") else text + "\n"
