"""Asking: the options of a question, and its answer at once where a file holds what it needs.

Starting takes most of the time of a question that was asked before. Here nothing is imported that it does not need,
and `priory query` comes here first: whatever is not plainly a question is left to the whole command line, with its help
and its errors.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from priory.errors import OptionError, PrioryError

if TYPE_CHECKING:
    from priory.answer.questions import Question
    from priory.data.table import Table

SHOWN = 50


@dataclass(frozen=True)
class Option:
    """An option of a question."""

    name: str  # what the command line calls it, without dashes
    kind: Literal["text", "number", "numbers", "count", "flag", "switch"]  # a switch can be turned off, by --no-NAME
    help: str
    default: Any = None
    metavar: str | None = None

    def read(self, text: str) -> object:
        """What a word after it means; a `ValueError` where it means nothing."""
        if self.kind == "count":
            return int(text)
        return float(text) if self.kind in ("number", "numbers") else text


OPTIONS = (
    Option("where", "text", "Which rows count, as in SQL: \"age >= 30 and sex = 'F'\"."),
    Option("mean", "text", "The mean of a column instead of counts.", metavar="COLUMN"),
    Option("sum", "text", "The sum of a column.", metavar="COLUMN"),
    Option("median", "text", "The median of a column.", metavar="COLUMN"),
    Option("quantile", "text", "A quantile of a column; see --at.", metavar="COLUMN"),
    Option("at", "numbers", "Which quantile: a share from 0 to 1; may be repeated."),
    Option("share", "text", "Shares of a column's values, given the columns.", metavar="COLUMN"),
    Option("cdf", "text", "Which share has at most each value.", metavar="COLUMN"),
    Option("level", "number", "How often intervals should hold the truth.", 0.9),
    Option("intervals", "switch", "Give each answer its interval.", default=True),
    Option("limit", "count", f"How many rows to print; on a terminal {SHOWN} by default."),
    Option("csv", "flag", "Print CSV, as a pipe gets anyway.", default=False),
    Option("json", "flag", "Print the result as JSON, for programs.", default=False),
)


@dataclass(frozen=True)
class Asked:
    """What a person typed."""

    release: Path  # the release file
    question: "Question"
    limit: int | None  # how many rows to print
    as_csv: bool
    as_json: bool

    @classmethod
    def of(cls, release: Path, columns: Sequence[str], options: Mapping[str, Any]) -> "Asked":
        """Check the options against each other."""
        from priory.answer.questions import Question

        limit, at = options["limit"], options["at"]
        if limit is not None and limit < 0:
            raise OptionError("--limit", f"a number of rows, at least 0; got {limit}")
        if at and options["quantile"] is None:
            raise OptionError("--at", "it says which quantile: name the column with --quantile")
        verbs = ("mean", "sum", "median", "quantile", "share", "cdf")
        asked = [(verb, options[verb]) for verb in verbs if options[verb] is not None]
        if len(asked) > 1:
            raise OptionError(f"--{asked[1][0]}", f"ask one thing at a time; --{asked[0][0]} is given, too")
        what, column = asked[0] if asked else ("marginal", "")
        level = options["level"] if options["intervals"] else None
        question = Question(what, column, tuple(columns), options["where"], level, tuple(at or [0.5]))
        return cls(release, question, limit, options["csv"], options["json"])


def asked_plainly(arguments: Sequence[str]) -> Asked | None:
    """What follows the verb, where it is plainly a question; None leaves it to the whole command line."""
    typed = _typed(arguments)
    if typed is None or "_PRIORY_COMPLETE" in os.environ:
        return None
    try:
        return Asked.of(*typed)
    except OptionError:
        return None


def print_asked(asked: Asked, table: "Table") -> None:
    """Print the answer to a question as it was asked for."""
    from priory.cli.printing import print_answer

    print_answer(table, shown=SHOWN, limit=asked.limit, as_csv=asked.as_csv, as_json=asked.as_json)


def kept_answer(asked: Asked) -> "Table | None":
    """The answer from what was kept of the release; None where that does not hold it."""
    from priory.answer.basis import Basis
    from priory.answer.cache import answers_file
    from priory.answer.kept_tables import KeptTables, NotKept
    from priory.answer.questions import finished

    path, question = answers_file(asked.release), asked.question
    if path is None:
        return None
    try:
        kept = KeptTables.read(path)
        table = question.asked(Basis(kept.schema(question.may_name), kept, question.level))
        return finished(table, question.level, kept.facts["stamp"])
    except (NotKept, PrioryError, ArithmeticError, AttributeError, KeyError, TypeError, ValueError):
        # What is wrong with a question is said by the whole command line; what is wrong with the file, by nobody.
        return None


def _typed(arguments: Sequence[str]) -> tuple[Path, list[str], dict[str, Any]] | None:
    """The release, the columns and the options, where they are written plainly."""
    known = {f"--{option.name}": option for option in OPTIONS}
    found: dict[str, Any] = {}
    words: list[str] = []
    rest = list(arguments)
    while rest:
        word = rest.pop(0)
        if not word.startswith("-"):
            words.append(word)
            continue
        name, equals, value = word.partition("=")
        switched = name.replace("--no-", "--", 1)
        option = known.get(name) or known.get(switched)
        is_flag = option is not None and option.kind in ("flag", "switch")
        if option is None or (name not in known and option.kind != "switch") or (is_flag and equals):
            return None
        if not is_flag and not equals:
            if not rest or rest[0].startswith("-"):
                return None
            value = rest.pop(0)
        if option.name in found and option.kind != "numbers":
            return None
        try:
            given = name in known if is_flag else option.read(value)
        except ValueError:
            return None
        found[option.name] = [*found.get(option.name, []), given] if option.kind == "numbers" else given
    if not words:
        return None
    return Path(words[0]), words[1:], {option.name: option.default for option in OPTIONS} | found
