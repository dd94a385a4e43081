"""Sensitivity: how far one person can move a query's answers, exactly, from its parts."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from functools import lru_cache
from typing import NoReturn

import numpy as np

from priory.errors import OptionError
from priory.queries.parts import Identity, Numbers, Part, Prefix, Recode, Total
from priory.queries.query import Query

# Beyond these sizes a proven upper bound replaces the exact search.
PAIR_LIMIT = 2_000_000
ENUMERATION_LIMIT = 20_000_000
# Floats are exact to about 1e-16 an operation: this share of the largest norm covers any sum of under 10⁶ of them.
ROUND_UP = Fraction(1, 10**9)


class Relation(StrEnum):
    """Which tables are neighbours: they differ by one person who is there or not, or whose records are others."""

    ADD_REMOVE = "add-remove"
    REPLACE_ONE = "replace-one"

    @classmethod
    def _missing_(cls, value: object) -> NoReturn:
        raise OptionError("relation", f"{value!r} is neither 'add-remove' nor 'replace-one'")


@dataclass(frozen=True)
class Sensitivity:
    """The largest distance between a query's answers on neighbouring tables of counts.

    Attributes:
        l1: in the L1 norm.
        l2_squared: in the L2 norm, squared, so that it stays a fraction.
    """

    l1: Fraction
    l2_squared: Fraction


# Typed, so that True is not taken for a 1 that was asked about before.
@lru_cache(maxsize=65_536, typed=True)
def sensitivity(query: Query, relation: Relation, max_rows: int = 1) -> Sensitivity:
    """The sensitivity of `query` when one person has at most `max_rows` records.

    Exact for parts of zeros and ones, for single-row queries and for small ones; otherwise, and for entries that are
    not integers, an upper bound. Derivation: with columns a_x of the query matrix, a person adds Σ a_x over at most
    m records, so by convexity the worst person repeats one record m times: m·max‖a_x‖ for add-remove, and for
    replace-one m·max‖a_x − a_x'‖, where for m > 1 either side may also be empty, because only the number of persons
    is public then.

    >>> from priory.queries.domain import Domain
    >>> sensitivity(Query.marginal(Domain.of({"a": 3}), "a"), Relation.REPLACE_ONE)
    Sensitivity(l1=Fraction(2, 1), l2_squared=Fraction(2, 1))
    """
    if isinstance(max_rows, bool) or not isinstance(max_rows, int) or max_rows < 1:
        raise OptionError("max_rows", f"a whole number of records per person, at least 1; got {max_rows!r}")
    columns = _columns(query)
    l1, l2 = math.prod(column.l1 for column in columns), math.prod(column.l2 for column in columns)
    alone = Sensitivity(Fraction(l1), Fraction(l2))
    # A name is as good as the relation: the two are equal, so that the cache cannot tell them apart.
    if Relation(relation) is Relation.REPLACE_ONE:
        pair = _between_columns(query, columns, alone)
        if max_rows > 1:
            pair = Sensitivity(max(pair.l1, alone.l1), max(pair.l2_squared, alone.l2_squared))
    else:
        pair = alone
    slack = Fraction(0) if query.is_integer else ROUND_UP
    l1, l2_squared = pair.l1 + slack * alone.l1, pair.l2_squared + slack * alone.l2_squared
    return Sensitivity(l1 * max_rows, l2_squared * max_rows**2)


@lru_cache(maxsize=65_536)
def largest_change(query: Query, relation: Relation, max_rows: int = 1) -> Fraction:
    """How far one person can move any single answer of `query`; exact for one row, an upper bound for more.

    Every answer is a sum of entries of the query matrix over the records, and all entries lie between the smallest
    and the largest product of the parts' extremes.

    >>> from priory.queries.domain import Domain
    >>> largest_change(Query.marginal(Domain.of({"a": 3}), "a"), Relation.REPLACE_ONE)
    Fraction(1, 1)
    """
    low, high = entry_range(query)
    if Relation(relation) is Relation.ADD_REMOVE:
        return max(abs(low), abs(high)) * max_rows
    if max_rows > 1:
        low, high = min(low, Fraction(0)), max(high, Fraction(0))
    return (high - low) * max_rows


def entry_range(query: Query) -> tuple[Fraction, Fraction]:
    """The smallest and the largest entry of the query matrix: products of one entry of each part."""
    low: Exact = 1
    high: Exact = 1
    for column in _columns(query):
        ends = [low * column.lowest, low * column.highest, high * column.lowest, high * column.highest]
        low, high = min(ends), max(ends)
    return Fraction(low), Fraction(high)


def _columns(query: Query) -> "list[_Columns]":
    return [_Columns.of(part, size) for part, size in zip(query.parts, query.domain.shape, strict=True)]


Exact = int | Fraction


@dataclass(frozen=True)
class _Columns:
    """What the sensitivity needs of one part's columns a."""

    l1: Exact  # max ‖a‖₁
    l2: Exact  # max ‖a‖₂²
    has_negative: bool  # whether an entry is below zero
    is_binary: bool  # whether all entries are 0 or 1
    lowest: Exact
    highest: Exact

    @classmethod
    @lru_cache(maxsize=4096)
    def of(cls, part: Part, size: int) -> "_Columns":
        """Work them out for an attribute of `size` values."""
        known = _known_columns(part, size)
        if known is not None:
            l1, lowest, _ = known
            return cls(l1, l1, has_negative=False, is_binary=True, lowest=lowest, highest=1)
        matrix = part.matrix(size)
        norms = _exact(np.square(_wide(matrix)).sum(axis=0))
        largest = _number(np.abs(_wide(matrix)).sum(axis=0).max())
        has_negative, is_binary = bool((matrix < 0).any()), bool(((matrix == 0) | (matrix == 1)).all())
        ends = (_number(matrix.min()), _number(matrix.max()))
        return cls(largest, _number(norms.max()), has_negative, is_binary, *ends)


def _known_columns(part: Part, size: int) -> tuple[int, int, Numbers] | None:
    """Largest column norm, smallest entry and pairs, for the common parts that need no matrix to tell."""
    same, apart = (1, 1, 1), (1, 1, 0)
    if isinstance(part, Total):
        return 1, 1, _triples([same])
    if isinstance(part, Identity):
        return 1, 0 if size > 1 else 1, _triples([same, apart] if size > 1 else [same])
    if isinstance(part, Recode):
        several = len(set(part.targets)) > 1
        return 1, 0 if part.rows(size) > 1 else 1, _triples([same, apart] if several else [same])
    if isinstance(part, Prefix):
        # Columns a and b have norms x, y and inner product min(x, y). The distance is linear in each part's triple,
        # so only the corners of {(n, y, y)} and {(x, n, x)}, which are lines, can be the worst.
        n = size
        return n, 0 if n > 1 else 1, _triples([(n, n, n), (n, 1, 1), (1, n, 1)])
    return None


def _between_columns(query: Query, columns: Sequence[_Columns], alone: Sensitivity) -> Sensitivity:
    """The largest distances between two columns of the query matrix."""
    signed = any(column.has_negative for column in columns)
    bound = Sensitivity(2 * alone.l1, (4 if signed else 2) * alone.l2_squared)
    l2_squared = _worst_pair(query, is_signed=signed)
    if query.rows == 1:
        low, high = entry_range(query)
        return Sensitivity(high - low, (high - low) ** 2)
    exact_l2 = bound.l2_squared if l2_squared is None else min(l2_squared, bound.l2_squared)
    if l2_squared is not None and all(column.is_binary for column in columns):
        # Entries are 0 or 1, so |a − b| = (a − b)².
        return Sensitivity(exact_l2, exact_l2)
    if query.rows * query.domain.size**2 <= ENUMERATION_LIMIT:
        wide = _wide(query.dense())
        worst = max(_number(np.abs(wide - wide[:, [j]]).sum(axis=0).max()) for j in range(wide.shape[1]))
        return Sensitivity(min(Fraction(worst), bound.l1), exact_l2)
    return Sensitivity(bound.l1, exact_l2)


def _worst_pair(query: Query, *, is_signed: bool) -> Fraction | None:
    """max over pairs of cells of ∏‖a‖² + ∏‖b‖² − 2∏⟨a, b⟩, or None if there are too many to look at."""
    worst = _triples([(1, 1, 1)])
    for part, size in zip(query.parts, query.domain.shape, strict=True):
        pairs = _column_pairs(part, size, is_signed=is_signed)
        if pairs is None or len(worst) * len(pairs) > PAIR_LIMIT:
            return None
        product = (worst[:, None, :] * pairs[None, :, :]).reshape(-1, 3)
        worst = product if is_signed else _undominated(product)
    return Fraction(_number((worst[:, 0] + worst[:, 1] - 2 * worst[:, 2]).max()))


@lru_cache(maxsize=4096)
def _column_pairs(part: Part, size: int, *, is_signed: bool) -> Numbers | None:
    """The triples (‖a‖², ‖b‖², ⟨a, b⟩) that can matter, as rows of exact numbers; None if there are too many."""
    # `is_signed` is about the whole query: beside a negative inner product of another part, a large one here is worst.
    known = _known_columns(part, size)
    if known is not None:
        return known[2]
    if size**2 > PAIR_LIMIT:
        return None
    wide = _wide(part.matrix(size))
    gram = _exact(wide.T @ wide)
    norms = gram.diagonal()
    x, y = np.broadcast_arrays(norms[:, None], norms[None, :])
    triples = np.stack([x.ravel(), y.ravel(), gram.ravel()], axis=1)
    if is_signed:
        return _triples(sorted({tuple(row) for row in triples.tolist()}))
    return _undominated(triples)


def _undominated(triples: Numbers) -> Numbers:
    """Drop triples (P, Q, R) that another beats with P, Q no less and R no more; sound where no entry is negative."""
    smallest: dict[tuple[Exact, Exact], Exact] = {}
    for p, q, r in triples.tolist():
        if (p, q) not in smallest or r < smallest[p, q]:
            smallest[p, q] = r
    kept: Numbers = _triples([(p, q, r) for (p, q), r in sorted(smallest.items())])
    if len(kept) > 2000:
        return kept
    p, q, r = (kept[:, i] for i in range(3))
    beats = (p[:, None] >= p) & (q[:, None] >= q) & (r[:, None] <= r)
    undominated: Numbers = kept[beats.sum(axis=0) == 1]
    return undominated


def _triples(rows: Sequence[tuple[Exact, ...]]) -> Numbers:
    return np.array(rows, dtype=object).reshape(-1, 3)


def _wide(matrix: Numbers) -> Numbers:
    """Python integers where int64 sums of squares could overflow; otherwise the numbers as they are."""
    # Not NumPy's absolute value, which leaves −2⁶³ negative.
    largest = max(-matrix.min().item(), matrix.max().item())
    if matrix.dtype.kind == "i" and largest**2 * max(matrix.shape) >= 2**62:
        return matrix.astype(object)
    return matrix


def _exact(values: Numbers) -> Numbers:
    """Exact Python numbers: products of them cannot overflow."""
    if values.dtype.kind == "f":
        values = np.array([Fraction(x) for x in values.ravel().tolist()], dtype=object).reshape(values.shape)
    return values.astype(object)


def _number(value: object) -> Exact:
    """A NumPy scalar as an exact Python number."""
    if isinstance(value, int | Fraction):
        return value
    return Fraction(float(value)) if isinstance(value, float | np.floating) else int(value)  # type: ignore[call-overload]
