"""Metrics: how far two sets of marginals are apart, as the papers measure it."""

import numpy as np

from priory.errors import DomainError
from priory.queries.factor import Array


def total_variation(found: Array, truth: Array) -> float:
    """½ Σ |p − q| between two tables of one shape, each divided by its sum, which must have mass."""
    if found.shape != truth.shape:
        raise DomainError(f"tables of shapes {found.shape} and {truth.shape} cannot be compared")
    if not (found.sum() > 0 and truth.sum() > 0):
        raise DomainError("a table without mass has no distance to another")
    return 0.5 * float(np.abs(found / found.sum() - truth / truth.sum()).sum())
