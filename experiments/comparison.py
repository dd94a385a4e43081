"""Comparison: means over repeats of several arms, as rows of a table and as a picture over ε."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from experiments.results import Results, Row, picture

# The arm that is the least error of all weights of the public rows.
BEST_MIXTURE = "best mixture"
WIDTH, HEIGHT = 240, 180


def grouped(results: Results) -> dict[tuple[str, str, str], list[Row]]:
    """The repeats of each split, ε and arm."""
    groups: dict[tuple[str, str, str], list[Row]] = {}
    for row in results.rows():
        groups.setdefault((row["split"], row["epsilon"], row["arm"]), []).append(row)
    return groups


def means(results: Results, columns: Sequence[str]) -> list[dict[str, object]]:
    """One row a split, ε and arm; the first column with its standard error."""
    table: list[dict[str, object]] = []
    for (split, epsilon, arm), rows in grouped(results).items():
        line: dict[str, object] = {"split": split, "epsilon": epsilon, "arm": arm, "runs": len(rows)}
        for place, name in enumerate(columns):
            values = _column(rows, name)
            line[name] = float(values.mean())
            if place == 0:
                line["±"] = standard_error(values)
        table.append(line)
    return table


def _column(rows: Sequence[Row], name: str) -> np.ndarray:
    return np.array([float(row[name]) for row in rows])


def standard_error(values: Sequence[float] | np.ndarray) -> float:
    """Of the mean; 0 where there is one value."""
    return float(np.std(values, ddof=1) / len(values) ** 0.5) if len(values) > 1 else 0.0


@dataclass(frozen=True)
class Point:
    """One point of a picture over ε: the mean of an arm's errors, and its standard error."""

    split: str
    epsilon: str
    arm: str
    error: float
    spread: float


def points(results: Results, column: str) -> list[Point]:
    """The means of a column, for a picture."""
    found = [(key, _column(rows, column)) for key, rows in grouped(results).items()]
    return [Point(*key, float(values.mean()), standard_error(values)) for key, values in found]


def drawn(shown: Sequence[Point], name: str) -> None:
    """Errors over ε with standard errors, a panel for each split; what no weights of public rows reach is grey."""
    import altair as alt

    rows = [{"split": p.split, "ε": float(p.epsilon), "arm": p.arm, "error": p.error, "±": p.spread} for p in shown]
    if not rows:
        return
    base = alt.Chart(alt.Data(values=rows)).encode(
        x=alt.X("ε:Q", scale=alt.Scale(type="log")),
        y=alt.Y("error:Q", scale=alt.Scale(type="log"), title="largest error"),
    )
    arms = base.transform_filter(f"datum.arm != '{BEST_MIXTURE}'").encode(color="arm:N")
    bars = arms.transform_calculate(low="datum.error - datum['±']", high="datum.error + datum['±']")
    grey = base.transform_filter(f"datum.arm == '{BEST_MIXTURE}'").mark_rect(color="#ddd")
    layers = (
        grey.encode(x=alt.value(0), x2=alt.value(WIDTH), y2=alt.value(HEIGHT))
        + arms.mark_line(point=True)
        + bars.mark_rule().encode(y="low:Q", y2="high:Q")
    )
    panels = layers.properties(width=WIDTH, height=HEIGHT).facet("split:N", columns=3)
    picture(panels.resolve_scale(y="independent"), name)
