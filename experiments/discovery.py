"""Discovery: what `schema discover` finds of two tables that are known, and what it misses.

For each column: how many of its values were found as levels and how many rows the missed ones have; the bounds beside
the true extremes, and how many rows they cut off; and what it cost.
"""

import csv
import gzip
import io
import os
import time
from collections import Counter
from pathlib import Path

from experiments.results import Results, shown
from experiments.tables import data_folder
from priory import town
from priory.app.discover import Discovery, discover
from priory.data.cells import Unread
from priory.data.kinds import Category, Column, Moment, Number
from priory.data.reading import read_cell

EPSILONS = ("0.1", "1")
DELTA = "1e-9"
MISSING = ("", "?", "NA")
FIELDS = ("kind", "levels", "found", "missed", "true", "bounds", "bins", "spikes", "rows_cut")
NOTHING = dict.fromkeys((*FIELDS, "cost", "seconds", "modelled", "left_out"), "")


def run() -> None:
    """Discover both tables at both budgets, several times."""
    results = Results.of("discovery", ["table", "epsilon", "repeat", "column"])
    for name, path in {"adult": data_folder() / "adult_raw" / "adult.csv.gz", "town": Path(town.THIS_YEAR)}.items():
        for epsilon in EPSILONS:
            for repeat in range(int(os.environ.get("PRIORY_RUNS", "5"))):
                if not results.has(table=name, epsilon=epsilon, repeat=repeat, column="all"):
                    _one(results, path, table=name, epsilon=epsilon, repeat=repeat)
    shown([dict(row) for row in results.rows() if row["repeat"] == "0"])
    _summary([dict(row) for row in results.rows()])


def _one(results: Results, path: Path, **key: object) -> None:
    start = time.process_time()
    learnt = discover(path, epsilon=str(key["epsilon"]), delta=DELTA, has_header=True)
    seconds = time.process_time() - start
    for column, cells in _cells(path).items():
        results.add({**key, "column": column, **NOTHING, **_judged(learnt.found[column].column, cells)})
    cost = learnt.cost
    results.add(
        {**key, "column": "all", **NOTHING, "cost": float(cost.epsilon or 0), "seconds": seconds, **_kinds(learnt)}
    )


def _cells(path: Path) -> dict[str, Counter[str]]:
    """How often each text occurs in each column."""
    data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    header, *rows = csv.reader(io.StringIO(data.decode(), newline=""))
    return {name: Counter(row[i] for row in rows) for i, name in enumerate(header)}


def _judged(column: Column, cells: Counter[str]) -> dict[str, object]:
    present = {text: n for text, n in cells.items() if text not in MISSING}
    rows = sum(cells.values())
    if isinstance(column, Category):
        lost = {text: n for text, n in present.items() if isinstance(read_cell(column, text), Unread)}
        levels = {"levels": len(present), "found": len(column.levels), "missed": len(lost)}
        return {"kind": column.kind, **levels, "rows_cut": sum(lost.values()) / rows}
    if isinstance(column, Number | Moment):
        points = {text: point for text in present if not isinstance(point := read_cell(column, text), Unread)}
        low, high = min(points.values()), max(points.values())
        beyond = sum(present[text] for text, point in points.items() if not column.low <= point <= column.high)
        texts = [column.point_text(point) for point in (low, column.low, column.high, high)]
        bounds = {"true": f"{texts[0]} … {texts[3]}", "bounds": f"{texts[1]} … {texts[2]}", "bins": column.places}
        spikes = " ".join(map(str, column.spikes)) if isinstance(column, Number) else ""
        return {"kind": column.kind, **bounds, "spikes": spikes, "rows_cut": beyond / rows}
    return {"kind": column.kind, "levels": len(present), "rows_cut": 1.0 if column.kind == "text" else 0.0}


def _kinds(learnt: Discovery) -> dict[str, object]:
    left_out = [name for name, each in learnt.found.items() if each.column.kind in ("id", "text")]
    return {"modelled": len(learnt.found) - len(left_out), "left_out": ", ".join(left_out)}


def _summary(rows: list[dict[str, object]]) -> None:
    """Means over all repeats: of categories, levels found and rows without one; of numbers, rows out of bounds."""
    for table in ("adult", "town"):
        for epsilon in EPSILONS:
            mine = [row for row in rows if (row["table"], row["epsilon"]) == (table, epsilon)]
            categories = [row for row in mine if row.get("kind") == "category"]
            lines = [row for row in mine if row.get("bounds")]
            whole = [row for row in mine if row["column"] == "all"]
            print(
                f"{table}, ε = {epsilon}: cost {max(float(str(row['cost'])) for row in whole):.3f}, "
                f"modelled {_mean(whole, 'modelled'):.1f}, levels found {_mean(categories, 'found'):.1f} of "
                f"{_mean(categories, 'levels'):.1f}, rows without one {100 * _mean(categories, 'rows_cut'):.2f} %, "
                f"rows out of bounds {100 * _mean(lines, 'rows_cut'):.2f} %, CPU {_mean(whole, 'seconds'):.1f} s"
            )


def _mean(rows: list[dict[str, object]], key: str) -> float:
    values = [float(str(row[key])) for row in rows if row.get(key) not in (None, "")]
    return sum(values) / max(len(values), 1)
