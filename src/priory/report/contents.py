"""Contents: everything a report shows, worked out from the release alone; no private row is ever read for it."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from priory.domain import Clique
from priory.model.bases import Base
from priory.model.diagnostics import Diagnostics
from priory.model.model import Model
from priory.privacy.explain import Explanation, explain
from priory.privacy.statement import Statement
from priory.release import Release
from priory.report.answered import Answer, answered
from priory.report.association import Associations, associations
from priory.report.places import Attribute, Places
from priory.report.spending import Item, spending

# How many groups of an attribute are shown alone, and in a pair.
MOST_GROUPS, MOST_IN_A_PAIR = 24, 14
MOST_RUNS = 60
# How many pairs are drawn, and how strong the weakest of them.
MOST_PAIRS, LEAST_STRENGTH = 8, 0.1
# How many attributes are compared with each other.
MOST_COMPARED = 60


@dataclass(frozen=True, eq=False)
class Contents:
    """What a report shows."""

    statement: Statement  # what is promised
    explanation: Explanation  # what that means for one person
    total: float  # how many records the model stands for
    columns: tuple[Answer, ...]  # the groups of each attribute with their intervals
    associations: Associations  # how strongly pairs go together
    pairs: tuple[Answer, ...]  # the strongest of them
    cliques: tuple[Clique, ...]  # which attributes were measured, or modelled, together
    items: tuple[Item, ...]  # what the budget was spent on
    measurements: int  # how many there are
    diagnostics: Diagnostics | None  # how the model was found, where that is known

    @classmethod
    def of(cls, release: Release) -> "Contents":
        """Work it out."""
        model = release.model
        alone = places_alone(release)
        paired = [
            Places.of(places.attribute, model.project(places.attribute.name).values, MOST_IN_A_PAIR) for places in alone
        ]
        compared = associations(model, _most_measured(paired, release), most=MOST_COMPARED)
        by_name = {places.attribute.name: places for places in paired}
        strongest = [release.domain.clique(pair) for pair in compared.strongest(MOST_PAIRS, LEAST_STRENGTH)]
        asked = [*((places,) for places in alone), *(tuple(by_name[name] for name in pair) for pair in strongest)]
        answers = answered(release, asked)
        return cls(
            statement=release.statement,
            explanation=explain(release.statement.budget, is_declared=release.statement.is_declared),
            total=model.total,
            columns=tuple(answers[: len(alone)]),
            associations=compared,
            pairs=tuple(answers[len(alone) :]),
            cliques=_cliques(release),
            items=tuple(spending(release)),
            measurements=len(release.measurements),
            diagnostics=model.diagnostics,
        )


def places_alone(release: Release) -> list[Places]:
    """The groups of every attribute as they are shown by themselves."""
    return [
        Places.of(
            attribute, release.model.project(attribute.name).values, MOST_RUNS if attribute.is_ordered else MOST_GROUPS
        )
        for attribute in _attributes(release)
    ]


def _attributes(release: Release) -> list[Attribute]:
    if release.schema is not None:
        return [Attribute.of(column) for column in release.schema.modelled]
    return [Attribute.coded(name, size) for name, size in zip(release.domain, release.domain.shape, strict=True)]


def _most_measured(places: Sequence[Places], release: Release) -> list[Places]:
    """Attributes that were measured together with others come first: the rest hardly go with anything."""
    together = {name for m in release.measurements for name in m.query.clique if len(m.query.clique) > 1}
    order = np.argsort([each.attribute.name not in together for each in places], kind="stable")
    kept = sorted(order[:MOST_COMPARED].tolist())
    return [places[i] for i in [*kept, *order[MOST_COMPARED:].tolist()]]


def _cliques(release: Release) -> tuple[Clique, ...]:
    """Sets of several attributes that were measured, or that the model ties together."""
    held = [m.query.clique for m in release.measurements if m.query.rows > 1]
    layer: Base = release.model
    while isinstance(layer, Model):
        held += layer.cliques
        layer = layer.base
    return tuple(dict.fromkeys(clique for clique in held if len(clique) > 1))
