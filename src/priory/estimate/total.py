"""Total: how many records the measurements say there are."""

from dataclasses import dataclass

import numpy as np

from priory.errors import OptionError
from priory.estimate.evidence import Evidence
from priory.estimate.products import dot
from priory.queries.factor import Array
from priory.queries.parts import Identity
from priory.queries.query import Query

# A solution of Aᵀv = 1 counts as one when it misses by no more than this.
_EXACT = 1e-8


@dataclass(frozen=True, eq=False)
class TotalEstimate:
    """The total: a linear function of the answers, weights · y and at least 1, or a number that was given."""

    weights: Array  # one for each answer; none where the total was given
    stddev: float = 0.0  # the standard deviation of the estimate; 0 where the total was given
    given: float = np.nan  # the total that was given

    @classmethod
    def known(cls, total: float) -> "TotalEstimate":
        """A total that does not depend on the answers."""
        return cls(np.empty(0), given=total)

    @property
    def is_estimated(self) -> bool:
        """Whether it depends on the answers."""
        return self.weights.size > 0

    def __call__(self, values: Array) -> float:
        """The total that these answers give."""
        return max(1.0, dot(self.weights, values)) if self.is_estimated else self.given


def total_of(evidence: Evidence) -> TotalEstimate:
    """The least-variance unbiased total, from every query whose row space holds the ones vector.

    Each such query gives vᵀy with Qᵀv = 1 and variance Σ v²σ²; they are weighted by the inverse of that
    [Private-PGM, McKenna et al. 2019, Appendix E.1]. An `OptionError` where no measurement determines it.
    """
    weights = np.zeros(evidence.size)
    precision = 0.0
    for query, span in zip(evidence.queries, evidence.spans, strict=True):
        solution = _ones_solution(query)
        if solution is not None:
            certainty = 1 / float(np.sum((solution * evidence.stddevs[span]) ** 2))
            weights[span] = certainty * solution
            precision += certainty
    if precision == 0:
        raise OptionError("total", "no measurement determines the number of records; measure a marginal or give total=")
    return TotalEstimate(weights / precision, float(precision**-0.5))


def _ones_solution(query: Query) -> Array | None:
    """The shortest v with Qᵀv = 1, part by part: ones are a Kronecker product of ones."""
    solution: Array = np.ones(1)
    for part, size in zip(query.parts, query.domain.shape, strict=True):
        own: Array = np.ones(size)
        if not isinstance(part, Identity):
            transposed = part.matrix(size).astype(np.float64).T
            own = np.asarray(np.linalg.lstsq(transposed, np.ones(size), rcond=None)[0], dtype=np.float64)
            if np.abs(transposed @ own - 1).max() >= _EXACT:
                return None
        solution = np.asarray(np.kron(solution, own), dtype=np.float64)
    return solution


def checked_total(total: float | None) -> float | None:
    """A total given by the caller; an `OptionError` unless it is a finite number above 0."""
    if total is not None and not (isinstance(total, int | float | np.number) and 0 < total < np.inf):
        raise OptionError("total", f"the number of records is finite and above 0; got {total!r}")
    return None if total is None else float(total)
