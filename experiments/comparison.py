"""Comparison: means over repeats of several arms, as rows of a table and as a picture over ε."""

from collections.abc import Sequence

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
            values = np.array([float(row[name]) for row in rows])
            line[name] = float(values.mean())
            if place == 0:
                line["±"] = standard_error(values)
        table.append(line)
    return table


def standard_error(values: Sequence[float] | np.ndarray) -> float:
    """Of the mean; 0 where there is one value."""
    return float(np.std(values, ddof=1) / len(values) ** 0.5) if len(values) > 1 else 0.0


def drawn(results: Results, column: str, name: str) -> None:
    """Errors over ε with standard errors, a panel for each split; what no weights of public rows reach is grey."""
    import altair as alt

    rows = [
        {"split": row["split"], "ε": float(row["epsilon"]), "arm": row["arm"], "error": row[column], "±": row["±"]}
        for row in means(results, (column,))
        if isinstance(row["split"], str) and isinstance(row["epsilon"], str)
    ]
    if not rows:
        return
    base = alt.Chart(alt.Data(values=rows)).encode(
        x=alt.X("ε:Q", scale=alt.Scale(type="log")),
        y=alt.Y("error:Q", scale=alt.Scale(type="log"), title=column.replace("_", " ")),
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
