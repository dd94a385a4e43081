"""Public: mechanisms that start from public rows, replayed from every kind of them."""

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from priory.app.registry import MECHANISMS, Mechanism, Registered
from priory.audit.findings import Effort, Finding
from priory.audit.replay import REPLAYED, SEED, pairs, replay_pair
from priory.audit.tables import SCHEMA, NeighbouringTables, write
from priory.data.public import read_public_file
from priory.model.bases import PublicRows
from priory.privacy.noise import Integers

KINDS = ("larger", "smaller", "identical", "disjoint")


def public_data(name: str, effort: Effort) -> Iterator[Finding]:
    """Replay from public rows that are many, few, the private ones themselves, and none of the private ones."""
    entry = MECHANISMS[name]
    for kind in KINDS if entry.with_public is not None else ():
        complaint = next(complaints_from_public(entry, kind, effort.public), None)
        yield Finding(
            f"replay: {name}, public data {kind}", complaint or REPLAYED, "no complaint", passed=complaint is None
        )


def complaints_from_public(entry: Registered, kind: str, count: int) -> Iterator[str]:
    """What is wrong with a mechanism from one kind of public rows, in public words."""
    return iter(()) if entry.with_public is None else complaints_from(entry.with_public, kind, count)


def complaints_from(build: Callable[[PublicRows], Mechanism], kind: str, count: int) -> Iterator[str]:
    """The same of any mechanism that can be built from public rows."""
    with tempfile.TemporaryDirectory() as name:
        for pair in pairs(count):
            rows = PublicRows(public_rows(kind, pair, Path(name)), SCHEMA.domain)
            complaint = replay_pair(build(rows), pair)
            if complaint:
                yield f"{complaint} ({pair.name}, public data {kind})"


def public_rows(kind: str, pair: NeighbouringTables, folder: Path) -> Integers:
    """Public rows of a kind: those of the made-up private table are not public, but may happen to be the same."""
    rng = np.random.default_rng(SEED)
    shape = SCHEMA.domain.shape
    if kind == "disjoint":
        return np.array([[size - 1 for size in shape]], dtype=np.int64)
    if kind == "identical" and pair.one:
        return _encoded(pair, folder)
    return np.stack([rng.integers(0, size, 500 if kind == "larger" else 2) for size in shape], axis=1)


def _encoded(pair: NeighbouringTables, folder: Path) -> Integers:
    from priory.data.codec import encode
    from priory.data.sources.frames import cells_of

    names = [column.name for column in SCHEMA.modelled]
    cells = cells_of(read_public_file(write(pair.one, folder / "public.csv"), SCHEMA), names)
    return np.stack(list(encode(SCHEMA, cells).values()), axis=1, dtype=np.int64)
