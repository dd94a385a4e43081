"""Public rows: what recipes start from, with rows one value away so that a model can leave their support."""

import numpy as np
from numpy.typing import NDArray

from priory.errors import DomainError
from priory.model.bases import Base, PublicRows, Uniform
from priory.queries.domain import Domain

# Rows for a value that no public row has: enough to carry what the other attributes look like, should it be common.
ABSENT = 2_000
# A value that some public rows have gets as many as it takes to have this many.
RARE = 100
# Values that no public row has share at most so many.
MOST = 20_000
# The share of a public prior that lies on rows one value away from the public ones, so that it can be left.
OUTSIDE = 0.01


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
