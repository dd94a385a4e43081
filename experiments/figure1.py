"""Figure 1 of Private-PGM: four mechanisms on four tables, with and without graphical models.

Run as `python -m experiments.figure1 [--draw any] [--tables titanic adult] [--repeats 5] [--workers 2]`. All estimates
of a release are of the same noisy answers. Results grow in results/figure1/results.csv, and a run picks up where the
last one ended.
"""

import argparse
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from statistics import median
from typing import Literal, get_args

from experiments.paper_workload import TABLES, Draw, held
from experiments.private_pgm import Row, estimates, ways
from experiments.progress import progress
from experiments.results import Results, picture, shown

NAME = "figure1"
KEYS = ("draw", "number", "table", "mechanism", "repeat")
Arm = Literal["own", "pgm", "pgm converged"]
# Own error over the graphical model's, as the paper reports them; "30 %" less is a ratio of 1.43.
PAPER = {
    ("privbayes", "adult"): 1.43,
    ("privbayes", "loans"): 6.0,
    ("privbayes", "stroke"): 7.0,
    ("dualquery", "titanic"): 1.2,
    ("dualquery", "adult"): 1.8,
    ("dualquery", "loans"): 3.5,
    ("dualquery", "stroke"): 4.4,
    ("hdmm", "titanic"): 6.6,
    ("hdmm", "adult"): 3.2,
    ("hdmm", "loans"): 27.0,
    ("hdmm", "stroke"): 6.3,
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run what is missing, then print the table and draw the picture."""
    parser = argparse.ArgumentParser(prog="experiments.figure1", description=__doc__)
    parser.add_argument("--draw", default="paper", choices=get_args(Draw), help="which triples")
    parser.add_argument("--numbers", type=int, default=1, help="so many draws of triples, one after the other")
    parser.add_argument("--tables", nargs="+", default=list(TABLES), choices=list(TABLES))
    parser.add_argument("--mechanisms", nargs="+", default=list(ways()), choices=list(ways()))
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--workers", type=int, default=2, help="so many processes")
    parser.add_argument("--minutes", type=float, default=60.0, help="start nothing new after so long")
    options = parser.parse_args(arguments)
    results = Results.of(NAME, KEYS)
    jobs = [
        {"draw": options.draw, "number": number, "table": table, "mechanism": mechanism, "repeat": repeat}
        for repeat in range(options.repeats)
        for number in range(options.numbers)
        for table in options.tables
        for mechanism in (["uniform"] if repeat == 0 else []) + options.mechanisms
    ]
    missing = [job for job in jobs if not results.has(**job)]
    with progress(len(missing), "figure 1") as done:
        for rows in _run(missing, options.workers, options.minutes):
            for row in rows:
                results.add(row)
            done(" ".join(str(rows[0][name]) for name in ("table", "mechanism", "repeat")))
    summarise(results, options.draw)


def _run(jobs: Sequence[Row], workers: int, minutes: float) -> Iterator[list[Row]]:
    end = time.monotonic() + 60 * minutes
    if workers == 1:
        yield from (rows(job) for job in jobs if time.monotonic() < end)
        return
    with ProcessPoolExecutor(workers) as pool:
        pending = [pool.submit(_unless_late, job, end) for job in jobs]
        for found in as_completed(pending):
            if found.result():
                yield found.result()


def _unless_late(job: Row, end: float) -> list[Row]:
    return rows(job) if time.monotonic() < end else []


def rows(job: Row) -> list[Row]:
    """All rows of one run: a release of one mechanism on one table, and the error of each of its estimates."""
    here = held(str(job["table"]), job["draw"], int(str(job["number"])))  # type: ignore[arg-type]
    seed = {"triples": here.seed}
    if job["mechanism"] == "uniform":
        nothing = {"error": here.error(here.uniform), "seconds": "", "measuring": "", "note": "", "spent": ""}
        return [job | seed | {"arm": "own"} | nothing]
    way = ways()[str(job["mechanism"])]
    return [job | seed | row for row in estimates(here, way, int(str(job["repeat"])))]


def summarise(results: Results, draw: str) -> None:
    """Print medians and ratios beside the paper's, and draw them."""
    groups: dict[tuple[str, str, str], list[float]] = {}
    notes: dict[tuple[str, str], str] = {}
    cost: dict[str, float] = {}
    for row in results.rows():
        if row["draw"] != draw or row["number"] != "0":
            continue
        if row["error"]:
            groups.setdefault((row["table"], row["mechanism"], row["arm"]), []).append(float(row["error"]))
        elif row["note"]:
            notes[row["table"], row["mechanism"]] = row["note"].split(";")[0]
        if row["seconds"]:
            share = float(row["measuring"]) if row["arm"] == "pgm" else 0.0
            cost[row["table"]] = cost.get(row["table"], 0.0) + float(row["seconds"]) + share
    lines = []
    for table, mechanism in dict.fromkeys((table, mechanism) for table, mechanism, _ in groups):
        found = {arm: groups.get((table, mechanism, arm), []) for arm in get_args(Arm)}
        line: Row = {"table": table, "mechanism": mechanism, "repeats": max(map(len, found.values()))}
        line |= {arm: median(errors) if errors else "" for arm, errors in found.items()}
        for arm in ("pgm", "pgm converged"):
            line[f"own / {arm}"] = median(found["own"]) / median(found[arm]) if found["own"] and found[arm] else ""
        line["paper"] = PAPER.get((mechanism, table), "")
        lines.append(line)
    shown(lines)
    for key, note in notes.items():
        print(*key, note)
    print({table: f"{seconds / 60:.1f} CPU minutes" for table, seconds in cost.items()})
    _draw(groups, draw)


def _draw(groups: dict[tuple[str, str, str], list[float]], draw: str) -> None:
    import altair as alt

    names = {"mwem": "MWEM", "mwem+pgm": "MWEM+PGM", "privbayes": "PrivBayes", "hdmm": "HDMM", "dualquery": "DualQuery"}
    values = [
        {"table": table.title(), "mechanism": names[mechanism], "estimate": arm, "error": median(errors)}
        for (table, mechanism, arm), errors in groups.items()
        if mechanism in names
    ]
    levels = [
        {"table": table.title(), "error": errors[0]} for (table, m, _), errors in groups.items() if m == "uniform"
    ]
    x = alt.X("error:Q", scale=alt.Scale(type="log"), title="workload error")
    rows_ = alt.Chart().encode(x=x, y=alt.Y("mechanism:N", title=None, sort=list(names.values())))
    points = rows_.mark_point(size=70, filled=True).encode(color=alt.Color("estimate:N"), shape="estimate:N")
    uniform = alt.Chart().mark_rule(strokeDash=[4, 4]).encode(x="level:Q")
    for value in values:
        value["level"] = next(level["error"] for level in levels if level["table"] == value["table"])
    chart = alt.layer(points, uniform, data=alt.Data(values=values)).properties(width=260, height=130)
    picture(chart.facet("table:N", columns=2).resolve_scale(x="independent"), NAME, f"{NAME}_{draw}")


def run() -> None:
    """All of it, as the list of experiments runs it."""
    main([])


if __name__ == "__main__":
    main()
