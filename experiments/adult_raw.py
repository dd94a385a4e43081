"""Adult raw: from a raw CSV with empty cells to a synthetic one by the command line, and a classifier trained on each.

The first two thirds of the raw table are private and fitted; the last third is held out. The same classifier is trained
on the private rows and on synthetic ones, and both are judged on the rows held out.
"""

import csv
import gzip
import json
import os
import subprocess
import sys
from pathlib import Path

from experiments.peers import peer_python
from experiments.results import FOLDER, Results, shown
from experiments.tables import data_folder

SKLEARN = "scikit-learn==1.7.2"
# Rows of adult.data; those of adult.test come after them.
TRAINING = 32_561
SCHEMA = Path(__file__).parents[1] / "tests" / "schemas" / "adult.yaml"
EPSILONS = ("0.1", "1", "10")
DELTA = "1e-9"


def run() -> None:
    """Fit, sample and train, for each ε and each repeat."""
    folder = FOLDER / "adult_raw"
    results = Results.of("adult_raw", ["mechanism", "epsilon", "repeat"])
    private, held_out = _split(folder)
    mechanisms = os.environ.get("PRIORY_MECHANISMS", "").split(",") if os.environ.get("PRIORY_MECHANISMS") else [None]
    for mechanism in mechanisms:
        for epsilon in os.environ.get("PRIORY_EPSILONS", ",".join(EPSILONS)).split(","):
            for repeat in range(int(os.environ.get("PRIORY_RUNS", "3"))):
                key = {"mechanism": mechanism or "default", "epsilon": epsilon, "repeat": repeat}
                if not results.has(**key):
                    rows = _synthetic(folder, private, mechanism, epsilon, repeat)
                    results.add({**key, **_judged(rows, held_out)})
    real = {"mechanism": "none: the private rows themselves", "epsilon": "inf", "repeat": 0}
    if not results.has(**real):
        results.add({**real, **_judged(private, held_out)})
    shown([dict(row) for row in results.rows()])


def _split(folder: Path) -> tuple[Path, Path]:
    """The private rows and those held out, as two files."""
    private, held_out = folder / "private.csv", folder / "held_out.csv"
    with gzip.open(data_folder() / "adult_raw" / "adult.csv.gz", "rt", encoding="utf-8", newline="") as file:
        header, *rows = list(csv.reader(file))
    for path, part in ((private, rows[:TRAINING]), (held_out, rows[TRAINING:])):
        with path.open("w", encoding="utf-8", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows([header, *part])
    return private, held_out


def _synthetic(folder: Path, private: Path, mechanism: str | None, epsilon: str, repeat: int) -> Path:
    """As many synthetic rows as private ones, by the command line alone."""
    name = f"{mechanism or 'default'}-{epsilon}-{repeat}".replace("+", "_")
    release, rows = folder / f"{name}.priory", folder / f"{name}.csv"
    for path in (release, rows):
        path.unlink(missing_ok=True)
    chosen = [] if mechanism is None else ["--mechanism", mechanism]
    fit = ["fit", private, "--schema", SCHEMA, "--epsilon", epsilon, "--delta", DELTA, "--output", release, *chosen]
    _priory(*fit)
    _priory("sample", release, "--rows", TRAINING, "--seed", repeat, "--output", rows)
    return rows


def _priory(*arguments: object) -> None:
    subprocess.run([sys.executable, "-m", "priory", *map(str, arguments)], check=True, stdout=subprocess.DEVNULL)


def _judged(training: Path, held_out: Path) -> dict[str, float]:
    """Accuracy and area under the curve of a classifier trained on a file, in an environment of its own."""
    script = Path(__file__).with_name("peer_sklearn.py")
    command = [str(peer_python(".venv-sklearn", SKLEARN)), str(script), str(held_out), str(training)]
    ended = subprocess.run(command, check=True, capture_output=True, encoding="utf-8")
    found: dict[str, float] = json.loads(ended.stdout)
    return found
