"""Dirichlet: the counts of single attributes where noise hides most of them, by a prior that fits real tables.

Values of real columns are unevenly common: an estimate that starts from equal counts gives up too much of what noisy
answers say. Here the counts of an attribute's k values have a symmetric Dirichlet prior, and the noisy answers say how
even it is. Given its concentration a, counts are taken as independent gamma variables of shape a and mean n/k, so that
the posterior mean and variance of each follow from an integral over it alone; answers about sums of values, and the
total, then move them in proportion to their variances. Where sums of neighbouring values were measured, what these say
may be expected instead of n/k. The result is the mean over all such priors, each as likely as it makes the answers.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from priory.estimate.estimator import estimate
from priory.estimate.evidence import Evidence
from priory.estimate.rows.answers import partition
from priory.estimate.total import total_of
from priory.model.bases import Base
from priory.model.model import Model
from priory.privacy.measurement import Measurement
from priory.queries.factor import Array
from priory.queries.parts import Identity
from priory.queries.query import Query

DIRICHLET = "dirichlet"
# Concentrations from columns with one common value to even ones, each as likely as another beforehand.
CONCENTRATIONS = np.geomspace(0.002, 20.0, 13)
# Counts that integrals go over, in parts of what is expected; and around the answer, in standard deviations.
_COUNTS = np.geomspace(1e-6, 50.0, 90)
_AROUND = np.linspace(-6.0, 6.0, 49)
# Values that are worked out at once.
_BLOCK = 20_000
# The least that is expected of a value whose neighbours have nothing, in parts of the mean.
_LEAST_EXPECTED = 1e-3
# Values of which nothing was measured by themselves have this many times the noise of all records.
_UNKNOWN = 1e3
# No count is taken to be closer than this to its estimate, in records.
_LEAST_STDDEV = 1e-3


@dataclass(frozen=True, eq=False)
class Counts:
    """The counts of an attribute's values, by noisy answers."""

    means: Array  # adding up to the total
    variances: Array
    degrees_of_freedom: float  # by how much the means follow the answers

    @classmethod
    def of(cls, measurements: Sequence[Measurement], total: float) -> "Counts":
        """The counts by answers about one attribute: each counts records by values, or by groups of values."""
        answers = _Answers.of(measurements, total)
        found = [answers.given(a, answers.mean) for a in CONCENTRATIONS]
        for each in answers.sums:
            likely = max(found, key=lambda given: given.log_chance).means
            expected = np.maximum(each.spread(likely), _LEAST_EXPECTED * answers.mean)
            found += [answers.given(a, expected) for a in CONCENTRATIONS]
        chances = np.array([given.log_chance for given in found])
        weights = np.exp(chances - chances.max())
        weights /= weights.sum()
        means = weights @ np.array([given.means for given in found])
        squares = weights @ np.array([given.variances + given.means**2 for given in found])
        variances = np.maximum(squares - means**2, 0.0)
        return cls(means, variances, float(np.sum(variances / answers.stddevs**2)))

    def deviations(self, query: Query, total_stddev: float) -> Array:
        """The standard deviation of answers about the attribute, whose counts add up to a total with this one."""
        [part], spread = query.parts, max(float(self.variances.sum()), 1e-300)
        squares = self.variances if isinstance(part, Identity) else part.matrix(len(self.means)) ** 2 @ self.variances
        of_total = part.apply(self.means, 0) / max(float(self.means.sum()), 1e-300) * total_stddev
        # Known to add up, counts err against each other.
        left = squares - part.apply(self.variances, 0) ** 2 / spread + of_total**2
        return np.asarray(np.sqrt(np.maximum(left, 0.0)))


@dataclass(frozen=True, eq=False)
class _Given:
    """What the answers say with one prior."""

    means: Array
    variances: Array
    log_chance: float  # of the answers about single values and of the total, but for a constant


@dataclass(frozen=True, eq=False)
class _Sums:
    """Noisy answers about sums of values."""

    groups: NDArray[np.int64]  # the sum that each value is in
    values: Array
    variances: Array

    def added(self, counts: Array) -> Array:
        """What counts of values add up to."""
        return np.asarray(np.bincount(self.groups, counts, len(self.values)), dtype=np.float64)

    def spread(self, counts: Array) -> Array:
        """The mean count of the values in the sum of each."""
        return np.asarray((self.added(counts) / np.bincount(self.groups, minlength=len(self.values)))[self.groups])

    def pulled(self, means: Array, variances: Array) -> tuple[Array, Array, float]:
        """Counts moved by the answers in proportion to their variances, what is left of these, and of all together."""
        spreads = self.added(variances)
        width = spreads + self.variances
        moved = means + variances * ((self.values - self.added(means)) / width)[self.groups]
        left = variances * (1 - variances / width[self.groups])
        # The sums are better known than their parts, whose errors go together.
        return moved, np.maximum(left, 0.0), float(np.sum(spreads - spreads**2 / width))


@dataclass(frozen=True, eq=False)
class _Answers:
    """Noisy answers about one attribute."""

    values: Array  # about each value
    stddevs: Array
    sums: tuple[_Sums, ...]  # about sums of them
    total: float  # what they add up to

    @classmethod
    def of(cls, measurements: Sequence[Measurement], total: float) -> "_Answers":
        size = measurements[0].query.domain.size
        weighted, precision = np.zeros(size), np.zeros(size)
        sums = []
        for m in measurements:
            values, variances = np.ravel(m.values), np.broadcast_to(np.square(m.stddev), m.query.shape).ravel()
            groups = _groups(m.query)
            if groups is not None:
                sums.append(_Sums(groups, values, variances))
                continue
            weighted, precision = weighted + values / variances, precision + 1 / variances
        known = precision > 0
        means = np.divide(weighted, precision, out=np.zeros(size), where=known)
        stddevs = np.divide(1.0, np.sqrt(precision), out=np.full(size, _UNKNOWN * total), where=known)
        return cls(means, stddevs, tuple(sums), total)

    @property
    def mean(self) -> Array:
        """The same count for each value."""
        return np.full(len(self.values), self.total / len(self.values))

    def given(self, concentration: float, expected: Array) -> _Given:
        """What they say where counts have a gamma prior of this shape and these means."""
        found = [np.concatenate(each) for each in zip(*self._blocks(concentration, expected), strict=True)]
        means, variances, log_chances = found
        spread = float(variances.sum())
        for each in self.sums:
            means, variances, spread = each.pulled(means, variances)
        # The sum of all counts, as wide beforehand as they are together, is known to be the total.
        before = float(np.sum(expected**2)) / concentration
        missing = self.total - float(means.sum())
        known = 0.5 * (math.log(before / spread) - missing**2 / spread) if spread > 0 else 0.0
        return _Given(_adding_up(means, variances, self.total), variances, float(log_chances.sum()) + known)

    def _blocks(self, concentration: float, expected: Array) -> Iterator[tuple[Array, Array, Array]]:
        """Posterior means and variances, and logarithms of the chance of each answer, some values at a time."""
        from scipy.special import gammainc

        scale = concentration * math.log(concentration) - math.lgamma(concentration)
        # The chance of less than the least count, which is taken for none.
        none = math.log(max(float(gammainc(concentration, concentration * _COUNTS[0])), 1e-300))
        for start in range(0, len(expected), _BLOCK):
            unit = expected[start : start + _BLOCK]
            own, noise = (each[start : start + _BLOCK] / unit for each in (self.values, self.stddevs))
            around = np.maximum(own[:, None] + noise[:, None] * _AROUND, _COUNTS[0])
            common = np.broadcast_to(_COUNTS, (len(unit), len(_COUNTS)))
            points = np.sort(np.concatenate([common, around], axis=1), axis=1)
            # Over logarithms of counts, along which the prior is smooth down to none.
            heights = np.log(points)
            logs = concentration * (heights - points) + scale
            logs -= 0.5 * ((points - own[:, None]) / noise[:, None]) ** 2
            logs_of_none = none - 0.5 * (own / noise) ** 2
            top = np.maximum(logs.max(axis=1), logs_of_none)
            chances = np.exp(logs - top[:, None]) * np.gradient(heights, axis=1)
            every = chances.sum(axis=1) + np.exp(logs_of_none - top)
            means = (chances * points).sum(axis=1) / every
            squares = (chances * points**2).sum(axis=1) / every
            yield unit * means, unit**2 * np.maximum(squares - means**2, 1e-12), np.log(every) + top


def _adding_up(means: Array, variances: Array, total: float) -> Array:
    """The means moved in proportion to their variances until they add up to the total, none below nothing."""
    means = np.maximum(means, 0.0)
    for _ in range(20):
        missing = total - float(means.sum())
        can_move = variances if missing > 0 else np.where(means > 0, variances, 0.0)
        if abs(missing) <= 1e-9 * total or not can_move.sum() > 0:
            break
        means = np.maximum(means + missing * can_move / can_move.sum(), 0.0)
    if not means.sum() > 0:
        return np.full(len(means), total / len(means))
    return np.asarray(means * (total / means.sum()))


def _groups(query: Query) -> NDArray[np.int64] | None:
    """The group of each value that a query counts by; None where it counts each by itself."""
    [groups] = partition(query) or [None]
    return groups


def single_attributes(measurements: Sequence[Measurement], base: Base, total: float | None = None) -> Model:
    """The model of independent attributes by noisy answers about each of them.

    Args:
        measurements: answers about single attributes, which count each value or groups of values.
        base: what the model starts from, without structural zeros.
        total: how many records there are, where that is public.
    """
    evidence = Evidence.of(base.domain, measurements)
    counted = total_of(evidence)
    records = counted(evidence.values) if total is None else total
    cliques = dict.fromkeys(m.query.clique for m in measurements if m.query.clique)
    found = {clique: Counts.of([m for m in measurements if m.query.clique == clique], records) for clique in cliques}
    known = [
        Measurement.of(Query.marginal(base.domain, clique), counts.means, np.sqrt(counts.variances) + _LEAST_STDDEV)
        for clique, counts in found.items()
    ]
    model = estimate(known, base.domain, base=base, total=records, stop="converged")
    if model.diagnostics is None or not found:
        return model
    left = np.concatenate([counts.variances for counts in found.values()])
    diagnostics = replace(
        model.diagnostics,
        solver="Counts",
        stop=DIRICHLET,
        reason="Attributes are taken as independent, and as uneven as their noisy counts say.",
        estimated_error=math.sqrt(float(left.mean()) / float(np.mean(evidence.stddevs**2))),
        total_stddev=counted.stddev if total is None else 0.0,
        degrees_of_freedom=sum(counts.degrees_of_freedom for counts in found.values()),
        schedule=(),
        path=(),
    )
    return replace(model, diagnostics=diagnostics)
