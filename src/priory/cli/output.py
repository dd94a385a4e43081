"""Output: what verbs share in printing: the option for JSON, tables and statements."""

import shutil
import sys
from collections.abc import Iterable, Sequence
from textwrap import TextWrapper
from typing import Annotated

import typer

from priory.cli.printing import Stopped, json_escaped, json_text, say, stdout, write, write_data, write_json
from priory.data.visible import visible

__all__ = [
    "AsJson",
    "Stopped",
    "json_escaped",
    "json_text",
    "say",
    "show",
    "stdout",
    "write",
    "write_data",
    "write_json",
    "write_statement",
]

AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON, for programs.")]


def show(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table for people, as wide as their terminal; wide enough for any of ours where there is none."""
    from rich.console import Console
    from rich.table import Table as RichTable

    table = RichTable(box=None, pad_edge=False)
    for heading in headings:
        table.add_column(visible(heading))
    for row in rows:
        table.add_row(*map(visible, row))
    width = None if sys.stdout.isatty() else 160
    Console(highlight=False, markup=False, emoji=False, width=width).print(table)


def write_statement(statement: object) -> None:
    """Print a statement, one fact a line; a terminal gets lines that end between words, the next ones indented."""
    lines = str(statement).splitlines()
    if sys.stdout.isatty():
        width = max(20, shutil.get_terminal_size().columns)
        wrap = TextWrapper(width, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
        lines = [piece for line in lines for piece in wrap.wrap(line)]
    write("\n".join(lines))
