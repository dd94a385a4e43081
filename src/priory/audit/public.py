"""Public: mechanisms that start from public rows, replayed upon every kind of them."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from priory.app.registry import MECHANISMS, Registered
from priory.audit.findings import Effort, Finding
from priory.audit.replay import SEED, replay_pair
from priory.audit.tables import SCHEMA, NeighbouringTables, neighbours, write
from priory.data.files import read_public_file
from priory.model.bases import PublicRows
from priory.privacy.noise import Integers

KINDS = ("larger", "smaller", "identical", "disjoint")


def public_data(effort: Effort) -> Iterator[Finding]:
    """Replay upon public rows that are many, few, the private ones themselves, and none of the private ones."""
    for entry in MECHANISMS.values():
        for kind in KINDS if entry.with_public is not None else ():
            complaint = next(complaints_from_public(entry, kind, max(effort.neighbours // len(KINDS), 1)), None)
            yield Finding(
                f"replay: {entry.name}, public data {kind}",
                complaint or "same requests, differences paid for",
                "no complaint",
                complaint is None,
            )


def complaints_from_public(entry: Registered, kind: str, count: int) -> Iterator[str]:
    """What is wrong with a mechanism upon one kind of public rows, in public words."""
    if entry.with_public is None:
        return
    with tempfile.TemporaryDirectory() as name:
        for pair in neighbours(count, SEED):
            rows = PublicRows(public_rows(kind, pair, Path(name)), SCHEMA.domain)
            complaint = replay_pair(entry.with_public(rows), pair, Path(name))
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
    from priory.data.frames import cells_of

    names = [column.name for column in SCHEMA.modelled]
    cells = cells_of(read_public_file(write(pair.one, folder / "public.csv"), names), names)
    return np.stack(list(encode(SCHEMA, cells).values()), axis=1, dtype=np.int64)
