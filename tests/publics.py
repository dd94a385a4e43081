"""Public rows of every kind, for mechanisms that start from them."""

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from houses import DOMAIN, random_rows
from priory.model.bases import PublicRows

PRIVATE = random_rows(400, seed=3)
RNG = np.random.default_rng(5)

KINDS = {
    "larger": np.stack([RNG.integers(0, size, 5_000) for size in DOMAIN.shape], axis=1),
    "smaller": PRIVATE.rows[:7],
    "identical": PRIVATE.rows,
    "disjoint": np.array([[3, 1, 2], [3, 1, 1]]),
}
# No private row is in the cells of the disjoint public ones.
APART = PRIVATE.rows[~((PRIVATE.rows[:, 0] == 3) & (PRIVATE.rows[:, 1] == 1))]

RHO = Fraction(1, 10)


def public(kind: str) -> PublicRows:
    return PublicRows(KINDS[kind], DOMAIN)


def private(kind: str) -> NDArray[np.int64]:
    return APART if kind == "disjoint" else PRIVATE.rows
