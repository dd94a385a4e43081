"""Measurement: a query, its noisy answers, and how noisy they are."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from priory.errors import DomainError, OptionError
from priory.privacy.noise import Noise
from priory.queries.query import Query


@dataclass(frozen=True, eq=False)
class Measurement:
    """Noisy answers to a query; everything computed from them is free.

    Attributes:
        query: what was asked.
        values: the answers, of shape `query.shape`; integers where they come from a curator.
        stddev: the standard deviation of the noise on each of them; 0 where the answer is public.
        noise: the noise itself, where it is known.
    """

    query: Query
    values: NDArray[Any]
    stddev: float
    noise: Noise | None = None

    @classmethod
    def of(cls, query: Query, values: ArrayLike, stddev: float, noise: Noise | None = None) -> "Measurement":
        """Build a measurement, checking that the answers fit the query and the noise is a number."""
        array = np.asarray(values)
        if array.dtype.kind not in "iuf" or array.shape != query.shape:
            raise DomainError(f"answers of shape {array.shape} ({array.dtype}) for a query that gives {query.shape}")
        if not np.isfinite(array).all():
            raise DomainError("answers must be finite numbers")
        if not (np.isfinite(stddev) and stddev >= 0):
            raise OptionError("stddev", f"a number, 0 or more; got {stddev}")
        return cls(query, array, float(stddev), noise)

    @property
    def variance(self) -> float:
        """The variance of the noise on each answer."""
        return self.stddev**2
