"""Table: named columns with null masks, what people get back."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from priory.data.cells import Cells
from priory.data.dialect import USUAL, Dialect
from priory.data.kinds.moment_format import MomentFormat
from priory.data.sql import identifier, literal
from priory.data.visible import visible
from priory.data.writing import text_file, written_whole
from priory.errors import DataError, MissingExtra

ROWS_SHOWN = 10

CellKind: TypeAlias = Literal["boolean", "integer", "real", "date", "datetime", "text"]


@dataclass(frozen=True, eq=False)
class Table:
    """Named columns of equal length, in order.

    Attributes:
        columns: the cells of each column; a column whose null mask is None cannot have nulls.
        notes: what a reader of the table must know, in sentences.
        reading: how text files spell it: delimiter, encoding.
    """

    columns: Mapping[str, Cells]
    notes: tuple[str, ...] = ()
    reading: Dialect = USUAL

    @classmethod
    def of(cls, columns: Mapping[str, Cells], reading: Dialect = USUAL) -> "Table":
        """Build a table, checking that its columns have the same length."""
        lengths = {len(cells) for cells in columns.values()}
        if len(lengths) > 1:
            raise DataError(f"columns have different lengths: {sorted(lengths)}")
        return cls({name: _flat(cells) for name, cells in columns.items()}, reading=reading)

    @classmethod
    def joined(cls, tables: Sequence["Table"]) -> "Table":
        """The rows of tables with the same columns, one after the other."""
        if len(tables) == 1:
            return tables[0]
        columns = {name: _joined([table.columns[name] for table in tables]) for name in tables[0].names}
        return replace(tables[0], columns=columns)

    @property
    def names(self) -> tuple[str, ...]:
        """The columns' names."""
        return tuple(self.columns)

    def kind(self, name: str) -> CellKind:
        """What the values of a column are."""
        return _kind(self.columns[name].values)

    def __len__(self) -> int:
        return next((len(cells) for cells in self.columns.values()), 0)

    def head(self, rows: int = ROWS_SHOWN) -> "Table":
        """The first rows."""
        columns = {
            name: replace(cells, values=cells.values[:rows], null=None if cells.null is None else cells.null[:rows])
            for name, cells in self.columns.items()
        }
        return replace(self, columns=columns)

    def to_dict(self) -> dict[str, list[Any]]:
        """Lists of Python values, None where a cell is missing."""
        return {name: _python_values(cells) for name, cells in self.columns.items()}

    def to_pandas(self) -> Any:  # noqa: ANN401 - pandas is optional
        """A pandas data frame; integers and booleans that may be missing get pandas' nullable types."""
        try:
            import pandas as pd
        except ImportError:
            raise MissingExtra("pandas", "pandas") from None
        return pd.DataFrame({name: _pandas_values(cells) for name, cells in self.columns.items()})

    def to_polars(self) -> Any:  # noqa: ANN401 - polars is optional
        """A polars data frame."""
        try:
            import polars as pl
        except ImportError:
            raise MissingExtra("polars", "polars") from None
        return pl.DataFrame([_polars_series(name, cells) for name, cells in self.columns.items()])

    def to_arrow(self) -> Any:  # noqa: ANN401 - pyarrow is optional
        """A pyarrow table."""
        try:
            import pyarrow as pa
        except ImportError:
            raise MissingExtra("pyarrow", "pyarrow") from None
        types = {"text": pa.string(), "date": pa.date32()}
        columns = self.columns.items()
        return pa.table({n: pa.array(c.values, mask=c.null, type=types.get(self.kind(n))) for n, c in columns})

    def write_csv(self, path: str | Path) -> None:
        """Write a CSV file, packed where its name ends in .gz: missing cells are empty, empty texts are `""`.

        Cells are spelled as the schema's texts are, with its delimiter, decimal mark and encoding, so that the file can
        be read by the same schema; but the first line always names the columns.
        """
        with written_whole(path) as draft, text_file(draft, path, self.reading) as file:
            file.write(self.csv_header())
            file.writelines(self.csv_lines())

    def csv_header(self) -> str:
        """The line of a CSV file that names the columns."""
        mark = self.reading.delimiter or ","
        return mark.join(_quoted(name, mark) for name in self.columns) + "\n"

    def csv_lines(self) -> Iterator[str]:
        """The lines of a CSV file after the first, as `write_csv` writes them."""
        mark = self.reading.delimiter or ","
        texts = [_csv_texts(cells, mark) for cells in self.columns.values()]
        return (mark.join(row) + "\n" for row in zip(*texts, strict=True))

    def write_parquet(self, path: str | Path) -> None:
        """Write a Parquet file; a `DataError` where there are no columns, or two names differ only in case."""
        from priory.data.sources.files import connect, container_errors

        if not self.columns:
            raise DataError("a Parquet file needs at least one column")
        # DuckDB would rename the second of them; to it, only the letters A to Z have a case.
        folded = [name.encode().lower() for name in self.names]
        for i, name in enumerate(self.names):
            if folded[i] in folded[:i]:
                raise DataError("another name differs only in case, which this file cannot hold", column=name)
        # DuckDB takes NumPy's masked arrays by position; names are given in SQL, where every name can be quoted.
        arrays = {f"c{i}": _duckdb_values(cells) for i, cells in enumerate(self.columns.values())}
        types = {"text": "VARCHAR", "date": "DATE", "datetime": "TIMESTAMP"}
        selected = ", ".join(
            f"CAST(c{i} AS {types[kind]}) AS {identifier(name)}" if kind in types else f"c{i} AS {identifier(name)}"
            for i, (name, kind) in enumerate((name, self.kind(name)) for name in self.columns)
        )
        with written_whole(path) as draft, connect() as connection, container_errors(path):
            connection.register("cells", arrays)
            connection.execute(f"COPY (SELECT {selected} FROM cells) TO {literal(str(draft))} (FORMAT parquet)")

    def lines(self) -> str:
        """All rows under a header, aligned for people."""
        rows = list(zip(*(_shown_texts(cells) for cells in self.columns.values()), strict=True))
        numbers = [self.kind(name) in ("integer", "real") for name in self.columns]
        return text_table(self.names, rows, right=numbers)

    def __str__(self) -> str:
        lines = self.head().lines()
        size = f"({len(self):,} rows, {len(self.columns)} columns)"
        return "\n".join([lines, size, *(f"Note: {visible(note)}." for note in self.notes)])

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        shown = self.head()
        rows = list(zip(*(_shown_texts(cells) for cells in shown.columns.values()), strict=True))
        from html import escape

        notes = "".join(f"<p>Note: {escape(note)}.</p>" for note in self.notes)
        return html_table(self.names, rows) + f"<p>{len(self):,} rows, {len(self.columns)} columns</p>{notes}"


def text_table(header: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[bool] = ()) -> str:
    """Lines with aligned columns under a header.

    >>> print(text_table(["a", "n"], [["x", "10"], ["yy", "9"]], right=[False, True]))
    a    n
    ──  ──
    x   10
    yy   9
    """
    right = right or [False] * len(header)
    header, rows = [visible(text) for text in header], [[visible(text) for text in row] for row in rows]
    columns = list(zip(header, *rows, strict=True))
    widths = [max(len(text) for text in column) for column in columns]
    pads = [f"{'>' if is_right else '<'}{width}" for is_right, width in zip(right, widths, strict=True)]
    ruled = [header, ["─" * width for width in widths], *rows]
    return "\n".join("  ".join(map(format, line, pads)).rstrip() for line in ruled)


def html_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in HTML with everything escaped."""
    from html import escape

    def line(tag: str, texts: Sequence[str]) -> str:
        return "<tr>" + "".join(f"<{tag}>{escape(text)}</{tag}>" for text in texts) + "</tr>"

    body = "".join(line("td", row) for row in rows)
    return f"<table><thead>{line('th', header)}</thead><tbody>{body}</tbody></table>"


def html_facts(title: str, facts: Mapping[str, str]) -> str:
    """A title and one fact a line, in HTML with everything escaped."""
    from html import escape

    escaped = [(escape(name), escape(fact)) for name, fact in facts.items()]
    lines = "".join(f"<tr><th>{name}</th><td>{fact}</td></tr>" for name, fact in escaped)
    return f"<table><caption>{escape(title)}</caption><tbody>{lines}</tbody></table>"


def _joined(pieces: Sequence[Cells]) -> Cells:
    values = np.concatenate([piece.values for piece in pieces])
    nulls = [np.zeros(len(piece), dtype=bool) if piece.null is None else piece.null for piece in pieces]
    has_nulls = any(piece.null is not None for piece in pieces)
    return Cells(values, np.concatenate(nulls) if has_nulls else None, spelling=pieces[0].spelling)


def _flat(cells: Cells) -> Cells:
    """The same cells without an index, and no text but Python's."""
    values = cells.values if cells.index is None else cells.values[cells.index]
    return Cells(values.astype(object) if values.dtype.kind in "UT" else values, cells.null, spelling=cells.spelling)


def _kind(values: NDArray[Any]) -> CellKind:
    kinds: dict[str, CellKind] = {"b": "boolean", "i": "integer", "u": "integer", "f": "real"}
    if values.dtype.kind == "M":
        return "date" if np.datetime_data(values.dtype)[0] in ("Y", "M", "W", "D") else "datetime"
    return kinds.get(values.dtype.kind, "text")


def _python_values(cells: Cells) -> list[Any]:
    values: list[Any] = cells.values.tolist()
    if cells.null is None:
        return values
    return [None if is_null else value for value, is_null in zip(values, cells.null.tolist(), strict=True)]


def _pandas_values(cells: Cells) -> Any:  # noqa: ANN401 - pandas is optional
    import pandas as pd

    kind = _kind(cells.values)
    if kind == "text":
        return pd.Series(_python_values(cells), dtype=None if len(cells) else object)
    if kind in ("date", "datetime"):
        return pd.Series(_moments(cells, "s" if kind == "date" else "us"))
    if cells.null is None:
        return pd.Series(cells.values)
    if kind == "real":
        return pd.Series(np.where(cells.null, np.nan, cells.values))
    array = pd.arrays.BooleanArray if kind == "boolean" else pd.arrays.IntegerArray
    return pd.Series(array(cells.values.copy(), cells.null.copy()))


def _polars_series(name: str, cells: Cells) -> Any:  # noqa: ANN401 - polars is optional
    import polars as pl

    if _kind(cells.values) == "text":
        return pl.Series(name, _python_values(cells), dtype=pl.String)
    series = pl.Series(name, cells.values)
    if cells.null is None:
        return series
    return series.zip_with(pl.Series(~cells.null), pl.Series(name, [None] * len(cells), dtype=series.dtype))


def _moments(cells: Cells, unit: Literal["s", "us"]) -> NDArray[np.datetime64]:
    values = cells.values.astype(f"datetime64[{unit}]")
    return values if cells.null is None else np.where(cells.null, np.datetime64("NaT", unit), values)


def _duckdb_values(cells: Cells) -> NDArray[Any]:
    kind = _kind(cells.values)
    values = cells.values
    if kind == "text":
        return np.fromiter(_python_values(cells), dtype=object, count=len(cells))
    if kind in ("date", "datetime"):
        return _moments(cells, "us")
    return values if cells.null is None else np.ma.masked_array(values, cells.null)


def _value_texts(cells: Cells) -> list[str]:
    """Each value as people write it, in the column's own spelling; null or not."""
    kind, spelling = _kind(cells.values), cells.spelling
    values = cells.values.tolist()
    if kind == "boolean":
        words = spelling if isinstance(spelling, tuple) else ("false", "true")
        return [words[value] for value in values]
    if kind in ("date", "datetime"):
        texts_of = MomentFormat(spelling if isinstance(spelling, str) else None, kind == "datetime").text_of
        return [texts_of(value) for value in values]
    texts = [repr(value) for value in values] if kind == "real" else [str(value) for value in values]
    is_marked = kind == "real" and isinstance(spelling, str)
    return [text.replace(".", str(spelling)) for text in texts] if is_marked else texts


def _csv_texts(cells: Cells, mark: str) -> list[str]:
    texts = _value_texts(cells)
    if _kind(cells.values) != "integer":
        texts = [_quoted(text, mark) for text in texts]
    if cells.null is None:
        return texts
    return ["" if is_null else text for text, is_null in zip(texts, cells.null.tolist(), strict=True)]


@lru_cache(maxsize=65536)
def _quoted(text: str, mark: str) -> str:
    """A CSV field, in quotes where a reader would otherwise see something else."""
    if text and text == text.strip() and not any(letter in text for letter in (mark, '"', "\r", "\n")):
        return text
    return '"' + text.replace('"', '""') + '"'


def _shown_texts(cells: Cells) -> list[str]:
    is_real = _kind(cells.values) == "real"
    texts = [f"{value:.6g}" for value in cells.values.tolist()] if is_real else _value_texts(cells)
    texts = [_shortened(text) for text in texts]
    if cells.null is None:
        return texts
    return ["null" if is_null else text for text, is_null in zip(texts, cells.null.tolist(), strict=True)]


def _shortened(text: str) -> str:
    text = text if text.isprintable() else repr(text)
    return text if len(text) <= 40 else text[:39] + "…"
