"""Measured: noisy answers that were made elsewhere, from a CSV file of cells, values and standard deviations."""

import csv
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from priory.data.kinds import Category
from priory.data.schema import Schema
from priory.errors import DataError
from priory.estimate.estimator import estimate
from priory.estimate.first_model import uniform
from priory.estimate.measured import evidence
from priory.privacy.budget import Budget
from priory.privacy.measurement import Measurement
from priory.privacy.statement import DECLARED, Statement
from priory.queries.domain import Clique, Domain
from priory.queries.parts import Point
from priory.queries.query import Query
from priory.release.release import Release
from priory.version import __version__

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
    header, rows = _read(path)
    _check_header(header, schema, path)
    cells = [_cell(row, schema, f"{path}, line {line}") for line, row in rows]
    if not cells:
        raise DataError(f"{path} has no measurements: it needs a row for each cell")
    groups: dict[Clique, list[_Cell]] = {}
    for cell in cells:
        groups.setdefault(cell.clique, []).append(cell)
    return tuple(m for group in groups.values() for m in _measurements(schema.domain, group))


def schema_of_measurements(paths: Sequence[str | Path], *, name: str) -> Schema:
    """The schema that files of noisy counts imply: an attribute for each column, with those labels that occur."""
    # A value that no row names is not in it: where there are such, write a schema.
    labels: dict[str, dict[str, None]] = {}
    for path in paths:
        header, rows = _read(path)
        for column in (column for column in header if column not in (VALUE, STDDEV)):
            values = labels.setdefault(column, {})
            values.update({row[column] or "": None for _, row in rows if row.get(column)})
        if not header:
            raise DataError(f"{path} is empty; its first line must name the attributes, value and stddev")
    empty = [column for column, values in labels.items() if not values]
    if empty or not labels:
        raise DataError(f"{', '.join(map(str, paths))}: no row has a value of {empty or 'any attribute'}")
    columns = [Category.of(column, tuple(values), other=tuple(values)[-1]) for column, values in labels.items()]
    return Schema.of(columns, name=name)


def declared_release(
    measurements: Sequence[Measurement],
    schema: Schema,
    budget: Budget,
    *,
    total: float | None = None,
    stop: Literal["fission", "converged"] = "fission",
) -> Release:
    """A release of noisy counts that were measured elsewhere, with the model that they lead to.

    Args:
        measurements: the noisy counts.
        schema: what their cells are called.
        budget: what they cost, as whoever measured them says; the statement says that it was declared.
        total: the number of rows, where it is public.
        stop: see `estimate`.
    """
    about = (DECLARED, budget, budget.amount, "a row", schema.name, "memory")
    statement = Statement(*about, is_private=True, version=__version__, randomness="whoever measured", is_declared=True)
    base = uniform(schema.domain, schema)
    model = estimate(evidence(measurements), schema.domain, base=base, total=total, stop=stop)
    everyone = Query.marginal(schema.domain, ())
    public = () if total is None else (Measurement.of(everyone, np.array(total), 0.0),)
    return Release(schema.domain, (*public, *measurements), statement, schema).with_model(model)


def _read(path: str | Path) -> tuple[tuple[str, ...], list[tuple[int, dict[str, str | None]]]]:
    """The header, and each row with its line."""
    try:
        with Path(path).open(newline="", encoding="utf-8-sig") as file:
            reader = csv.DictReader(file)
            rows = [(reader.line_num, dict(row)) for row in reader]
            return tuple(reader.fieldnames or ()), rows
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{path} cannot be read: {error}") from None


def _check_header(names: Sequence[str], schema: Schema, path: str | Path) -> None:
    missing = [name for name in (VALUE, STDDEV) if name not in names]
    unknown = [name for name in names if name not in schema.domain and name not in (VALUE, STDDEV)]
    if missing or unknown or len(set(names)) < len(names):
        needs = f"{path} needs the columns {VALUE!r} and {STDDEV!r} and attributes of the schema, each once"
        has = f"it lacks {missing} and has {unknown}, which are none of {list(schema.domain)}"
        raise DataError(f"{needs}; {has}")


def _cell(row: Mapping[str, str | None], schema: Schema, where: str) -> _Cell:
    labels = {column.name: column.labels for column in schema.modelled}
    named = [name for name in schema.domain if row.get(name)]
    codes = []
    for name in named:
        label = row[name] or ""
        if label not in labels[name]:
            raise DataError(f"{where}: {label!r} is not one of {list(labels[name][:8])}", column=name)
        codes.append(labels[name].index(label))
    return _Cell(tuple(named), tuple(codes), _number(row, VALUE, where), _number(row, STDDEV, where, least=0.0))


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
    points = [Query.product(domain, dict(zip(c.clique, map(Point, c.codes), strict=True))) for c in cells]
    pairs = zip(points, cells, strict=True)
    return [Measurement.of(point, np.full(point.shape, cell.value), cell.stddev) for point, cell in pairs]


def _are_whole(domain: Domain, cells: Sequence[_Cell]) -> bool:
    return len({cell.codes for cell in cells}) == len(cells) == domain.size_of(cells[0].clique)


def _marginal(domain: Domain, cells: Sequence[_Cell]) -> Measurement:
    query = Query.marginal(domain, cells[0].clique)
    values, stddevs = np.empty(query.shape), np.empty(query.shape)
    for cell in cells:
        values[cell.codes], stddevs[cell.codes] = cell.value, cell.stddev
    return Measurement.of(query, values, stddevs if np.ptp(stddevs) else cells[0].stddev)
