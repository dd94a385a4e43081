"""Edges: laws of what stands around a run: its messages, statement and outputs, its book, and its public table."""

import json
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NoReturn

import numpy as np

from priory.app.discover import discover
from priory.app.fit import fit
from priory.app.public_check import public_fitness
from priory.audit.findings import Effort, Finding
from priory.audit.tables import HEADER, SCHEMA, columns, write
from priory.data.schema.open import OpenSchema
from priory.data.sources.files import connect
from priory.errors import PrioryError
from priory.privacy.budget import Budget
from priory.privacy.ledger import Ledger, Terms
from priory.privacy.statement import described_cost
from priory.release import load
from priory.release.combining import combine
from priory.release.measured import declared_release
from priory.release.registry import registry_entry
from priory.report.contents import Contents
from priory.report.sections import citation

RECORD = ("canary-person", "canary-colour", "8675309", "31.41592653")
ROWS = [(f"p{i}", "red", "30", "true") for i in range(20)]
TABLE = columns(ROWS)
TERMS = Terms(SCHEMA.name, "", Budget.of(epsilon=50), "who")
VERBS: dict[str, Callable[..., object]] = {
    "fit": partial(fit, schema=SCHEMA, epsilon=1),
    "check": partial(public_fitness, schema=SCHEMA, epsilon=1),
}
NAMES = OpenSchema.of(SCHEMA.name, list(HEADER), person="who")


def kept(name: str, effort: Effort) -> Iterator[Finding]:
    """Whether one of the laws is kept."""
    complaint = broken(name, effort)
    yield Finding(f"edges: {name}", complaint or "kept", "no complaint", complaint is None)


def broken(name: str, effort: Effort) -> str | None:  # noqa: ARG001 - they are quick
    """The first thing that is against a law, if any."""
    with TemporaryDirectory() as folder:
        return next(LAWS[name](Path(folder)), None)


def _messages(folder: Path) -> Iterator[str]:
    """No header and no cell, either of which may be somebody's record, stands in a message."""
    verbs = {**VERBS, "discover": lambda data, **_: discover(data, NAMES, epsilon=1, delta="1e-6")}
    unreadable = iter([("columns that a library fails to read", partial(_Unreadable, TABLE))])
    for what, tables in (("cell", unreadable), ("header", _tables(RECORD, folder)), ("cell", _tables(HEADER, folder))):
        for container, made in tables:
            for verb, run in verbs.items():
                said = _said(partial(run, made(), public=columns(ROWS)))
                if any(word in said for word in RECORD):
                    yield f"{verb} quotes a {what} of {container}"
                if what == "header" and not said:
                    yield f"{verb} accepts a record as the header of {container}"


def _tables(names: tuple[str, ...], folder: Path) -> Iterator[tuple[str, Callable[[], object]]]:
    """A table of the record in each container that there is a library for."""
    relation = connect().sql(f"SELECT * FROM (VALUES {RECORD}) AS t({', '.join(map(json.dumps, names))})")
    relation.write_csv(str(folder / "table.csv"))
    yield "a relation", lambda: relation
    yield "a CSV file", lambda: folder / "table.csv"
    yield "columns", lambda: {name: [cell] for name, cell in zip(names, RECORD, strict=True)}
    if find_spec("pyarrow"):
        yield "Arrow", relation.to_arrow_table
        yield "a stream", relation.to_arrow_reader
        for library, convert in (("pandas", "df"), ("polars", "pl")):
            if find_spec(library):
                yield library, getattr(relation, convert)


class _Unreadable(dict[str, object]):
    """Columns that a library fails to read."""

    def values(self) -> NoReturn:
        raise ValueError(f"this is no number: {RECORD[1]}")


def _said(run: Callable[[], object]) -> str:
    """All that is warned of and raised."""
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            run()
        except Exception as error:  # noqa: BLE001 - of whatever kind, it is shown
            warnings.warn(_chain(error), stacklevel=1)
    return "\n".join(str(each.message) for each in warned)


def _chain(error: BaseException | None) -> str:
    """All that an error says, and all that it hangs on."""
    return f"{error!r} {vars(error)} {_chain(error.__cause__)} {_chain(error.__context__)}" if error else ""


def _statements(folder: Path) -> Iterator[str]:
    """What the schema cost is in the one total, wherever a total stands."""
    schema = replace(SCHEMA, discovered=described_cost(Budget.pure("5.25")))
    run = partial(fit, TABLE, schema, epsilon="1.125", mechanism="independent")
    fitted = run(output=folder / "a.priory")
    ways = {
        "fit": fitted,
        "load": load(folder / "a.priory"),
        "declared counts": declared_release(fitted.measurements, schema, Budget.pure("1.125")),
        "combine": combine([fitted, run()]),
    }
    for way, release in ways.items():
        total = 5.25 + (2.25 if way == "combine" else 1.125)
        loss = registry_entry(release).fields["deployment"]["privacy_loss"]
        renderings = {
            "statement": "\n".join(line for line in release.statement.lines if not line.startswith("parts: ")),
            "registry entry": json.dumps(loss, ensure_ascii=False),
            "citation": citation(Contents.of(release)),
        }
        for name, text in renderings.items():
            if f"ε = {total}" not in text or "ε = 1.125" in text or loss["privacy_parameters"]["epsilon"] != total:
                yield f"{way}: the {name} forgets what the schema cost"


def _outputs(folder: Path) -> Iterator[str]:
    """An output that is there already, or cannot be written, is refused before anything is paid."""
    run = partial(discover, TABLE, NAMES, epsilon=1)
    paying: dict[str, Callable[[Ledger, Path], object]] = {
        "fit": lambda book, path: fit(TABLE, SCHEMA, epsilon=1, ledger=book, output=path),
        "discover": lambda book, path: run(ledger=book, output=path),
        "discover (counts)": lambda book, path: run(ledger=book, output=folder / "a.yaml", counts=path),
    }
    for taken in ("taken", "begun.partial"):
        (folder / taken).touch()
    for verb, pay in paying.items():
        book = Ledger.create(folder / f"{verb}.ledger", TERMS)
        for place in ("taken", "begun", "none/a", "taken/a", "."):
            if not _is_refused(partial(pay, book, folder / place), book):
                yield f"{verb} pays before the output {place!r} is refused"


def _is_refused(run: Callable[[], object], book: Ledger) -> bool:
    """Whether it is, with nothing spent."""
    before = book.left()
    try:
        run()
    except PrioryError:
        return book.left() == before
    return False


def _bindings(folder: Path) -> Iterator[str]:
    """First fits at once bind one schema to a book, however it is laid out, and no other."""
    Ledger.create(folder / "a.ledger", TERMS)
    first, second, third = (Ledger.open(folder / "a.ledger") for _ in range(3))
    first.bind(SCHEMA.dump())
    try:
        second.bind(f"# laid out differently\n{SCHEMA.dump()}")
        fit(TABLE, SCHEMA, epsilon=1, ledger=second)
    except PrioryError:
        yield "the same schema is refused the second time"
    other = replace(SCHEMA, columns=SCHEMA.columns[:-1])
    if not _is_refused(partial(fit, TABLE, other, epsilon=1, ledger=third), first):
        yield "another schema is accepted"
    if Ledger.open(folder / "a.ledger").terms.schema != SCHEMA.dump():
        yield "the schema is replaced"


def _public(folder: Path) -> Iterator[str]:
    """The private table is refused as the public one, by whatever name, before anything is paid; a copy is not."""
    file, link, copy = write(ROWS, folder / "table.csv"), folder / "link.csv", write(ROWS, folder / "copy.csv")
    link.hardlink_to(file)
    arrays = {name: np.array(cells) for name, cells in TABLE.items()}
    view = {name: cells[1:] for name, cells in arrays.items()}
    book = Ledger.create(folder / "a.ledger", TERMS)
    for verb, run in VERBS.items():
        for what, private, public in (("a link", file, link), ("a frame", arrays, arrays), ("a view", arrays, view)):
            if not _is_refused(partial(run, private, public=public, ledger=book), book):
                yield f"{verb} takes {what} of the private table for the public one"
        if _is_refused(partial(run, file, public=copy, ledger=book), book):
            yield f"{verb} refuses another public table"


LAWS: dict[str, Callable[[Path], Iterator[str]]] = {  # from an empty folder to what is wrong
    "messages": _messages,
    "statements": _statements,
    "outputs": _outputs,
    "bindings": _bindings,
    "public table": _public,
}
