"""Results: rows of a table that an experiment adds to and does not compute twice."""

import csv
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path("results")
Row = dict[str, str]


@dataclass(frozen=True)
class Results:
    """A CSV file of results, one row for each combination of keys.

    Attributes:
        path: the file.
        keys: the columns that say which result it is.
    """

    path: Path
    keys: tuple[str, ...]

    @classmethod
    def of(cls, name: str, keys: Iterable[str]) -> "Results":
        """The results of the experiment `name`."""
        (FOLDER / name).mkdir(parents=True, exist_ok=True)
        return cls(FOLDER / name / "results.csv", tuple(keys))

    def rows(self) -> list[Row]:
        """What there is so far."""
        if not self.path.exists():
            return []
        with self.path.open(newline="") as file:
            return list(csv.DictReader(file))

    def has(self, **key: object) -> bool:
        """Whether there is a result for these keys."""
        wanted = {name: str(value) for name, value in key.items()}
        return any(all(row[name] == wanted[name] for name in self.keys) for row in self.rows())

    def add(self, row: Mapping[str, object]) -> None:
        """Add a row; numbers are written as they are."""
        is_new = not self.path.exists()
        with self.path.open("a", newline="") as file:
            writer = csv.DictWriter(file, fieldnames=list(row))
            if is_new:
                writer.writeheader()
            writer.writerow(dict(row))


class Stopwatch:
    """CPU seconds since it was made."""

    def __init__(self) -> None:
        self._begun = time.process_time()

    @property
    def seconds(self) -> float:
        """How many they are by now."""
        return time.process_time() - self._begun


def shown(rows: list[dict[str, object]]) -> None:
    """Print rows as a table."""
    if not rows:
        return
    names = list(rows[0])
    cells = [names, *([_cell(row[name]) for name in names] for row in rows)]
    widths = [max(len(line[i]) for line in cells) for i in range(len(names))]
    for line in cells:
        print("  ".join(text.rjust(width) for text, width in zip(line, widths, strict=True)))


def _cell(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def picture(chart: object, name: str, file: str | None = None) -> None:
    """Save a chart beside the results of `name` as a page that opens offline, and as an image."""
    for kind in ("html", "png"):
        options = {"inline": True} if kind == "html" else {}
        chart.save(str(FOLDER / name / f"{file or name}.{kind}"), **options)  # type: ignore[attr-defined]
