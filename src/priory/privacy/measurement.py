"""Measurement: a query, its noisy answers, and how noisy they are."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from priory.errors import DomainError, OptionError
from priory.queries.query import Query

if TYPE_CHECKING:
    from priory.privacy.noise import Noise


@dataclass(frozen=True, eq=False)
class Measurement:
    """Noisy answers to a query; everything computed from them is free.

    Attributes:
        query: what was asked.
        values: the answers, of shape `query.shape`; integers where they come from a curator.
        stddev: the standard deviation of the noise, one number or one for each answer; 0 where the answer is public.
        noise: the noise itself, where it is known.
    """

    query: Query
    values: NDArray[Any]
    stddev: float | NDArray[np.float64]
    noise: "Noise | None" = None

    @classmethod
    def of(cls, query: Query, values: ArrayLike, stddev: ArrayLike, noise: "Noise | None" = None) -> "Measurement":
        """Build a measurement, checking that the answers fit the query and the noise is a number."""
        array = np.asarray(values)
        if array.dtype.kind not in "iuf" or array.shape != query.shape:
            raise DomainError(f"answers of shape {array.shape} ({array.dtype}) for a query that gives {query.shape}")
        if not np.isfinite(array).all():
            raise DomainError("answers must be finite numbers")
        return cls(query, array, _checked(stddev, query), noise)

    @property
    def variance(self) -> float:
        """The variance of the noise on an answer, on average over them."""
        return float(np.mean(np.square(self.stddev)))

    @property
    def is_public(self) -> bool:
        """Whether there is no noise on the answers."""
        return not np.any(self.stddev)


def _checked(stddev: ArrayLike, query: Query) -> float | NDArray[np.float64]:
    array = np.asarray(stddev, dtype=np.float64)
    if array.shape not in ((), query.shape):
        raise OptionError("stddev", f"one number, or one for each answer, {query.shape}; got {array.shape}")
    if not (np.isfinite(array).all() and (array >= 0).all()):
        raise OptionError("stddev", f"a number, 0 or more; got {array.min()}")
    return array if array.ndim else float(array)
