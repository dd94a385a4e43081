"""Quantiles: the values that shares of the rows lie below, with intervals from those of the counts below them."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from priory.answer.basis import Basis, Drawn
from priory.answer.grid import Grid, Names
from priory.answer.hidden import Noisy, hidden_notes, joined, measured_sums, stretched
from priory.answer.intervals import Interval
from priory.answer.ratios import added, below, weighed
from priory.answer.selection import Selection
from priory.answer.tables import PRESENT, assembled, free_name, ordered, selections
from priory.answer.where import Given, Where
from priory.data.cells import Cells
from priory.data.kinds import ModelledColumn, Spans
from priory.data.table import Table
from priory.errors import OptionError
from priory.queries.factor import Array

_ENDS = ("estimate", "low", "high")


def quantile(basis: Basis, name: str, at: float = 0.5, by: Names = (), where: Given = None) -> Table:
    """The value that a share `at` of each group's rows lies below, missing values left out.

    Inside a bin values are taken to lie as the neighbouring bins suggest. The interval's ends are where the ends of the
    interval of "how many rows lie below, less `at` times all" pass 0, and then further by what their bins hide.
    """
    column = ordered(basis, name)
    grid = Grid.of(basis, by, Where.of(where, basis.schema), name)
    return _table(grid, column, _checked([at]), grid.cells())


def quantiles(basis: Basis, name: str, at: Sequence[float], by: Names = (), where: Given = None) -> Table:
    """The quantiles of several shares, with a first column `at`; a share's groups stand before those of the next."""
    column = ordered(basis, name)
    grid = Grid.of(basis, by, Where.of(where, basis.schema), name)
    shares = _checked(at)
    cells = grid.cells(rounds=len(shares))
    return _table(grid, column, shares, {free_name("at", cells): Cells(np.repeat(shares, grid.size)), **cells})


def _checked(at: Sequence[object]) -> Array:
    """Shares as an array, if they are some."""
    if not at:
        raise OptionError("at", "at least one share from 0 to 1; got none")
    for share in at:
        if isinstance(share, bool) or not isinstance(share, int | float | np.floating) or not 0 <= share <= 1:
            raise OptionError("at", f"a share from 0 to 1; got {share!r}")
    return np.array(at, dtype=np.float64)


def _table(grid: Grid, column: ModelledColumn, shares: Array, cells: Mapping[str, Cells]) -> Table:
    """The quantiles of each share in each group, under what names them."""
    counts = grid.drawn(column.name), grid.measured(column.name)
    chosen = selections(grid, column.name, PRESENT)
    each = [_intervals(grid.basis.level, column, chosen, counts, share) for share in shares]
    found, wider = (_one_after_another(intervals) for intervals in zip(*each, strict=True))
    notes = grid.where.notes(grid.basis.schema)
    if found.source == "measured" and (notes or column.is_binned):
        wider = replace(wider, source="inferred")
    return assembled(cells, wider, notes=(*notes, *hidden_notes(column, found, wider)), as_cells=column.cells_at)


def _intervals(
    level: float | None,
    column: ModelledColumn,
    chosen: Sequence[Selection],
    counts: tuple[Sequence[Drawn], Sequence[Noisy]],
    at: float,
) -> tuple[Interval, Interval]:
    """The quantiles of the groups with intervals from the counts, and the same with what bins hide."""
    cells, measured = counts
    weights = [selection.weights(column) for selection in chosen]
    curve = _curve(cells, weights, at, column.places).interval(level)
    curve = joined(curve, _measured_curve(measured, weights, at, column.places), level)
    everyone = weighed(cells, weights, added).estimate[:, 0]
    spans = _spans(column, chosen)
    # The more rows lie below a value, the smaller the quantile.
    estimate, high, low = (
        [_crossing(*each) for each in zip(ends, -at * everyone, strict=True)]
        for ends in (curve.estimate, _least_after(curve.low), curve.high)
    )
    value, least, most = (_values(column, spans, each) for each in (estimate, low, high))
    found = Interval(value, np.minimum(least, value), np.maximum(most, value), curve.source)
    return found, stretched(found, _ends(column, spans, low), _ends(column, spans, high))


def _one_after_another(found: Sequence[Interval]) -> Interval:
    estimate, low, high = (np.concatenate([getattr(each, end) for each in found]) for end in _ENDS)
    return Interval(estimate, low, high, found[0].source)


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
    known = [(place, 0.0 * share) for place, share in crossings]  # NaN where nothing is known of the crossing
    first, last = (_values(column, spans, [(place, end + zero) for place, zero in known]) for end in (0.0, 1.0))
    return first, last
