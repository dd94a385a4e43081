"""Engine: the oracle, projections, queries and rows, beside mbi 2.0.0, each measurement in a process of its own."""

import csv
import gzip
import json
import os
import sys
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.processes import ROOT, Result, Spec, measured, peer_python

PEER = ("mbi", "mbi==2.0.0")
ORACLES = ("message_passing_hugin", "message_passing_fast")
TIMEOUT = 900.0


def run(quick: bool) -> None:  # noqa: FBT001
    """Print the table, and keep the figures in results/engine.json."""
    peer = peer_python(*PEER)
    results: dict[str, Any] = {}
    print(_heading())
    for name, spec, goal in _rows():
        ours = measured(sys.executable, "bench.jobs_priory", spec, timeout=TIMEOUT)
        theirs = _peer(peer, spec, quick=quick)
        results[name] = {"priory": ours, "mbi": theirs, "goal_ms": goal}
        print(_line(name, ours, theirs, goal), flush=True)
    folder = ROOT / "results"
    folder.mkdir(exist_ok=True)
    (folder / "engine.json").write_text(json.dumps(results, indent=1))


def _peer(python: Path, spec: Spec, *, quick: bool) -> Result:
    """The peer's best: the fastest of its oracles in its default precision."""
    if spec.get("no_peer") or (quick and spec.get("slow_peer")):
        return {"error": "not run"}
    if spec["job"] != "oracle":
        return measured(python, "bench.jobs_mbi", spec, timeout=TIMEOUT)
    oracles = ORACLES[:1] if spec.get("slow_peer") else ORACLES
    tried = [measured(python, "bench.jobs_mbi", {**spec, "oracle": name}, timeout=TIMEOUT) for name in oracles]
    return min(tried, key=lambda result: result.get("wall_ms", float("inf")))


def _rows() -> list[tuple[str, Spec, float | None]]:
    rows: list[tuple[str, Spec, float | None]] = []
    goals = {10: None, 100: 1.0, 300: None, 1000: 8.0}
    for length, goal in goals.items():
        spec = _chain(length)
        rows.append((f"chain of triples, {length} attributes of size 10", {**spec, "compiled": True}, goal))
        if length >= 100:
            plain = 20.0 if length == 1000 else None
            rows.append((f"the same, {length}, without numba", {**spec, "no_peer": True}, plain))
    for count, goal in {6: None, 7: 3.0, 8: 20.0}.items():
        rows.append((f"all pairs among {count} attributes of size 8", _pairs(count), goal))
    adult = _adult()
    if adult is None:
        print("Adult is left out: PRIORY_DATA does not name the folder of the real tables", file=sys.stderr)
        return rows
    sizes, tree, triples = adult
    ones = [(name,) for name in sizes]
    fitted = {"sizes": sizes, "cliques": [*ones, *tree]}
    more = {"sizes": sizes, "cliques": [*ones, *tree, *triples]}
    for name, spec in (("Adult, one-ways and a tree", fitted), ("Adult, the same and 6 triples", more)):
        rows.append((name, {"job": "oracle", "compiled": True, **spec}, None))
        rows.append((f"{name}, without numba", {"job": "oracle", "no_peer": True, **spec}, None))
    asked = [("age", "race", "income>50K")]
    rows.append(("one unmeasured three-way marginal", {"job": "projection", **fitted, "asked": asked}, 0.5))
    mixed = {"job": "queries", **fitted, "queries": _queries(sizes), "peer_queries": 20}
    rows.append(("1,000 mixed product queries, each", mixed, None))
    rows.append(("50,000 rows", {"job": "rows", **fitted, "rows": 50_000}, None))
    rows.append(("1,000,000 rows", {"job": "rows", **fitted, "rows": 1_000_000}, 500.0))
    rows.append(("import", {"job": "startup"}, 300.0))
    return rows


def _chain(length: int) -> Spec:
    names = [f"a{i}" for i in range(length)]
    cliques = [list(clique) for clique in zip(names, names[1:], names[2:], strict=False)]
    return {"job": "oracle", "sizes": dict.fromkeys(names, 10), "cliques": cliques, "slow_peer": length >= 300}


def _pairs(count: int) -> Spec:
    names = [f"a{i}" for i in range(count)]
    return {"job": "oracle", "sizes": dict.fromkeys(names, 8), "cliques": [list(c) for c in combinations(names, 2)]}


def _adult() -> tuple[dict[str, int], list[tuple[str, str]], list[tuple[str, str, str]]] | None:
    """Adult's sizes, its tree of largest mutual information, and the 6 triples of largest total correlation."""
    folder = Path(os.environ.get("PRIORY_DATA") or "nowhere") / "adult_coded15"
    if not folder.is_dir():
        return None
    sizes = {k: v for k, v in json.loads((folder / "domain.json").read_text()).items() if k != "education"}
    with gzip.open(folder / "adult.csv.gz", "rt") as file:
        table = list(csv.DictReader(file))
    codes = {name: np.array([int(row[name]) for row in table]) for name in sizes}
    pairs = sorted(combinations(sizes, 2), key=lambda clique: -_correlation(codes, sizes, clique))
    small = [clique for clique in combinations(sizes, 3) if np.prod([sizes[n] for n in clique]) < 30_000]
    triples = sorted(small, key=lambda clique: -_correlation(codes, sizes, clique))[:6]
    return sizes, _spanning(pairs, sizes), triples


def _correlation(codes: dict[str, Any], sizes: dict[str, int], clique: tuple[str, ...]) -> float:
    """The sum of the attributes' entropies less that of all together."""
    counts = np.zeros([sizes[name] for name in clique])
    np.add.at(counts, tuple(codes[name] for name in clique), 1)
    shares = counts / counts.sum()
    axes = range(len(clique))
    each = [shares.sum(axis=tuple(j for j in axes if j != i)) for i in axes]
    return sum(map(_entropy, each)) - _entropy(shares)


def _entropy(shares: NDArray[np.float64]) -> float:
    held = shares[shares > 0]
    return float(-(held * np.log(held)).sum())


def _spanning(pairs: list[tuple[str, str]], names: dict[str, int]) -> list[tuple[str, str]]:
    group = {name: name for name in names}
    tree = []
    for a, b in pairs:
        if group[a] != group[b]:
            old, new = group[a], group[b]
            group = {name: new if root == old else root for name, root in group.items()}
            tree.append((a, b))
    return tree


def _queries(sizes: dict[str, int]) -> list[dict[str, list[Any]]]:
    """A thousand products of one to three parts of all kinds."""
    rng = np.random.default_rng(0)
    names = list(sizes)
    asked = []
    for _ in range(1000):
        row = {}
        for i in rng.permutation(len(names))[: rng.integers(1, 4)]:
            size = sizes[names[i]]
            kinds: list[list[Any]] = [
                ["Identity"],
                ["Prefix"],
                ["Range", 0, size // 2],
                ["Point", size - 1],
                ["Set", [0, size - 1]],
                ["Mean", list(range(size))],
                ["Recode", [a % 2 for a in range(size)]],
            ]
            row[names[i]] = kinds[rng.integers(len(kinds))]
        asked.append(row)
    return asked


def _heading() -> str:
    return (
        "| job | priory, ms | first call, ms | CPU ms | MB | mbi 2.0.0, ms | first call, ms | CPU ms | MB "
        "| times faster | first call | goal, ms |\n|---|---|---|---|---|---|---|---|---|---|---|---|"
    )


def _line(name: str, ours: Result, theirs: Result, goal: float | None) -> str:
    cells = [name, *_figures(ours), *_figures(theirs)]
    cells += [_ratio(theirs, ours, "wall_ms"), _ratio(theirs, ours, "first_ms"), "" if goal is None else f"≤ {goal:g}"]
    return "| " + " | ".join(cells) + " |"


def _figures(result: Result) -> list[str]:
    if "error" in result:
        return [result["error"], "", "", ""]
    return [_number(result.get(key)) for key in ("wall_ms", "first_ms", "cpu_ms", "peak_mb")]


def _number(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:.3g}" if value < 1000 else f"{value:,.0f}"


def _ratio(theirs: Result, ours: Result, key: str) -> str:
    if key not in theirs or key not in ours:
        return ""
    return f"{theirs[key] / ours[key]:,.3g}"
