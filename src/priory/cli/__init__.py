"""Command line: one verb per thing a person wants done.

Data go to stdout and talk to stderr. A `PrioryError` is one line and its documented exit code; anything else is our
bug and shows its traceback.
"""

import os
import sys
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from priory.cli.asking import Asked

__all__ = ["main"]


def main(arguments: list[str] | None = None) -> NoReturn:
    """Run the command line and end the process with its exit code."""
    arguments = sys.argv[1:] if arguments is None else arguments
    asked, printed = None, None
    if arguments[:1] == ["query"]:
        if "numpy" not in sys.modules:
            # Answers are sums of small tables: threads would cost more to start than they save.
            os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
        asked, printed = _answered_at_once(arguments[1:])
    if printed is None:
        from priory.cli.frame import command_line, run

        run(arguments, command_line if asked is None else partial(_answered, asked))
    try:
        printed()
        sys.stdout.flush()
    except (OSError, KeyboardInterrupt) as error:
        from priory.cli.frame import run

        run(arguments, partial(_again, error))
    sys.exit(0)


def _answered_at_once(arguments: list[str]) -> "tuple[Asked | None, Callable[[], None] | None]":
    """A question that is plainly one, and how to print its answer where what was kept has it."""
    from priory.cli.asking import asked_plainly, kept_answer

    asked = asked_plainly(arguments)
    table = None if asked is None else kept_answer(asked)
    if asked is None or table is None:
        return asked, None
    from priory.cli.asking import print_asked

    return asked, partial(print_asked, asked, table)


def _answered(asked: "Asked", _: list[str]) -> None:
    """Ask the release itself, without waiting for what reads and explains all options."""
    from priory.cli.query import answer

    answer(asked)


def _again(error: BaseException, _: list[str]) -> NoReturn:
    raise error
