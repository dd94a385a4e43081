"""Groups: how many rows each group has, and the weights of public rows in it, from noisy answers and what is before."""

import warnings
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from priory.estimate.estimator import estimate
from priory.estimate.measured import noisy
from priory.estimate.papers.raking import Raking
from priory.estimate.rows.samples import Sample, common_records
from priory.mechanisms.ide.hierarchy import Level
from priory.model.bases import PublicRows
from priory.model.model import Model
from priory.privacy.measurement import Measurement
from priory.queries.factor import Array

# The posterior of a count is added up at so many points, this many of its standard deviations to either side.
POINTS, REACH = 201, 10.0
# So many groups decide the prior sample size of all of them.
ASKED = 40
# No group's marginals are trusted to less than a row.
LEAST_STDDEV = 1.0

Update = Callable[[Sequence[Sample]], list[Array]]


def expected_counts(public: PublicRows, level: Level) -> Array:
    """What parts of all rows the groups have by what public rows say of each of their attributes, which add up to 1."""
    # Values that no public row has are taken for average ones: where that is all of them, groups are alike.
    parts = np.ones(len(level.groups))
    for depth, name in enumerate(level.attributes):
        axis = public.domain.axis[name]
        shares = np.bincount(public.codes[:, axis], weights=public.shares, minlength=public.domain[name])
        own = shares[[group[depth] for group in level.groups]]
        if own.any():
            parts *= np.where(own > 0, own, own[own > 0].mean())
    return np.asarray(parts / parts.sum())


def likely_counts(level: Level, measurement: Measurement, expected: Array) -> Array:
    """The mean of each group's count given its noisy one; counts vary about what is expected as gamma variables."""
    # How much they vary is estimated from all noisy counts together, beyond their noise. Where they vary less about an
    # equal count for all than about the expected ones, the equal count it is.
    noisy = level.counts(measurement)
    if len(noisy) < 3 or not measurement.variance > 0:
        return np.maximum(noisy, 0.0)
    total = max(float(noisy.sum()), 1.0)
    equal = np.full(len(noisy), 1 / len(noisy))
    tried = ((_spread(noisy, total * p, measurement.variance), tuple(total * p)) for p in (expected, equal))
    spread, means = min(tried, key=lambda candidate: candidate[0])
    return _posterior_means(noisy, measurement, np.array(means), spread) if spread > 0 else np.array(means)


def _spread(noisy: Array, means: Array, variance: float) -> float:
    """The squared coefficient of variation of counts about their means, as far as it is no noise."""
    return max(float(((noisy - means) ** 2 - variance).mean() / (means**2).mean()), 0.0)


def _posterior_means(noisy: Array, measurement: Measurement, means: Array, spread: float) -> Array:
    """Σ n·p(n)·p(y|n) / Σ p(n)·p(y|n) for each group, with p(n) of a gamma distribution."""
    before = spread * means**2
    after = before * measurement.variance / (before + measurement.variance)
    centres = means + before / (before + measurement.variance) * (noisy - means)
    steps = np.linspace(-REACH, REACH, POINTS)
    counts = np.maximum(centres[:, None] + np.sqrt(after)[:, None] * steps, 1e-9 * means[:, None])
    shape = 1 / spread
    logs = (shape - 1) * np.log(counts) - shape * counts / means[:, None] + _log_chances(noisy, measurement, counts)
    weights = np.exp(logs - logs.max(axis=1, keepdims=True))
    return np.asarray((weights * counts).sum(axis=1) / weights.sum(axis=1))


def _log_chances(noisy: Array, measurement: Measurement, counts: NDArray[np.float64]) -> Array:
    """How likely the noisy counts are given true ones, up to a constant."""
    gaps = (noisy[:, None] - counts) / np.sqrt(measurement.variance)
    if measurement.noise is not None and measurement.noise.kind == "laplace":
        return np.asarray(-np.sqrt(2) * np.abs(gaps))
    return np.asarray(-(gaps**2) / 2)


def updated(
    public: PublicRows,
    level: Level,
    priors: Sequence[Array],
    counts: Array,
    tables: Sequence[Measurement],
    *,
    update: Update,
) -> list[Array]:
    """The weights of the public rows in each group, the same ones as above where nothing was measured."""
    touched = tuple(dict.fromkeys(name for table in tables for name in table.query.clique))
    touched = tuple(name for name in touched if name not in level.attributes)
    if not touched:
        return [priors[above] for above in level.prior_of]
    domain = public.domain.project(touched)
    axes = [public.domain.axis[name] for name in touched]
    codes, inverse = np.unique(public.codes[:, axes], axis=0, return_inverse=True)
    inverse = inverse.reshape(-1)
    # None of the small rows is lost, however little is left of it.
    weights = [np.maximum(np.bincount(inverse, weights=prior, minlength=len(codes)), 1e-300) for prior in priors]
    bases = [PublicRows(codes, domain, own) for own in weights]
    tables_of = [noisy(level.of_group(tables, group, domain), LEAST_STDDEV) for group in level.groups]
    each = zip(tables_of, level.prior_of, counts, strict=True)
    samples = [Sample(bases[above], found, float(count)) for found, above, count in each]
    fresh = iter(update([sample for sample in samples if sample.total > 0]))
    ratios = [next(fresh) / sample.base.shares if sample.total > 0 else np.ones(len(codes)) for sample in samples]
    return [priors[above] * ratio[inverse] for above, ratio in zip(level.prior_of, ratios, strict=True)]


def weighed(samples: Sequence[Sample], records: float, seed: int) -> list[Array]:
    """Prior and marginals weighted by their precision, with one prior sample size for all groups."""
    asked = np.random.default_rng(seed).permutation(len(samples))[:ASKED]
    common = common_records([samples[i] for i in asked], records)
    return [sample.shares(common) for sample in samples]


def raked(samples: Sequence[Sample], epochs: int) -> list[Array]:
    """Every noisy marginal met in turn, as in the paper."""
    with warnings.catch_warnings():
        # Noisy marginals contradict each other: raking ends after its epochs.
        warnings.simplefilter("ignore", UserWarning)
        return [_raked(sample, epochs) for sample in samples]


def _raked(sample: Sample, epochs: int) -> Array:
    solver = Raking(iterations=epochs)
    base, domain = sample.base, sample.base.domain
    model = estimate(sample.measurements, domain, base=base, total=sample.total, solver=solver, stop="converged")
    return _tilted(base, model)


def _tilted(base: PublicRows, model: Model) -> Array:
    return base.tilt(model.potentials).shares
