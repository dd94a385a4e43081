"""Frames: cells of pandas, polars and pyarrow tables, and of whatever narwhals knows."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

import numpy as np

from priory.data.cells import Cells
from priory.data.sources.adbc_cells import field_cells
from priory.data.sources.arrow import is_stream, stream_of
from priory.data.sources.arrow_cells import arrow_cells, indexed
from priory.data.sources.private import position
from priory.data.table import Table
from priory.errors import DataError

Frame: TypeAlias = Any  # a data frame of a library that may not be installed
Names: TypeAlias = list[Any]
Read: TypeAlias = Callable[[int], Cells]


def cells_of(frame: Frame, names: Iterable[str]) -> dict[str, Cells]:
    """The cells of the named columns of a table: pandas, polars, pyarrow, a `Table`, a mapping from names to arrays.

    Or another data frame that narwhals supports. A `DataError` where a column is missing or there twice, or this is
    no table; never because of a value.
    """
    have, read = _opened(frame)
    columns = {name: read(position(have, name)) for name in names}
    lengths = {len(cells) for cells in columns.values()}
    if len(lengths) > 1:
        raise DataError("columns have different lengths; give all of them the same number of cells")
    return columns


def names_of(frame: Frame) -> list[str]:
    """The columns' names in order, if all are texts."""
    names = _opened(frame)[0]
    odd = [name for name in names if not isinstance(name, str)]
    if odd:
        raise DataError("the names of columns are texts; rename those that are not, as in frame.columns.astype(str)")
    if len(set(names)) < len(names):
        raise DataError("two columns have the same name; rename one")
    return names


def held(frame: Frame) -> Frame:
    """The same, where it is a stream as an Arrow table in memory, which can be read more than once."""
    return stream_of(frame).table() if is_stream(frame) else frame


def _opened(frame: Frame) -> tuple[Names, Read]:
    """The names of a frame's columns and how to read the cells of one."""
    if isinstance(frame, Table):
        frame = frame.columns
    if isinstance(frame, Mapping):
        return list(frame), lambda i: array_cells(list(frame.values())[i])
    library = type(frame).__module__.partition(".")[0]
    if library == "pandas" and hasattr(frame, "iloc") and hasattr(frame, "columns"):
        return list(frame.columns), lambda i: pandas_cells(frame.iloc[:, i])
    if library == "polars" and type(frame).__name__ in ("DataFrame", "LazyFrame"):
        collected = frame.collect() if type(frame).__name__ == "LazyFrame" else frame
        return list(collected.columns), lambda i: polars_cells(collected.to_series(i))
    if library == "pyarrow" and hasattr(frame, "column_names"):
        return list(frame.column_names), lambda i: field_cells(frame.schema.field(i), frame.column(i))
    if is_stream(frame):
        return _opened(held(frame))
    return _opened_by_narwhals(frame)


def _opened_by_narwhals(frame: Frame) -> tuple[Names, Read]:
    import narwhals as nw

    try:
        known = nw.from_native(frame)
    except TypeError:
        hint = "give a path, a data frame, or a mapping from names to arrays"
        raise DataError(f"a {type(frame).__name__} is not a table; {hint}") from None
    table = (known.collect() if isinstance(known, nw.LazyFrame) else known).to_arrow()
    return list(table.column_names), lambda i: arrow_cells(table.column(i))


def array_cells(values: object) -> Cells:
    """Cells of a NumPy array, a masked array, or any list."""
    if isinstance(values, Cells):
        return values
    if isinstance(values, np.ma.MaskedArray):
        return Cells(np.asarray(values.data), np.ma.getmaskarray(values))
    if isinstance(values, np.ndarray) and values.ndim == 1:
        return Cells(values)
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        raise DataError(f"a column is an array or a list; got {type(values).__name__}")
    return Cells.objects(values)


def pandas_cells(series: Any) -> Cells:  # noqa: ANN401 - pandas is optional
    """Cells of a pandas series."""
    import pandas as pd

    dtype = series.dtype
    if isinstance(dtype, pd.CategoricalDtype):
        index = series.cat.codes.to_numpy()
        return indexed(pandas_cells(series.cat.categories.to_series()), index, index < 0)
    if isinstance(dtype, pd.ArrowDtype):
        import pyarrow as pa

        return arrow_cells(pa.array(series.array))
    if isinstance(dtype, pd.DatetimeTZDtype):
        series = series.dt.tz_convert("UTC").dt.tz_localize(None)
    elif isinstance(dtype, pd.SparseDtype):
        series = series.sparse.to_dense()
    return Cells(series.to_numpy()) if isinstance(series.dtype, np.dtype) else _pandas_masked(series)


def _pandas_masked(series: Any) -> Cells:  # noqa: ANN401 - pandas is optional
    """Cells of a pandas series whose nulls are kept apart from its values."""
    null, stored = series.isna().to_numpy(dtype=bool), getattr(series.dtype, "numpy_dtype", None)
    if isinstance(stored, np.dtype) and stored.kind in "biuf":
        return Cells(series.to_numpy(dtype=stored, na_value=stored.type(0)), null)
    return Cells(series.astype(object).to_numpy(), null)


def polars_cells(series: Any) -> Cells:  # noqa: ANN401 - polars is optional
    """Cells of a polars series."""
    import polars as pl

    dtype, null = series.dtype, series.is_null().to_numpy()
    if dtype in (pl.Categorical, pl.Enum):
        return Cells.objects(series.cast(pl.String).to_list())
    if dtype == pl.Date:
        return Cells(series.to_physical().fill_null(0).to_numpy().astype("datetime64[D]"), null)
    if dtype == pl.Datetime:
        # With a time zone too: what is stored is the moment in UTC.
        return Cells(series.to_physical().fill_null(0).to_numpy().astype(f"datetime64[{dtype.time_unit}]"), null)
    if dtype == pl.Boolean:
        return Cells(series.fill_null(value=False).to_numpy(), null)
    if dtype.is_float() or (dtype.is_integer() and dtype not in (pl.Int128, pl.UInt128)):
        return Cells(series.fill_null(0).to_numpy(), null)
    return Cells.objects(series.to_list())
