"""Contents: everything a report shows, worked out from the release alone; no private row is ever read for it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from priory.answer.quality import Quality
from priory.answer.ties import below
from priory.queries.domain import Clique
from priory.release import Release
from priory.report.answered import Answer, answered
from priory.report.association import Associations, associations
from priory.report.places import Attribute, Places

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

    release: Release
    columns: tuple[Answer, ...]  # the groups of each attribute with their intervals
    associations: Associations  # how strongly pairs go together
    pairs: tuple[Answer, ...]  # the strongest of them
    quality: Quality  # which columns and pairs are above the noise
    means: Mapping[str, str]  # of each column of numbers, its mean with the interval, in words

    @classmethod
    def of(cls, release: Release) -> "Contents":
        """Work it out."""
        model, alone = release.model, places_alone(release)
        attributes = [places.attribute for places in alone]
        paired = [Places.of(each, model.project(each.name).values, MOST_IN_A_PAIR) for each in attributes]
        compared = associations(model, _most_measured(paired, release), most=MOST_COMPARED)
        by_name = {places.attribute.name: places for places in paired}
        strongest = [release.domain.clique(pair) for pair in compared.strongest(MOST_PAIRS, LEAST_STRENGTH)]
        asked = [*((places,) for places in alone), *(tuple(by_name[name] for name in pair) for pair in strongest)]
        answers = answered(release, asked)
        columns, pairs = tuple(answers[: len(alone)]), tuple(answers[len(alone) :])
        return cls(release, columns, compared, pairs, release.judged(), _means(release))

    @property
    def cliques(self) -> tuple[Clique, ...]:
        """Sets of several attributes that were measured, or that the model ties together."""
        cliques = [m.query.clique for m in self.release.measurements if m.query.rows > 1]
        cliques += below(self.release.model)[1]
        return tuple(dict.fromkeys(clique for clique in cliques if len(clique) > 1))


def places_alone(release: Release) -> list[Places]:
    """The groups of every attribute as they are shown by themselves."""
    if release.schema is not None:
        attributes = [Attribute.of(column) for column in release.schema.modelled]
    else:
        attributes = [Attribute.coded(name, release.domain[name]) for name in release.domain]
    most = [MOST_RUNS if each.is_ordered else MOST_GROUPS for each in attributes]
    return [
        Places.of(each, release.model.project(each.name).values, n) for each, n in zip(attributes, most, strict=True)
    ]


def _means(release: Release) -> dict[str, str]:
    found = {}
    for column in () if release.schema is None else release.schema.modelled:
        if column.is_numeric:
            cells = [values[0] for values in release.mean(column.name).to_dict().values()]
            mean, *ends = ["–" if cell is None else _written(cell) for cell in cells[:3]]
            found[column.name] = f"mean {mean}" if cells[1] is None else f"mean {mean} [{', '.join(ends)}]"
    return found


def _written(value: object) -> str:
    """A mean for people: a number with four digits, or more before the point; or a date."""
    if not isinstance(value, float):
        return str(value)
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def _most_measured(places: Sequence[Places], release: Release) -> list[Places]:
    """Attributes that were measured together with others come first: the rest hardly go with anything."""
    together = {name for m in release.measurements for name in m.query.clique if len(m.query.clique) > 1}
    order = np.argsort([each.attribute.name not in together for each in places], kind="stable")
    return [places[i] for i in [*sorted(order[:MOST_COMPARED].tolist()), *order[MOST_COMPARED:].tolist()]]
