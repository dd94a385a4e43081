"""Command line: one verb per thing a person wants done.

Data go to stdout and talk to stderr. A `PrioryError` is one line and its documented exit code; anything else is our
bug and shows its traceback.
"""

import os
import sys
from functools import partial
from typing import NoReturn

__all__ = ["main"]


def main(arguments: list[str] | None = None) -> NoReturn:
    """Run the command line and end the process with its exit code."""
    arguments = sys.argv[1:] if arguments is None else arguments
    printed = None
    if arguments[:1] == ["query"]:
        if "numpy" not in sys.modules:
            # Answers are sums of small tables: threads would cost more to start than they save.
            os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
        printed = _answered_at_once(arguments[1:])
    if printed is None:
        from priory.cli.frame import command_line, run

        run(arguments, command_line)
    try:
        printed()
        sys.stdout.flush()
    except (OSError, KeyboardInterrupt) as error:
        from priory.cli.frame import run

        run(arguments, partial(_again, error))
    sys.exit(0)


def _answered_at_once(arguments: list[str]) -> "partial[None] | None":
    """How to print the answer to a question that what was kept answers; None for any other."""
    from priory.cli.asking import SHOWN, answered_at_once

    found = answered_at_once(arguments)
    if found is None:
        return None
    from priory.cli.printing import print_answer

    asked, table = found
    return partial(print_answer, table, shown=SHOWN, limit=asked.limit, as_csv=asked.as_csv, as_json=asked.as_json)


def _again(error: BaseException, _: list[str]) -> NoReturn:
    raise error
