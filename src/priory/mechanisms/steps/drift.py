"""Drift: columns in which public rows and noisy answers hardly overlap, and what is done about it.

Where the values of a column are others than the public ones, no weights of the public rows fit both, and rows that are
weighted all the same fit nothing any more. It is judged by noisy answers alone, which were paid for.
"""

from collections.abc import Iterator, Sequence

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
    return list(dict.fromkeys(name for name, _ in _drifted(rows, measurements, total)))


def without_drift(rows: PublicRows, measurements: Sequence[Measurement], total: float) -> PublicRows:
    """The rows with columns that have drifted drawn anew, each by itself, as the noisy answers say; others stay."""
    rng, codes = np.random.default_rng(0), rows.codes.copy()
    for name, shares in _drifted(rows, measurements, total):
        # Even where noise has made all counts negative there is a chance for each value.
        chances = np.maximum(shares, 1e-9)
        codes[:, rows.domain.axis[name]] = rng.choice(len(shares), len(codes), p=chances / chances.sum())
    return PublicRows(codes, rows.domain, rows.shares)


def said_of(columns: Sequence[str]) -> str:
    """A sentence for the release about columns that have drifted, for which all public rows were left out."""
    named = ", ".join(columns)
    return f"Public rows were left out: by the noisy answers, their values of {named} are not those of private rows."


def said_of_few(columns: Sequence[str]) -> str:
    """The same where only the values of those columns were left out."""
    named = ", ".join(columns)
    return f"Public values of {named} were left out: by the noisy answers, they are not those of private rows."


def _drifted(rows: PublicRows, measurements: Sequence[Measurement], total: float) -> Iterator[tuple[str, Array]]:
    """Columns that have drifted, with the noisy shares of their values."""
    evidence = implied_one_ways(Evidence.of(rows.domain, measurements))
    for query, span in zip(evidence.queries, evidence.spans, strict=True):
        [name] = query.clique
        shares = evidence.values[span] / total
        public = np.bincount(rows.codes[:, rows.domain.axis[name]], rows.shares, len(shares))
        stddevs = evidence.stddevs[span] / total
        # What noise alone makes of the difference, at most: its mean, and some of its standard deviations.
        noise = MEAN_NOISE * stddevs.sum() + DEVIATIONS * np.sqrt((1 - MEAN_NOISE**2) * np.sum(stddevs**2))
        if 0.5 * (float(np.abs(shares - public).sum()) - noise) > DRIFTED:
            yield name, shares
