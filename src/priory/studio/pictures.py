"""Pictures: answers of a release as tables of texts and as charts of the report's code, drawn in the server."""

import datetime as dt
import math
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from priory.data.table import Table
from priory.release import Release
from priory.report import charts
from priory.report.page import Html, shortened, visible
from priory.report.places import Attribute, distinct
from priory.report.plotting import plotted
from priory.studio.question import Question

# A picture shows at most so many groups, and a heat map so many along a side; a table so many rows.
MOST_GROUPS, MOST_ALONG, MOST_ROWS = 100, 40, 500
# Where cells with so small a share of their column reach zero, no ring is drawn: there would be one nearly everywhere.
LEAST_RINGED = 0.02
MISSING = "missing"
TITLES = {"count": "records", "share": "share", "cdf": "share with at most this", "sum": "sum"}

# The renderer is one machine, which two threads must not enter at once.
_renderer = threading.Lock()


@dataclass(frozen=True)
class Shown:
    """A table as texts."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numbers: frozenset[int]  # which columns are numbers
    of: int  # how many rows there are in all


def shown(table: Table, most: int = MOST_ROWS) -> Shown:
    """The first rows of a table as texts."""
    head = table.head(most)
    columns = [[cell_text(value) for value in values] for values in head.to_dict().values()]
    numbers = frozenset(i for i, name in enumerate(table.names) if table.kind(name) in ("integer", "real"))
    header = tuple(visible(name) for name in table.names)
    return Shown(header, tuple(zip(*columns, strict=True)), numbers, len(table))


def cell_text(value: object) -> str:
    """A cell for people: numbers with four digits or all before the point, an en dash where nothing is known.

    >>> cell_text(1234.56), cell_text(0.123456), cell_text(None), cell_text(3)
    ('1,235', '0.1235', '–', '3')
    """
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return "–"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
    return value.isoformat(sep=" ") if isinstance(value, dt.datetime) else visible(str(value))


def overview(release: Release) -> Html:
    """How strongly all pairs of columns go together."""
    words = (
        "How strongly each pair of columns goes together, as shades; the table of pairs has the strongest as numbers"
    )
    return _drawn(plotted(release, []), words, "overview")


def picture(release: Release, question: Question, table: Table) -> Html | None:
    """The answers as a chart: bars for one column, a heat map for two; nothing where it would be unreadable."""
    chart = _chart(release, question, table)
    return None if chart is None else _drawn(chart, shortened(question.words, 160), "answer")


def _chart(release: Release, question: Question, table: Table) -> charts.Chart | None:
    axes = [*question.axes]
    if question.what == "quantile" and len(question.at) > 1:
        axes.insert(0, table.names[0])
    if len(table) < 2 or not 1 <= len(axes) <= 2 or len(table.names) < len(axes) + 2:
        return None
    labels = [_labels(table.to_dict()[name]) for name in axes]
    kind = table.kind(table.names[-4])
    if kind in ("date", "datetime"):
        return _moments(table, labels) if len(table) <= MOST_GROUPS else None
    if kind not in ("integer", "real"):
        return None
    if len(axes) == 1:
        [texts] = labels
        return _groups(release, question, table, texts, axes[0]) if len(table) <= MOST_GROUPS else None
    return _heat(question, table, labels)


def _groups(release: Release, question: Question, table: Table, labels: list[str], axis: str) -> charts.Chart:
    columns = {column.name: column for column in release.columns.modelled}
    is_ordered = axis not in columns or Attribute.of(columns[axis]).is_ordered
    rows = [
        {"label": label, "estimate": estimate, "low": low, "high": high, "own": label != MISSING}
        for label, (estimate, low, high) in zip(labels, _intervals(table), strict=True)
    ]
    return charts.groups_chart(rows, is_ordered=is_ordered, title=_title(question))


def _moments(table: Table, labels: list[list[str]]) -> charts.Chart:
    names = distinct([" · ".join(each) for each in zip(*labels, strict=True)])
    cells = [[None if v is None else v.isoformat() for v in values] for values in _ends(table)]
    rows = [
        {"label": label, "estimate": estimate, "low": low, "high": high}
        for label, estimate, low, high in zip(names, *cells, strict=True)
        if estimate is not None
    ]
    return charts.moments_chart(rows)


def _heat(question: Question, table: Table, labels: list[list[str]]) -> charts.Chart | None:
    down, across = labels
    if len(set(down)) > len(set(across)):
        down, across = across, down
    if max(len(set(down)), len(set(across))) > MOST_ALONG:
        return None
    intervals = _intervals(table)
    largest = max((estimate or 0.0 for estimate, _, _ in intervals), default=0.0)
    # A ring says that there may be nobody; of a mean or a median that reaches zero it would say nothing.
    counts = question.what in ("count", "share", "cdf", "sum")
    rows = [
        {
            "down": one,
            "across": other,
            "share": estimate,
            "unsure": counts and low is not None and low <= 0 and (estimate or 0.0) > LEAST_RINGED * largest,
        }
        for one, other, (estimate, low, _) in zip(down, across, intervals, strict=True)
    ]
    number = ".0%" if question.what in ("share", "cdf") else "~s"
    return charts.heat_chart(rows, _title(question), number, from_zero=counts)


def _title(question: Question) -> str:
    return TITLES.get(question.what, shortened(f"{question.what} of {question.column}", 40))


def _ends(table: Table) -> list[list[Any]]:
    """Estimates and ends of intervals, which stand before the source."""
    values = table.to_dict()
    return [values[name] for name in table.names[-4:-1]]


def _intervals(table: Table) -> list[tuple[float | None, float | None, float | None]]:
    return [(_finite(one), _finite(low), _finite(high)) for one, low, high in zip(*_ends(table), strict=True)]


def _finite(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else None


def _labels(values: Sequence[object]) -> list[str]:
    """Labels of an axis: the same for the same value, and others for others even where they are cut short."""
    each = list(dict.fromkeys(values))
    names = dict(zip(each, distinct([_label(value) for value in each]), strict=True))
    return [names[value] for value in values]


def _label(value: object) -> str:
    return MISSING if value is None else shortened(cell_text(value), 34)


def _drawn(chart: charts.Chart, words: str, prefix: str) -> Html:
    with _renderer:
        return charts.drawn(chart, words, prefix)
