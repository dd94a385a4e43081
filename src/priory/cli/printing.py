"""Printing: data to stdout, talk to stderr.

Names and levels come from files that others wrote. What people read shows them with escapes for whatever a terminal
would obey; data for programs stays as it is.
"""

import json
import math
import re
import sys
from collections.abc import Iterable
from typing import IO, TYPE_CHECKING, Any, cast

from priory.data.visible import visible
from priory.errors import Spent

if TYPE_CHECKING:
    from priory.data.table import Table

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
    sys.stderr.write(visible(text, keeps_lines=True) + "\n")
    sys.stderr.flush()


def write(text: str) -> None:
    """Print a result for people."""
    sys.stdout.write(_ended(visible(text, keeps_lines=True)))


def write_data(text: str) -> None:
    """Print a result as it is, or with escapes where it goes to a terminal."""
    stdout().write(_ended(text))


def write_json(result: Any) -> None:  # noqa: ANN401 - whatever JSON can hold
    """Print a result for programs; what cannot be seen is written as JSON's own escapes."""
    sys.stdout.write(json_text(result))


def json_text(result: Any, *, indent: int | None = 2) -> str:  # noqa: ANN401
    """A result as JSON without a character that a terminal obeys."""
    return _ended(json_escaped(json.dumps(_finite(result), ensure_ascii=False, allow_nan=False, indent=indent)))


def _finite(result: Any) -> Any:  # noqa: ANN401
    """A result with null for numbers that are not finite, which JSON cannot spell."""
    if isinstance(result, dict):
        return {name: _finite(value) for name, value in result.items()}
    if isinstance(result, list | tuple):
        return [_finite(value) for value in result]
    return None if isinstance(result, float) and not math.isfinite(result) else result


def json_escaped(text: str) -> str:
    """The same JSON without a character that a terminal obeys."""
    return UNSEEN.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def _ended(text: str) -> str:
    return text if text.endswith("\n") else text + "\n"


def print_answer(table: "Table", *, shown: int, limit: int | None, as_csv: bool, as_json: bool) -> None:
    """Print answers and their notes: as a table of `shown` rows on a terminal, or as many as `limit` says."""
    from priory.data.lines import plain_rows, write_csv

    is_terminal = sys.stdout.isatty() and not (as_csv or as_json)
    rows = table.head(shown if limit is None and is_terminal else len(table) if limit is None else limit)
    if as_json:
        write_json({"rows": plain_rows(rows), "of": len(table), "notes": list(table.notes)})
        return
    if is_terminal:
        write(rows.lines())
    else:
        write_csv([rows], stdout())
    if len(rows) < len(table):
        say(f"{len(table) - len(rows):,} more rows; --limit {len(table)} shows them all.")
    for note in table.notes:
        say(f"Note: {visible(note)}.")
