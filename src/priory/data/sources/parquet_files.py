"""Parquet files: one table in many of them, which are a folder, a pattern of names, or in an object store."""

import glob
import re
from collections.abc import Collection
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from priory.data.visible import without_passwords
from priory.errors import DataError

PARQUET = (".parquet", ".pq")
# What DuckDB reads over a network, and the extension that it needs for it. pathlib makes one slash of two.
EXTENSIONS = {"az": "azure", "azure": "azure", "abfss": "azure"}
REMOTE = re.compile(r"(s3a?|s3n|gs|gcs|r2|hf|https?|az|azure|abfss):/{1,2}(?=[^/])(.+)", re.DOTALL)
ADDRESS = re.compile(r"[a-z][a-z0-9+.-]+:/", re.IGNORECASE)
# Tables with a list of the files that count; the others are of older versions.
LISTED = {"_delta_log": "Delta", "metadata/*.metadata.json": "Iceberg", ".hoodie": "Hudi"}


@dataclass(frozen=True)
class ParquetFiles:
    """Parquet files that are read as one table; folders such as year=2024 in their paths are columns.

    Attributes:
        files: the files, as DuckDB has them: local ones one by one, remote ones also as a pattern.
        shown: what people call it, for messages.
        extension: the extension that DuckDB needs to read it; None for local files.
    """

    files: tuple[str, ...]
    shown: str
    extension: str | None = None

    @property
    def plain(self) -> list[str]:
        """The files as the system has them."""
        return [re.sub(r"\[([*?[])\]", r"\1", name) for name in self.files]


def parquet_files(path: str | Path) -> ParquetFiles | None:
    """The files that a path stands for; None where it is a single local file."""
    text = str(path)
    shown = without_passwords(text)
    if remote := REMOTE.fullmatch(text):
        return _remote(remote[1], remote[2], shown)
    if ADDRESS.match(text):
        raise DataError(
            f"{shown} is no file; a database is given with --adbc and --query, in Python as priory.Database(uri, query)"
        )
    folder = Path(path)
    if folder.is_dir():
        return _local([folder], shown, "is a folder without Parquet files; give a file, or a folder of Parquet files")
    if any(sign in text for sign in "*?[") and not folder.exists():
        found = [Path(name) for name in glob.glob(text, recursive=True)]  # noqa: PTH207 - Path knows no absolute pattern
        return _local(found, shown, "is a pattern that no Parquet file fits")
    return None


def arrow_moments(path: Path | None, wanted: Collection[str]) -> Any:  # noqa: ANN401 - pyarrow is optional
    """A file as a data set of Arrow, where a column wanted holds moments in milliseconds: DuckDB fails at far ones.

    None for any other file, and without pyarrow.
    """
    if path is None or find_spec("pyarrow") is None:
        return None
    import pyarrow as pa
    from pyarrow import dataset

    try:
        found = dataset.dataset(path, format="parquet")
    except (pa.ArrowException, OSError):
        return None
    types = [each.type for each in found.schema if each.name in wanted]
    return found if any(pa.types.is_timestamp(each) and each.unit == "ms" for each in types) else None


def _remote(scheme: str, rest: str, shown: str) -> ParquetFiles:
    scheme = scheme.lower()
    name = (rest.partition("?")[0] if scheme.startswith("http") else rest).rpartition("/")[2].lower()
    if "." not in name and "*" not in name:
        rest = f"{rest.rstrip('/')}/**/*.parquet"
    elif not name.endswith((*PARQUET, "*")):
        raise DataError(f"{shown}: only Parquet is read from there: a file, a pattern, or a folder")
    return ParquetFiles((f"{scheme}://{rest}",), shown, EXTENSIONS.get(scheme, "httpfs"))


def _local(places: list[Path], shown: str, nothing: str) -> ParquetFiles:
    files: list[Path] = []
    for place in places:
        _check_all_count(place, shown)
        found = [each for each in place.rglob("*") if _is_part(each.relative_to(place))] if place.is_dir() else [place]
        files += [each for each in found if each.name.lower().endswith(PARQUET) and each.is_file()]
    if not files:
        raise DataError(f"{shown} {nothing}")
    return ParquetFiles(tuple(glob.escape(str(each)) for each in sorted(files)), shown)


def _is_part(path: Path) -> bool:
    """Names that begin so are of drafts and notes that writers of such folders leave."""
    return not any(part.startswith(("_", ".")) for part in path.parts)


def _check_all_count(folder: Path, shown: str) -> None:
    for sign, kind in LISTED.items():
        if folder.is_dir() and any(folder.glob(sign)):
            raise DataError(
                f"{shown} is a table of {kind}, in which files of older versions lie about; "
                "read it with Spark, or export it as Parquet"
            )
