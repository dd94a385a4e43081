"""Prior update: public data improved level by level, for all, for each state, for each group in it [IDE]."""

import itertools
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from priory.domain import Clique, Domain
from priory.errors import DomainError, OptionError
from priory.estimate.estimator import estimate
from priory.estimate.raking import Raking
from priory.factor import Array
from priory.measure import measure
from priory.mechanisms.information import strongest_pairs, unrelated_singles
from priory.mechanisms.noiseless import weighable
from priory.model.bases import PublicRows
from priory.model.model import Model
from priory.model.rows import RowsTilted
from priory.model.sampling import Chance, Codes, drawn_alike
from priory.privacy.budget import Budget
from priory.privacy.curator import Curator
from priory.privacy.measurement import Measurement
from priory.queries.query import Query
from priory.release import Release

Group = tuple[int, ...]
MOST_GROUPS = 100_000


@dataclass(frozen=True, eq=False)
class Level:
    """One level of the hierarchy.

    Attributes:
        attributes: what makes its groups, those of the levels above first.
        workload: the marginals that are measured in each group.
        prior_of: for each group, its place among the groups above.
        groups: the codes of its groups.
    """

    attributes: Clique
    workload: tuple[Clique, ...]
    prior_of: tuple[int, ...]
    groups: tuple[Group, ...]


@dataclass(frozen=True, kw_only=True, eq=False)
class PriorUpdate:
    """Algorithm 2 of IDE for any hierarchy: at each level a noisy count and noisy marginals of every group.

    The marginals of all groups together are one marginal of the table, so that a person in several groups is paid for
    as in any other: each of two answers a level gets an equal part of the budget, a fourth at the paper's two levels.

    Attributes:
        public: the rows to start from; what they say of the groups' own attributes is not used.
        by: the attributes that each level adds to those above; the first may add none, for the table as a whole.
        groups: which groups of the last level exist, by their codes; all combinations unless told. It is public.
        workloads: the marginals of each level; from public data unless told: pairs, and at the last level single ones.
        way: "raking" meets every noisy marginal, as in the paper; "noise-aware" moves no further than the noise allows,
            and shrinks the counts of groups to their mean by as much as they are noise.
        epochs: of raking.
        seed: of the rows that are drawn.
    """

    public: PublicRows
    by: tuple[Clique, ...]
    groups: tuple[Group, ...] | None = None
    workloads: tuple[tuple[Clique, ...], ...] | None = None
    way: Literal["raking", "noise-aware"] = "noise-aware"
    epochs: int = 10
    seed: int = 0

    def run(self, curator: Curator, budget: Budget) -> Release:
        """Spend `budget` and draw, for each group of the last level, as many rows as it is thought to have."""
        levels = self.levels(curator.domain)
        curator.check(budget)
        priors: list[Array] = [self.public.shares]
        counts, measured = np.zeros(0), list[Measurement]()
        for level, part in zip(levels, budget.split([1] * len(levels)), strict=True):
            counting, telling = part.split((1, 1))
            found = measure(curator, [Query.marginal(curator.domain, level.attributes)], counting)
            counts = self._counts(level, found[0])
            found += measure(curator, [_joint(curator.domain, level, clique) for clique in level.workload], telling)
            priors = self._updated(level, priors, counts, found[1:])
            measured += found
        release = Release(curator.domain, tuple(measured), curator.statement("prior-update"))
        rows = self._drawn(levels[-1], priors, counts)
        if not len(rows):
            return release
        return release.with_model(Model.of(PublicRows(rows, curator.domain), {}, len(rows)))

    def levels(self, domain: Domain) -> list[Level]:
        """The hierarchy, checked before anything is spent."""
        if self.public.domain != domain:
            raise DomainError(f"the public rows have {self.public.domain}, the private table {domain}")
        if self.way not in ("raking", "noise-aware"):
            raise OptionError("way", f"'raking' or 'noise-aware'; got {self.way!r}")
        names = domain.checked(name for level in self.by for name in level)
        features = tuple(name for name in domain if name not in names)
        if not self.by or not features or (self.workloads is not None and len(self.workloads) != len(self.by)):
            raise OptionError("by", "at least one level, a workload for each, and attributes that make no groups")
        last = _groups(domain, names, self.groups)
        found: list[Level] = []
        for depth in range(len(self.by)):
            attributes = tuple(name for level in self.by[: depth + 1] for name in level)
            groups = tuple(dict.fromkeys(group[: len(attributes)] for group in last))
            above: dict[Group, int] = {group: i for i, group in enumerate(found[-1].groups if found else ((),))}
            size = len(found[-1].attributes) if found else 0
            workload = self._workload(features, depth)
            _check_workload(domain, names, workload)
            found.append(Level(attributes, workload, tuple(above[group[:size]] for group in groups), groups))
        return found

    def _workload(self, features: Clique, depth: int) -> tuple[Clique, ...]:
        if self.workloads is not None:
            return self.workloads[depth]
        is_last = depth == len(self.by) - 1
        return tuple(unrelated_singles(self.public, features) if is_last else strongest_pairs(self.public, features))

    def _counts(self, level: Level, measurement: Measurement) -> Array:
        order = [measurement.query.clique.index(name) for name in level.attributes]
        table = np.asarray(measurement.values, dtype=np.float64).transpose(order)
        noisy = np.array([table[group] for group in level.groups])
        if self.way == "noise-aware" and len(noisy) > 2:
            # What the counts vary by beyond their noise is all that can be known of how groups differ.
            between = max(float(noisy.var()) - measurement.variance, 0.0)
            noisy = noisy.mean() + between / (between + measurement.variance or 1.0) * (noisy - noisy.mean())
        return np.asarray(np.rint(np.maximum(noisy, 0.0)))

    def _updated(
        self, level: Level, priors: Sequence[Array], counts: Array, tables: Sequence[Measurement]
    ) -> list[Array]:
        """The weights of the public rows in each group."""
        touched = tuple(dict.fromkeys(name for clique in level.workload for name in clique))
        if not touched:
            return [priors[place] for place in level.prior_of]
        domain = self.public.domain.project(touched)
        codes, inverse = np.unique(
            self.public.codes[:, [self.public.domain.axis[name] for name in touched]], axis=0, return_inverse=True
        )
        found = []
        for group, place, count in zip(level.groups, level.prior_of, counts, strict=True):
            here = [_slice(table, dict(zip(level.attributes, group, strict=True)), domain) for table in tables]
            prior = np.maximum(np.bincount(inverse.reshape(-1), weights=priors[place], minlength=len(codes)), 1e-300)
            ratio = self._estimated(PublicRows(codes, domain, prior), here, count) / (prior / prior.sum())
            found.append(priors[place] * ratio[inverse.reshape(-1)])
        return found

    def _estimated(self, prior: PublicRows, measurements: list[Measurement], count: float) -> Array:
        """The weights of the rows of a small table after an update; those it had where there is nothing to tell."""
        if count <= 0:
            return prior.shares
        options = {"solver": Raking(iterations=self.epochs), "stop": "converged"} if self.way == "raking" else {}
        with warnings.catch_warnings():
            # A row whose weight is too small for a double stays without any.
            warnings.simplefilter("ignore", RuntimeWarning)
            warnings.simplefilter("ignore", UserWarning)
            model = estimate(weighable(measurements), prior.domain, base=prior, total=count, **options)  # type: ignore[arg-type]
        tilted = prior.tilt(model.potentials)
        return tilted.shares if isinstance(tilted, RowsTilted) else prior.shares

    def _drawn(self, level: Level, priors: Sequence[Array], counts: Array) -> Codes:
        chance = Chance.of(self.seed, "rounding")
        axes = [self.public.domain.axis[name] for name in level.attributes]
        drawn = [self.public.codes[:0]]
        for group, weights, count in zip(level.groups, priors, counts, strict=True):
            rows = self.public.codes[drawn_alike(weights / weights.sum(), int(count), chance)].copy()
            rows[:, axes] = group
            drawn.append(rows)
        return np.concatenate(drawn)


def _joint(domain: Domain, level: Level, clique: Clique) -> Query:
    return Query.marginal(domain, (*level.attributes, *clique))


def _slice(measurement: Measurement, group: dict[str, int], domain: Domain) -> Measurement:
    """The part of a measurement that is about one group."""
    clique = measurement.query.clique
    place = tuple(group.get(name, slice(None)) for name in clique)
    rest = tuple(name for name in clique if name not in group)
    values = measurement.values[place]
    query = Query.marginal(domain, rest)
    order = [rest.index(name) for name in query.clique]
    return Measurement(query, values.transpose(order), measurement.stddev, measurement.noise)


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
