"""Samples: many small sets of rows, each with answers too few to say alone how many records its rows count for."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from priory.estimate.rows.answers import RowAnswers
from priory.estimate.rows.weigh import CAUTION
from priory.estimate.rows.weights import RowFits, Weights, random_signs
from priory.model.bases import PublicRows
from priory.privacy.measurement import Measurement
from priory.queries.factor import Array

# The number of records is divided by this from one fit to the next, down to so many, or to this part of what rows have.
STEP = 10**0.5
LEAST, LEAST_PART = 10.0, 0.01
MOST_CALLS = 300


@dataclass(frozen=True, eq=False)
class Sample:
    """Rows that are a sample, what was measured, and how many records there are."""

    base: PublicRows  # the sample
    measurements: Sequence[Measurement]  # what was measured of the records
    total: float  # how many there are

    def shares(self, records: float) -> Array:
        """The most likely weights where the sample counts for so many records; its own where these are infinite."""
        if math.isinf(records) or not self.measurements:
            return self.base.shares
        return np.asarray(self.fits.fitted(self.fits.start(records), MOST_CALLS).shares)

    @cached_property
    def fits(self) -> RowFits:
        return RowFits(RowAnswers.of(self.measurements, self.base, self.total), np.log(self.base.shares))


@dataclass(frozen=True, eq=False)
class _Fit:
    """A fit of one sample."""

    error: float  # Stein's estimate, in units of the noise variance
    degrees_of_freedom: float
    excess: Array  # the answers' distance from the noisy ones, in standard deviations


def common_records(samples: Sequence[Sample], records: float) -> float:
    """How many records all samples count for: at most `records`, or infinite where none is better off weighed."""
    fits = [sample.fits for sample in samples if sample.measurements]
    if not fits:
        return math.inf
    least = min(LEAST, LEAST_PART * records)
    best = [_judged(each, each.start(records), moves=True) for each in fits]
    best_records = records
    while records > least:
        records /= STEP
        last = [_judged(each, each.start(records), moves=True) for each in fits]
        if _gain(best, last) > 0:
            best, best_records = last, records
        elif _sum(last) > _sum(best):
            break
    unmoved = [_judged(each, each.start(records), moves=False) for each in fits]
    return math.inf if _gain(best, unmoved) > 0 else best_records


def _judged(fits: RowFits, start: Weights, *, moves: bool) -> _Fit:
    answers = fits.answers
    fit = fits.fitted(start, MOST_CALLS) if moves else start
    degrees = fits.degrees_of_freedom(fit, random_signs(len(answers.values))) if moves else 0.0
    excess = (answers.predicted(fit.shares) - answers.values) * answers.precision**0.5
    return _Fit(fit.misfit - answers.size + 2 * degrees, degrees, excess)


def _sum(fits: Sequence[_Fit]) -> float:
    return sum(fit.error for fit in fits)


def _gain(those: Sequence[_Fit], these: Sequence[_Fit]) -> float:
    """By how much these are better than those, less some standard errors of it."""
    pairs = list(zip(those, these, strict=True))
    moved = sum(float(np.sum((a.excess - b.excess) ** 2)) for a, b in pairs)
    degrees = sum(abs(a.degrees_of_freedom - b.degrees_of_freedom) for a, b in pairs)
    return _sum(those) - _sum(these) - CAUTION * math.sqrt(4 * moved + 8 * degrees)
