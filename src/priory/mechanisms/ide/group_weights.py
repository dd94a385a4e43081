"""Group weights: the weights of public rows in each group, from those of the level above and noisy marginals."""

import warnings
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from priory.estimate.estimator import estimate
from priory.estimate.measured import noisy
from priory.estimate.papers.raking import Raking
from priory.estimate.prior_strength import Sample, common_prior_size
from priory.factor import Array
from priory.mechanisms.ide.hierarchy import Level
from priory.model.bases import PublicRows
from priory.model.model import Model
from priory.privacy.measurement import Measurement

# So many groups decide the prior sample size of all of them.
ASKED = 40
# No group's marginals are trusted to less than a row.
LEAST_STDDEV = 1.0

Update = Callable[[Sequence[Sample]], list[Array]]


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
        return [priors[place] for place in level.prior_of]
    domain = public.domain.project(touched)
    axes = [public.domain.axis[name] for name in touched]
    codes, inverse = np.unique(public.codes[:, axes], axis=0, return_inverse=True)
    inverse = inverse.reshape(-1)
    bases = [PublicRows(codes, domain, _positive(inverse, prior, len(codes))) for prior in priors]
    samples = [
        Sample(bases[place], noisy(level.of_group(tables, group, domain), LEAST_STDDEV), float(count))
        for group, place, count in zip(level.groups, level.prior_of, counts, strict=True)
    ]
    fresh = iter(update([sample for sample in samples if sample.total > 0]))
    ratios = [next(fresh) / sample.base.shares if sample.total > 0 else np.ones(len(codes)) for sample in samples]
    return [priors[place] * ratio[inverse] for place, ratio in zip(level.prior_of, ratios, strict=True)]


def weighed(samples: Sequence[Sample], records: float, seed: int) -> list[Array]:
    """Prior and marginals weighted by their precision, with one prior sample size for all groups."""
    asked = np.random.default_rng(seed).permutation(len(samples))[:ASKED]
    prior_size = common_prior_size([samples[i] for i in asked], records)
    return [_tilted(sample.base, sample.model(prior_size)) for sample in samples]


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


def _positive(inverse: NDArray[np.intp], prior: Array, size: int) -> Array:
    """The weights of small rows; none is lost, however little is left of it."""
    return np.maximum(np.bincount(inverse, weights=prior, minlength=size), 1e-300)


def _tilted(base: PublicRows, model: Model) -> Array:
    return base.tilt(model.potentials).shares
