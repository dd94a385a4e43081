"""Association: how strongly columns go together in a model."""

import itertools
from collections.abc import Sequence

import numpy as np

from priory.answer.grid import EVERYTHING, Names, checked_columns
from priory.answer.intervals import source_of
from priory.answer.redrawing import Redrawing
from priory.data.cells import Cells
from priory.data.kinds import ModelledColumn
from priory.data.schema import Schema
from priory.data.table import Table
from priory.errors import OptionError
from priory.model.model import Model
from priory.queries.factor import Array
from priory.queries.parts import Identity, Part, Recode
from priory.queries.query import Query

# Columns with more codes are compared in so many groups of neighbours: the cells of a pair are then few.
MOST_GROUPS = 64
_LEAST = 1e-12


def correlation(schema: Schema, redrawing: Redrawing, names: Names = ()) -> Table:
    """Pearson's correlation and Cramér's V of pairs of columns in the model, the strongest first.

    Missing values are left out of a correlation, and are a value of their own in V.
    """
    columns = checked_columns(schema, names) or schema.modelled
    if len(columns) < 2:
        raise OptionError("columns", f"a correlation needs two columns; got {len(columns)}")
    pairs = list(itertools.combinations(columns, 2))
    ties, measurements = redrawing.ties, redrawing.measurements
    rows = []
    for (one, other), table in zip(pairs, pair_tables(redrawing.model, pairs), strict=True):
        query = Query.marginal(redrawing.domain, (one.name, other.name))
        source = ties.named(source_of(query, measurements), query, measurements)
        rows.append((one.name, other.name, _pearson(table, one, other), cramers_v(table), source))
    rows.sort(key=lambda row: -row[3])
    first, second, pearson, strength, sources = zip(*rows, strict=True)
    values = np.array([np.nan if value is None else value for value in pearson])
    return Table(
        {
            "column": Cells.objects(first),
            "with": Cells.objects(second),
            "correlation": Cells(np.nan_to_num(values), np.isnan(values)),
            "strength": Cells(np.array(strength)),
            "source": Cells.objects(sources),
        }
    )


def pair_tables(model: Model, pairs: Sequence[tuple[ModelledColumn, ModelledColumn]]) -> list[Array]:
    """The model's counts of each pair, the first column down, in groups where a column has very many codes."""
    queries = [Query.product(model.domain, {each.name: _grouping(each) for each in pair}) for pair in pairs]
    answers = model.answers(queries)
    return [
        answer if query.clique == (one.name, other.name) else answer.T
        for (one, other), query, answer in zip(pairs, queries, answers, strict=True)
    ]


def cramers_v(table: Array) -> float:
    """√(χ² / (n·(min(rows, columns) − 1))) of a table of counts, over the rows and columns that are not empty.

    >>> cramers_v(np.array([[5.0, 0.0], [0.0, 3.0]])), cramers_v(np.array([[1.0, 2.0], [2.0, 4.0]]))
    (1.0, 0.0)
    """
    table = np.maximum(table, 0.0)
    if not table.any():
        return 0.0
    table = table / table.max() / table.size
    # Next to nothing is nothing: products of such shares would vanish.
    table = table[table.sum(axis=1) > _LEAST][:, table.sum(axis=0) > _LEAST]
    total, shorter = table.sum(), min(table.shape)
    if shorter < 2:
        return 0.0
    expected = np.outer(table.sum(axis=1), table.sum(axis=0)) / total
    square = float(((table - expected) ** 2 / expected).sum() / total)
    return min(1.0, float(np.sqrt(max(square, 0.0) / (shorter - 1))))


def _groups(column: ModelledColumn) -> int:
    """How many codes make a group."""
    return -(-column.size // MOST_GROUPS)


def _grouping(column: ModelledColumn) -> Part:
    step = _groups(column)
    return Identity() if step == 1 else Recode([code // step for code in range(column.size)])


def _pearson(table: Array, one: ModelledColumn, other: ModelledColumn) -> float | None:
    """The correlation of two columns of numbers; None where one is not, or does not vary."""
    if not (one.is_numeric and other.is_numeric):
        return None
    (x, given_x), (y, given_y) = _values(one), _values(other)
    table = np.maximum(table, 0.0) * np.outer(given_x, given_y)
    total = table.sum()
    if total <= 0:
        return None
    down, across = table.sum(axis=1) / total, table.sum(axis=0) / total
    x, y = x - down @ x, y - across @ y
    spread = np.sqrt((down @ x**2) * (across @ y**2))
    return float(np.clip(x @ table @ y / total / spread, -1, 1)) if spread > 0 else None


def _values(column: ModelledColumn) -> tuple[Array, Array]:
    """The mean value of each group of codes, and which share of the group's codes has one."""
    given = np.ones(column.size)
    if column.null_code is not None:
        given[column.null_code] = 0.0
    values = EVERYTHING.sums(column)
    targets = np.arange(column.size) // _groups(column)
    counts = np.bincount(targets, given)
    sums = np.bincount(targets, values * given)
    means = np.divide(sums, counts, out=np.zeros(len(counts)), where=counts > 0)
    return means, (counts > 0).astype(np.float64)
