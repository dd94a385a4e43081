"""Canaries: raw values, unseen categories and exact counts that must not turn up anywhere."""

import contextlib
import io
import logging
import re
import sqlite3
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np

from priory.app.discover import discover
from priory.app.fit import fit
from priory.app.registry import MECHANISMS, Mechanism
from priory.audit.bugs import PLANTED, planted
from priory.audit.findings import Effort, Finding
from priory.audit.tables import HEADER, SCHEMA, write
from priory.errors import PrioryError
from priory.privacy import curator as curator_module
from priory.privacy.budget import Budget
from priory.privacy.ledger import Ledger, Terms

CANARIES = ("canary-colour", "canary-person", "8675309", "31.41592653")
CANARY_ROWS = 1237
# From a table with canaries and a folder to the texts that a run of something leaves.
Shown = Callable[[Path, Path], Iterator[str]]


def canaries(effort: Effort) -> Iterator[Finding]:  # noqa: ARG001
    """Raw values, unseen categories and the exact number of rows must not turn up anywhere."""
    for entry in MECHANISMS.values():
        found = found_canaries(entry.name)
        test = f"canaries: {entry.name}, files, ledger, reprs, logs, errors"
        yield Finding(test, f"{len(found)} found", "0", not found)
    found = found_in(_shown_by_discovery)
    yield Finding(
        "canaries: schema discovery, file, ledger, reprs, logs, errors", f"{len(found)} found", "0", not found
    )
    leaked = found_canaries(PLANTED["a true count in the release"])
    yield Finding("planted bug: a true count in the file", f"{len(leaked)} canaries found", "at least 1", bool(leaked))
    with planted(curator_module, "threshold_within", lambda *_: -(10**9)):
        told = found_in(_shown_by_discovery)
    yield Finding(
        "planted bug: a threshold that all values reach", f"{len(told)} canaries found", "at least 1", bool(told)
    )


def found_canaries(mechanism: str | Mechanism) -> list[str]:
    """Which of the canaries a fit shows."""
    return found_in(partial(_shown_by_fit, mechanism))


def found_in(shown: Shown) -> list[str]:
    """Which of the canaries turn up."""
    seen = _everything_shown(shown)
    return [*(word for word in CANARIES if word in seen), *counts_in(seen)]


def counts_in(text: str) -> list[str]:
    """Where the exact number of rows stands as a number of its own; digits of longer ones are chance."""
    grouped = f"{CANARY_ROWS:,}".replace(",", ",?")
    return re.findall(rf"(?<![\w.]){grouped}(?:\.0+)?(?!\.?\w)", text)


def _everything_shown(shown: Shown) -> str:
    """All that a run writes, prints, logs, raises or saves."""
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
            data = write(table, Path(name) / "table.csv")
            return "\n".join([*shown(data, Path(name)), heard.getvalue()])
    finally:
        root.removeHandler(handler)
        root.setLevel(level)


def _shown_by_fit(mechanism: str | Mechanism, data: Path, folder: Path) -> Iterator[str]:
    # So little budget that one of some dozens of noisy counts is equal to the true one once in thousands of runs.
    book = Ledger.create(folder / "book.ledger", Terms("audit", SCHEMA.dump(), Budget.zcdp("1/500000000")))
    release = fit(data, SCHEMA, rho="1/1000000000", mechanism=mechanism, ledger=book)
    release.save(folder / "a.priory")
    with zipfile.ZipFile(folder / "a.priory") as file:
        for name in file.namelist():
            yield _texts(file.read(name)) if name.endswith(".npy") else file.read(name).decode()
    yield from (repr(release), str(release), repr(release.measurements))
    yield from _shown_by_ledger(book, folder / "book.ledger")
    run = partial(fit, data, SCHEMA, mechanism=mechanism, ledger=book)
    for broken in ({"rho": "1"}, {"rho": "1/1000000000", "max_rows": 2}, {"epsilon": "nan"}):
        yield _error_of(partial(run, **broken))
    _break(data)
    yield _error_of(partial(run, rho="1/1000000000"))


def _shown_by_discovery(data: Path, folder: Path) -> Iterator[str]:
    # Enough to tell the values that all rows but one have.
    book = Ledger.create(
        folder / "book.ledger", Terms("audit", "", Budget.of(epsilon=20, delta="1e-9", additive="1e-10"))
    )
    run = partial(discover, data, has_header=True, delta="1e-9", ledger=book)
    learnt = run(epsilon=8, output=folder / "schema.yaml")
    yield from (repr(learnt), str(learnt), (folder / "schema.yaml").read_text(encoding="utf-8"))
    yield from _shown_by_ledger(book, folder / "book.ledger")
    for broken in ({"epsilon": 50}, {"epsilon": 1, "max_rows": 2}, {"epsilon": 1, "kinds": {"colour": "hue"}}):
        yield _error_of(partial(run, **broken))
    _break(data)
    yield _error_of(partial(run, epsilon=1))


def _shown_by_ledger(book: Ledger, path: Path) -> Iterator[str]:
    yield from (repr(book), repr(book.entries()))
    connection = sqlite3.connect(path)
    yield "\n".join(connection.iterdump())
    connection.close()


def _break(data: Path) -> None:
    """A table with too few cells in a row and a quotation that does not end."""
    data.write_text(f'{",".join(HEADER)}\n{CANARIES[0]},{CANARIES[1]}\n"{CANARIES[2]}', encoding="utf-8")


def _error_of(run: Callable[[], object]) -> str:
    """What an error says, or what comes out where there is none."""
    try:
        return repr(run())
    except PrioryError as error:
        return f"{error!r} {error} {vars(error)}"


def _texts(data: bytes) -> str:
    """An array as the numbers in it."""
    array = np.load(io.BytesIO(data), allow_pickle=False)
    return " ".join(map(str, array.ravel().tolist()))
