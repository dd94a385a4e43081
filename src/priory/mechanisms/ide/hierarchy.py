"""Hierarchy: groups within groups, what is measured in each, and rows drawn for them."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from priory.errors import OptionError
from priory.model.bases import PublicRows
from priory.model.herding import Herd
from priory.model.sampling import Chance, Codes, drawn_alike
from priory.privacy.measurement import Measurement
from priory.queries.domain import Clique, Domain
from priory.queries.factor import Array
from priory.queries.query import Query

Group = tuple[int, ...]
MOST_GROUPS = 100_000
# More rows than this would take too long to pick with care, about a tenth of a millisecond each.
MOST_HERDED = 1 << 17


@dataclass(frozen=True, eq=False)
class Level:
    """One level of the hierarchy."""

    attributes: Clique  # what makes its groups, those of the levels above first
    workload: tuple[Clique, ...]  # the marginals that are measured in each group
    prior_of: tuple[int, ...]  # for each group, the index of the group above it
    groups: tuple[Group, ...]  # the codes of its groups

    def counts(self, measurement: Measurement) -> Array:
        """The noisy number of rows of each group."""
        order = [measurement.query.clique.index(name) for name in self.attributes]
        table = np.asarray(measurement.values, dtype=np.float64).transpose(order)
        return np.array([table[group] for group in self.groups])

    def sums(self, last: "Level", counts: Array) -> Array:
        """The number of rows of each group, from those of the groups of the last level."""
        index = {group: i for i, group in enumerate(self.groups)}
        above = [index[group[: len(self.attributes)]] for group in last.groups]
        return np.asarray(np.bincount(above, weights=counts, minlength=len(self.groups)), dtype=np.float64)

    def query(self, domain: Domain, clique: Clique) -> Query:
        """A marginal of all groups together, which is one marginal of the table."""
        return Query.marginal(domain, (*self.attributes, *clique))

    def queries(self, domain: Domain) -> list[Query]:
        """The marginals of the workload, each of all groups together."""
        return [self.query(domain, clique) for clique in self.workload]

    def of_group(self, tables: Sequence[Measurement], group: Group, domain: Domain) -> list[Measurement]:
        """What was measured of one group, over a domain of the attributes that were."""
        codes = dict(zip(self.attributes, group, strict=True))
        return [_slice(table, codes, domain) for table in tables]


def levels(
    domain: Domain, by: Sequence[Clique], groups: tuple[Group, ...] | None, workloads: Sequence[tuple[Clique, ...]]
) -> list[Level]:
    """The hierarchy whose levels add the attributes of `by` to those above, checked."""
    names = domain.checked(name for level in by for name in level)
    last = _groups(domain, names, groups)
    hierarchy: list[Level] = []
    for depth, workload in enumerate(workloads):
        attributes = tuple(name for level in by[: depth + 1] for name in level)
        here = tuple(dict.fromkeys(group[: len(attributes)] for group in last))
        above: dict[Group, int] = {group: i for i, group in enumerate(hierarchy[-1].groups if hierarchy else ((),))}
        size = len(hierarchy[-1].attributes) if hierarchy else 0
        _check_workload(domain, names, workload)
        hierarchy.append(Level(attributes, workload, tuple(above[group[:size]] for group in here), here))
    return hierarchy


def drawn_rows(public: PublicRows, level: Level, weights: Sequence[Array], counts: Array, seed: int) -> Codes:
    """Public rows for each group, as many as it is thought to have, with the group's own codes."""
    axes = [public.domain.axis[name] for name in level.attributes]
    drawn = [public.codes[:0]]
    for group, indices in zip(level.groups, _drawn(public, axes, weights, counts.astype(int), seed), strict=True):
        rows = public.codes[indices].copy()
        rows[:, axes] = group
        drawn.append(rows)
    return np.concatenate(drawn)


def _drawn(
    public: PublicRows, axes: Sequence[int], weights: Sequence[Array], counts: NDArray[np.intp], seed: int
) -> list[NDArray[np.intp]]:
    """Which public rows each group gets; groups that have their weights in common are drawn together."""
    chance = Chance.of(seed, "rounding")
    if counts.sum() > MOST_HERDED:
        each = zip(weights, counts, strict=True)
        return [drawn_alike(weight / weight.sum(), int(count), chance) for weight, count in each]
    features = [axis for axis in range(len(public.domain)) if axis not in axes]
    herd = Herd.of(public.codes[:, features], tuple(public.domain.shape[axis] for axis in features))
    alike: dict[int, list[int]] = {}
    for group, weight in enumerate(weights):
        alike.setdefault(id(weight), []).append(group)
    rows_of = dict[int, NDArray[np.intp]]()
    for groups in alike.values():
        weight = weights[groups[0]]
        drawn = herd.drawn(weight / weight.sum(), [int(counts[group]) for group in groups], chance)
        rows_of.update(zip(groups, drawn, strict=True))
    return [rows_of[group] for group in range(len(weights))]


def _slice(measurement: Measurement, group: dict[str, int], domain: Domain) -> Measurement:
    clique = measurement.query.clique
    where = tuple(group.get(name, slice(None)) for name in clique)
    rest = tuple(name for name in clique if name not in group)
    query = Query.marginal(domain, rest)
    order = [rest.index(name) for name in query.clique]
    return Measurement(query, measurement.values[where].transpose(order), measurement.stddev, measurement.noise)


def _groups(domain: Domain, names: Clique, given: tuple[Group, ...] | None) -> tuple[Group, ...]:
    sizes = [domain[name] for name in names]
    if given is None:
        if domain.size_of(names) > MOST_GROUPS:
            raise OptionError("groups", f"more than {MOST_GROUPS:,} combinations: say which exist")
        return tuple(itertools.product(*map(range, sizes)))
    for group in given:
        if len(group) != len(names) or not all(0 <= code < size for code, size in zip(group, sizes, strict=True)):
            raise OptionError("groups", f"a group has a code for each of {list(names)}; got {group}")
    if not given or len(set(given)) < len(given):
        raise OptionError("groups", "at least one, none listed twice")
    return given


def _check_workload(domain: Domain, names: Clique, workload: Sequence[Clique]) -> None:
    for clique in workload:
        shared = set(domain.checked(clique)) & set(names)
        if shared or not clique:
            raise OptionError("workloads", f"{list(clique)} must name attributes that make no groups")
