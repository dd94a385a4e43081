"""Figures 2 and 3 of PMW^Pub: public rows with too many or too few women, and fewer of them."""

import numpy as np
from numpy.typing import NDArray

from experiments.comparison import means
from experiments.ours_public import ARMS, measured
from experiments.results import Results, picture, shown
from experiments.splits import Split, chosen, runs

BIASES = (-0.2, -0.1, 0.0, 0.1, 0.2, 0.3, 0.45, 0.55, 0.65)
SIZES = (1.0, 0.1, 0.01, 0.001)
KEYS = ("split", "epsilon", "arm", "run")
EPSILON = "1"
NAME = "biased_public"


def run() -> None:
    """Every bias and size, arm and repeat that is not there yet; no public row is a private one."""
    split = Split.load("adult_disjoint")
    rows = np.repeat(split.public.codes, np.rint(split.public.shares * 4_869).astype(int), axis=0).astype(np.int64)
    results = Results.of(NAME, KEYS)
    cases = [(f"bias {bias}", bias, 1.0) for bias in BIASES] + [(f"size {size}", 0.0, size) for size in SIZES[1:]]
    for name, bias, size in cases:
        for repeat in range(runs(5)):
            drawn = split.upon(biased(rows, bias, size, np.random.default_rng(repeat)))
            for arm in chosen(ARMS, "PRIORY_ARMS"):
                if not results.has(split=name, epsilon=EPSILON, arm=arm, run=repeat):
                    key = {"split": name, "epsilon": EPSILON, "arm": arm, "run": repeat}
                    results.add(key | measured(drawn, arm, EPSILON, repeat))
    shown(means(results, ("largest", "mean_tv", "seconds")))
    _draw(results)


def _draw(results: Results) -> None:
    import altair as alt

    rows = [
        {"kind": kind, kind: float(value), "arm": row["arm"], "error": row["largest"], "±": row["±"]}
        for row in means(results, ("largest",))
        for kind, value in _places(str(row["split"]))
    ]
    panels = []
    for kind, title in (("bias", "share of one sex moved by"), ("size", "part of the public rows")):
        lines = alt.Chart(alt.Data(values=[row for row in rows if row["kind"] == kind])).encode(
            x=alt.X(f"{kind}:Q", title=title, scale=alt.Scale(type="log" if kind == "size" else "linear")),
            y=alt.Y("error:Q", title="largest error", scale=alt.Scale(type="log")),
            color="arm:N",
        )
        bars = lines.transform_calculate(low="datum.error - datum['±']", high="datum.error + datum['±']")
        panels.append(lines.mark_line(point=True) + bars.mark_rule().encode(y="low:Q", y2="high:Q"))
    picture(alt.hconcat(*panels), NAME)


def _places(split: str) -> list[tuple[str, str]]:
    """In which panels a case is shown, and where: all rows without bias are in both."""
    kind, value = split.split(" ", 1)
    return [(kind, value), ("size", "1")] if split == "bias 0.0" else [(kind, value)]


def biased(rows: NDArray[np.int64], bias: float, size: float, rng: np.random.Generator) -> NDArray[np.int64]:
    """Rows drawn with replacement, the share of the first code of sex moved by `bias`."""
    first = rows[:, 0] == 0
    share = min(max(float(first.mean()) + bias, 0.0), 1.0)
    weights = np.where(first, share / max(first.sum(), 1), (1 - share) / max((~first).sum(), 1))
    return rows[rng.choice(len(rows), max(int(size * len(rows)), 1), p=weights / weights.sum())]
