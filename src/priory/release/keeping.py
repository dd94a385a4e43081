"""Keeping: tables of a release with their redraws, written to a file for the next question."""

import itertools
import math
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np

from priory.answer import cache
from priory.answer.basis import Drawn
from priory.answer.errors import Errors
from priory.answer.intervals import source_of
from priory.answer.kept_tables import KeptFile, KeptTables, NotKept
from priory.answer.kept_tree import Tree, written
from priory.answer.redraws import MODELS, STRIDE, Redraws
from priory.data import yaml_reader
from priory.data.writing import written_whole
from priory.errors import DataError, SizeError
from priory.model.graph import GraphTilted
from priory.model.model import Model
from priory.queries.domain import Clique
from priory.queries.query import Query
from priory.release.release import LEVEL, Release
from priory.work import stage, tracked

# A table of more cells is not kept, one that was asked for up to the second number of them, and no more tables than
# together have so many bytes.
MOST_CELLS, ASKED_CELLS, MOST_BYTES = 40_000, 150_000, 2**25
# The tables of the model and its redraws are kept up to so many bytes: those of 700,000 cells.
MOST_TREE_BYTES = 2**25
# No more tables than this, so that the list of them is read in a few milliseconds; so many are made at a time.
_MOST_TABLES, _BATCH = 2000, 20
# Pairs of columns are added until the process has taken so many CPU seconds. A release is public: a clock that reads it
# tells nothing new.
_SECONDS = 1.4
# What whoever waits is told.
_WORDS = "keeping answers"
# The files of so many releases are kept, those of the last ones that were asked.
_MOST_FILES = 30


def keep(release: Release, path: Path, asked: Iterable[Clique] = ()) -> None:
    """Keep what answers about each column, each measured clique and those that were asked need, within bounds.

    Of a release that nothing was kept of, the tables of its model are added, from which pairs and triples follow; or
    pairs of columns, while the process has taken little time. What cannot be kept, because it is large or there is no
    place for it, is not.
    """
    target, redraws = cache.answers_file(path), release.redrawing().redraws
    if target is None or redraws is None:
        return
    wanted, pairs = list[Clique](), list[Clique]()
    try:
        known = KeptTables.read(target)
        file = KeptFile(dict(known.facts), [known.arrays()])
    except NotKept:
        file = _begun(release, redraws.errors)
        wanted = [(), *((name,) for name in release.domain), *_measured(release)]
        if not _add_tree(file, release, redraws):
            pairs = list(itertools.combinations(release.domain, 2))
    before = len(file.facts["tables"])
    with stage(0.4, 0.6, _WORDS):
        _add(file, release, asked, most_cells=ASKED_CELLS)
    with stage(0.6, 0.8, _WORDS):
        _add(file, release, wanted)
    with stage(0.8, 1.0, _WORDS):
        _add(file, release, pairs, until=_SECONDS)
    if len(file.facts["tables"]) > before:
        _write(file, target)


def _begun(release: Release, errors: Errors) -> KeptFile:
    schema = None if release.schema is None else yaml_reader.plain(yaml_reader.read(release.schema.dump()))
    coarse = [column.name for column in release.columns.modelled if column.is_coarse]
    totals = release.model.answers([Query.marginal(release.domain, (name,)) for name in coarse])
    facts = {
        "schema": schema,
        "totals": {name: each.tolist() for name, each in zip(coarse, totals, strict=True)},
        "stamp": release.stamp,
    }
    return KeptFile.of(release.domain, errors, release.evidence, facts)


def _measured(release: Release) -> Iterator[Clique]:
    """What was measured, and the pairs of it, whose answers are measured ones, too."""
    cliques = list(dict.fromkeys(m.query.clique for m in release.evidence))
    yield from cliques
    for clique in cliques:
        yield from itertools.combinations(release.domain.clique(clique), 2)


def _add_tree(file: KeptFile, release: Release, redraws: Redraws) -> bool:
    """Add the tables of the model and of its redraws, from which pairs and triples follow; whether they fit."""
    tree = _tree_of(release.model)
    if tree is None or (8 + 4 * min(redraws.draws, MODELS)) * tree.cells > MOST_TREE_BYTES:
        return False
    moved = [each for each in map(_tree_of, redraws.models) if each is not None and each.is_like(tree)]
    if len(moved) < len(redraws.models):
        return False
    before = file.size
    file.facts["tree"] = written(tree, moved, STRIDE, file.add)
    file.facts["tree"]["bytes"] = file.size - before
    file.facts["tree"]["share"] = redraws.share
    file.facts["groups"] = [release.redrawing().ties.groups[name] for name in release.domain]
    return True


def _tree_of(model: Model) -> Tree | None:
    """The bags of a model, where it has any: those of a uniform base do."""
    tilted = model.tilted
    if not isinstance(tilted, GraphTilted) or not np.isfinite(tilted.log_z):
        return None
    return Tree(model.total, tilted.bags, [tilted.tables_of(i) for i in range(len(tilted.bags))])


def _add(
    file: KeptFile,
    release: Release,
    cliques: Iterable[Clique],
    *,
    most_cells: int | None = None,
    until: float = math.inf,
) -> None:
    """Add the tables that are not in a file yet, a batch at a time, until the process has taken so long."""
    most = MOST_CELLS if most_cells is None else most_cells
    new = [c for c in dict.fromkeys(cliques) if not file.has(c) and release.domain.size_of(c) <= most]
    beside = file.facts.get("tree", {}).get("bytes", 0)
    for start in tracked(range(0, len(new), _BATCH), _WORDS):
        if file.size - beside >= MOST_BYTES or len(file.facts["tables"]) >= _MOST_TABLES or time.process_time() > until:
            return
        queries = [Query.marginal(release.domain, clique) for clique in new[start : start + _BATCH]]
        for query, found in zip(queries, _drawn(release, queries), strict=True):
            source = source_of(query, release.evidence)
            if source != "prior" and found is not None and _is_finite(found):
                file.add_table(query.clique, source, found)


def _drawn(release: Release, queries: list[Query]) -> list[Drawn | None]:
    """Answers with their redraws; None for all where one of them would take too much memory."""
    try:
        release.model.answers(queries)
    except SizeError:
        return [None] * len(queries)
    return [*release.redrawing().drawn(queries, LEVEL)]


def _is_finite(found: Drawn) -> bool:
    return bool(np.isfinite(found.estimate).all() and np.isfinite(found.repeats).all())


def _write(file: KeptFile, target: Path) -> None:
    # Numbers that are not finite, such as the temperature of a model that nothing moves, are not kept: a ValueError.
    with suppress(OSError, DataError, ValueError):
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with written_whole(target) as draft:
            draft.write_bytes(file.data())
        cache.remove_oldest(target.parent, _MOST_FILES)
