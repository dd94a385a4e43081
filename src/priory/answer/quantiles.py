"""Quantiles: the values that shares of the rows lie below, with intervals from those of the counts below them."""

from collections.abc import Sequence
from functools import partial

import numpy as np

from priory.answer.basis import Basis, Drawn
from priory.answer.grid import Grid, Names
from priory.answer.hidden import Noisy, hidden_notes, joined, measured_sums, stretched
from priory.answer.intervals import Interval, Source
from priory.answer.ratios import added, below, weighed
from priory.answer.selection import Selection
from priory.answer.tables import PRESENT, assembled, ordered, selections
from priory.answer.where import Given, Where
from priory.data.kinds import ModelledColumn, Spans
from priory.data.table import Table
from priory.errors import OptionError
from priory.queries.factor import Array


def quantile(basis: Basis, name: str, at: float = 0.5, by: Names = (), where: Given = None) -> Table:
    """The value that a share `at` of each group's rows lies below, missing values left out.

    Inside a bin values are taken to lie as the neighbouring bins suggest. The interval's ends are where the ends of the
    interval of "how many rows lie below, less `at` times all" pass 0, and then further by what their bins hide.
    """
    if isinstance(at, bool) or not isinstance(at, int | float) or not 0 <= at <= 1:
        raise OptionError("at", f"a share from 0 to 1; got {at!r}")
    column = ordered(basis, name)
    grid = Grid.of(basis, by, Where.of(where, basis.schema), name)
    chosen = selections(grid, name, PRESENT)
    cells, weights = grid.drawn(name), [selection.weights(column) for selection in chosen]
    curve = _curve(cells, weights, at, column.places).interval(basis.level)
    curve = joined(curve, _measured_curve(grid.measured(name), weights, at, column.places), basis.level)
    everyone = weighed(cells, weights, added).estimate[:, 0]
    spans = _spans(column, chosen)
    # The more rows lie below a value, the smaller the quantile.
    estimate, high, low = (
        [_crossing(*each) for each in zip(ends, -at * everyone, strict=True)]
        for ends in (curve.estimate, _least_after(curve.low), curve.high)
    )
    notes = grid.where.notes(basis.schema)
    is_cut = bool(notes) or column.is_binned
    source: Source = "inferred" if is_cut and curve.source == "measured" else curve.source
    value, least, most = (_values(column, spans, each) for each in (estimate, low, high))
    found = Interval(value, np.minimum(least, value), np.maximum(most, value), source)
    wider = stretched(found, _ends(column, spans, low), _ends(column, spans, high))
    notes += hidden_notes(column, found, wider)
    return assembled(grid.cells(), wider, notes=notes, as_cells=column.cells_at)


def _curve(cells: Sequence[Drawn], weights: Sequence[Array], at: float, places: int) -> Drawn:
    """How many rows lie at most in each place, less `at` times all: cells below count 1 − at, the others −at times."""
    under = weighed(cells, weights, partial(below, places=places))
    everyone = weighed(cells, weights, added)
    variance = (1 - 2 * at) * under.hidden**2 + at**2 * everyone.hidden**2
    return Drawn(
        under.estimate - at * everyone.estimate,
        under.repeats - at * everyone.repeats,
        np.sqrt(np.maximum(variance, 0.0)),
        under.source,
    )


def _measured_curve(cells: Sequence[Noisy], weights: Sequence[Array], at: float, places: int) -> Noisy:
    """The same from measurements alone."""
    under = measured_sums(cells, weights, partial(below, places=places))
    everyone = measured_sums(cells, weights)
    variance = (1 - 2 * at) * under.stddev**2 + at**2 * everyone.stddev**2
    return Noisy(under.values - at * everyone.values, np.sqrt(variance))


def _least_after(curve: Array) -> Array:
    """The least value of curves at each place or after it: where that passes 0, they do so for the last time."""
    return np.minimum.accumulate(curve[..., ::-1], axis=-1)[..., ::-1]


def _spans(column: ModelledColumn, chosen: Sequence[Selection]) -> Spans:
    """Where what is selected of each place begins and ends on the column's line."""
    edges = np.asarray(column.edges)
    first, last = edges[1:].copy(), edges[:-1].copy()
    for low, high in (span for selection in chosen for span in selection.spans):
        begins, ends = np.maximum(edges[:-1], low), np.minimum(edges[1:], high)
        touched = begins < ends
        first[touched] = np.minimum(first[touched], begins[touched])
        last[touched] = np.maximum(last[touched], ends[touched])
    return first, last


def _crossing(curve: Array, start: float) -> tuple[int, float]:
    """Where a curve that begins at `start` ≤ 0 and is given at the end of each place first reaches 0.

    Returns:
        The place, and which share of its rows lies below; NaN where there is nobody.
    """
    if np.isnan(curve).any() or (start == 0 and not curve.any()):
        return 0, np.nan
    # The ends of intervals need not ascend; what lies below a value never falls.
    rising = np.maximum.accumulate(np.append(start, curve))
    place = int(min(np.argmax(rising[1:] >= 0) if (rising[1:] >= 0).any() else len(curve) - 1, len(curve) - 1))
    step = rising[place + 1] - rising[place]
    return place, float(np.clip(-rising[place] / step, 0, 1)) if step > 0 else 1.0


def _values(column: ModelledColumn, spans: Spans, crossings: Sequence[tuple[int, float]]) -> Array:
    """The values at crossings."""
    places = np.array([place for place, _ in crossings], dtype=np.intp)
    below = np.array([share for _, share in crossings])
    found = column.located(places, (spans[0][places], spans[1][places]), np.nan_to_num(below))
    return np.where(np.isnan(below), np.nan, found)


def _ends(column: ModelledColumn, spans: Spans, crossings: Sequence[tuple[int, float]]) -> tuple[Array, Array]:
    """The smallest and the largest value of the place of each crossing."""
    first, last = (_values(column, spans, [(place, end) for place, _ in crossings]) for end in (0.0, 1.0))
    return first, last
