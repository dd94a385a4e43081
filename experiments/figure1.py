"""Figure 1 of Private-PGM: four mechanisms on four tables, with and without graphical models.

Run as `python -m experiments.figure1 [--tables titanic adult] [--repeats 5]`. All estimates of a release are of the
same noisy answers. Results grow in results/figure1.csv, and a run picks up where the last one ended.
"""

import argparse
from collections.abc import Sequence
from statistics import median

from experiments.private_pgm import FILES, RESULTS, Results, arms, estimates, experiment, progress

KEYS = ("table", "seed", "mechanism", "repeat")
FIELDS = ("arm", "error", "seconds", "measuring", "spent", "note")
# Own error over the graphical model's, as the paper reports them.
PAPER = {
    ("privbayes", "adult"): 1.3,
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
    parser.add_argument("--tables", nargs="+", default=list(FILES), choices=list(FILES))
    parser.add_argument("--mechanisms", nargs="+", default=list(arms()), choices=list(arms()))
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--iterations", type=int, default=1000, help="at most so many steps for an estimate")
    options = parser.parse_args(arguments)
    results = Results(RESULTS / "figure1.csv", KEYS, FIELDS)
    jobs = [(t, m, r) for t in options.tables for r in range(options.repeats) for m in options.mechanisms]
    with progress(len(jobs), "figure 1") as done:
        for table, mechanism, repeat in jobs:
            held = experiment(table)
            key = {"table": table, "seed": held.seed, "mechanism": mechanism, "repeat": repeat}
            if not results.has(**key):
                results.add([{**key, **row} for row in estimates(held, arms(iterations=options.iterations)[mechanism])])
            if not results.has(**{**key, "mechanism": "uniform", "repeat": 0}):
                row = {**key, "mechanism": "uniform", "repeat": 0, "arm": "own", "error": held.error(held.uniform)}
                results.add([row])
            done(f"{table} {mechanism} {repeat}")
    summarise(results)


def summarise(results: Results) -> None:
    """Print medians and ratios beside the paper's, and draw them where altair is installed."""
    groups: dict[tuple[str, str, str], list[float]] = {}
    notes: dict[tuple[str, str, str], str] = {}
    for row in results.rows():
        key = (row["table"], row["mechanism"], row["arm"])
        if row["error"]:
            groups.setdefault(key, []).append(float(row["error"]))
        elif row["note"]:
            notes[key] = row["note"].split(";")[0]
    print("| table | mechanism | arm | median error | repeats | own / this | paper |\n|---|---|---|---|---|---|---|")
    for (table, mechanism, arm), errors in groups.items():
        own = groups.get((table, mechanism, "own"))
        ratio = f"{median(own) / median(errors):.2f}" if own and arm != "own" else ""
        paper = PAPER.get((mechanism, table), "") if arm == "pgm converged" else ""
        print(f"| {table} | {mechanism} | {arm} | {median(errors):.4f} | {len(errors)} | {ratio} | {paper} |")
    for (table, mechanism, _), note in notes.items():
        print(f"| {table} | {mechanism} | {note} | | | | |")
    _draw(groups)


def _draw(groups: dict[tuple[str, str, str], list[float]]) -> None:
    try:
        import altair as alt
    except ImportError:
        return
    values = [
        {"table": table, "way": f"{mechanism}, {arm}", "error": median(errors)}
        for (table, mechanism, arm), errors in groups.items()
    ]
    bars = alt.Chart(alt.Data(values=values)).mark_bar()
    chart = bars.encode(
        x=alt.X("error:Q", scale=alt.Scale(type="log"), title="workload error"), y=alt.Y("way:N", title=None)
    ).facet("table:N", columns=2)
    chart.save(str(RESULTS / "figure1.svg"))


def run() -> None:
    """All of it, as the list of experiments runs it."""
    main([])


if __name__ == "__main__":
    main()
