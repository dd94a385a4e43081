"""Obeying: which rows of a table break a constraint of its schema, value by value."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from priory.data.cells import Cells
from priory.data.kinds import ModelledColumn
from priory.data.reading import read_cells
from priory.data.schema.constraints import Condition, Constraint, Determine, Forbid, Order
from priory.data.schema.schema import Schema
from priory.data.table import Table

Mask = NDArray[np.bool_]


def breaking(schema: Schema, table: Table) -> Mask:
    """Whether each row breaks a constraint."""
    # The structural zeros of a schema speak of whole bins; this speaks of the values themselves, so that a row of a bin
    # that lies only partly inside a forbidden combination can be recognised.
    columns = {column.name: column for column in schema.modelled}
    breaks = np.zeros(len(table), dtype=bool)
    for constraint in schema.constraints:
        breaks |= _broken(constraint, columns, table)
    return breaks


def _broken(constraint: Constraint, columns: dict[str, ModelledColumn], table: Table) -> Mask:
    match constraint:
        case Forbid():
            masks = [_satisfied(c, columns[c.column], table.columns[c.column]) for c in constraint.conditions]
            return np.asarray(np.logical_and.reduce(masks))
        case Determine():
            return _strays(constraint, columns, table)
        case Order():
            return _falls(constraint, columns, table)


def _points(column: ModelledColumn, cells: Cells) -> tuple[NDArray[Any], Mask]:
    """The values as numbers, and where they are present."""
    readings = read_cells(column, cells)
    return readings.values, ~(readings.missing | readings.bad)


def _satisfied(condition: Condition, column: ModelledColumn, cells: Cells) -> Mask:
    values, present = _points(column, cells)
    if condition.null:
        return ~present
    if condition.values:
        wanted = np.array([column.point_of(value) for value in condition.values])
        return present & np.isin(values, wanted)
    satisfied = present & _is_ranked(column, values)
    if condition.below is not None:
        satisfied &= values < column.point_of(condition.below)
    if condition.above is not None:
        satisfied &= values > column.point_of(condition.above)
    return satisfied


def _strays(constraint: Determine, columns: dict[str, ModelledColumn], table: Table) -> Mask:
    by, column = columns[constraint.by], columns[constraint.column]
    given, has_given = _points(by, table.columns[by.name])
    values, present = _points(column, table.columns[column.name])
    breaks = np.zeros(len(table), dtype=bool)
    for one, other in constraint.values:
        breaks |= has_given & present & (given == by.point_of(one)) & (values != column.point_of(other))
    return breaks


def _falls(constraint: Order, columns: dict[str, ModelledColumn], table: Table) -> Mask:
    breaks = np.zeros(len(table), dtype=bool)
    for one, other in constraint.cliques:
        before, has_before = _points(columns[one], table.columns[one])
        after, has_after = _points(columns[other], table.columns[other])
        both = has_before & has_after & _is_ranked(columns[one], before) & _is_ranked(columns[other], after)
        breaks |= both & (before > after)
    return breaks


def _is_ranked(column: ModelledColumn, values: NDArray[Any]) -> Mask:
    """A label for other cells stands after the levels and has no rank."""
    return np.asarray(column.is_binned | (values < column.ranks))
