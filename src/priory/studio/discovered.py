"""Discovered: the noisy counts that a column was learnt from, to be drawn as public rows are."""

from typing import Any, Protocol, cast

from priory.bounded import json_of
from priory.data.kinds import ModelledColumn
from priory.data.moments import MICROSECONDS_A_DAY
from priory.errors import PrioryError
from priory.studio.bins import Bar
from priory.studio.commands import counts_name
from priory.studio.hub import Studio


class _WithEdges(Protocol):
    """A column of bins between edges."""

    @property
    def kind(self) -> str: ...

    @property
    def edges(self) -> tuple[float, ...]: ...

    def point_text(self, point: float) -> str: ...


# Rows beyond the bounds are not drawn: where there were some, the bounds would be others.
_MOMENTS = ("date", "datetime")


def discovered_bars(studio: Studio, column: ModelledColumn) -> list[Bar]:
    """The rows of each interval, or of each level, as they were counted with noise; none where nothing was learnt."""
    counts = _read(studio).get(column.name)
    if not counts:
        return []
    if column.is_binned:
        return _intervals(cast(_WithEdges, column), counts)
    return _levels(column, counts["values"])


def _read(studio: Studio) -> dict[str, Any]:
    """The counts of all columns; none where the schema was not learnt here."""
    try:
        text = studio.folder.file(counts_name(studio.settings.schema)).read_text(encoding="utf-8")
        found = json_of(text)
    except (PrioryError, OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _intervals(column: _WithEdges, counts: dict[str, Any]) -> list[Bar]:
    scale = MICROSECONDS_A_DAY if column.kind == "datetime" else 1
    edges = [edge * scale for edge in counts["edges"]]
    first, last = float(column.edges[0]), float(column.edges[-1])
    inside = [
        (low, high, max(0.0, rows))
        for low, high, rows in zip(edges, edges[1:], counts["rows"], strict=False)
        if first <= low and high <= last
    ]
    spikes = {float(spike) for spike in getattr(column, "spikes", ())}
    single = [(float(value), persons) for value, persons in counts["values"] if spikes and float(value) in spikes]
    total = sum(rows for _, _, rows in inside) or 1.0
    return [
        *(
            Bar(_label(column, low, high), round(rows), rows / total, is_spike=False, low=low, high=high)
            for low, high, rows in inside
        ),
        *(Bar(f"{at:g}", round(rows), rows / total, is_spike=True, low=at, high=at) for at, rows in single),
    ]


def _label(column: _WithEdges, low: float, high: float) -> str:
    if column.kind in _MOMENTS:
        return column.point_text(low)[:10]
    return f"[{low:g}, {high:g})"


def _levels(column: ModelledColumn, values: list[Any]) -> list[Bar]:
    total = sum(persons for _, persons in values) or 1.0
    labels = set(column.labels)
    return [
        Bar(str(value), round(persons), persons / total, is_spike=False, low=None, high=None)
        for value, persons in values
        if str(value) in labels
    ]
