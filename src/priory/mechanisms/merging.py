"""Merging: values that noise drowns are measured together; which they are is judged on noisy counts, for free."""

from collections.abc import Mapping

import numpy as np

from priory.domain import Clique, Domain
from priory.factor import Array
from priory.queries.parts import Identity, Part, Recode
from priory.queries.query import Query


def rare_together(counts: Array, least: float) -> Part:
    """All values with a count below `least` as one, after the others in their order; two rare ones at least."""
    is_rare = counts < least
    if is_rare.sum() < 2:
        return Identity()
    targets = np.cumsum(~is_rare) - 1
    targets[is_rare] = int((~is_rare).sum())
    return Recode(targets)


def neighbours_together(shares: Array, groups: int) -> Part:
    """Runs of neighbouring values, each of a share of at least 1/`groups`; a value that has as much stays alone.

    The last run may have less.
    """
    least = 1 / groups
    targets, group, held = np.empty(len(shares), dtype=np.int64), 0, 0.0
    for code, share in enumerate(shares.tolist()):
        if held > 0 and (held >= least or share >= least):
            group, held = group + 1, 0.0
        targets[code] = group
        # An empty value counts a little: the run it stands in has begun.
        held += max(share, 1e-12)
    return Identity() if group + 1 == len(shares) else Recode(targets)


def merged_query(domain: Domain, clique: Clique, parts: Mapping[str, Part]) -> Query:
    """The marginal of `clique` with the values of each attribute merged as `parts` say."""
    return Query.product(domain, {name: parts[name] for name in clique})
