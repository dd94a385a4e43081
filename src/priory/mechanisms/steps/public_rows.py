"""Public rows: what recipes start from, with rows one value away so that a model can leave their support."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from priory.errors import DomainError
from priory.estimate.evidence import Evidence, implied_one_ways
from priory.model.bases import Base, PublicRows, Uniform
from priory.privacy.measurement import Measurement
from priory.queries.domain import Domain

# Rows for a value that no public row has: enough to carry what the other attributes look like, should it be common.
ABSENT = 2_000
# A value that some public rows have gets as many as it takes to have this many.
RARE = 100
# Values that no public row has share at most so many.
MOST = 20_000
# The share of a public prior that lies on rows one value away from the public ones, so that it can be left.
OUTSIDE = 0.01
# A column has drifted where public rows and noisy answers differ by more than this, as total variation, and than noise.
DRIFTED = 0.5
# The mean of |noise| over its standard deviation, where it is normal.
MEAN_NOISE = (2 / np.pi) ** 0.5


def check_public_rows(public: PublicRows | None, domain: Domain) -> None:
    """Refuse public rows whose attributes or sizes are not those of the private table."""
    if public is not None and public.domain != domain:
        raise DomainError(f"the public rows have {public.domain}, the private table {domain}")


def starting_base(domain: Domain, public: PublicRows | None) -> Base:
    """What a model starts from: public rows and rows close to them, or every cell alike."""
    if public is None:
        return Uniform(domain)
    check_public_rows(public, domain)
    # Which rows are close is public: any fixed seed will do.
    return neighbourhood(public, OUTSIDE, np.random.default_rng(0))


def without_drift(rows: PublicRows, measurements: Sequence[Measurement], total: float) -> PublicRows:
    """The rows with columns that have drifted away drawn anew, as the noisy answers say; other columns stay.

    Where the values of a column hardly overlap with those that the answers tell of, no weights of the rows fit both,
    and what the rows say of it is worth nothing. Its values are then drawn for each row by themselves.

    Args:
        rows: the public rows.
        measurements: noisy marginals.
        total: how many records they are about.
    """
    evidence = implied_one_ways(Evidence.of(rows.domain, measurements))
    rng, codes = np.random.default_rng(0), rows.codes.copy()
    for query, span in zip(evidence.queries, evidence.spans, strict=True):
        axis = rows.domain.axis[query.clique[0]]
        shares = evidence.values[span] / total
        public = np.bincount(codes[:, axis], rows.shares, len(shares))
        noise = MEAN_NOISE * float(evidence.stddevs[span].sum()) / total
        if 0.5 * (float(np.abs(shares - public).sum()) - noise) > DRIFTED:
            # Even where noise has made all counts negative there is a chance for each value.
            chances = np.maximum(shares, 1e-9)
            codes[:, axis] = rng.choice(len(shares), len(codes), p=chances / chances.sum())
    return PublicRows(codes, rows.domain, rows.shares)


def neighbourhood(rows: PublicRows, outside: float, rng: np.random.Generator) -> PublicRows:
    """The mixture of `rows` and of rows like them with one attribute set to a value that few or none have.

    For every value of every attribute that is rare in the public rows, some are drawn and that attribute set to it:
    what no public row has gets support, and the other attributes keep what ties them to each other. The new rows have
    a share of `outside` together, of which every rare value has an equal part.
    """
    wanted = _wanted(rows)
    if outside == 0 or not any(count.any() for count in wanted):
        return rows
    drawn, weights = [], []
    for axis, count in enumerate(wanted):
        moved = rows.codes[rng.choice(len(rows.codes), int(count.sum()), p=rows.shares)]
        moved[:, axis] = np.repeat(np.arange(len(count)), count)
        drawn.append(moved)
        weights.append(np.repeat(1 / np.maximum(count, 1), count))
    new = np.concatenate(weights)
    shares = np.concatenate([(1 - outside) * rows.shares, outside / new.sum() * new])
    return PublicRows(np.concatenate([rows.codes, *drawn]), rows.domain, shares)


def _wanted(rows: PublicRows) -> list[NDArray[np.intp]]:
    """How many rows are drawn for each value of each attribute."""
    sizes = rows.domain.shape
    counts = [np.bincount(rows.codes[:, axis], minlength=size) for axis, size in enumerate(sizes)]
    absent = min(ABSENT, MOST // max(sum(int((count == 0).sum()) for count in counts), 1))
    return [np.where(count == 0, max(absent, 1), np.maximum(RARE - count, 0)) for count in counts]
