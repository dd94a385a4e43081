"""Rehearser: a process that forecasts runs for the slider, and uses what it has rehearsed for the next question, too.

It reads questions from stdin and writes forecasts to stdout, each a line of JSON; a forecast has the number of its
question. A new question ends the work on the one before. It ends with its stdin, that is with the server. It never
opens a private table.
"""

import json
import os
import sys
import threading
from typing import Any

from priory.app.forecast import Planner
from priory.data.schema import Schema
from priory.errors import PrioryError
from priory.privacy.budget import Budget


class Questions:
    """What is asked on stdin; only the last question counts."""

    def __init__(self) -> None:
        self._last: dict[str, Any] | None = None
        self._changed = threading.Condition()
        threading.Thread(target=self._read, daemon=True, name="priory-questions").start()

    def _read(self) -> None:
        for line in sys.stdin:
            with self._changed:
                self._last = json.loads(line)
                self._changed.notify()
        os._exit(0)

    def next(self) -> dict[str, Any]:
        """The question that was asked last, once it is another one than before."""
        with self._changed:
            self._changed.wait_for(lambda: self._last is not None)
            found, self._last = self._last, None
        assert found is not None  # noqa: S101  it was waited for
        return found

    def is_newer(self) -> bool:
        """Whether another question is there."""
        return self._last is not None


def answer(planner: Planner, question: dict[str, Any], questions: Questions) -> None:
    """Write the forecasts for a budget as they come."""
    budget = Budget.of(**question["budget"])
    for found in planner.forecasts([budget], seconds=question["seconds"], is_stopped=questions.is_newer):
        write({"number": question["number"], **found.to_dict()})


def write(found: dict[str, Any]) -> None:
    """Write a line."""
    sys.stdout.write(json.dumps(found) + "\n")
    sys.stdout.flush()


def planner_of(table: dict[str, Any]) -> Planner:
    """What forecasts the runs of a table."""
    schema = Schema.parse(table["schema"])
    mechanism, public = (table[name] or None for name in ("mechanism", "public"))
    return Planner.of(schema, table["rows"], mechanism=mechanism, public=public, effort=table["effort"])


def main() -> None:
    """Answer until stdin ends."""
    questions = Questions()
    known: tuple[dict[str, Any], Planner] | None = None
    while True:
        question = questions.next()
        try:
            if known is None or known[0] != question["table"]:
                known = (question["table"], planner_of(question["table"]))
            answer(known[1], question, questions)
        except PrioryError as error:
            write({"number": question["number"], "wrong": str(error)})


if __name__ == "__main__":
    main()
