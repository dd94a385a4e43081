"""Row iterates: where multiplicative weights over rows have come to, and what was measured on the way."""

import math
from dataclasses import dataclass, replace

from priory.factor import Array
from priory.mechanisms.pmw_pub.row_weights import RowWeights
from priory.model.membership import Places
from priory.privacy.measurement import Measurement
from priory.privacy.scores import Pick


@dataclass(frozen=True, eq=False)
class Known:
    """A cell that was measured."""

    rows: Places  # which rows are in it
    share: float  # its part of the total, as measured; the mean where it was measured more than once
    variance: float  # of that

    def and_again(self, share: float, variance: float) -> "Known":
        """With another measurement of the same cell, both weighted by their precision."""
        precision = 1 / self.variance + 1 / variance if min(self.variance, variance) > 0 else math.inf
        if math.isinf(precision):
            return self if self.variance <= variance else replace(self, share=share, variance=variance)
        mean = (self.share / self.variance + share / variance) / precision
        return replace(self, share=mean, variance=1 / precision)

    def miss(self, weights: RowWeights) -> float:
        """How far the weights are below what was measured."""
        return self.share - weights.share(self.rows)


@dataclass(frozen=True, eq=False)
class Iterates:
    """Where the rounds have come to; all of it is private."""

    last: RowWeights  # the weights after the last round
    sum: Array  # the sum of the weights before each round
    known: dict[Pick, Known]  # what was measured, by query and cell
    measurements: tuple[Measurement, ...]  # the noisy answers, one a round

    @property
    def average(self) -> Array:
        """The mean of the weights before each round, the paper's output; those of the start where there was none."""
        return self.sum / len(self.measurements) if self.measurements else self.last.weights

    def knowing(self, pick: Pick, measurement: Measurement, total: float) -> dict[Pick, Known]:
        """What is known with one more measurement."""
        share = min(max(float(measurement.values.sum()) / total, 0.0), 1.0)
        variance = measurement.variance / total**2
        if pick in self.known:
            return {**self.known, pick: self.known[pick].and_again(share, variance)}
        return {**self.known, pick: Known(self.last.rows_in(pick.query, pick.cell or 0), share, variance)}
