"""Association: how strongly pairs of attributes go together in a model."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from priory.answer.association import cramers_v
from priory.model.model import Model
from priory.queries.factor import Array
from priory.queries.query import Query
from priory.report.places import Places


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
