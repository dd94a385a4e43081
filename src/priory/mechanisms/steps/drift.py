"""Drift: columns in which public rows and noisy answers hardly overlap, and what is done about it.

Where the values of a column are others than the public ones, no weights of the public rows fit both, and rows that are
weighted all the same fit nothing any more. It is judged by noisy answers alone, which were paid for.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from priory.estimate.evidence import Evidence, implied_one_ways
from priory.model.bases import PublicRows
from priory.privacy.measurement import Measurement
from priory.queries.factor import Array

# A column has drifted where public rows and noisy answers differ by more than this, as total variation, and than noise.
DRIFTED = 0.5
# Rows that were weighted to have the values of a column alone count for at least this part of them; else it is changed.
LEAST_LEFT = 0.1
# The mean of |noise| over its standard deviation, where it is normal.
MEAN_NOISE = (2 / np.pi) ** 0.5
# With four, noise alone makes one of a hundred columns drift in one of 300 fits.
DEVIATIONS = 4.0


def drifted_columns(rows: PublicRows, measurements: Sequence[Measurement], total: float) -> list[str]:
    """The columns whose values hardly overlap with those that noisy marginals of `total` records say."""
    return [each.name for each in _columns(rows, measurements, total) if each.has_drifted]


def without_thin_columns(
    rows: PublicRows, measurements: Sequence[Measurement], total: float
) -> tuple[PublicRows, list[str]]:
    """The rows with the values that too few of them have, and the names of the columns that are no longer as they were.

    These are the columns to which rows cannot be weighted without most of them counting for nothing. Of each only as
    many rows as must be get another value, whatever they have in other columns.
    """
    rng, codes, names = np.random.default_rng(0), rows.codes.copy(), []
    for column in _columns(rows, measurements, total):
        if column.is_thin(rows.records):
            axis = rows.domain.axis[column.name]
            codes[:, axis] = column.coupled(codes[:, axis], rng)
            names.append(column.name)
    return (PublicRows(codes, rows.domain, rows.shares), names) if names else (rows, names)


def said_of(columns: Sequence[str]) -> str:
    """A sentence for the release about columns that have drifted, for which all public rows were left out."""
    named = ", ".join(columns)
    return f"Public rows were left out: by the noisy answers, their values of {named} are not those of private rows."


def said_of_thin(columns: Sequence[str]) -> str:
    """The same where only some values of those columns were changed."""
    named = ", ".join(columns)
    return f"Public values of {named} were changed: by the noisy answers, too few rows have those of private rows."


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

    def is_thin(self, records: float) -> bool:
        """Whether rows that are weighted to have the noisy shares p for q count for few, for 1/Σp²/q of all."""
        held = np.maximum(self.public, 1 / records)
        squares, noise = self.noisy**2, self.stddevs**2
        spread = np.sqrt(np.sum((2 * noise**2 + 4 * noise * squares) / held**2))
        return bool(np.sum((squares - noise) / held) - DEVIATIONS * spread > 1 / LEAST_LEFT)

    def coupled(self, codes: NDArray[np.integer], rng: np.random.Generator) -> NDArray[np.integer]:
        """The column with the noisy shares: values that are too common give up to those that are too rare."""
        # Even where noise has made all counts negative there is a chance for each value.
        wanted = np.maximum(self.noisy, 1e-9)
        wanted = wanted / wanted.sum()
        missing = np.maximum(wanted - self.public, 0.0)
        given_up = 1 - np.minimum(wanted / np.maximum(self.public, 1e-300), 1.0)
        moves, new = rng.random(len(codes)) < given_up[codes], codes.copy()
        if missing.sum() > 0:
            new[moves] = rng.choice(len(wanted), int(moves.sum()), p=missing / missing.sum())
        return new


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
