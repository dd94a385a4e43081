"""Charts: drawn as pictures in SVG, so that a page needs no script to show them.

Names and labels only ever travel as values of the data, never inside an expression, and the renderer escapes them.
"""

import io
import itertools
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from priory.errors import MissingExtra
from priory.model.diagnostics import Diagnostics
from priory.queries.domain import Clique
from priory.queries.factor import Array
from priory.report.answered import Answer
from priory.report.contents import Associations, Item
from priory.report.page import Html, escaped, shortened
from priory.report.places import distinct

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
# The picture has one description, and nothing inside it is announced by itself.
_ROLE = re.compile(r' (?:role="graphics-[a-z]+"|aria-roledescription="[^"]*")')

Row = Mapping[str, object]
Chart = Any  # altair has no types


def column_chart(answer: Answer, *, truth: Array | None = None) -> Chart:
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
    return groups_chart(rows, is_ordered=places.attribute.is_ordered)


def groups_chart(rows: Sequence[Row], *, is_ordered: bool, title: str = "records") -> Chart:
    """Groups with estimates and intervals: bars, columns where they are ordered, an area where these are many.

    Args:
        rows: `label`, `estimate`, `low` and `high` of each group, `truth` if that is known, and whether it is one value
            (`own`) or stands for several.
        is_ordered: whether neighbouring groups are alike.
        title: what the estimates are.
    """
    if not is_ordered:
        return _bars(rows, title)
    return _columns(rows, title) if len(rows) <= MOST_COLUMNS else _area(rows, title)


def moments_chart(rows: Sequence[Row]) -> Chart:
    """Groups whose estimates are moments, as texts in ISO 8601: a point and a line for each."""
    alt = _alt()
    base = _data(rows).encode(y=alt.Y("label:N", sort=None, title=None, axis=_names(170)))
    axis = alt.Axis(tickCount=5, grid=True, gridColor=GRID, domain=False, ticks=False, labelColor=QUIET)
    points = base.mark_point(filled=True, size=50, color=BAR, opacity=1)
    ends = base.mark_rule(color=INK, strokeWidth=1.4).encode(x=alt.X("low:T", title=None, axis=axis), x2="high:T")
    dated = points.encode(x=alt.X("estimate:T", title=None, axis=axis, scale=alt.Scale(zero=False)))
    return _layered([ends, dated], height=max(60, 17 * len(rows)))


def _bars(rows: Sequence[Row], title: str) -> Chart:
    base = _data(rows).encode(y=_alt().Y("label:N", sort=None, title=None, axis=_names(170)))
    bars = base.mark_bar(height={"band": 0.74}).encode(x=_alt().X("estimate:Q", **_counts(rows, title)), color=_own())
    ends = base.mark_rule(color=INK, strokeWidth=1.4).encode(x="low:Q", x2="high:Q")
    return _layered([bars, ends, *_diamonds(base, "x", rows)], height=max(60, 17 * len(rows)))


def _columns(rows: Sequence[Row], title: str) -> Chart:
    longest = max(len(str(row["label"])) for row in rows)
    base = _upright(rows, labelAngle=0 if longest * len(rows) <= 44 else -45)
    bars = base.mark_bar(width={"band": 0.8}).encode(y=_alt().Y("estimate:Q", **_counts(rows, title)), color=_own())
    ends = base.mark_rule(color=INK, strokeWidth=1.4).encode(y="low:Q", y2="high:Q")
    return _layered([bars, ends, *_diamonds(base, "y", rows)])


def _area(rows: Sequence[Row], title: str) -> Chart:
    base = _upright(rows, labelAngle=-45, values=[row["label"] for row in rows[:: math.ceil(len(rows) / 12)]])
    line = base.mark_area(line={"color": BAR, "strokeWidth": 1.6}, color=BAR, fillOpacity=0.28)
    band = base.mark_rule(color=INK, strokeWidth=1.2, opacity=0.75).encode(y="low:Q", y2="high:Q")
    filled = line.encode(y=_alt().Y("estimate:Q", **_counts(rows, title)))
    return _layered([filled, band, *_diamonds(base, "y", rows)])


def _upright(rows: Sequence[Row], **axis: object) -> Chart:
    """Groups from left to right."""
    labels = _alt().Axis(labelLimit=110, domainColor=GRID, ticks=False, labelPadding=5, **axis)
    return _data(rows).encode(x=_alt().X("label:N", sort=None, title=None, axis=labels))


def _layered(layers: Sequence[Chart], height: float = 150) -> Chart:
    return _framed(_alt().layer(*layers), width=CARD, height=height)


def _diamonds(base: Chart, axis: str, rows: Sequence[Row]) -> list[Chart]:
    """True counts, where they are given."""
    if all(row.get("truth") is None for row in rows):
        return []
    mark = base.mark_point(shape="diamond", size=40, color=ACCENT, filled=True, opacity=1)
    return [mark.encode(**{axis: "truth:Q"})]


def pair_chart(answer: Answer) -> Chart:
    """The cells of two attributes as shares of each column, with a ring where the interval reaches nothing."""
    down, across = answer.places
    estimate = np.maximum(answer.estimate, 0.0)
    totals = estimate.sum(axis=0)
    shares = np.divide(estimate, totals, out=np.zeros(estimate.shape), where=totals > 0)
    unsure = (answer.low <= 0) & (shares > LEAST_RINGED)
    rows = [
        {"down": down.labels[i], "across": across.labels[j], "share": float(shares[i, j]), "unsure": bool(unsure[i, j])}
        for i, j in np.ndindex(estimate.shape)
    ]
    return heat_chart(rows, "share of the column", ".0%")


def heat_chart(rows: Sequence[Row], title: str, number: str, *, from_zero: bool = True) -> Chart:
    """Cells as shades, with rings where they are unsure.

    Args:
        rows: of each cell its groups (`down` and `across`), its `share` of whatever `title` says, and whether it is
            `unsure`.
        title: what the shades mean.
        number: how numbers are written, as d3-format has it.
        from_zero: whether the lightest shade is 0 and not the smallest share.
    """
    shares = [float(str(row["share"])) for row in rows if row["share"] is not None]
    base = _crossed(rows, {"labelLimit": 120}, {"labelLimit": 150})
    legend = {"title": title, "format": number, "tickCount": 4, "gradientLength": 160}
    rings = base.transform_filter("datum.unsure").mark_point(shape="circle", size=26, color=RING, strokeWidth=1.4)
    least = 0.0 if from_zero else min(shares, default=0.0)
    cells = _shaded(base, "share:Q", legend, least, max(shares, default=0.0) or 1.0)
    return _framed(cells + rings, width=CARD, height=max(70, 20 * len({row["down"] for row in rows})))


def overview_chart(found: Associations) -> Chart:
    """V of all pairs as a triangle."""
    alt = _alt()
    names = distinct([shortened(name, 24) for name in found.names])
    cells = [(i, j) for i in range(len(names)) for j in range(i)]
    rows = [{"down": names[i], "across": names[j], "v": float(found.strengths[i, j])} for i, j in cells]
    cell = 30 if len(names) <= 16 else max(11, 620 // len(names))
    axis = {"labelLimit": 150, "labelFontSize": 11 if cell >= 16 else 8}
    base = _crossed(rows, axis, axis)
    cells = _shaded(base, "v:Q", {"title": "Cramér's V", "values": [0, 0.5, 1], "gradientLength": 180})
    if cell < 26:
        return _framed(cells, step=cell)
    light = alt.condition("datum.v > 0.45", alt.value("white"), alt.value(ON_LIGHT))
    figures = base.mark_text(fontSize=9.5).encode(text=alt.Text("v:Q", format=".2f"), color=light)
    return _framed(cells + figures, step=cell)


def _crossed(rows: Sequence[Row], x: Mapping[str, Any], y: Mapping[str, Any]) -> Chart:
    """Groups from left to right and from top to bottom, with these options of their axes."""
    alt, plain = _alt(), {"labelPadding": 4, "domain": False, "ticks": False}
    across = alt.X("across:N", sort=None, title=None, axis=alt.Axis(labelAngle=-45, **plain, **x))
    return _data(rows).encode(x=across, y=alt.Y("down:N", sort=None, title=None, axis=alt.Axis(**plain, **y)))


def _shaded(base: Chart, field: str, legend: Mapping[str, Any], least: float = 0.0, most: float = 1.0) -> Chart:
    """A cell for each pair of groups, evenly darker where the field is larger, from `least` to `most`."""
    alt = _alt()
    shades = alt.Scale(range=SHADES, domain=[least, most])
    color = alt.Color(field, scale=shades, legend=alt.Legend(orient="top", gradientThickness=8, **legend))
    return base.mark_rect(stroke="white", strokeWidth=0.7).encode(color=color)


def graph_chart(names: Sequence[str], cliques: Sequence[Clique]) -> Chart:
    """Attributes on a circle, joined where a clique holds both; neighbours in the graph stand close."""
    alt = _alt()
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
    curved = _data(curves).mark_line(interpolate="basis", color=BAR, strokeWidth=1.4, opacity=0.75)
    layers = [curved.encode(x=x, y=y, detail="edge:N", order="step:O")] if curves else []
    base = _data(nodes).encode(x=x, y=y)
    filled = alt.condition("datum.joined", alt.value(BAR), alt.value(SOFT))
    layers.append(base.mark_point(filled=True, size=55, opacity=1).encode(color=filled))
    for is_right in (True, False):
        words = base.transform_filter("datum.right" if is_right else "!datum.right")
        side = {"align": "left", "dx": 8} if is_right else {"align": "right", "dx": -8}
        angle = alt.Angle("turn:Q", scale=None)
        named = words.mark_text(baseline="middle", fontSize=11, color=INK, **side)
        layers.append(named.encode(text="label:N", angle=angle))
    return _framed(alt.layer(*layers), width=2 * room, height=2 * room)


def edges_of(cliques: Sequence[Clique]) -> list[tuple[str, str]]:
    """The pairs of attributes that some clique holds."""
    return sorted({pair for clique in cliques for pair in itertools.combinations(sorted(clique), 2)})


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


def budget_chart(items: Sequence[Item]) -> Chart:
    """Shares of the budget."""
    alt = _alt()
    labels = distinct([shortened(item.what, 52) for item in items])
    named = zip(labels, items, strict=True)
    rows = [{"label": label, "share": i.share, "text": f"{i.share:.1%}", "own": not i.is_choice} for label, i in named]
    scale = alt.Scale(domainMin=0, domainMax=1.15 * max(item.share for item in items))
    y = alt.Y("label:N", sort=None, title=None, axis=_names(330))
    base = _data(rows).encode(y=y, x=alt.X("share:Q", axis=None, scale=scale))
    bars = base.mark_bar(height={"band": 0.72}).encode(color=_own())
    figures = base.mark_text(align="left", dx=4, fontSize=10.5, color=QUIET).encode(text="text:N")
    return _framed(bars + figures, width=WIDE, height=max(40, 18 * len(rows)))


def path_chart(diagnostics: Diagnostics) -> Chart:
    """How far the model was from the answers, and how large its estimated error was, along the way."""
    alt = _alt()
    kinds = {"distance from the noisy answers": BAR, "estimated error": ACCENT}
    rows = [
        {"calls": point.calls, "level": point.level, "what": what, "value": value, "chosen": point.is_chosen}
        for point in diagnostics.path
        for what, value in zip(kinds, (point.discrepancy, point.error), strict=True)
        if math.isfinite(value) and value > 0
    ]
    colors = alt.Scale(domain=list(kinds), range=list(kinds.values()))
    calls = alt.Axis(grid=False, domainColor=GRID, tickCount=6)
    squares = alt.Axis(gridColor=GRID, domain=False, ticks=False, tickCount=4, format="~g")
    base = _data(rows).encode(
        x=alt.X("calls:Q", title="times the model was evaluated", axis=calls),
        y=alt.Y("value:Q", title="mean square, in units of the noise", scale=alt.Scale(type="log"), axis=squares),
        color=alt.Color("what:N", scale=colors, legend=alt.Legend(title=None, orient="top", labelLimit=300)),
    )
    lines = base.mark_line(strokeWidth=1.6).encode(detail="level:N")
    chosen = base.transform_filter("datum.chosen").mark_point(size=60, filled=True, opacity=1)
    return _framed(lines + chosen, width=WIDE, height=200)


def drawn(chart: Chart, words: str, prefix: str) -> Html:
    """The chart as a picture that `words` describe; `prefix` keeps names inside it apart from other pictures'."""
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
    svg = _TAG.sub(lambda tag: _changed(_ROLE.sub("", tag[0]), changes), svg)
    return Html(svg.replace("<svg", f'<svg role="img" aria-label="{escaped(words)}"', 1))


def _changed(tag: str, changes: Mapping[str, str]) -> str:
    for old, new in changes.items():
        tag = tag.replace(old, new)
    return tag


def _alt() -> Any:  # noqa: ANN401 - altair has no types
    try:
        import altair as alt
        import vl_convert  # noqa: F401 - altair draws with it
    except ImportError:
        raise MissingExtra("altair with vl-convert", "priory[report]") from None
    return alt


def _data(rows: Sequence[Row]) -> Chart:
    return _alt().Chart(_alt().InlineData(values=rows))


def _framed(chart: Chart, *, width: float = 0, height: float = 0, step: int | None = None) -> Chart:
    alt, words = _alt(), {"labelColor": INK, "labelFontSize": 11, "titleColor": QUIET, "titleFontSize": 11}
    if step is None:
        fitting = alt.AutoSizeParams(type="fit-x", contains="padding")
        chart = chart.properties(width=width, height=height, autosize=fitting)
    else:
        chart = chart.properties(width=alt.Step(step), height=alt.Step(step))
    framed = chart.properties(background="transparent", padding=2).configure(font=FONT, aria=False)
    framed = framed.configure_view(strokeWidth=0)
    return framed.configure_axis(titleFontWeight=400, **words).configure_legend(titleFontWeight=400, **words)


def _counts(rows: Sequence[Row], title: str) -> dict[str, Any]:
    """How estimates are written along an axis, which begins at 0 unless one of them is below."""
    look = {"grid": True, "gridColor": GRID, "domain": False, "ticks": False, "labelColor": QUIET}
    axis = _alt().Axis(tickCount=4, labelExpr=SHORT, **look)
    is_negative = any(float(str(row["low"])) < 0 for row in rows if row["low"] is not None)
    return {"title": title, "axis": axis, "scale": _alt().Undefined if is_negative else _alt().Scale(domainMin=0)}


def _names(longest: int) -> Any:  # noqa: ANN401
    """How the names of groups are written beside an axis."""
    return _alt().Axis(labelLimit=longest, labelPadding=6, domain=False, ticks=False)


def _own() -> Any:  # noqa: ANN401
    return _alt().condition("datum.own", _alt().value(BAR), _alt().value(SOFT))


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None
