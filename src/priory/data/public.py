"""Public rows: the check that they fit a schema, and their codes. Their cells may be quoted."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from priory.data.codec import encode
from priory.data.kinds import ModelledColumn
from priory.data.kinds.numbers import short_text
from priory.data.reading import read_cells
from priory.data.schema import Schema
from priory.data.sources import frames
from priory.data.sources.containers import plain_file
from priory.data.sources.files import connect, container_errors, open_file
from priory.data.sources.frame_files import is_frame_file, read_frame_file
from priory.data.sources.spark import is_spark_frame
from priory.data.survey import Seen, survey_file, survey_frame
from priory.data.yaml_reader import suggestion
from priory.errors import DataError

VALUES_SHOWN = 5


@dataclass(frozen=True)
class Misfit:
    """How the cells of a public column fit its schema."""

    column: str
    wrong: int  # cells that go where bad cells go, are out of bounds, or are missing where nothing may be
    shown: str  # a few of them
    others: int  # texts that go to a label for all other levels, as is declared
    infinite: int  # numbers that go to the first or the last bin
    cells: int

    @property
    def sentence(self) -> str:
        """What is wrong, and what to do."""
        return (
            f"{self.wrong:,} of {self.cells:,} public cells do not fit the schema: {self.shown}; "
            "correct them, or declare them in the schema"
        )

    @property
    def notes(self) -> list[str]:
        """What is as declared, and yet worth knowing."""
        others = f"{self.others:,} of {self.cells:,} cells have none of the levels and go to other"
        infinite = f"{self.infinite:,} infinite numbers go to the first or last bin"
        return [*([others] if self.others else []), *([infinite] if self.infinite else [])]


def misfit(column: ModelledColumn, seen: Seen) -> Misfit:
    """How the cells of a public column fit its schema."""
    wrong = others = infinite = 0
    shown: list[str] = []
    has_label = column.other_place is not None and column.other_place >= column.ranks
    for i, (cells, counts) in enumerate(seen.parts):
        readings = read_cells(column, cells)
        is_infinite = np.isinf(readings.values.astype(np.float64))
        is_outside = column.outside(readings.values) & ~readings.missing & ~readings.bad & ~is_infinite
        is_wrong = readings.bad | is_outside | (readings.missing & (not column.nullable))
        if i == 0 and has_label:
            # A text that is no level has a place of its own.
            others += int(counts[readings.bad].sum())
            is_wrong &= ~readings.bad
        is_wrong &= counts > 0
        wrong += int(counts[is_wrong].sum())
        infinite += int(counts[is_infinite].sum())
        shown += [_shown(value) for value in cells.values[is_wrong][: VALUES_SHOWN + 1].tolist()]
    listed = ", ".join(shown[:VALUES_SHOWN]) + (", …" if len(shown) > VALUES_SHOWN else "")
    return Misfit(column.name, wrong, listed, others, infinite, seen.rows)


def misfits(schema: Schema, frame: object) -> list[Misfit]:
    """How each modelled column of a public table fits the schema; one that lacks columns is refused."""
    names = [column.name for column in schema.modelled]
    if is_spark_frame(frame):
        from priory.data.sources.spark.public import spark_misfits

        return spark_misfits(schema, frame)
    if isinstance(frame, str | Path):
        columns = [column.name for column in schema.columns]
        seen = {each.name: each for each in survey_file(frame, schema.reading, columns, wanted=names)}
    else:
        seen = {each.name: each for each in survey_frame(frames.cells_of(frame, names))}
    _check_names(names, seen)
    return [misfit(column, seen[column.name]) for column in schema.modelled]


def public_codes(schema: Schema, frame: object) -> NDArray[np.int64]:
    """The rows of a public table as codes, one column for each attribute, once it is found to fit the schema.

    Of a frame of Spark that has very many, it is some of them at random, always the same ones.
    """
    if is_spark_frame(frame):
        from priory.data.sources.spark.public import spark_codes

        return _with_rows(spark_codes(schema, frame))
    names = [column.name for column in schema.modelled]
    # As text, not by types found from the cells: "007" is a level that a number would lose.
    found = read_public_file(frame, schema) if isinstance(frame, str | Path) else frame
    cells = frames.cells_of(found, names)
    refuse(misfits(schema, cells))
    return _with_rows(np.stack(list(encode(schema, cells).values()), axis=1, dtype=np.int64))


def _with_rows(table: NDArray[np.int64]) -> NDArray[np.int64]:
    if not len(table):
        raise DataError("the public table has no rows; leave it out, or bring one that has")
    return table


def read_public_file(path: str | Path, schema: Schema) -> Mapping[str, Any]:
    """The modelled columns of a public file that it has: texts where it is CSV."""
    columns, reading = [column.name for column in schema.columns], schema.reading
    if is_frame_file(path):
        return read_frame_file(path, reading, None if reading.header else columns)
    with plain_file(path, reading.encoding) as file, connect() as connection, container_errors(file.shown):
        found = open_file(connection, file, list(schema.domain), reading, columns)
        names = [name for name in found.cells if name in schema.domain]
        selected = [f"{found.cells[name].expression} AS c{i}" for i, name in enumerate(names)]
        arrays = connection.execute(f"SELECT {', '.join(selected) or '1'} FROM {found.table}").fetchnumpy()
    return {name: arrays[f"c{i}"] for i, name in enumerate(names)}


def _check_names(names: Iterable[str], seen: Mapping[str, Seen]) -> None:
    missing = [name for name in names if name not in seen]
    if len(missing) == 1:
        raise DataError(f"the data have no such column; {suggestion(missing[0], seen)}", column=missing[0])
    if missing:
        raise DataError(f"the data lack {len(missing)} columns: {', '.join(map(repr, missing))}")


def refuse(found: Iterable[Misfit]) -> None:
    """Refuse a public table of which a column does not fit, naming all that do not."""
    wrong = [each for each in found if each.wrong]
    if len(wrong) == 1:
        raise DataError(wrong[0].sentence, column=wrong[0].column)
    if wrong:
        raise DataError("; ".join(f"column {each.column!r}: {each.sentence}" for each in wrong))


def _shown(value: object) -> str:
    if isinstance(value, float) and np.isfinite(value):
        return short_text(value)
    return "null" if value is None else repr(value)
