"""Make pictures: those of the documentation, from the embedded data alone."""

import datetime as dt
import html
import io
import re
import struct
import zlib
from pathlib import Path
from typing import Any

import altair as alt
import vl_convert

from priory import town
from priory.app.fit import fit
from priory.data.kinds import Moment
from priory.data.moments import DAY_ZERO
from priory.data.schema import Schema
from priory.data.sources.opening import open_source
from priory.data.sources.source import Source
from priory.report import charts
from priory.report.answered import Answer
from priory.report.contents import Contents

IMAGES = Path(__file__).parents[1] / "docs" / "images"

# The renderer brings this font along, so that the picture does not depend on the machine it was made on.
FONT = "Liberation Sans"
INK, QUIET, BAR = "#1f2933", "#66717d", "#2f6f73"
SHADES = ["#f1f5f5", "#a9cfcd", "#2f6f73", "#12363d"]
BARS = ("district", "education", "income")
CARDS = ("district", "born", "education", "income")
ACROSS, DOWN = "born", "employment"
INCOMES = {"[0, 1)": "none", "[120000, 250000]": "120 k and more"}


def main() -> None:
    """Write every picture."""
    write_town()
    write_report_picture()


def write_town() -> None:
    """The public year of the town."""
    schema = Schema.load(town.SCHEMA)
    public = open_source(town.LAST_YEAR, schema)
    IMAGES.mkdir(parents=True, exist_ok=True)
    path = IMAGES / "town.png"
    picture = io.BytesIO()
    town_picture(schema, public).save(picture, format="png", scale_factor=2)
    path.write_bytes(packed(picture.getvalue()))
    print(f"wrote {path}")


def write_report_picture() -> None:
    """The first cards of the demo's report, as a browser shows them; the noise differs from run to run."""
    schema = Schema.load(town.SCHEMA)
    release = fit(town.THIS_YEAR, schema, epsilon=1, delta="1e-9", mechanism="prior", public=town.LAST_YEAR)
    path = IMAGES / "report.png"
    path.write_bytes(packed(vl_convert.svg_to_png(report_svg(Contents.of(release)), scale=1.25)))
    print(f"wrote {path}")


def report_svg(contents: Contents) -> str:
    """A title and cards in two columns, each with its chart."""
    found = {answer.places[0].attribute.name: answer for answer in contents.columns}
    drawn = [(name, charts.column_chart(found[name])) for name in CARDS]
    drawn += [
        (_pair_title(answer), charts.pair_chart(_wide(answer))) for answer in contents.pairs if _is_about_work(answer)
    ][:2]
    y = [96.0, 96.0]
    parts = []
    for number, (title, chart) in enumerate(drawn):
        side = number % 2
        card, height = _card(title, chart, x=20 + side * 524, y=y[side])
        parts.append(card)
        y[side] += height + 16
    statement = contents.release.statement
    budget, dataset = html.escape(str(statement.budget)), html.escape(statement.dataset)
    heading = (
        f'<text x="20" y="40" font-size="25" font-weight="bold" fill="{INK}">{dataset}'
        f'</text><text x="20" y="68" font-size="14.5" fill="{QUIET}">released under differential privacy, {budget}; '
        f"about {contents.release.model.total:,.0f} records; lines are 90 % intervals</text>"
    )
    width, height = 1068, max(y) + 6
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" width="{width}" '
        f'height="{height}" font-family="{FONT}"><rect width="{width}" height="{height}" fill="#f5f7f8"/>'
        f"{heading}{''.join(parts)}</svg>"
    )


def _card(title: str, chart: Any, *, x: float, y: float) -> tuple[str, float]:  # noqa: ANN401 - altair is untyped here
    file = io.StringIO()
    chart.save(file, format="svg")
    inner = file.getvalue()
    [height] = re.findall(r'^<svg[^>]* height="([0-9.]+)"', inner)
    whole = float(height) + 58
    return (
        f'<g transform="translate({x},{y})"><rect width="504" height="{whole}" rx="8" fill="white" stroke="#dde3e7"/>'
        f'<text x="18" y="29" font-size="15.5" font-weight="bold" fill="{INK}">{html.escape(title)}</text>'
        f'<g transform="translate(18,42)">{inner}</g></g>',
        whole,
    )


def _is_about_work(answer: Answer) -> bool:
    return DOWN in (places.attribute.name for places in answer.places)


def _wide(answer: Answer) -> Answer:
    return answer.turned if len(answer.places[0].labels) > len(answer.places[1].labels) else answer


def _pair_title(answer: Answer) -> str:
    return " by ".join(places.attribute.name for places in _wide(answer).places)


def town_picture(schema: Schema, public: Source) -> Any:  # noqa: ANN401 - altair is untyped here
    """What the public year of the town says: three marginals of one attribute, and one of two."""
    bars = alt.hconcat(*(_bars(schema, public, name) for name in BARS), spacing=26)
    return (
        alt.vconcat(bars, _heat_map(schema, public), spacing=30)
        .properties(
            title=alt.Title(
                "Klosterwiek, a town that does not exist: its public register of 2024",
                subtitle="Records by district, education and income; and employment by year of birth",
                anchor="start",
                fontSize=19,
                subtitleFontSize=14,
                subtitleColor=QUIET,
                offset=14,
            ),
            background="white",
            padding=18,
        )
        .resolve_legend(color="independent")
        .configure(font=FONT)
        .configure_view(strokeWidth=0)
        .configure_title(color=INK, anchor="start", fontSize=14, fontWeight=500)
        .configure_axis(labelColor=INK, labelFontSize=12, labelLimit=160, titleColor=QUIET, domain=False, ticks=False)
        .configure_legend(labelColor=INK, labelFontSize=12, titleColor=QUIET, titleFontSize=12, titleFontWeight=400)
    )


def packed(png: bytes) -> bytes:
    """The same picture in about a third of the bytes: the renderer hardly compresses."""
    chunks, data, place = [], b"", 8
    while place < len(png):
        length, kind = struct.unpack_from(">I4s", png, place)
        content = png[place + 8 : place + 8 + length]
        data += content if kind == b"IDAT" else b""
        chunks += [] if kind == b"IDAT" else [(kind, content)]
        place += 12 + length
    chunks.insert(-1, (b"IDAT", zlib.compress(zlib.decompress(data), 9)))
    return png[:8] + b"".join(
        struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
        for kind, content in chunks
    )


def _bars(schema: Schema, public: Source, name: str) -> Any:  # noqa: ANN401 - altair is untyped here
    """One attribute's marginal as bars with their counts."""
    [marginal] = public.count([(name,)])
    labels = _labels(schema, name)
    rows = [
        {"label": label, "records": count, "text": f"{count:,}"}
        for label, count in zip(labels, marginal.values.tolist(), strict=True)
        if count
    ]
    base = alt.Chart(alt.InlineData(values=rows), title=name).encode(
        y=alt.Y("label:N", sort=labels, title=None, axis=alt.Axis(labelPadding=4)),
        x=alt.X("records:Q", axis=None, scale=alt.Scale(domainMax=1.35 * max(row["records"] for row in rows))),
    )
    counts = base.mark_text(align="left", dx=4, color=QUIET, fontSize=11).encode(text="text:N")
    return (base.mark_bar(color=BAR, height={"band": 0.78}) + counts).properties(width=142, height=225)


def _heat_map(schema: Schema, public: Source) -> Any:  # noqa: ANN401 - altair is untyped here
    """Two attributes' marginal as shares of each column's records."""
    [marginal] = public.count([(ACROSS, DOWN)])
    across, down = _labels(schema, ACROSS), _labels(schema, DOWN)
    totals = marginal.values.sum(axis=1)
    rows = [
        {"across": across[i], "down": down[j], "share": int(marginal.values[i, j]) / int(totals[i])}
        for i in range(len(across))
        if totals[i]
        for j in range(len(down))
    ]
    return (
        alt.Chart(alt.InlineData(values=rows), title=f"{DOWN} by year of birth")
        .mark_rect(stroke="white", strokeWidth=1)
        .encode(
            x=alt.X("across:N", sort=across, title=None, axis=alt.Axis(labelAngle=-45, labelPadding=6)),
            y=alt.Y("down:N", sort=down, title=None, axis=alt.Axis(labelPadding=6)),
            color=alt.Color(
                "share:Q",
                scale=alt.Scale(range=SHADES, domain=[0, 1], type="sqrt"),
                legend=alt.Legend(
                    title="share of those born then",
                    format=".0%",
                    values=[0, 0.05, 0.25, 0.5, 1],
                    orient="top",
                    gradientLength=300,
                    gradientThickness=10,
                    titleOrient="left",
                    offset=8,
                ),
            ),
        )
        .properties(width=690, height=215)
    )


def _labels(schema: Schema, name: str) -> list[str]:
    """The codes of an attribute in words short enough for an axis."""
    column = next(column for column in schema.modelled if column.name == name)
    if isinstance(column, Moment):
        labels = [_years(first, last - 1) for first, last in zip(column.edges, column.edges[1:], strict=False)]
    elif name == "income":
        labels = [INCOMES.get(label) or _thousands(label) for label in column.place_labels]
    else:
        labels = list(column.place_labels)
    return [*labels, *(["not given"] if column.nullable else [])]


def _years(first: int, last: int) -> str:
    start, end = (dt.date.fromordinal(day + DAY_ZERO).year for day in (first, last))
    return f"{start}–{end % 100:02d}" if end - start < 10 else f"to {end}"


def _thousands(label: str) -> str:
    low, high = (float(text) / 1000 for text in label.strip("[)]").split(", "))
    return f"{low:.0f}–{high:.0f} k"


if __name__ == "__main__":
    main()
