"""Ties: which attributes a measurement, a constraint or a prior ties together; others are taken to be independent."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from priory.answer.intervals import Source
from priory.model.bases import Base
from priory.model.model import Model
from priory.privacy.measurement import Measurement
from priory.queries.domain import Clique
from priory.queries.parts import Identity, Part, Recode
from priory.queries.query import Query


@dataclass(frozen=True)
class Ties:
    """Attributes in groups: those of different groups are independent in the model, as nothing says otherwise."""

    groups: Mapping[str, int]  # the group of each attribute

    @classmethod
    def of(cls, model: Model, measurements: Iterable[Measurement]) -> "Ties":
        """Work them out from what was measured together, the potentials, and what the model starts from."""
        base, cliques = below(model)
        if not base.is_product:
            return cls(dict.fromkeys(model.domain, 0))
        groups = {name: i for i, name in enumerate(model.domain)}
        for clique in {*cliques, *(m.query.clique for m in measurements)}:
            joined = {groups[name] for name in clique}
            if len(joined) > 1:
                groups = {name: min(joined) if group in joined else group for name, group in groups.items()}
        return cls(groups)

    def hold(self, clique: Iterable[str]) -> bool:
        """Whether all attributes of a clique are tied together, directly or through others."""
        return len({self.groups[name] for name in clique}) <= 1

    def alone(self) -> list[str]:
        """The attributes that nothing ties to any other."""
        groups = list(self.groups.values())
        return [name for name, group in self.groups.items() if len(groups) > 1 and groups.count(group) == 1]

    def named(self, source: Source, query: Query, measurements: Iterable[Measurement]) -> Source:
        """The source of an answer by its right name: where it rests on independence alone, or on sums of its cells."""
        if source == "inferred" and not self.hold(query.clique):
            return "independent by assumption"
        return "inferred" if source == "measured" and not _is_told(query, measurements) else source


def _is_told(query: Query, measurements: Iterable[Measurement]) -> bool:
    """Whether a measurement tells the query's answers, and not only sums of them, as those on runs of values do."""
    wanted = dict(zip(query.clique, query.parts, strict=True))
    holding = (m.query for m in measurements if wanted.keys() <= set(m.query.clique))
    asked = (dict(zip(each.clique, each.parts, strict=True)) for each in holding)
    return any(all(_tells(parts[name], part) for name, part in wanted.items()) for parts in asked)


def _tells(measured: Part, wanted: Part) -> bool:
    """Whether answers that merge values tell one that may not."""
    if not isinstance(measured, Recode) or measured == wanted:
        return True
    _, firsts, runs = np.unique(measured.targets, return_index=True, return_inverse=True)
    if isinstance(wanted, Identity):
        return len(firsts) == len(runs)
    columns = wanted.matrix(len(runs))
    return np.array_equal(columns, columns[:, firsts[runs]])


def below(model: Model) -> tuple[Base, list[Clique]]:
    """What a model and all models that it tilts start from, and the cliques of their potentials."""
    layer: Base = model
    cliques: list[Clique] = []
    while isinstance(layer, Model):
        cliques += layer.cliques
        layer = layer.base
    return layer, cliques
