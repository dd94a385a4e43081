"""Parts: the small matrices, one per attribute, whose Kronecker product is a query.

They are the rows of Table 2 of Private-PGM [McKenna, Sheldon & Miklau 2019], ranges, and any custom matrix.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from priory.errors import DomainError

Numbers = NDArray[Any]


class Part(ABC):
    """A matrix A over the values of one attribute; it takes its width from the attribute.

    Attributes:
        is_counting: whether all its entries are 0 or 1 whatever the attribute.
    """

    is_counting: ClassVar[bool] = False

    @abstractmethod
    def rows(self, size: int) -> int:
        """How many answers it gives for an attribute of `size` values."""

    @abstractmethod
    def matrix(self, size: int) -> Numbers:
        """The dense A, of shape (rows, size): integers where all its entries are, else floats."""

    def check(self, size: int) -> None:
        """Raise a `DomainError` if it cannot be asked of an attribute of `size` values."""
        # Most parts can be asked of any attribute.
        return

    def apply(self, values: Numbers, axis: int) -> Numbers:
        """A times `values` along `axis`."""
        return np.moveaxis(np.tensordot(self.matrix(values.shape[axis]), values, axes=(1, axis)), 0, axis)

    def adjoint(self, answers: Numbers, axis: int, size: int) -> Numbers:
        """Aᵀ times `answers` along `axis`."""
        return np.moveaxis(np.tensordot(self.matrix(size), answers, axes=(0, axis)), 0, axis)

    def row(self, size: int, place: int) -> "Part":
        """The part whose only answer is this one's answer at `place`."""
        return self if self.rows(size) == 1 else Matrix(self.matrix(size)[[place]])

    def is_integer(self, size: int) -> bool:
        """Whether every entry of A is an integer."""
        # Parts of zeros and ones need no matrix to tell: an identity's has as many entries as the square of its size.
        return self.is_counting or self.matrix(size).dtype.kind == "i"


@dataclass(frozen=True)
class Identity(Part):
    """Keep the attribute: one answer per value."""

    is_counting = True

    def rows(self, size: int) -> int:
        return size

    def matrix(self, size: int) -> Numbers:
        return np.eye(size, dtype=np.int64)

    def row(self, size: int, place: int) -> Part:
        return Point(place)

    def apply(self, values: Numbers, axis: int) -> Numbers:
        return values

    def adjoint(self, answers: Numbers, axis: int, size: int) -> Numbers:
        return answers


@dataclass(frozen=True)
class Total(Part):
    """Sum the attribute out: one answer."""

    is_counting = True

    def rows(self, size: int) -> int:
        return 1

    def matrix(self, size: int) -> Numbers:
        return np.ones((1, size), dtype=np.int64)

    def apply(self, values: Numbers, axis: int) -> Numbers:
        return _summed(values, axis)

    def adjoint(self, answers: Numbers, axis: int, size: int) -> Numbers:
        return np.repeat(answers, size, axis=axis)


class _Sum(Part):
    """One answer: the sum over the values with some codes."""

    is_counting = True

    @abstractmethod
    def _summed_codes(self) -> Sequence[int]:
        """The codes."""

    def rows(self, size: int) -> int:
        return 1

    def matrix(self, size: int) -> Numbers:
        row = np.zeros((1, size), dtype=np.int64)
        row[0, list(self._summed_codes())] = 1
        return row

    def apply(self, values: Numbers, axis: int) -> Numbers:
        return _summed(values.take(list(self._summed_codes()), axis=axis), axis)


@dataclass(frozen=True)
class Set(_Sum):
    """One answer: the sum over the values with codes in `codes`."""

    codes: tuple[int, ...]

    def __init__(self, codes: Iterable[int]) -> None:
        object.__setattr__(self, "codes", tuple(sorted({int(code) for code in codes})))

    def check(self, size: int) -> None:
        if not self.codes:
            raise DomainError("a set of values needs at least one code")
        if self.codes[0] < 0 or self.codes[-1] >= size:
            raise DomainError(f"codes {list(self.codes)} are not all in 0 … {size - 1}")

    def _summed_codes(self) -> Sequence[int]:
        return self.codes


@dataclass(frozen=True)
class Point(_Sum):
    """One answer: the value with code `code`."""

    code: int

    def check(self, size: int) -> None:
        if not hasattr(self.code, "__index__") or not 0 <= self.code < size:
            raise DomainError(f"code {self.code} is not in 0 … {size - 1}")

    def _summed_codes(self) -> Sequence[int]:
        return (self.code,)


@dataclass(frozen=True)
class Range(_Sum):
    """One answer: the sum over the codes from `low` to `high`, both included."""

    low: int
    high: int

    def check(self, size: int) -> None:
        are_codes = all(hasattr(code, "__index__") for code in (self.low, self.high))
        if not are_codes or not 0 <= self.low <= self.high < size:
            raise DomainError(f"range {self.low} … {self.high} is empty or not in 0 … {size - 1}")

    def _summed_codes(self) -> Sequence[int]:
        return range(self.low, self.high + 1)


@dataclass(frozen=True)
class Prefix(Part):
    """The cumulative sums: answer b is the sum over the codes a ≤ b."""

    is_counting = True

    def rows(self, size: int) -> int:
        return size

    def matrix(self, size: int) -> Numbers:
        return np.tri(size, dtype=np.int64)

    def row(self, size: int, place: int) -> Part:
        return Range(0, place)

    def apply(self, values: Numbers, axis: int) -> Numbers:
        return values.cumsum(axis=axis)

    def adjoint(self, answers: Numbers, axis: int, size: int) -> Numbers:
        return np.flip(np.flip(answers, axis).cumsum(axis=axis), axis)


@dataclass(frozen=True)
class Recode(Part):
    """Merge values: the value with code a goes to answer `targets[a]`."""

    is_counting = True

    targets: tuple[int, ...]

    def __init__(self, targets: Iterable[int]) -> None:
        object.__setattr__(self, "targets", tuple(int(target) for target in targets))

    def check(self, size: int) -> None:
        if len(self.targets) != size:
            raise DomainError(f"a recoding of {len(self.targets)} values cannot be used on {size}")
        if min(self.targets) < 0:
            raise DomainError(f"a recoding's targets start at 0; got {min(self.targets)}")

    @cached_property
    def _places(self) -> NDArray[np.intp]:
        return np.array(self.targets, dtype=np.intp)

    def rows(self, size: int) -> int:
        return int(self._places.max()) + 1

    def matrix(self, size: int) -> Numbers:
        dense = np.zeros((self.rows(size), size), dtype=np.int64)
        dense[self._places, np.arange(size)] = 1
        return dense

    def apply(self, values: Numbers, axis: int) -> Numbers:
        if values.ndim > 1:
            return super().apply(values, axis)
        # One attribute may have a million values, and the matrix as many columns.
        sums = np.zeros(self.rows(len(values)), dtype=np.result_type(values, np.int64))
        np.add.at(sums, self._places, values)
        return sums

    def adjoint(self, answers: Numbers, axis: int, size: int) -> Numbers:
        return answers.take(self._places, axis=axis)


class Matrix(Part):
    """Any matrix with finite entries, for custom strategies; integers stay exact."""

    def __init__(self, entries: ArrayLike) -> None:
        array = np.array(entries)
        if array.ndim != 2 or array.size == 0 or array.dtype.kind not in "biuf":
            raise DomainError(f"a part needs a two-dimensional matrix of numbers; got {array.dtype} {array.shape}")
        if not np.isfinite(array).all():
            raise DomainError("a part's matrix must have finite entries")
        self.entries: Numbers = array.astype(np.float64 if array.dtype.kind == "f" else np.int64)
        self.entries.flags.writeable = False

    def __eq__(self, other: object) -> bool:
        # Exact types: a part derived from this one may answer something else, and equals nothing that was checked.
        if type(other) is not type(self):
            return NotImplemented
        return bool(self.entries.dtype == other.entries.dtype and np.array_equal(self.entries, other.entries))

    def __hash__(self) -> int:
        # Equal matrices may differ in the sign of a zero, which is another byte.
        return hash((self.entries.shape, (self.entries + 0).tobytes()))

    def __repr__(self) -> str:
        return f"Matrix({self.entries.shape[0]}×{self.entries.shape[1]})"

    def check(self, size: int) -> None:
        if self.entries.shape[1] != size:
            raise DomainError(f"a matrix with {self.entries.shape[1]} columns cannot be used on {size} values")

    def rows(self, size: int) -> int:
        return int(self.entries.shape[0])

    def matrix(self, size: int) -> Numbers:
        return self.entries


@dataclass(frozen=True)
class Mean(Part):
    """One answer: the sum of `values[a]` over the records (divide by the total for the mean)."""

    values: tuple[float, ...]

    def __init__(self, values: Sequence[float]) -> None:
        object.__setattr__(self, "values", tuple(float(value) for value in values))

    def check(self, size: int) -> None:
        _check_values(self.values, size)

    def rows(self, size: int) -> int:
        return 1

    def matrix(self, size: int) -> Numbers:
        return _as_exact(np.array([self.values]))


@dataclass(frozen=True)
class Moments(Part):
    """The first `k` moments: answer b is the sum of `values[a]**b`, for b = 1 … k."""

    values: tuple[float, ...]
    k: int

    def __init__(self, values: Sequence[float], k: int) -> None:
        object.__setattr__(self, "values", tuple(float(value) for value in values))
        object.__setattr__(self, "k", int(k))

    def check(self, size: int) -> None:
        _check_values(self.values, size)
        if self.k < 1:
            raise DomainError(f"at least one moment is needed; got k = {self.k}")

    def rows(self, size: int) -> int:
        return self.k

    def matrix(self, size: int) -> Numbers:
        return _as_exact(np.array([np.power(self.values, b) for b in range(1, self.k + 1)]))


def _summed(values: Numbers, axis: int) -> Numbers:
    sums: Numbers = values.sum(axis=axis, keepdims=True)
    return sums


def _check_values(values: tuple[float, ...], size: int) -> None:
    if len(values) != size:
        raise DomainError(f"{len(values)} values were given for an attribute of {size}")
    if not np.isfinite(values).all():
        raise DomainError("the values of a mean or moment must be finite")


def _as_exact(entries: Numbers) -> Numbers:
    """Integers where every entry is one that a double holds exactly, else the floats."""
    whole = np.all(entries == np.rint(entries)) and np.abs(entries).max() < 2.0**53
    return entries.astype(np.int64) if whole else entries


# The whole of the closed list; a custom part is a `Matrix`.
PARTS = (Identity, Total, Point, Set, Range, Prefix, Recode, Mean, Moments, Matrix)
