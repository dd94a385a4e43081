"""Metrics: how far two sets of marginals are apart, as the papers measure it."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from priory.answer.metrics import total_variation
from priory.errors import DomainError
from priory.queries.factor import Array


@dataclass(frozen=True)
class CellErrors:
    """Errors over all cells of all answers, as shares of the total [PMW^Pub, Liu et al. 2021].

    Attributes:
        largest: the largest absolute error.
        mean: the mean absolute error, which empty cells dominate.
        rms: the root mean square error.
    """

    largest: float
    mean: float
    rms: float


def mean_total_variation(found: Sequence[Array], truth: Sequence[Array]) -> float:
    """The total variation distance, averaged over marginals."""
    return float(np.mean([total_variation(a, b) for a, b in zip(found, truth, strict=True)]))


def workload_error(found: Sequence[Array], truth: Sequence[Array]) -> float:
    """Σ_C ‖W_Cμ̂_C − W_Cμ_C‖₁ / (2‖W_Cμ_C‖₁), averaged over C [Private-PGM, McKenna et al. 2019, §5].

    Raises:
        DomainError: shapes differ, or the true answers of a set are all zero.
    """
    errors = []
    for a, b in zip(found, truth, strict=True):
        _check(a, b)
        size = float(np.abs(b).sum())
        if size == 0:
            raise DomainError("the true answers of a set are all zero: no relative error exists")
        errors.append(float(np.abs(a - b).sum()) / (2 * size))
    return float(np.mean(errors))


def cell_errors(found: Sequence[Array], truth: Sequence[Array], total: float) -> CellErrors:
    """The largest, mean and root mean square error over all cells, as shares of `total`."""
    for a, b in zip(found, truth, strict=True):
        _check(a, b)
    gaps = np.concatenate([np.abs(a - b).reshape(-1) for a, b in zip(found, truth, strict=True)]) / total
    return CellErrors(float(gaps.max()), float(gaps.mean()), float(np.sqrt(np.mean(gaps**2))))


def _check(found: Array, truth: Array) -> None:
    if found.shape != truth.shape:
        raise DomainError(f"tables of shapes {found.shape} and {truth.shape} cannot be compared")
