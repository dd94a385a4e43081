"""Game: what DualQuery played, round by round."""

import json
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from priory.domain import Domain
from priory.errors import ReleaseError
from priory.factor import Array
from priory.mechanisms.steps.total import released_total
from priory.model.bases import PublicRows
from priory.model.model import Model
from priory.privacy.scores import Pick
from priory.queries.query import Query
from priory.release import Release
from priory.release.archive import json_bytes

SECTION = "dualquery"


@dataclass(frozen=True)
class Round:
    """What happened in a round: queries were sampled, and a record was found for them.

    Attributes:
        picks: the queries, as places in the workload; a complement counts the rows that its query does not.
        row: the record, one code for each attribute.
        sharpness: the picks were drawn with chances ∝ exp(sharpness·payoff); 0 where all were alike.
    """

    picks: tuple[Pick, ...]
    row: tuple[int, ...]
    sharpness: float


def records_model(release: Release) -> Model:
    """DualQuery's own estimate: the records, all alike."""
    rows = np.array([played.row for played in rounds_of(release)], dtype=np.int64)
    return Model(PublicRows(rows, release.domain), {}, released_total(release.measurements))


def rounds_of(release: Release) -> tuple[Round, ...]:
    """The game that a release holds.

    Raises:
        ReleaseError: it holds none.
    """
    if SECTION not in release.sections:
        raise ReleaseError("the release was not made by DualQuery")
    found = json.loads(release.sections[SECTION]["rounds.json"])
    return tuple(
        Round(
            tuple(Pick(q, c, is_complement=bool(n)) for q, c, n in held["picks"]), tuple(held["row"]), held["sharpness"]
        )
        for held in found
    )


def answers(query: Query, row: Sequence[int], domain: Domain) -> Array:
    """What a query answers on one record."""
    table = np.ones(())
    for name, part in zip(query.clique, query.parts, strict=True):
        here = np.zeros(domain[name])
        here[row[domain.axis[name]]] = 1.0
        table = np.multiply.outer(table, part.apply(here, 0))
    return np.asarray(table, dtype=np.float64)


def encoded(game: Sequence[Round]) -> bytes:
    """The game as JSON."""
    return json_bytes(
        [
            {
                "picks": [[pick.query, pick.cell, int(pick.is_complement)] for pick in played.picks],
                "row": list(played.row),
                "sharpness": played.sharpness,
            }
            for played in game
        ]
    )
