"""Merging: values that noise drowns are measured together; which they are is judged on noisy counts, for free."""

from collections.abc import Mapping, Sequence

import numpy as np

from priory.privacy.measurement import Measurement
from priory.queries.domain import Clique, Domain
from priory.queries.factor import Array
from priory.queries.parts import Identity, Part, Recode
from priory.queries.query import Query

# Values whose noisy count is below so many standard deviations of its noise are measured together.
DROWNED = 3.0


def merged_parts(domain: Domain, measurements: Sequence[Measurement]) -> dict[str, Part]:
    """How the values of each attribute are merged, by its noisy one-way marginal."""
    noisy = {m.query.clique: m for m in measurements}
    return {name: rare_together(noisy[name,].values, DROWNED * float(np.max(noisy[name,].stddev))) for name in domain}


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
