"""Canaries: raw values, unseen categories and exact counts that must not turn up anywhere."""

import contextlib
import io
import logging
import re
import sqlite3
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from priory.app.fit import fit
from priory.app.registry import MECHANISMS, Mechanism
from priory.audit.bugs import PLANTED
from priory.audit.findings import Effort, Finding
from priory.audit.tables import HEADER, SCHEMA, write
from priory.errors import PrioryError
from priory.privacy.budget import Budget
from priory.privacy.ledger import Ledger, Terms

CANARIES = ("canary-colour", "canary-person", "8675309", "31.41592653")
CANARY_ROWS = 1237


def canaries(effort: Effort) -> Iterator[Finding]:  # noqa: ARG001
    """Raw values, unseen categories and the exact number of rows must not turn up anywhere."""
    for entry in MECHANISMS.values():
        found = found_canaries(entry.name)
        test = f"canaries: {entry.name}, files, ledger, reprs, logs, errors"
        yield Finding(test, f"{len(found)} found", "0", not found)
    leaked = found_canaries(PLANTED["a true count in the release"])
    yield Finding("planted bug: a true count in the file", f"{len(leaked)} canaries found", "at least 1", bool(leaked))


def found_canaries(mechanism: str | Mechanism) -> list[str]:
    """Which of the canaries turn up."""
    seen = _everything_shown(mechanism)
    return [*(word for word in CANARIES if word in seen), *counts_in(seen)]


def counts_in(text: str) -> list[str]:
    """Where the exact number of rows stands as a number of its own; digits of longer ones are chance."""
    grouped = f"{CANARY_ROWS:,}".replace(",", ",?")
    return re.findall(rf"(?<![\w.]){grouped}(?:\.0+)?(?!\.?\w)", text)


def _everything_shown(mechanism: str | Mechanism) -> str:
    """All that a run of `mechanism` writes, prints, logs, raises or saves."""
    rows = [("p", "red", "30", "true")] * (CANARY_ROWS - 1)
    table = (*rows, (CANARIES[1], CANARIES[0], CANARIES[2], CANARIES[3]))
    heard = io.StringIO()
    handler = logging.StreamHandler(heard)
    root = logging.getLogger()
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    try:
        with (
            tempfile.TemporaryDirectory() as name,
            contextlib.redirect_stdout(heard),
            contextlib.redirect_stderr(heard),
        ):
            return "\n".join([*_shown(mechanism, table, Path(name)), heard.getvalue()])
    finally:
        root.removeHandler(handler)
        root.setLevel(level)


def _shown(mechanism: str | Mechanism, table: Sequence[tuple[str, ...]], folder: Path) -> Iterator[str]:
    data = write(tuple(table), folder / "table.csv")
    # So little budget that one of some dozens of noisy counts is equal to the true one once in thousands of runs.
    book = Ledger.create(folder / "book.ledger", Terms("audit", SCHEMA.dump(), Budget.zcdp("1/500000000")))
    release = fit(data, SCHEMA, rho="1/1000000000", mechanism=mechanism, ledger=book)
    release.save(folder / "a.priory")
    with zipfile.ZipFile(folder / "a.priory") as file:
        for name in file.namelist():
            yield _texts(file.read(name)) if name.endswith(".npy") else file.read(name).decode()
    yield from (repr(release), str(release), repr(book), repr(release.measurements), repr(book.entries()))
    connection = sqlite3.connect(folder / "book.ledger")
    yield "\n".join(connection.iterdump())
    connection.close()
    for broken in ({"rho": "1"}, {"rho": "1/1000000000", "max_rows": 2}, {"epsilon": "nan"}):
        try:
            fit(data, SCHEMA, mechanism=mechanism, ledger=book, **broken)
        except PrioryError as error:
            yield f"{error!r} {error} {vars(error)}"
    broken_table = f'{",".join(HEADER)}\n{CANARIES[0]},{CANARIES[1]}\n"{CANARIES[2]}'
    (folder / "table.csv").write_text(broken_table, encoding="utf-8")
    try:
        yield repr(fit(data, SCHEMA, rho="1/1000000000", mechanism=mechanism, ledger=book))
    except PrioryError as error:
        yield f"{error!r} {error} {vars(error)}"


def _texts(data: bytes) -> str:
    """An array as the numbers in it."""
    array = np.load(io.BytesIO(data), allow_pickle=False)
    return " ".join(map(str, array.ravel().tolist()))
