"""Tables: answers in the user's own terms, each with an interval and where it comes from."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from priory.answer.basis import Basis, Drawn, ScaledQuery
from priory.answer.grid import EVERYTHING, Grid, Names
from priory.answer.hidden import Noisy, hidden_notes, hidden_sums, joined, measured_sums, widened
from priory.answer.intervals import Interval, Source
from priory.answer.ratios import Weights, added, below, ratios, weighed
from priory.answer.selection import Selection
from priory.answer.where import Given, Where, modelled
from priory.data.cells import Cells
from priory.data.codec import cells_of
from priory.data.kinds import ModelledColumn
from priory.data.table import Table
from priory.errors import OptionError
from priory.queries.factor import Array
from priory.queries.parts import Identity, Part, Prefix, Total
from priory.queries.query import Query

if TYPE_CHECKING:
    from priory.queries.workload import Workload

PRESENT = Selection(EVERYTHING.spans)
# Rows that are this many standard deviations of their noise are surely some.
_SURE = 5.0


def marginal(basis: Basis, names: Names, where: Given = None) -> Table:
    """How many rows there are of each combination of the columns' values."""
    grid = Grid.of(basis, names, Where.of(where, basis.schema))
    found = Drawn.summed(grid.drawn()).interval(basis.level)
    return _table(grid, grid.cells(), found, least=0.0)


def total(basis: Basis, name: str, by: Names = (), where: Given = None) -> Table:
    """The sum of a column of numbers over the rows of each group; missing values add nothing."""
    column = _numeric(basis, name, "a sum")
    if not column.is_additive:
        raise OptionError("column", f"{name!r} is a {column.kind}: dates cannot be added up; ask for their mean")
    grid = Grid.of(basis, by, Where.of(where, basis.schema), name)
    chosen, cells = selections(grid, name, PRESENT), grid.drawn(name)
    values = [selection.sums(column) for selection in chosen]
    found = weighed(cells, values, added).interval(basis.level)
    found = joined(found, measured_sums(grid.measured(name), values), basis.level)
    wider = widened(found, hidden_sums(cells, [selection.spreads(column) for selection in chosen]), basis.level)
    return _table(grid, grid.cells(), wider, is_cut=column.is_coarse, notes=hidden_notes(column, found, wider))


def mean(basis: Basis, name: str, by: Names = (), where: Given = None) -> Table:
    """The mean of a column over the rows of each group where it is not missing."""
    column = _numeric(basis, name, "a mean")
    grid = Grid.of(basis, by, Where.of(where, basis.schema), name)
    chosen, cells = selections(grid, name, PRESENT), grid.drawn(name)
    # Counted from a value in the middle: far from zero, squares of errors would be lost in the rounding.
    edges = np.asarray(column.edges)
    middle = float(column.middles(edges[:-1], edges[1:])[column.places // 2])
    weights = [Weights(s.sums(column) - middle * s.weights(column), s.weights(column)) for s in chosen]
    found = ratios(cells, weights, added).interval(basis.level)
    rows = weighed(cells, [each.under for each in weights], added).estimate
    found = joined(found, _measured_mean(grid.measured(name), weights), basis.level)
    hidden = hidden_sums(cells, [s.spreads(column) for s in chosen]) / np.where(rows > 0, rows, np.nan)
    wider = widened(found, hidden, basis.level)
    least, most = _reach(column, weights)
    notes = hidden_notes(column, found, wider)
    is_cut = column.is_coarse
    wider = Interval(wider.estimate + middle, wider.low + middle, wider.high + middle, wider.source)
    return _table(
        grid, grid.cells(), wider, least=least, most=most, is_cut=is_cut, notes=notes, as_cells=column.means_at
    )


def _measured_mean(cells: Sequence[Noisy], weights: Sequence[Weights]) -> Noisy:
    """Means from measurements alone; NaN where noise may be all there is of the rows."""
    rows = measured_sums(cells, [each.under for each in weights])
    count = np.where(rows.values > _SURE * rows.stddev, rows.values, np.nan)
    means = measured_sums(cells, [each.over for each in weights]).values / count
    # To first order a mean r errs by the errors of cells, each times its value less r, over the rows.
    errors = measured_sums(cells, [each.over - means * each.under for each in weights])
    return Noisy(means, errors.stddev / count)


def _reach(column: ModelledColumn, weights: Sequence[Weights]) -> tuple[float, float]:
    """The least and the largest value that a mean can have."""
    counted = np.flatnonzero(np.sum([each.under for each in weights], axis=0)[: column.places])
    if not len(counted):
        return -np.inf, np.inf
    edges = np.asarray(column.edges)
    if column.is_binned:
        ends = counted[[0, -1]]
        values = column.located(ends, (edges[ends], edges[ends + 1]), np.array([0.0, 1.0]))
    else:
        values = column.middles(edges[:-1], edges[1:])[counted]
    return float(values.min()), float(values.max())


def share(basis: Basis, name: str, given: Names = (), where: Given = None) -> Table:
    """The conditional distribution of a column: which share of each group's rows has each of its values."""
    column = modelled(basis.schema, name, "column")
    grid = Grid.of(basis, given, Where.of(where, basis.schema), name)
    weights = [Weights.alike(s.weights(column)) for s in selections(grid, name, EVERYTHING)]
    kept = np.flatnonzero(sum(each.under for each in weights))
    found = ratios(grid.drawn(name), weights, lambda cells: cells[..., kept]).interval(basis.level)
    cells = {**grid.cells(len(kept)), name: cells_of(column, np.tile(kept, grid.size))}
    return _table(grid, cells, found, least=0.0, most=1.0)


def cdf(basis: Basis, name: str, by: Names = (), where: Given = None) -> Table:
    """Which share of each group's rows has at most each value of an ordered column; missing values are left out."""
    column = ordered(basis, name)
    grid = Grid.of(basis, by, Where.of(where, basis.schema), name)
    weights = [Weights.alike(s.weights(column)) for s in selections(grid, name, PRESENT)]
    places = column.places
    found = ratios(grid.drawn(name), weights, lambda cells: below(cells, places)).interval(basis.level)
    first, last = np.asarray(column.edges[:-1]), np.asarray(column.edges[1:])
    # The place of a real spike ends just after it.
    ends = column.values_at(np.where(np.nextafter(first, np.inf) == last, first, last - column.is_whole))
    cells = {**grid.cells(places), name: Cells(np.tile(ends, grid.size))}
    return _table(grid, cells, found, least=0.0, most=1.0)


def answer(basis: Basis, asked: "Query | Workload") -> Table:
    """Answers to product queries: a column for each attribute of a query; for a workload, a line for each answer."""
    if isinstance(asked, Query):
        [found] = basis.intervals([[ScaledQuery(asked)]])
        return assembled(_query_cells(basis, asked), _flat(found))
    from priory.queries.workload import Workload

    if not isinstance(asked, Workload):
        raise OptionError("query", f"a Query or a Workload; got {type(asked).__name__}")
    sizes = [query.rows for query in asked.queries]
    found_all = basis.intervals([[ScaledQuery(query)] for query in asked.queries])
    flat = [_flat(found) for found in found_all]
    columns = {
        "query": Cells(np.repeat(np.array([_described(q) for q in asked.queries], dtype=object), sizes)),
        "cell": Cells(np.array([cell for q in asked.queries for cell in _cell_texts(basis, q)], dtype=object)),
    }
    estimate, low, high = (np.concatenate([getattr(f, end) for f in flat]) for end in ("estimate", "low", "high"))
    sources = np.repeat(np.array([found.source for found in flat], dtype=object), sizes)
    return assembled(columns, Interval(estimate, low, high, "prior"), sources=sources)


def _numeric(basis: Basis, name: str, what: str) -> ModelledColumn:
    column = modelled(basis.schema, name, "column")
    if not column.is_numeric:
        raise OptionError("column", f"{name!r} has text levels: {what} needs numbers; ask for its share or marginal")
    return column


def ordered(basis: Basis, name: str) -> ModelledColumn:
    """A column whose values have an order."""
    column = modelled(basis.schema, name, "column")
    if not column.is_ascending:
        raise OptionError("column", f"{name!r} has no order; ask for its share or marginal, or declare it ordinal")
    return column


def selections(grid: Grid, name: str, allowed: Selection) -> list[Selection]:
    """What each box of the condition selects of a column, of what is allowed."""
    return [box.get(name, EVERYTHING) & allowed for box in grid.where.boxes]


def _flat(found: Interval) -> Interval:
    return Interval(found.estimate.ravel(), found.low.ravel(), found.high.ravel(), found.source)


def _table(
    grid: Grid,
    cells: Mapping[str, Cells],
    found: Interval,
    *,
    least: float = -np.inf,
    most: float = np.inf,
    is_cut: bool = False,
    notes: tuple[str, ...] = (),
    as_cells: Callable[[Array], Cells] | None = None,
) -> Table:
    """The table of a grid's answers; where a bin was cut, answers rest on an assumption, as inferred ones do."""
    cuts = grid.where.notes(grid.basis.schema)
    source: Source = "inferred" if found.source == "measured" and (cuts or is_cut) else found.source
    bounded = Interval(found.estimate, np.clip(found.low, least, most), np.clip(found.high, least, most), source)
    return assembled(cells, _flat(bounded), notes=(*cuts, *notes), as_cells=as_cells or _numbers)


def _numbers(values: Array) -> Cells:
    null = np.isnan(values)
    return Cells(np.where(null, 0.0, values), null if null.any() else None)


def assembled(
    cells: Mapping[str, Cells],
    found: Interval,
    *,
    notes: tuple[str, ...] = (),
    sources: NDArray[Any] | None = None,
    as_cells: Callable[[Array], Cells] = _numbers,
) -> Table:
    """A table of flat answers; the interval of each is stretched to hold the estimate."""
    low, high = np.fmin(found.low, found.estimate), np.fmax(found.high, found.estimate)
    unknown = np.isnan(found.low) | np.isnan(found.high)
    low, high = np.where(unknown, np.nan, low), np.where(unknown, np.nan, high)
    where_from = np.full(len(found.estimate), found.source, dtype=object) if sources is None else sources
    columns = dict(cells)
    for name, values in {"estimate": found.estimate, "low": low, "high": high}.items():
        columns[free_name(name, cells)] = as_cells(values)
    columns[free_name("source", cells)] = Cells(where_from)
    return Table(columns, notes)


def free_name(name: str, taken: Mapping[str, Cells]) -> str:
    """A name for a column of answers that no column of the user's has."""
    while name in taken:
        name += "_"
    return name


def _query_cells(basis: Basis, query: Query) -> dict[str, Cells]:
    """A column for each part that gives several answers."""
    places = np.indices(query.shape).reshape(len(query.shape), query.rows)
    columns = {}
    for name, part, rows, place in zip(query.clique, query.parts, query.shape, places, strict=True):
        if rows > 1 or isinstance(part, Identity | Prefix):
            columns[name] = _part_cells(modelled(basis.schema, name), part, place)
    return columns


def _part_cells(column: ModelledColumn, part: Part, place: NDArray[np.int64]) -> Cells:
    if isinstance(part, Identity):
        return cells_of(column, place)
    if isinstance(part, Prefix):
        return Cells(np.array([f"≤ {label}" for label in column.labels], dtype=object)[place])
    return Cells(place)


def _cell_texts(basis: Basis, query: Query) -> list[str]:
    columns = Table(_query_cells(basis, query)).to_dict()
    if not columns:
        return [""] * query.rows
    rows = zip(*columns.values(), strict=True)
    return [", ".join("null" if value is None else str(value) for value in row) for row in rows]


def _described(query: Query) -> str:
    asked = [
        name if isinstance(part, Identity) else f"{type(part).__name__.lower()} of {name}"
        for name, part in zip(query.clique, query.parts, strict=True)
        if not isinstance(part, Total)
    ]
    return ", ".join(asked) or "all rows"
