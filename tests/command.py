"""Command: the command line run inside the test's own process, for tests that need no other one.

A process takes a second to begin, most of it for imports. Tests of what only processes have (signals, pipes, limits, a
first import) start their own.
"""

import io
import subprocess
import warnings
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from typing import IO
from unittest.mock import patch

from priory.cli import main


def priory(*given: object, answers: str = "") -> subprocess.CompletedProcess[str]:
    """What a command prints and with which code it ends; an exception that would be a traceback is raised."""
    arguments = [str(each) for each in given]
    out, err = io.StringIO(), io.StringIO()
    with patch("sys.stdin", io.StringIO(answers)):
        code = code_of(arguments, out, err)
    return subprocess.CompletedProcess(arguments, code, out.getvalue(), err.getvalue())


def code_of(arguments: Sequence[str], out: IO[str], err: IO[str]) -> int:
    """The exit code of a command that prints to `out` and `err`."""
    # As in a process of its own, a warning is no error.
    with redirect_stdout(out), redirect_stderr(err), warnings.catch_warnings(action="default"):
        try:
            main(list(arguments))
        except SystemExit as ended:
            return int(ended.code or 0)
