"""Samples: many small sets of rows, each with answers too few to say alone how many records its rows count for."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from priory.estimate.rows.answers import RowAnswers
from priory.estimate.rows.weights import RowFits
from priory.estimate.rows.worth import of_samples
from priory.model.bases import PublicRows
from priory.privacy.measurement import Measurement
from priory.queries.factor import Array

# Calls that a fit may take.
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


def common_records(samples: Sequence[Sample], records: float) -> float:
    """How many records all samples count for: at most `records`, or infinite where they are better left as they are."""
    every = [sample.fits for sample in samples if sample.measurements]
    return of_samples(every, records, MOST_CALLS)[0].part * records if every else math.inf
