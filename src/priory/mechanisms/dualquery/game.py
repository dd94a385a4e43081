"""Game: the rounds that DualQuery played, and what its records answer."""

from collections.abc import Sequence

import numpy as np

from priory.domain import Domain
from priory.errors import ReleaseError
from priory.factor import Array
from priory.mechanisms.steps.total import released_total
from priory.model.bases import PublicRows
from priory.model.model import Model
from priory.queries.query import Query
from priory.release import Release
from priory.release.parts import Round


def records_model(release: Release) -> Model:
    """DualQuery's own estimate: the records, all alike."""
    rows = np.array([played.row for played in rounds_of(release)], dtype=np.int64)
    return Model(PublicRows(rows, release.domain), {}, released_total(release.measurements))


def rounds_of(release: Release) -> tuple[Round, ...]:
    """The game that a release holds; a `ReleaseError` where it holds none."""
    if not release.rounds:
        raise ReleaseError("the release was not made by DualQuery")
    return release.rounds


def answers(query: Query, row: Sequence[int], domain: Domain) -> Array:
    """What a query answers on one record."""
    table = np.ones(())
    for name, part in zip(query.clique, query.parts, strict=True):
        here = np.zeros(domain[name])
        here[row[domain.axis[name]]] = 1.0
        table = np.multiply.outer(table, part.apply(here, 0))
    return np.asarray(table, dtype=np.float64)
