"""Measured: noisy answers that were made elsewhere, from a CSV file of cells, values and standard deviations."""

import csv
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from priory.data.schema import Schema
from priory.domain import Clique, Domain
from priory.errors import DataError
from priory.privacy.measurement import Measurement
from priory.queries.parts import Point
from priory.queries.query import Query

VALUE, STDDEV = "value", "stddev"


@dataclass(frozen=True)
class _Cell:
    clique: Clique
    codes: tuple[int, ...]
    value: float
    stddev: float


def read_measurements(path: str | Path, schema: Schema) -> tuple[Measurement, ...]:
    """Read noisy counts: a column for each attribute, and the columns `value` and `stddev`; a row for each cell.

    An attribute that is empty in a row, or has no column, is summed out there. Cells are named by the schema's labels.
    Rows with the same attributes that make up a whole marginal become one measurement, with a standard deviation for
    each cell where they differ. Where cells are repeated or missing, those with the same standard deviation that make
    up a whole marginal do; others become one measurement each.

    Raises:
        DataError: the file cannot be read, or a row does not fit the schema. It is public: the message quotes it.
    """
    try:
        with Path(path).open(newline="", encoding="utf-8") as file:
            reader = csv.DictReader(file)
            _check_header(reader.fieldnames or (), schema, path)
            cells = [_cell(row, schema, f"{path}, line {reader.line_num}") for row in reader]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{path} cannot be read: {error}") from None
    if not cells:
        raise DataError(f"{path} has no measurements: it needs a row for each cell")
    groups: dict[Clique, list[_Cell]] = {}
    for cell in cells:
        groups.setdefault(cell.clique, []).append(cell)
    return tuple(m for group in groups.values() for m in _measurements(schema.domain, group))


def _check_header(names: Sequence[str], schema: Schema, path: str | Path) -> None:
    missing = [name for name in (VALUE, STDDEV) if name not in names]
    unknown = [name for name in names if name not in schema.domain and name not in (VALUE, STDDEV)]
    if missing or unknown or len(set(names)) < len(names):
        raise DataError(
            f"{path} needs the columns {VALUE!r} and {STDDEV!r} and attributes of the schema, each once; "
            f"it lacks {missing} and has {unknown}, which are none of {list(schema.domain)}"
        )


def _cell(row: Mapping[str, str | None], schema: Schema, where: str) -> _Cell:
    labels = {column.name: column.labels for column in schema.modelled}
    held = [name for name in schema.domain if row.get(name)]
    codes = []
    for name in held:
        label = row[name] or ""
        if label not in labels[name]:
            raise DataError(f"{where}: {label!r} is not one of {list(labels[name][:8])}", column=name)
        codes.append(labels[name].index(label))
    return _Cell(tuple(held), tuple(codes), _number(row, VALUE, where), _number(row, STDDEV, where, least=0.0))


def _number(row: Mapping[str, str | None], name: str, where: str, least: float = -math.inf) -> float:
    try:
        number = float(row[name] or "")
    except ValueError:
        number = math.nan
    if not (math.isfinite(number) and number > least):
        wanted = "a number" if least == -math.inf else f"a number above {least:g}"
        raise DataError(f"{where}: {wanted} is needed; got {row[name]!r}", column=name)
    return number


def _measurements(domain: Domain, cells: Sequence[_Cell]) -> list[Measurement]:
    """The cells of one clique."""
    if _are_whole(domain, cells):
        return [_marginal(domain, cells)]
    alike: dict[float, list[_Cell]] = {}
    for cell in cells:
        alike.setdefault(cell.stddev, []).append(cell)
    return [m for group in alike.values() for m in _alike(domain, group)]


def _alike(domain: Domain, cells: Sequence[_Cell]) -> list[Measurement]:
    """The cells of one clique with one standard deviation."""
    if _are_whole(domain, cells):
        return [_marginal(domain, cells)]
    return [
        Measurement.of(point, np.full(point.shape, cell.value), cell.stddev)
        for cell in cells
        for point in [Query.product(domain, dict(zip(cell.clique, map(Point, cell.codes), strict=True)))]
    ]


def _are_whole(domain: Domain, cells: Sequence[_Cell]) -> bool:
    return len({cell.codes for cell in cells}) == len(cells) == domain.size_of(cells[0].clique)


def _marginal(domain: Domain, cells: Sequence[_Cell]) -> Measurement:
    query = Query.marginal(domain, cells[0].clique)
    values, stddevs = np.empty(query.shape), np.empty(query.shape)
    for cell in cells:
        values[cell.codes], stddevs[cell.codes] = cell.value, cell.stddev
    return Measurement.of(query, values, stddevs if np.ptp(stddevs) else cells[0].stddev)
