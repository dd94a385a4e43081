"""Python code from stdin, run with the tests' replayed randomness, as a process of its own."""

import sys

import priory.app.discover.job
import priory.app.fit
from replayed_cli import replayed

if __name__ == "__main__":
    for module in (priory.app.fit, priory.app.discover.job):
        vars(module)["source_of"] = replayed
    exec(compile(sys.stdin.read(), "printed", "exec"), {"__name__": "printed"})  # noqa: S102 - what a page printed
