"""Contents: everything a report shows, worked out from the release alone; no private row is ever read for it."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from priory.answer.association import cramers_v
from priory.answer.quality import Quality
from priory.answer.ties import below
from priory.model.model import Model
from priory.privacy.measurement import Measurement
from priory.queries.domain import Clique
from priory.queries.factor import Array
from priory.queries.query import Query
from priory.queries.sensitivity import sensitivity
from priory.release import Release
from priory.report.answered import Answer, answered
from priory.report.places import Attribute, Places
from priory.work import stage, tracked

# How many groups of an attribute are shown alone, and in a pair.
MOST_GROUPS, MOST_IN_A_PAIR = 24, 14
MOST_RUNS = 60
# How many pairs are drawn, and how strong the weakest of them.
MOST_PAIRS, LEAST_STRENGTH = 8, 0.1
# How many attributes are compared with each other.
MOST_COMPARED = 60


@dataclass(frozen=True, eq=False)
class Associations:
    """Cramér's V of every pair."""

    names: tuple[str, ...]  # the attributes
    strengths: Array  # V of each pair, from 0 to 1; the diagonal is 1
    left_out: int = 0  # how many attributes were not compared

    def strength(self, one: str, other: str) -> float:
        """V of a pair."""
        return float(self.strengths[self.names.index(one), self.names.index(other)])

    def strongest(self, most: int, least: float = 0.0) -> list[tuple[str, str]]:
        """The pairs with the largest V, none below `least`."""
        pairs = list(itertools.combinations(range(len(self.names)), 2))
        pairs.sort(key=lambda pair: -self.strengths[pair])
        return [(self.names[i], self.names[j]) for i, j in pairs[:most] if self.strengths[i, j] >= least]


def associations(model: Model, attributes: Sequence[Places], *, most: int) -> Associations:
    """V of all pairs of the first `most` attributes, as grouped."""
    compared = attributes[:most]
    names = tuple(places.attribute.name for places in compared)
    strengths = np.eye(len(names))
    pairs = list(itertools.combinations(range(len(names)), 2))
    queries = [Query.product(model.domain, {names[k]: compared[k].part for k in pair}) for pair in pairs]
    for (i, j), table in zip(pairs, model.answers(queries), strict=True):
        strengths[i, j] = strengths[j, i] = cramers_v(table)
    return Associations(names, strengths, len(attributes) - len(names))


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
        with stage(0.1, 0.3, "comparing columns"):
            compared = associations(model, _most_measured(paired, release), most=MOST_COMPARED)
        by_name = {places.attribute.name: places for places in paired}
        strongest = [release.domain.clique(pair) for pair in compared.strongest(MOST_PAIRS, LEAST_STRENGTH)]
        asked = [*((places,) for places in alone), *(tuple(by_name[name] for name in pair) for pair in strongest)]
        with stage(0.3, 0.7, "answering with intervals"):
            answers = answered(release, asked)
        with stage(0.7, 0.8, "comparing errors with noise"):
            judged = release.judged()
        with stage(0.8, 1.0, "means"):
            means = _means(release)
        columns, pairs = tuple(answers[: len(alone)]), tuple(answers[len(alone) :])
        return cls(release, columns, compared, pairs, judged, means)

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
    model = release.model
    return [Places.of(each, model.project(each.name).values, n) for each, n in zip(attributes, most, strict=True)]


def _means(release: Release) -> dict[str, str]:
    found = {}
    for column in tracked(() if release.schema is None else release.schema.modelled, "means"):
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


@dataclass(frozen=True)
class Item:
    """What was bought."""

    what: str  # the attributes, or what else it was
    share: float  # of the budget that was promised, from 0 to 1
    measurements: int  # how many answers were bought for it
    is_choice: bool = False  # whether nothing was measured for it: it chose what to measure, or was not spent


def spending(release: Release) -> list[Item]:
    """Items, the dearest first; what chose and what was left come last. Empty where the noise is not known."""
    costs = [_cost(release, measurement) for measurement in release.measurements]
    known = [cost for cost in costs if cost is not None]
    budget, spent = release.statement.budget.amount, release.statement.spent
    if len(known) < len(costs) or not known or not budget:
        return []
    # A cost is below what was charged by a rounding; measurements of other releases may have been added to this one.
    whole = max(budget, sum(known, Fraction(0)))
    bought: dict[Clique, list[Fraction]] = {}
    for measurement, cost in zip(release.measurements, known, strict=True):
        bought.setdefault(measurement.query.clique, []).append(cost)
    shares = {clique: float(sum(each, Fraction(0)) / whole) for clique, each in bought.items()}
    items = [Item(" × ".join(c) or "the number of records", share, len(bought[c])) for c, share in shares.items()]
    items.sort(key=lambda item: -item.share)
    others = [
        Item("choosing what to measure", float((spent - sum(known, Fraction(0))) / whole), 0, is_choice=True),
        Item("not spent", float((budget - spent) / whole), 0, is_choice=True),
    ]
    return [*items, *(item for item in others if item.share > 1e-3)]


def _cost(release: Release, measurement: Measurement) -> Fraction | None:
    budget = release.statement.budget
    if measurement.noise is None or measurement.noise.scale <= 0:
        # Without noise the answer is public, and costs nothing.
        return Fraction(0) if measurement.stddev == 0 else None
    size = sensitivity(measurement.query, budget.relation, budget.max_rows)
    return measurement.noise.cost(size, budget.currency)
