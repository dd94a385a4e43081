"""Merging: values that noise drowns are measured together; which they are is judged on noisy counts, for free."""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from priory.privacy.measurement import Measurement
from priory.queries.domain import Clique, Domain
from priory.queries.factor import Array
from priory.queries.parts import Identity, Part, Recode
from priory.queries.query import Query

# Values whose noisy count is below so many standard deviations of its noise are measured together.
DROWNED = 3.0


def merged_parts(domain: Domain, measurements: Sequence[Measurement], *, drowned: float = DROWNED) -> dict[str, Part]:
    """How the values of each attribute are merged, by its noisy one-way marginals."""
    parts = {}
    for name in domain:
        counts, stddev = _together([m for m in measurements if m.query.clique == (name,) and m.query.is_marginal])
        parts[name] = rare_together(counts, drowned * stddev)
    return parts


def _together(measurements: Sequence[Measurement]) -> tuple[Array, float]:
    """What measurements of the same marginal say together, and its standard deviation."""
    # What is public has no noise.
    precisions = [1 / max(float(np.max(m.stddev)) ** 2, 1e-12) for m in measurements]
    weighted = [precision * m.values for precision, m in zip(precisions, measurements, strict=True)]
    return np.sum(weighted, axis=0) / sum(precisions), 1 / math.sqrt(sum(precisions))


def rare_together(counts: Array, least: float) -> Part:
    """All values with a count below `least` as one, after the others in their order; two rare ones at least."""
    is_rare = counts < least
    if is_rare.sum() < 2:
        return Identity()
    targets = np.cumsum(~is_rare) - 1
    targets[is_rare] = int((~is_rare).sum())
    return Recode(targets)


def merged_query(domain: Domain, clique: Clique, parts: Mapping[str, Part]) -> Query:
    """The marginal of `clique` with the values of each attribute merged as `parts` say."""
    return Query.product(domain, {name: parts[name] for name in clique})
