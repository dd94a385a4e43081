"""Charts: drawn as pictures in SVG, so that a page needs no script to show them.

Names and labels only ever travel as values of the data, never inside an expression, and the renderer escapes them.
"""

import io
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from priory.domain import Clique
from priory.errors import MissingExtra
from priory.factor import Array
from priory.model.diagnostics import Diagnostics
from priory.report.answered import Answer
from priory.report.association import Associations
from priory.report.html import Html, escaped, shortened
from priory.report.labels import distinct
from priory.report.spending import Item

# Colours that people with any kind of colour vision tell apart; the page gives each a second value for dark screens.
INK, QUIET, GRID = "#1f2933", "#66717d", "#dfe4e8"
BAR, SOFT, ACCENT = "#2f6f73", "#b9c3cb", "#c2571a"
SHADES = ["#eef4f4", "#a9cfcd", "#2f6f73", "#12363d"]
# These stand on a shade, which is the same on every screen.
ON_LIGHT, RING = "#4a5560", "#c2571b"
VARIABLES = {INK: "ink", QUIET: "quiet", GRID: "grid", BAR: "bar", SOFT: "soft", ACCENT: "accent"}
# The renderer brings the first along, and browsers have one of the others with letters as wide.
FONT = "Liberation Sans, Arial, Helvetica, sans-serif"

CARD = 462
WIDE = 940
MOST_COLUMNS = 24
# Cells with a smaller share of their column get no ring: there would be one nearly everywhere.
LEAST_RINGED = 0.02

# Fixed words, as every expression here: thousands as k, millions as M.
SHORT = "format(datum.value, '~s')"

_TAG, _NAME = re.compile("<[^<>]*>"), re.compile(r'\bid="([^"]*)"')

Row = Mapping[str, object]


@dataclass(frozen=True)
class Picture:
    """A chart as markup."""

    svg: Html  # the picture
    words: str  # what it shows, for those who cannot see it


def column_chart(answer: Answer, *, truth: Array | None = None) -> Any:  # noqa: ANN401 - altair is untyped here
    """The groups of one attribute with their intervals; `truth` is for the curator's own page."""
    [places] = answer.places
    rows = [
        {
            "label": places.labels[i],
            "estimate": _finite(answer.estimate[i]),
            "low": _finite(answer.low[i]),
            "high": _finite(answer.high[i]),
            "own": i not in (places.rest, places.null),
            "truth": None if truth is None else float(truth[i]),
        }
        for i in range(len(places.labels))
        if i != places.rest or not answer.rest_dwarfs
    ]
    if not places.attribute.is_ordered:
        return _bars(rows)
    return _columns(rows) if len(rows) <= MOST_COLUMNS else _area(rows)


def _bars(rows: Sequence[Row]) -> Any:  # noqa: ANN401
    alt = _altair()
    y = alt.Y(
        "label:N", sort=None, title=None, axis=alt.Axis(labelLimit=170, labelPadding=6, domain=False, ticks=False)
    )
    base = alt.Chart(alt.InlineData(values=rows)).encode(y=y)
    bars = base.mark_bar(height={"band": 0.74}).encode(x=alt.X("estimate:Q", **_counts()), color=_own())
    ends = base.mark_rule(color=INK, strokeWidth=1.4).encode(x="low:Q", x2="high:Q")
    return _framed(alt.layer(bars, ends, *_diamonds(base, "x", rows)), width=CARD, height=max(60, 17 * len(rows)))


def _columns(rows: Sequence[Row]) -> Any:  # noqa: ANN401
    alt = _altair()
    longest = max(len(str(row["label"])) for row in rows)
    angle = 0 if longest * len(rows) <= 44 else -45
    axis = alt.Axis(labelAngle=angle, labelLimit=110, domainColor=GRID, ticks=False, labelPadding=5)
    base = alt.Chart(alt.InlineData(values=rows)).encode(x=alt.X("label:N", sort=None, title=None, axis=axis))
    bars = base.mark_bar(width={"band": 0.8}).encode(y=alt.Y("estimate:Q", **_counts()), color=_own())
    ends = base.mark_rule(color=INK, strokeWidth=1.4).encode(y="low:Q", y2="high:Q")
    return _framed(alt.layer(bars, ends, *_diamonds(base, "y", rows)), width=CARD, height=150)


def _area(rows: Sequence[Row]) -> Any:  # noqa: ANN401
    alt = _altair()
    shown = [row["label"] for row in rows[:: math.ceil(len(rows) / 12)]]
    axis = alt.Axis(values=shown, labelAngle=-45, labelLimit=110, domainColor=GRID, ticks=False, labelPadding=5)
    base = alt.Chart(alt.InlineData(values=rows)).encode(x=alt.X("label:N", sort=None, title=None, axis=axis))
    line = base.mark_area(line={"color": BAR, "strokeWidth": 1.6}, color=BAR, fillOpacity=0.28)
    band = base.mark_rule(color=INK, strokeWidth=1.2, opacity=0.75).encode(y="low:Q", y2="high:Q")
    filled = line.encode(y=alt.Y("estimate:Q", **_counts()))
    return _framed(alt.layer(filled, band, *_diamonds(base, "y", rows)), width=CARD, height=150)


def _diamonds(base: Any, axis: str, rows: Sequence[Row]) -> list[Any]:  # noqa: ANN401
    """True counts, where they are given."""
    if all(row["truth"] is None for row in rows):
        return []
    mark = base.mark_point(shape="diamond", size=40, color=ACCENT, filled=True, opacity=1)
    return [mark.encode(**{axis: "truth:Q"})]


def pair_chart(answer: Answer) -> Any:  # noqa: ANN401
    """The cells of two attributes as shares of each column, with a ring where the interval reaches nothing."""
    alt = _altair()
    down, across = answer.places
    estimate = np.maximum(answer.estimate, 0.0)
    totals = estimate.sum(axis=0)
    shares = np.divide(estimate, totals, out=np.zeros(estimate.shape), where=totals > 0)
    unsure = (answer.low <= 0) & (shares > LEAST_RINGED)
    rows = [
        {
            "down": down.labels[i],
            "across": across.labels[j],
            "share": float(shares[i, j]),
            "unsure": bool(unsure[i, j]),
        }
        for i, j in np.ndindex(estimate.shape)
    ]
    axis = {"title": None, "labelPadding": 4, "domain": False, "ticks": False}
    base = alt.Chart(alt.InlineData(values=rows)).encode(
        x=alt.X("across:N", sort=None, axis=alt.Axis(labelAngle=-45, labelLimit=120, **axis)),
        y=alt.Y("down:N", sort=None, axis=alt.Axis(labelLimit=150, **axis)),
    )
    legend = alt.Legend(
        title=None, format=".0%", values=[0, 0.25, 1], orient="top", gradientLength=160, gradientThickness=8
    )
    scale = alt.Scale(range=SHADES, domain=[0, 1], type="sqrt")
    cells = base.mark_rect(stroke="white", strokeWidth=0.7).encode(
        color=alt.Color("share:Q", scale=scale, legend=legend)
    )
    rings = base.transform_filter("datum.unsure").mark_point(shape="circle", size=26, color=RING, strokeWidth=1.4)
    return _framed(cells + rings, width=CARD, height=max(70, 20 * len(down.labels)))


def overview_chart(found: Associations) -> Any:  # noqa: ANN401
    """V of all pairs as a triangle."""
    alt = _altair()
    names = distinct([shortened(name, 24) for name in found.names])
    rows = [
        {"down": names[i], "across": names[j], "v": float(found.strengths[i, j])}
        for i in range(len(names))
        for j in range(i)
    ]
    cell = 30 if len(names) <= 16 else max(11, 620 // len(names))
    font = 11 if cell >= 16 else 8
    axis = {"labelLimit": 150, "labelPadding": 4, "domain": False, "ticks": False, "labelFontSize": font}
    base = alt.Chart(alt.InlineData(values=rows)).encode(
        x=alt.X("across:N", sort=None, title=None, axis=alt.Axis(labelAngle=-45, **axis)),
        y=alt.Y("down:N", sort=None, title=None, axis=alt.Axis(**axis)),
    )
    legend = alt.Legend(title="Cramér's V", values=[0, 0.5, 1], orient="top", gradientLength=180, gradientThickness=8)
    scale = alt.Scale(range=SHADES, domain=[0, 1])
    cells = base.mark_rect(stroke="white", strokeWidth=0.7).encode(color=alt.Color("v:Q", scale=scale, legend=legend))
    if cell < 26:
        return _framed(cells, step=cell)
    light = alt.condition("datum.v > 0.45", alt.value("white"), alt.value(ON_LIGHT))
    figures = base.mark_text(fontSize=9.5).encode(text=alt.Text("v:Q", format=".2f"), color=light)
    return _framed(cells + figures, step=cell)


def graph_chart(names: Sequence[str], cliques: Sequence[Clique]) -> Any:  # noqa: ANN401
    """Attributes on a circle, joined where a clique holds both; neighbours in the graph stand close."""
    alt = _altair()
    edges = edges_of(cliques)
    order = _walked(names, edges)
    angles = {name: 2 * math.pi * i / len(order) for i, name in enumerate(order)}
    radius = max(130.0, 15 * len(order) / (2 * math.pi))
    nodes = [
        {
            "x": radius * math.cos(a),
            "y": radius * math.sin(a),
            "label": shortened(name, 24),
            "turn": -math.degrees(a) % 360 if math.cos(a) >= 0 else (180 - math.degrees(a)) % 360,
            "right": math.cos(a) >= 0,
            "joined": any(name in edge for edge in edges),
        }
        for name, a in angles.items()
    ]
    curves = [
        {"edge": i, "step": k, "x": pull * radius * math.cos(a), "y": pull * radius * math.sin(a)}
        for i, (one, other) in enumerate(edges)
        for k, (a, pull) in enumerate(
            [(angles[one], 1.0), (angles[one], 0.45), (angles[other], 0.45), (angles[other], 1.0)]
        )
    ]
    room = radius + 130
    scale = alt.Scale(domain=[-room, room], nice=False)
    x, y = alt.X("x:Q", axis=None, scale=scale), alt.Y("y:Q", axis=None, scale=scale)
    lines = (
        alt.Chart(alt.InlineData(values=curves))
        .mark_line(interpolate="basis", color=BAR, strokeWidth=1.4, opacity=0.75)
        .encode(x=x, y=y, detail="edge:N", order="step:O")
    )
    base = alt.Chart(alt.InlineData(values=nodes)).encode(x=x, y=y)
    layers = [lines] if curves else []
    filled = alt.condition("datum.joined", alt.value(BAR), alt.value(SOFT))
    layers.append(base.mark_point(filled=True, size=55, opacity=1).encode(color=filled))
    for is_right in (True, False):
        words = base.transform_filter("datum.right" if is_right else "!datum.right")
        side = {"align": "left", "dx": 8} if is_right else {"align": "right", "dx": -8}
        layers.append(
            words.mark_text(baseline="middle", fontSize=11, color=INK, **side).encode(
                text="label:N", angle=alt.Angle("turn:Q", scale=None)
            )
        )
    return _framed(alt.layer(*layers), width=2 * room, height=2 * room)


def edges_of(cliques: Sequence[Clique]) -> list[tuple[str, str]]:
    """The pairs of attributes that some clique holds."""
    return sorted({pair for clique in cliques for pair in _pairs(clique)})


def _pairs(clique: Clique) -> list[tuple[str, str]]:
    names = sorted(clique)
    return [(one, other) for i, one in enumerate(names) for other in names[i + 1 :]]


def _walked(names: Sequence[str], edges: Sequence[tuple[str, str]]) -> list[str]:
    """The names in the order of a walk through the graph, each part of it together."""
    near: dict[str, list[str]] = {name: [] for name in names}
    for one, other in edges:
        near[one].append(other)
        near[other].append(one)
    seen: dict[str, None] = {}
    for start in sorted(names, key=lambda name: -len(near[name])):
        stack = [start]
        while stack:
            name = stack.pop()
            if name not in seen:
                seen[name] = None
                stack += sorted(near[name], key=lambda other: len(near[other]))
    return list(seen)


def budget_chart(items: Sequence[Item]) -> Any:  # noqa: ANN401
    """Shares of the budget."""
    alt = _altair()
    labels = distinct([shortened(item.what, 52) for item in items])
    rows = [
        {"label": label, "share": item.share, "text": f"{item.share:.1%}", "own": not item.is_choice}
        for label, item in zip(labels, items, strict=True)
    ]
    base = alt.Chart(alt.InlineData(values=rows)).encode(
        y=alt.Y(
            "label:N", sort=None, title=None, axis=alt.Axis(labelLimit=330, labelPadding=6, domain=False, ticks=False)
        ),
        x=alt.X("share:Q", axis=None, scale=alt.Scale(domainMin=0, domainMax=1.15 * max(item.share for item in items))),
    )
    bars = base.mark_bar(height={"band": 0.72}).encode(color=_own())
    figures = base.mark_text(align="left", dx=4, fontSize=10.5, color=QUIET).encode(text="text:N")
    return _framed(bars + figures, width=WIDE, height=max(40, 18 * len(rows)))


def path_chart(diagnostics: Diagnostics) -> Any:  # noqa: ANN401
    """How far the model was from the answers, and how large its estimated error was, along the way."""
    alt = _altair()
    kinds = {"distance from the noisy answers": BAR, "estimated error": ACCENT}
    rows = [
        {"calls": point.calls, "level": point.level, "what": what, "value": value, "chosen": point.is_chosen}
        for point in diagnostics.path
        for what, value in zip(kinds, (point.discrepancy, point.error), strict=True)
        if math.isfinite(value) and value > 0
    ]
    color = alt.Color(
        "what:N",
        scale=alt.Scale(domain=list(kinds), range=list(kinds.values())),
        legend=alt.Legend(title=None, orient="top", labelLimit=300),
    )
    base = alt.Chart(alt.InlineData(values=rows)).encode(
        x=alt.X(
            "calls:Q", title="times the model was evaluated", axis=alt.Axis(grid=False, domainColor=GRID, tickCount=6)
        ),
        y=alt.Y(
            "value:Q",
            title="mean square, in units of the noise",
            scale=alt.Scale(type="log"),
            axis=alt.Axis(gridColor=GRID, domain=False, ticks=False, tickCount=4, format="~g"),
        ),
        color=color,
    )
    lines = base.mark_line(strokeWidth=1.6).encode(detail="level:N")
    chosen = base.transform_filter("datum.chosen").mark_point(size=60, filled=True, opacity=1)
    return _framed(lines + chosen, width=WIDE, height=200)


def drawn(chart: Any, words: str, prefix: str) -> Picture:  # noqa: ANN401
    """The chart as a picture; `prefix` keeps the names inside it apart from other pictures' of the page."""
    file = io.StringIO()
    chart.save(file, format="svg")
    svg = file.getvalue()
    names = dict.fromkeys(name for tag in _TAG.findall(svg) for name in _NAME.findall(tag))
    # The renderer's own count of names goes on from picture to picture; ours begins anew.
    changes = {'stroke="white"': 'stroke="var(--card)"'}
    changes |= {f'="{color}"': f'="var(--{name})"' for color, name in VARIABLES.items()}
    for number, name in enumerate(names):
        changes |= {f'id="{name}"': f'id="{prefix}-part-{number}"', f"url(#{name})": f"url(#{prefix}-part-{number})"}
    # Only inside tags: between them are the labels, as they are spelled.
    svg = _TAG.sub(lambda tag: _changed(tag[0], changes), svg)
    return Picture(Html(svg.replace("<svg", f'<svg role="img" aria-label="{escaped(words)}"', 1)), words)


def _changed(tag: str, changes: Mapping[str, str]) -> str:
    for old, new in changes.items():
        tag = tag.replace(old, new)
    return tag


def _altair() -> Any:  # noqa: ANN401
    try:
        import altair as alt
        import vl_convert  # noqa: F401 - altair draws with it
    except ImportError:
        raise MissingExtra("altair with vl-convert", "priory[report]") from None
    return alt


def _framed(chart: Any, *, width: float = 0, height: float = 0, step: int | None = None) -> Any:  # noqa: ANN401
    alt = _altair()
    if step is None:
        chart = chart.properties(
            width=width, height=height, autosize=alt.AutoSizeParams(type="fit-x", contains="padding")
        )
    else:
        chart = chart.properties(width=alt.Step(step), height=alt.Step(step))
    return (
        chart.properties(background="transparent", padding=2)
        .configure(font=FONT, aria=False)
        .configure_view(strokeWidth=0)
        .configure_axis(labelColor=INK, labelFontSize=11, titleColor=QUIET, titleFontSize=11, titleFontWeight=400)
        .configure_legend(labelColor=INK, labelFontSize=11, titleColor=QUIET, titleFontSize=11, titleFontWeight=400)
    )


def _counts() -> dict[str, Any]:
    alt = _altair()
    axis = alt.Axis(
        grid=True, gridColor=GRID, domain=False, ticks=False, tickCount=4, labelColor=QUIET, labelExpr=SHORT
    )
    return {"title": None, "axis": axis, "scale": alt.Scale(domainMin=0)}


def _own() -> Any:  # noqa: ANN401
    alt = _altair()
    return alt.condition("datum.own", alt.value(BAR), alt.value(SOFT))


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None
