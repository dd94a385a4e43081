"""Bins: a column's bins or levels drawn over public rows, as a picture that the stylesheet colours."""

from collections.abc import Sequence
from dataclasses import dataclass

from priory.report.page import Html, Text, element, shortened

WIDTH, HEIGHT, BOTTOM = 460, 130, 22
ROW, NAMES, FIGURES = 22, 150, 54
# How many labels stand under an axis, and how many levels are drawn.
MOST_LABELS, MOST_LEVELS = 6, 40


@dataclass(frozen=True)
class Bar:
    """A bin or level of the column over the public data."""

    label: str
    count: int
    share: float  # of all rows
    is_spike: bool  # whether it stands for one value among bins of many
    low: float | None  # where the bin begins and ends; None for levels
    high: float | None


def picture(bars: Sequence[Bar], name: str, source: str = "Public rows", edges: Sequence[float] = ()) -> Html:
    """The rows of each bin, to scale and with spikes as lines; or the rows of each level, one below the other.

    Args:
        bars: what is drawn.
        name: of the column.
        source: whose rows they are, for who cannot see the picture.
        edges: of bins that are drawn over bars that are narrower.
    """
    bins = [bar for bar in bars if bar.low is not None and bar.high is not None]
    words = f"{source} in each {'bin' if bins else 'level'} of {shortened(name)}; the table below has the figures"
    parts, height = _scaled(bins, edges) if bins else _levels(bars)
    box = f"0 0 {WIDTH} {height}"
    return element("svg", *parts, class_="bars", viewBox=box, width=str(WIDTH), role="img", aria_label=words)


def _scaled(bins: Sequence[Bar], edges: Sequence[float]) -> tuple[list[Html], int]:
    """Bars as wide as their bins, of an area that is their share; spikes as lines, on a scale of their own."""
    first, last = min(bar.low or 0.0 for bar in bins), max(bar.high or 0.0 for bar in bins)
    first, last = min([first, *edges]), max([last, *edges])
    scale = WIDTH / ((last - first) or 1.0)
    wide = [bar for bar in bins if not bar.is_spike]
    densities = [bar.share / max((bar.high or 0.0) - (bar.low or 0.0), 1e-12) for bar in wide]
    # One bin far denser than all others would flatten these.
    top = (
        min(max(densities, default=1.0), 3 * sorted(densities)[(9 * len(densities)) // 10] if densities else 1.0) or 1.0
    )
    parts = []
    for bar, density in zip(wide, densities, strict=True):
        x, height = (bar.low or 0.0) - first, HEIGHT * min(1.0, density / top)
        parts.append(
            _rect(x * scale, HEIGHT - height, max(1.0, ((bar.high or 0.0) - (bar.low or 0.0)) * scale), height)
        )
    largest = max((bar.share for bar in bins if bar.is_spike), default=1.0) or 1.0
    for bar in (bar for bar in bins if bar.is_spike):
        height = HEIGHT * bar.share / largest
        parts.append(_rect(((bar.low or 0.0) - first) * scale, HEIGHT - height, 4.0, height, class_="spike"))
    ends = [f"{(edge - first) * scale:.1f}" for edge in edges]
    parts += [element("line", class_="edge", x1=x, x2=x, y1="0", y2=str(HEIGHT)) for x in ends]
    return [*parts, *_axis(bins, first, scale)], HEIGHT + BOTTOM


def _axis(bins: Sequence[Bar], first: float, scale: float) -> list[Html]:
    parts: list[Html] = []
    room, free = WIDTH / MOST_LABELS, 0.0
    for bar in bins:
        x = ((bar.low or 0.0) - first) * scale
        if x >= free and x <= WIDTH - room / 2:
            label = bar.label.lstrip("[(").split(",")[0].split("…")[0]
            parts.append(element("text", Text(shortened(label, 12)), x=f"{x:.1f}", y=str(HEIGHT + 16)))
            free = x + room
    return parts


def _levels(bars: Sequence[Bar]) -> tuple[list[Html], int]:
    shown = bars[:MOST_LEVELS]
    largest = max((bar.share for bar in shown), default=1.0) or 1.0
    room = WIDTH - NAMES - FIGURES
    parts: list[Html] = []
    for i, bar in enumerate(shown):
        y, width = i * ROW, room * bar.share / largest
        parts.append(
            element("text", Text(shortened(bar.label, 20)), x=str(NAMES - 8), y=str(y + 15), text_anchor="end")
        )
        parts.append(_rect(NAMES, y + 3, max(1.0, width), ROW - 6))
        parts.append(element("text", Text(f"{bar.share:.1%}"), x=f"{NAMES + width + 6:.1f}", y=str(y + 15)))
    return parts, ROW * len(shown)


def _rect(x: float, y: float, width: float, height: float, **attributes: str) -> Html:
    numbers = {"x": x, "y": y, "width": width, "height": height}
    return element("rect", **{name: f"{value:.1f}" for name, value in numbers.items()}, **attributes)
