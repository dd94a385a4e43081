"""Rows: synthetic rows of a model in the user's own terms, batch by batch."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache, partial

import numpy as np
from numpy.typing import NDArray

from priory.answer.where import Given, Where
from priory.data.cells import Cells
from priory.data.codec import decode
from priory.data.schema import Schema
from priory.data.schema.obeying import breaking
from priory.data.table import Table
from priory.errors import DataError, OptionError, SchemaError
from priory.model.bases import Uniform
from priory.model.mixed import MixedTilted
from priory.model.model import Model, evidence_of
from priory.model.sampling import Chance, Codes, Seed, checked_count
from priory.model.structural_zeros import without_zeros
from priory.model.tilted import Tilted

BATCH = 100_000
# Values inside bins are drawn again so often before the row itself is, too.
_TRIES = 10
# Rows that break a constraint with nearly all values of their bins would keep us here for ever.
_MOST_ROUNDS = 1000
# So many rows, drawn in so many rounds, show that any number can be.
_FEW_ROWS, _FEW_ROUNDS = 100, 300


def batches(
    model: Model, schema: Schema, n: int, *, where: Given = None, seed: Seed = None, size: int = BATCH
) -> Iterator[Table]:
    """`n` rows that satisfy a condition, in tables of at most `size` rows; one empty table for no rows."""
    if checked_count(size) == 0:
        raise OptionError("size", "a batch needs at least one row")
    wanted = Where.of(where, schema)
    tilted = _given(model, schema, wanted)
    alike = cache(partial(_alike, schema, wanted))
    if isinstance(seed, bool) or (isinstance(seed, int) and seed < 0):
        raise OptionError("seed", f"a whole number of at least 0; got {seed!r}")
    chance = Chance.of(seed, "rounding")
    # The checks are made when this is called, not when the first batch is taken.
    return (_drawn(tilted, schema, min(size, n - start), chance, alike=alike) for start in range(0, max(n, 1), size))


def _given(model: Model, schema: Schema, where: Where) -> Tilted:
    """The model of the rows that satisfy a condition."""
    boxes = where.codes(schema)
    if boxes == [{}]:
        return model.tilt({})
    # Boxes share no row, so that each counts by the mass it has.
    tilted = MixedTilted.of([1.0] * len(boxes), [model.tilt(evidence_of(box, model.domain)) for box in boxes])
    if np.isneginf(tilted.log_z):
        raise OptionError("where", f"the model has no row that satisfies {where.text}")
    return tilted


def check_constraints(schema: Schema) -> None:
    """Draw a few rows, every possible one alike, as those of any release may have to be: before anything is paid.

    Raises:
        SchemaError: the constraints leave none, or so few inside their bins that none is found.
    """
    if _can_be_drawn(schema):
        return
    for number, constraint in enumerate(schema.constraints, start=1):
        is_last = number == len(schema.constraints)
        if is_last or not _can_be_drawn(replace(schema, constraints=schema.constraints[:number])):
            names = dict.fromkeys(name for clique in constraint.cliques for name in clique)
            which = f"constraint {number}, {type(constraint).__name__.lower()} of {', '.join(names)},"
            before = " with those before it" if number > 1 else ""
            hint = "correct it, put the edges of bins where it begins to hold, or let a column be null"
            raise SchemaError(f"{which}{before} leaves no row that could be drawn; {hint}")


def _can_be_drawn(schema: Schema) -> bool:
    constrained = {name for constraint in schema.constraints for clique in constraint.cliques for name in clique}
    if not constrained:
        return True
    columns = tuple(column for column in schema.columns if column.name in constrained)
    schema = replace(schema, columns=columns, groups=(), person=None)
    try:
        tilted = _alike(schema, Where.of(None, schema))
        _drawn(tilted, schema, _FEW_ROWS, Chance.of(0, "rounding"), alike=lambda: tilted, rounds=_FEW_ROUNDS)
    except (DataError, OptionError):
        return False
    return True


def _alike(schema: Schema, where: Where) -> Tilted:
    """Rows that satisfy a condition, every possible one alike."""
    return _given(Model(without_zeros(Uniform(schema.domain), schema.impossible()), {}), schema, where)


def _drawn(
    tilted: Tilted, schema: Schema, n: int, chance: Chance, *, alike: Callable[[], Tilted], rounds: int = _MOST_ROUNDS
) -> Table:
    """`n` rows; of bins in which nearly all values break a constraint, other rows of the model, and then of `alike`."""
    codes = tilted.sample(n, chance)
    table = _decoded(schema, codes, chance)
    bad = _bad(schema, table)
    for attempt in range(1, rounds):
        if not len(bad):
            return table
        if attempt > _TRIES:
            source = tilted if attempt < rounds / 2 else alike()
            codes[bad] = source.sample(len(bad), chance)
        table = _replaced(table, bad, _decoded(schema, codes[bad], chance))
        bad = bad[_bad(schema, _taken(table, bad))]
    said = "its constraints leave hardly any row of the bins that are asked for; ask for more, or for none of them"
    raise OptionError("schema", said)


def _bad(schema: Schema, table: Table) -> NDArray[np.intp]:
    return np.flatnonzero(breaking(schema, table)) if schema.constraints else np.empty(0, dtype=np.intp)


def _decoded(schema: Schema, codes: Codes, chance: Chance) -> Table:
    names = [column.name for column in schema.modelled]
    return decode(schema, {name: codes[:, i] for i, name in enumerate(names)}, chance.rng)


def _taken(table: Table, rows: NDArray[np.intp]) -> Table:
    return replace(table, columns={name: _at(cells, rows) for name, cells in table.columns.items()})


def _at(cells: Cells, rows: NDArray[np.intp]) -> Cells:
    return Cells(cells.values[rows], None if cells.null is None else cells.null[rows], spelling=cells.spelling)


def _replaced(table: Table, rows: NDArray[np.intp], new: Table) -> Table:
    columns = {}
    for name, cells in table.columns.items():
        values, null = cells.values.copy(), cells.null
        values[rows] = new.columns[name].values
        fresh = new.columns[name].null
        if null is not None and fresh is not None:
            null = null.copy()
            null[rows] = fresh
        columns[name] = Cells(values, null, spelling=cells.spelling)
    return replace(table, columns=columns)
