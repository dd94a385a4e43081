"""Drift: columns in which public rows and noisy answers hardly overlap, and what is done about it.

Where the values of a column are others than the public ones, no weights of the public rows fit both, and rows that are
weighted all the same fit nothing any more. It is judged by noisy answers alone, which were paid for.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from priory.estimate.evidence import Evidence, implied_one_ways
from priory.model.bases import PublicRows
from priory.privacy.measurement import Measurement
from priory.queries.factor import Array

# A column has drifted where public rows and noisy answers differ by more than this, as total variation, and than noise.
DRIFTED = 0.5
# The mean of |noise| over its standard deviation, where it is normal.
MEAN_NOISE = (2 / np.pi) ** 0.5
# With four, noise alone makes one of a hundred columns drift in one of 300 fits.
DEVIATIONS = 4.0


def drifted_columns(rows: PublicRows, measurements: Sequence[Measurement], total: float) -> list[str]:
    """The columns whose values hardly overlap with those that noisy marginals of `total` records say."""
    return [each.name for each in _columns(rows, measurements, total) if each.has_drifted]


def said_of(columns: Sequence[str]) -> str:
    """A sentence for the release about columns that have drifted, for which all public rows were left out."""
    named = ", ".join(columns)
    return f"Public rows were left out: by the noisy answers, their values of {named} are not those of private rows."


@dataclass(frozen=True, eq=False)
class _Column:
    """A column by noisy answers, and in public rows."""

    name: str
    noisy: Array  # shares of its values
    stddevs: Array  # of these
    public: Array  # the same of the public rows

    @property
    def has_drifted(self) -> bool:
        """Whether public rows and noisy answers hardly overlap."""
        # What noise alone makes of the difference, at most: its mean, and some of its standard deviations.
        spread = np.sqrt((1 - MEAN_NOISE**2) * np.sum(self.stddevs**2))
        noise = MEAN_NOISE * self.stddevs.sum() + DEVIATIONS * spread
        return bool(0.5 * (float(np.abs(self.noisy - self.public).sum()) - noise) > DRIFTED)


def _columns(rows: PublicRows, measurements: Sequence[Measurement], total: float) -> Iterator[_Column]:
    """The columns that were measured, or are implied by what was; what was measured twice is put together."""
    evidence = implied_one_ways(Evidence.of(rows.domain, measurements))
    sums: dict[str, Array] = {}
    for query, span in zip(evidence.queries, evidence.spans, strict=True):
        [name] = query.clique
        precision = evidence.stddevs[span] ** -2.0
        sums[name] = sums.get(name, 0.0) + np.stack([precision * evidence.values[span], precision])
    for name, (weighted, precision) in sums.items():
        counts = np.bincount(rows.codes[:, rows.domain.axis[name]], rows.shares, len(precision))
        public = np.asarray(counts, dtype=np.float64)
        yield _Column(name, weighted / precision / total, precision**-0.5 / total, public)
