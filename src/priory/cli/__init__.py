"""Command line: one verb per thing a person wants done.

Data go to stdout and talk to stderr. A `PrioryError` is one line and its documented exit code; anything else is our
bug and shows its traceback.
"""

from priory.cli.frame import main

__all__ = ["main"]
