"""Make session: the screen of a whole first session on a table with only private rows, as a page of the docs.

The table is made up, from a seed; the commands are run as a person would type them, and what they print is written into
docs/how-to/first-session.md. Noise is drawn anew, so that figures differ from run to run.
"""

import csv
import datetime as dt
import os
import shlex
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "how-to" / "first-session.md"
PATIENTS = 6_000
SEED = 12
# A page shows no more of an output than this.
MOST_LINES = 60
INTRODUCTION = """# A first session, on a screen

You hold one table, `clinic.csv`, all of it private: visits of patients, several for some. There is no public table like
it. This is what a session looks like, from the names of its columns to a report; it was made by running it
(`python tools/make_session.py`), on a made-up table of about 11,000 visits. Each step has its own page: [names
alone](names-alone.md), [learning a schema](discover.md), [choosing ε](choose-epsilon.md), [the
ledger](../privacy/ledger.md), [answers](../answers.md), [the report](report.md).
"""


@dataclass(frozen=True)
class Step:
    """One command of the session.

    Attributes:
        title: what it is for.
        words: what a reader should know before it.
        commands: what is typed.
    """

    title: str
    words: str
    commands: tuple[str, ...]


BUDGET = "--ledger clinic.ledger --epsilon"
STEPS = (
    Step(
        "Names alone",
        "Nothing but the first line is read, and only because you say that it names the columns.",
        (
            "priory schema init clinic.csv --header-only --has-header --name clinic --output names.yaml",
            "tail -n 17 names.yaml",
        ),
    ),
    Step(
        "What is public anyway",
        "Say what needs no look at any row: who is a person, and what the questionnaire says. The rest stays open.",
        (
            "sed -i.bak -e 's/^# person:.*/person: patient/' -e 's/^  note: .*/  note: {kind: text}/' \\\n"
            "    -e 's/^  sex: .*/  sex: {kind: category, levels: [female, male], other: other}/' names.yaml",
        ),
    ),
    Step(
        "A ledger",
        "It is made before the first look, for good: what may be spent in all, on whom, and how many of their rows "
        "count.",
        ("priory ledger init clinic.ledger --dataset clinic --unit patient --max-rows 3 --epsilon 2 --delta 1e-9",),
    ),
    Step(
        "Learn the rest, paid",
        "Levels that enough patients have, bounds, bins and spikes of numbers, and how much is missing.",
        (
            f"priory schema discover clinic.csv --schema names.yaml {BUDGET} 1 --delta 1e-9 --output clinic.yaml",
            "cat clinic.yaml",
        ),
    ),
    Step(
        "Fit",
        "The statement says what learning the schema and this release promise together, and what each of them cost.",
        (f"priory fit clinic.csv --schema clinic.yaml {BUDGET} 1 --delta 1e-9 --output clinic.priory",),
    ),
    Step(
        "Ask",
        "Answers come from the release alone, with intervals, and cost nothing.",
        (
            "priory query clinic.priory ward",
            "priory query clinic.priory sex --mean cost",
            "priory query clinic.priory --share smoker",
        ),
    ),
    Step(
        "Look at it",
        "One page, which opens offline.",
        ("priory report clinic.priory",),
    ),
    Step(
        "Is it any good? For everybody",
        "What the release itself knows of its errors, which anybody may see.",
        ("priory quality clinic.priory",),
    ),
    Step(
        "Is it any good? Inside the house",
        "Only you may see this: it compares the release with the private table, and is not private.",
        ("priory evaluate clinic.priory clinic.csv --ledger clinic.ledger",),
    ),
    Step(
        "What was spent",
        "The ledger has every look. It is bound to this schema now.",
        ("priory ledger show clinic.ledger",),
    ),
)


def main() -> None:
    """Run the session and write the page."""
    with tempfile.TemporaryDirectory() as folder:
        write_table(Path(folder) / "clinic.csv")
        parts = [INTRODUCTION, *(section(step, Path(folder)) for step in STEPS)]
    PAGE.write_text("\n".join(parts), encoding="utf-8", newline="\n")
    print(f"Wrote {PAGE.relative_to(ROOT)}.")


def section(step: Step, folder: Path) -> str:
    """A step as it looks on the screen."""
    screen = "\n".join(f"$ {command}\n{run(command, folder)}".rstrip() for command in step.commands)
    return f"## {step.title}\n\n{step.words}\n\n```text\n{screen}\n```\n"


def run(command: str, folder: Path) -> str:
    """What a command prints, to either stream; one that fails stops the session."""
    python = shlex.quote(sys.executable)
    ended = subprocess.run(
        ["bash", "-c", f'priory() {{ {python} -m priory "$@"; }}; {command}'],  # noqa: S607 - whichever bash there is
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        text=True,
        check=True,
        env={**os.environ, "COLUMNS": "110"},
    )
    lines = ended.stdout.splitlines()
    more = [f"… and {len(lines) - MOST_LINES} lines more"] if len(lines) > MOST_LINES else []
    return "\n".join([*lines[:MOST_LINES], *more]) + "\n"


def write_table(path: Path) -> None:
    """A made-up table of visits: nobody is in it."""
    rng = np.random.default_rng(SEED)
    visits = rng.integers(1, 4, PATIENTS)
    wards = ("surgery", "children", "heart", "eyes", "emergency")
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["patient", "sex", "age", "ward", "admitted", "nights", "cost", "smoker", "note"])
        for patient, count in enumerate(visits.tolist()):
            sex, age = ("female", "male")[rng.integers(2)], int(rng.gamma(6, 8))
            smoker = ("yes", "no", "")[rng.choice(3, p=[0.2, 0.7, 0.1])]
            for _ in range(count):
                day = dt.date(2022, 1, 1) + dt.timedelta(days=int(rng.integers(3 * 365)))
                nights = int(rng.geometric(0.4)) - 1
                cost = 0 if rng.random() < 0.55 else round(float(rng.lognormal(6, 0.8)) * (1 + nights), 2)
                ward = wards[rng.choice(5, p=[0.3, 0.15, 0.2, 0.05, 0.3])]
                writer.writerow([f"p{patient}", sex, age, ward, day, nights, cost, smoker, f"note of {patient}"])


if __name__ == "__main__":
    main()
