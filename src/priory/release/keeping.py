"""Keeping: tables of a release with their redraws, written to a file for the next question."""

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import numpy as np

from priory.answer import cache
from priory.answer.basis import Drawn
from priory.answer.intervals import source_of
from priory.answer.kept_tables import KeptFile, KeptTables, NotKept
from priory.data import yaml_reader
from priory.data.writing import written_whole
from priory.errors import DataError, SizeError
from priory.queries.domain import Clique
from priory.queries.query import Query
from priory.release.release import LEVEL, Release

# A table of more cells is not kept, and no more tables than together have so many bytes.
MOST_CELLS, MOST_BYTES = 40_000, 2**25
# The files of so many releases are kept, those of the last ones that were asked.
_MOST_FILES = 30


def keep(release: Release, path: Path, asked: Iterable[Clique] = ()) -> None:
    """Keep what answers about each column, each measured clique and those that were asked need, within bounds.

    What cannot be kept, because it is large or there is no place for it, is not.
    """
    target = cache.answers_file(path)
    if target is None or release.redrawing().redraws is None:
        return
    try:
        known = KeptTables.read(target)
        file, measured = KeptFile(dict(known.facts), [known.arrays()]), []
    except NotKept:
        file = _begun(release)
        measured = [(), *((name,) for name in release.domain), *(m.query.clique for m in release.evidence)]
    before = len(file.facts["tables"])
    for clique in dict.fromkeys([*measured, *asked]):
        if not file.has(clique) and release.domain.size_of(clique) <= MOST_CELLS and file.size < MOST_BYTES:
            _add(file, release, clique)
    if len(file.facts["tables"]) > before:
        _write(file, target)


def _begun(release: Release) -> KeptFile:
    schema = None if release.schema is None else yaml_reader.plain(yaml_reader.read(release.schema.dump()))
    coarse = [column.name for column in release.columns.modelled if column.is_coarse]
    totals = release.model.answers([Query.marginal(release.domain, (name,)) for name in coarse])
    facts = {
        "schema": schema,
        "totals": {name: each.tolist() for name, each in zip(coarse, totals, strict=True)},
        "stamp": release.stamp,
    }
    return KeptFile.of(release.domain, release.errors, release.evidence, facts)


def _add(file: KeptFile, release: Release, clique: Clique) -> None:
    query = Query.marginal(release.domain, clique)
    source = source_of(query, release.evidence)
    try:
        [found] = release.redrawing().drawn([query], LEVEL)
    except SizeError:
        return
    if source != "prior" and found.source != "drawn" and _is_finite(found):
        file.add_table(clique, source, found)


def _is_finite(found: Drawn) -> bool:
    return bool(np.isfinite(found.estimate).all() and np.isfinite(found.repeats).all())


def _write(file: KeptFile, target: Path) -> None:
    with suppress(OSError, DataError):
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with written_whole(target) as draft:
            draft.write_bytes(file.data())
        cache.remove_oldest(target.parent, _MOST_FILES)
