"""Containers: files that hold one table, packed or in another encoding, as plain files that a reader can open."""

import codecs
import gzip
import io
import shutil
import sys
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, cast

from priory.data.sources.parquet_files import PARQUET, ParquetFiles, parquet_files
from priory.data.visible import without_passwords
from priory.errors import DataError

STDIN = "-"
CSV_SUFFIXES = (".csv", ".tsv", ".txt", ".csv.gz", ".tsv.gz", ".txt.gz")
PARQUET_SUFFIXES = PARQUET
JSON_SUFFIXES = (".jsonl", ".ndjson", ".json")
ARROW_SUFFIXES = (".feather", ".arrow")
SHEET_SUFFIXES = (".xlsx", ".xls", ".xlsb", ".ods")
# What is read into memory, as a frame is.
FRAME_SUFFIXES = (*JSON_SUFFIXES, *ARROW_SUFFIXES, *SHEET_SUFFIXES)
SUFFIXES = (*CSV_SUFFIXES, *PARQUET_SUFFIXES, *FRAME_SUFFIXES)
# How to make a file that can be read of one that cannot.
_PANDAS = "in Python: pandas.read_{}('{}').to_parquet('table.parquet')"
CONVERSIONS = {
    ".dta": _PANDAS.format("stata", "table.dta"),
    ".sav": _PANDAS.format("spss", "table.sav"),
    ".sas7bdat": _PANDAS.format("sas", "table.sas7bdat"),
    ".xpt": _PANDAS.format("sas", "table.xpt"),
    ".pkl": _PANDAS.format("pickle", "table.pkl"),
    ".pickle": _PANDAS.format("pickle", "table.pickle"),
    ".h5": _PANDAS.format("hdf", "table.h5"),
    ".orc": _PANDAS.format("orc", "table.orc"),
    ".xml": _PANDAS.format("xml", "table.xml"),
    ".html": "in Python: pandas.read_html('table.html')[0].to_parquet('table.parquet')",
    ".rds": "in R: arrow::write_parquet(readRDS('table.rds'), 'table.parquet')",
    ".rda": "in R: load('table.rda'); arrow::write_parquet(the_table, 'table.parquet')",
    ".rdata": "in R: load('table.RData'); arrow::write_parquet(the_table, 'table.parquet')",
    ".mdb": "export the table as CSV from Access",
    ".numbers": "export it as CSV from Numbers",
    ".gsheet": "download it as CSV from Google Sheets",
    ".pdf": "a PDF holds no table; ask for the CSV it was made from",
    ".docx": "copy the table into a spreadsheet and save it as CSV",
    ".duckdb": "in DuckDB: ATTACH it, then COPY a table TO 'x.parquet'",
    **dict.fromkeys(
        [".db", ".sqlite", ".sqlite3"],
        "not needed: --adbc sqlite:table.db --query 'SELECT …' reads it, in Python priory.Database",
    ),
    **dict.fromkeys(
        [".xz", ".bz2", ".zst", ".7z", ".rar", ".tar", ".tgz", ".gz"], "unpack it, or pack it as .gz or .zip"
    ),
}
GZIP_REASON = "it is not a gzip file, or it is cut short"


@dataclass(frozen=True)
class PlainFile:
    """A file that a reader can open: CSV in UTF-8, with or without gzip, or one of the other kinds as it is."""

    path: Path
    shown: str  # what people call it, for messages
    parts: ParquetFiles | None = None  # the Parquet files that it stands for, where it is more than one file

    def is_any(self, suffixes: tuple[str, ...]) -> bool:
        """Whether the file is of one of these kinds."""
        name = self.path.name.lower() if self.parts is None else ".parquet"
        return name.endswith(suffixes)

    @property
    def parquet(self) -> Path | None:
        """Its path, where it is a single Parquet file."""
        return self.path if self.parts is None and self.is_any(PARQUET_SUFFIXES) else None

    def error(self, reason: str) -> DataError:
        """An error about the file, to be raised."""
        return DataError(f"{self.shown}: {reason}")


@contextmanager
def plain_file(path: str | Path, encoding: str = "utf-8") -> Iterator[PlainFile]:
    """A file as one that a reader can open; "-" is what arrives at stdin, as CSV.

    Where it is packed, comes from stdin or is in another encoding, it is a copy in a temporary folder that only its
    owner can open and that is removed at the end.
    """
    if str(path) == STDIN:
        file = PlainFile(Path(path), "stdin")
    else:
        file = _found(path)
        _check_readable(file)
    with tempfile.TemporaryDirectory(prefix="priory-") as folder:
        if str(path) == STDIN:
            file = PlainFile(Path(folder) / "stdin.csv", "stdin")
            with file.path.open("wb") as copy:
                shutil.copyfileobj(sys.stdin.buffer, copy)
        elif file.is_any((".zip",)):
            file = _unzipped(file, Path(folder))
        if codecs.lookup(encoding).name not in ("utf-8", "utf-8-sig", "ascii") and file.is_any(CSV_SUFFIXES):
            file = _recoded(file, encoding, Path(folder))
        yield file


def suffix_of(path: str | Path) -> str:
    """The end of the name of the table's file, inside a zip too: what says how it is read."""
    if str(path) == STDIN:
        return ".csv"
    file = _found(path)
    _check_readable(file)
    if file.parts is not None:
        return PARQUET_SUFFIXES[0]
    return _suffix(_member(file).filename if file.is_any((".zip",)) else file.path.name)


def first_bytes(file: PlainFile, size: int) -> bytes:
    """The first bytes of a text file, unpacked."""
    try:
        with _opened(file) as stream:
            return stream.read(size)
    except (gzip.BadGzipFile, EOFError):
        raise file.error(GZIP_REASON) from None


def _found(path: str | Path) -> PlainFile:
    return PlainFile(Path(path), without_passwords(str(path)), parquet_files(path))


def _suffix(name: str) -> str:
    return next((suffix for suffix in SUFFIXES if name.lower().endswith(suffix)), "")


def _check_readable(file: PlainFile) -> None:
    if file.parts is not None:
        return
    if not file.is_any((*SUFFIXES, ".zip")):
        way = CONVERSIONS.get(file.path.suffix.lower())
        raise DataError(
            f"{file.shown} is of a kind that cannot be read; give {', '.join((*SUFFIXES, '.zip'))}"
            + (f". To convert it: {way}" if way else "")
        )
    try:
        with file.path.open("rb"):
            return
    except OSError as error:
        raise DataError(f"{file.shown} cannot be opened: {error.strerror}") from None


def _opened(file: PlainFile) -> IO[bytes]:
    return cast(IO[bytes], gzip.open(file.path) if file.is_any((".gz",)) else file.path.open("rb"))


def _member(file: PlainFile) -> zipfile.ZipInfo:
    """The one table of a zip; folders, hidden files and what is no table are passed over."""
    try:
        with zipfile.ZipFile(file.path) as archive:
            found = [info for info in archive.infolist() if _is_table(info)]
    except (zipfile.BadZipFile, OSError):
        raise file.error("it is not a zip file, or it is damaged") from None
    if len(found) != 1:
        raise file.error(f"it holds {len(found)} tables; give a zip with one, or unpack it and give the file")
    return found[0]


def _is_table(info: zipfile.ZipInfo) -> bool:
    *folders, name = info.filename.split("/")
    return not info.is_dir() and "__MACOSX" not in folders and not name.startswith(".") and bool(_suffix(name))


def _unzipped(file: PlainFile, folder: Path) -> PlainFile:
    member = _member(file)
    table = PlainFile(folder / f"table{_suffix(member.filename)}", file.shown)
    try:
        with zipfile.ZipFile(file.path) as archive, archive.open(member) as packed, table.path.open("wb") as copy:
            shutil.copyfileobj(packed, copy)
    except (RuntimeError, NotImplementedError):
        raise file.error("its table is encrypted or packed in an unknown way; unpack it and give the file") from None
    except (zipfile.BadZipFile, EOFError, zlib.error):
        raise file.error("it is not a zip file, or it is damaged") from None
    return table


def _recoded(file: PlainFile, encoding: str, folder: Path) -> PlainFile:
    """A copy in UTF-8."""
    recoded = PlainFile(folder / f"utf-8{_suffix(file.path.name).removesuffix('.gz')}", file.shown)
    try:
        with (
            _opened(file) as stream,
            io.TextIOWrapper(stream, encoding=encoding, newline="") as text,
            recoded.path.open("w", encoding="utf-8", newline="") as copy,
        ):
            shutil.copyfileobj(text, copy)
    except UnicodeError:
        raise file.error(f"it is not {encoding} text; name its encoding in the schema under reading:") from None
    except (gzip.BadGzipFile, EOFError):
        raise file.error(GZIP_REASON) from None
    return recoded
