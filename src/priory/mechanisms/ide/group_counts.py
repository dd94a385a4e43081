"""Group counts: how many rows each group has, from noisy counts and what is likely before."""

import numpy as np
from numpy.typing import NDArray

from priory.factor import Array
from priory.mechanisms.ide.hierarchy import Level
from priory.model.bases import PublicRows
from priory.privacy.measurement import Measurement

# The posterior of a count is added up at so many places, this many of its standard deviations to either side.
PLACES, REACH = 201, 10.0


def expected_counts(public: PublicRows, level: Level) -> Array:
    """What parts of all rows the groups have by what public rows say of each of their attributes, which add up to 1.

    Values that no public row has are taken for average ones: where that is all of them, groups are alike.
    """
    parts = np.ones(len(level.groups))
    for place, name in enumerate(level.attributes):
        axis = public.domain.axis[name]
        shares = np.bincount(public.codes[:, axis], weights=public.shares, minlength=public.domain[name])
        here = shares[[group[place] for group in level.groups]]
        if here.any():
            parts *= np.where(here > 0, here, here[here > 0].mean())
    return np.asarray(parts / parts.sum())


def likely_counts(level: Level, measurement: Measurement, expected: Array) -> Array:
    """The mean of each group's count given its noisy one, where counts vary about what is expected as gamma variables.

    How much they vary is estimated from all noisy counts together, beyond their noise. Where they vary less about an
    equal count for all than about the expected ones, the equal count it is.
    """
    noisy = level.counts(measurement)
    if len(noisy) < 3 or not measurement.variance > 0:
        return np.maximum(noisy, 0.0)
    total = max(float(noisy.sum()), 1.0)
    equal = np.full(len(noisy), 1 / len(noisy))
    spread, means = min(
        ((_spread(noisy, total * parts, measurement.variance), tuple(total * parts)) for parts in (expected, equal)),
        key=lambda candidate: candidate[0],
    )
    return _posterior_means(noisy, measurement, np.array(means), spread) if spread > 0 else np.array(means)


def _spread(noisy: Array, means: Array, variance: float) -> float:
    """The squared coefficient of variation of counts about their means, as far as it is no noise."""
    return max(float(((noisy - means) ** 2 - variance).mean() / (means**2).mean()), 0.0)


def _posterior_means(noisy: Array, measurement: Measurement, means: Array, spread: float) -> Array:
    """Σ n·p(n)·p(y|n) / Σ p(n)·p(y|n) for each group, with p(n) of a gamma distribution."""
    before = spread * means**2
    after = before * measurement.variance / (before + measurement.variance)
    centres = means + before / (before + measurement.variance) * (noisy - means)
    steps = np.linspace(-REACH, REACH, PLACES)
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
