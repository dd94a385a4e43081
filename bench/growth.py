"""Growth: how the cost of a call grows with the number of cliques and with their size."""

import json
import sys
from itertools import combinations

from bench.processes import ROOT, Result, Spec, measured

LENGTHS = (10, 30, 100, 300, 1000, 3000, 10_000)
PAIRS = (3, 4, 5, 6, 7, 8, 9, 10)
DENSE = (3, 4, 5, 6, 7, 8, 9)


def run(quick: bool) -> None:  # noqa: FBT001
    """Print both tables, keep the figures in results/growth.json, and draw them where altair is installed."""
    cut = 2 if quick else None
    found: dict[str, dict[int, Result]] = {}
    families = {
        "chain of triples, attributes": (LENGTHS, _chain),
        "all pairs among k attributes of size 8, k": (PAIRS, _pairs),
        "one clique of k attributes of size 8, k": (DENSE, _dense),
    }
    for title, (values, spec_of) in families.items():
        print(f"| {title} | ms a call | first call, ms | CPU ms | peak MB |\n|---|---|---|---|---|")
        found[title] = {}
        for value in values[: -cut if cut else None]:
            result = measured(sys.executable, "bench.jobs_priory", spec_of(value), timeout=600)
            found[title][value] = result
            if "error" in result:
                print(f"| {value} | {result['error']} | | | |")
                continue
            keys = ("wall_ms", "first_ms", "cpu_ms", "peak_mb")
            print(f"| {value:,} | " + " | ".join(f"{result[key]:,.3g}" for key in keys) + " |", flush=True)
    folder = ROOT / "results"
    folder.mkdir(exist_ok=True)
    (folder / "growth.json").write_text(json.dumps(found, indent=1))
    _draw(found)


def _chain(length: int) -> Spec:
    names = [f"a{i}" for i in range(length)]
    cliques = [list(clique) for clique in zip(names, names[1:], names[2:], strict=False)]
    return {"job": "oracle", "sizes": dict.fromkeys(names, 10), "cliques": cliques, "compiled": True}


def _pairs(count: int) -> Spec:
    names = [f"a{i}" for i in range(count)]
    return {"job": "oracle", "sizes": dict.fromkeys(names, 8), "cliques": [list(c) for c in combinations(names, 2)]}


def _dense(count: int) -> Spec:
    names = [f"a{i}" for i in range(count)]
    return {"job": "oracle", "sizes": dict.fromkeys(names, 8), "cliques": [names]}


def _draw(found: dict[str, dict[int, Result]]) -> None:
    """Both pictures side by side, as docs/engine_growth.svg."""
    try:
        import altair as alt
    except ImportError:
        print("no pictures: the extra [report] is not installed", file=sys.stderr)
        return
    titles = list(found)
    chains = [{"attributes": n, "ms": r["wall_ms"]} for n, r in found[titles[0]].items() if "wall_ms" in r]
    names = {titles[1]: "all pairs measured", titles[2]: "one clique measured"}
    sizes = [
        {"cells": 8**k, "ms": r["wall_ms"], "model": names[title]}
        for title in titles[1:]
        for k, r in found[title].items()
        if "wall_ms" in r
    ]
    log = alt.Scale(type="log")
    left = (
        alt.Chart(alt.Data(values=chains), title="A chain of triples", width=320, height=240)
        .mark_line(point=True)
        .encode(
            x=alt.X("attributes:Q", scale=log, title="attributes of size 10"),
            y=alt.Y("ms:Q", scale=log, title="milliseconds a call"),
        )
    )
    right = (
        alt.Chart(alt.Data(values=sizes), title="One bag", width=320, height=240)
        .mark_line(point=True)
        .encode(
            x=alt.X("cells:Q", scale=log, title="cells of its full table", axis=alt.Axis(format=".0e")),
            y=alt.Y("ms:Q", scale=log, title="milliseconds a call"),
            color=alt.Color("model:N", title=None, legend=alt.Legend(orient="bottom")),
        )
    )
    folder = ROOT / "docs"
    folder.mkdir(exist_ok=True)
    (left | right).save(str(folder / "engine_growth.svg"))
