"""Prior update: noisy counts and marginals improve public data level by level, for all, then for each group [IDE]."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from priory.domain import Clique, Domain
from priory.errors import DomainError, OptionError
from priory.estimate.estimator import estimate
from priory.estimate.posterior import Sample, common_worth
from priory.estimate.raking import Raking
from priory.factor import Array
from priory.measure import measure
from priory.mechanisms.hierarchy import Group, Level, drawn_rows, levels
from priory.mechanisms.information import strongest_pairs, unrelated_singles
from priory.mechanisms.noiseless import weighable
from priory.mechanisms.total import counted, needed_amount
from priory.model.bases import PublicRows
from priory.model.model import Model
from priory.model.rows import RowsTilted
from priory.privacy.budget import Budget
from priory.privacy.curator import Curator
from priory.privacy.measurement import Measurement
from priory.queries.query import Query
from priory.release import Release

# Counts get no more than this part of the budget.
MOST_COUNTING = Fraction(3, 4)
# So many groups tell what a prior is worth in all of them.
ASKED = 40
# No group's rows can be told apart better than this.
LEAST_STDDEV = 1.0


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
        way: "raking" meets every noisy marginal, as in the paper; "noise-aware" weighs prior and marginals by what each
            tells, one worth of the prior for all groups of a level, and shrinks the counts of groups to their mean by
            as much as they are noise.
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
        found = self.levels(curator.domain)
        curator.check(budget)
        priors: list[Array] = [self.public.shares]
        counts = np.zeros(0)
        measured, shares = self._shared(curator, budget, found)
        for number, (level, (counting, telling)) in enumerate(zip(found, shares, strict=True), start=1):
            curator.tell(number, of=len(found))
            answers = measure(curator, [Query.marginal(curator.domain, level.attributes)], counting)
            counts = self._counts(level, answers[0])
            answers += measure(curator, [level.query(curator.domain, clique) for clique in level.workload], telling)
            priors = self._updated(level, priors, counts, answers[1:])
            measured += answers
        release = Release(curator.domain, tuple(measured), curator.statement("prior-update"))
        rows = drawn_rows(self.public, found[-1], priors, counts, self.seed)
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
        return levels(domain, self.by, self.groups, self.workloads or self._workloads(features))

    def _workloads(self, features: Clique) -> list[tuple[Clique, ...]]:
        pairs = tuple(strongest_pairs(self.public, features)) if len(self.by) > 1 else ()
        return [*[pairs] * (len(self.by) - 1), tuple(unrelated_singles(self.public, features))]

    def _shared(
        self, curator: Curator, budget: Budget, found: Sequence[Level]
    ) -> tuple[list[Measurement], list[tuple[Budget, Budget]]]:
        """What was measured for it, and what each level may spend on counting and on telling: equal parts in the paper.

        Counts need noise of no less than a twenty-fifth of a group, and come first where there is not enough for all.
        """
        if self.way == "raking":
            equal = iter(budget.split([1] * (2 * len(found))))
            return [], [(next(equal), next(equal)) for _ in found]
        count = counted(curator, budget)
        whole = count.rest.amount
        queries = [Query.marginal(curator.domain, level.attributes) for level in found]
        needed = [
            max(needed_amount(query, budget, count.total / (25 * len(level.groups))), whole / 1000)
            for query, level in zip(queries, found, strict=True)
        ]
        scale = min(Fraction(1), MOST_COUNTING * whole / sum(needed))
        rest = (whole - scale * sum(needed)) / len(found)
        return [count.measurement], [(budget.worth(scale * each), budget.worth(rest)) for each in needed]

    def _counts(self, level: Level, measurement: Measurement) -> Array:
        noisy = level.counts(measurement)
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
        axes = [self.public.domain.axis[name] for name in touched]
        codes, inverse = np.unique(self.public.codes[:, axes], axis=0, return_inverse=True)
        inverse = inverse.reshape(-1)
        bases = [PublicRows(codes, domain, _positive(inverse, prior, len(codes))) for prior in priors]
        samples = [
            Sample(bases[place], weighable(level.of_group(tables, group, domain), LEAST_STDDEV), float(count))
            for group, place, count in zip(level.groups, level.prior_of, counts, strict=True)
        ]
        ratios = [after / sample.base.shares for sample, after in zip(samples, self._shares(samples), strict=True)]
        return [priors[place] * ratio[inverse] for place, ratio in zip(level.prior_of, ratios, strict=True)]

    def _shares(self, samples: Sequence[Sample]) -> list[Array]:
        """The weights of the rows of small tables after an update; those they had where there is nothing to tell."""
        told = [sample for sample in samples if sample.total > 0]
        if self.way == "raking":
            return [_raked(sample, self.epochs) if sample.total > 0 else sample.base.shares for sample in samples]
        asked = np.random.default_rng(self.seed).permutation(len(told))[:ASKED]
        worth = common_worth([told[i] for i in asked], self.public.records)
        return [
            _tilted(sample.base, sample.model(worth)) if sample.total > 0 else sample.base.shares for sample in samples
        ]


def _positive(inverse: NDArray[np.intp], prior: Array, size: int) -> Array:
    """The weights of small rows; none is lost, however little is left of it."""
    return np.maximum(np.bincount(inverse, weights=prior, minlength=size), 1e-300)


def _raked(sample: Sample, epochs: int) -> Array:
    with warnings.catch_warnings():
        # Noisy marginals contradict each other: raking ends after its epochs.
        warnings.simplefilter("ignore", UserWarning)
        model = estimate(
            sample.measurements,
            sample.base.domain,
            base=sample.base,
            total=sample.total,
            solver=Raking(iterations=epochs),
            stop="converged",
        )
    return _tilted(sample.base, model)


def _tilted(base: PublicRows, model: Model) -> Array:
    tilted = base.tilt(model.potentials)
    return tilted.shares if isinstance(tilted, RowsTilted) else base.shares
