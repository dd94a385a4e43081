"""Scores: the closed list of what candidates may be chosen by, each with its proven sensitivity.

A score is computed by the curator from private answers and is never shown. All of them are integers: model answers,
which are public, are rounded to multiples of 2^−bits first, and what remains is exact arithmetic, so that the proof on
paper is the proof of the code.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import ClassVar, TypeAlias

import numpy as np

from priory.data.sources.source import ROW_LIMIT
from priory.errors import OptionError
from priory.privacy.noise import Integers
from priory.queries.parts import Numbers
from priory.queries.query import Query
from priory.queries.sensitivity import Relation, entry_range, largest_change, sensitivity

# Scores must fit 62 bits for tables of as many rows as are declared and weights of 10 bits; the lattice takes 10 of the
# rest. Where there are more rows, scores are cut off, which moves no two of them further apart.
SCORE_BITS, WEIGHT_BITS, LATTICE_BITS = 62, 10, 10


@dataclass(frozen=True)
class Pick:
    """The candidate that was chosen."""

    query: int  # the place of its query in the list that was given
    # The place of its answer among the query's answers, flattened; None where whole queries are candidates.
    cell: int | None = None
    is_complement: bool = False  # whether it is the complement of that answer


@dataclass(frozen=True)
class Neighbours:
    """Who is protected, as far as scores need to know."""

    relation: Relation  # which tables are neighbours
    max_rows: int  # how many records one person may have
    total: int | None  # the number of rows where that is public, else None


Queries: TypeAlias = Sequence[Query]
Truths: TypeAlias = Sequence[Integers]
Estimates: TypeAlias = Sequence[Numbers]


class Score(ABC):
    """A kind of score; members are described as data and checked before anything is paid."""

    kind: ClassVar[str]  # its name in the book
    needs_estimates: ClassVar[bool] = True  # whether each query comes with the answers of a model
    needs_rows: ClassVar[bool] = False  # whether the number of rows comes after the true answers
    is_of_cells: ClassVar[bool] = False  # whether there is a candidate for each answer rather than for each query
    knows_total: ClassVar[bool] = False  # whether a public number of rows lowers its sensitivity

    @abstractmethod
    def check(self, queries: Queries, estimates: Estimates, row_limit: int = ROW_LIMIT) -> None:
        """Raise an `OptionError` if these cannot be scored for a table of so many rows."""

    def candidates(self, queries: Queries) -> int:
        """How many scores there are."""
        return sum(query.rows for query in queries) if self.is_of_cells else len(queries)

    @abstractmethod
    def sensitivity(self, queries: Queries, neighbours: Neighbours, row_limit: int = ROW_LIMIT) -> Fraction:
        """How far one person can move any score; a whole number of lattice steps."""

    @abstractmethod
    def scores(self, queries: Queries, truths: Truths, estimates: Estimates, row_limit: int = ROW_LIMIT) -> Integers:
        """One score for each candidate, from the true answers."""

    def pick(self, queries: Queries, place: int) -> Pick:
        """Which candidate has the score at `place`."""
        return _cell(queries, place) if self.is_of_cells else Pick(place)

    def place(self, queries: Queries, pick: Pick) -> int:
        """Which score a candidate has, the reverse of `pick`."""
        if not self.is_of_cells:
            return pick.query
        answers = Score.candidates(self, queries)
        before = sum(query.rows for query in queries[: pick.query])
        return answers * pick.is_complement + before + (pick.cell or 0)


@dataclass(frozen=True)
class AbsoluteError(Score):
    """|q(D) − estimate|, a candidate for each single answer of each query [MWEM; PMW^Pub].

    One person moves q(D) by at most `largest_change`, and the absolute value cannot stretch that.
    """

    kind = "absolute error"
    is_of_cells = True

    def check(self, queries: Queries, estimates: Estimates, row_limit: int = ROW_LIMIT) -> None:
        _check(queries, estimates, row_limit)

    def sensitivity(self, queries: Queries, neighbours: Neighbours, row_limit: int = ROW_LIMIT) -> Fraction:
        return _steps(queries, row_limit) * _largest_change(tuple(queries), neighbours)

    def scores(self, queries: Queries, truths: Truths, estimates: Estimates, row_limit: int = ROW_LIMIT) -> Integers:
        # Workloads of hundreds of tables are scored in every round of a mechanism: all of them at once.
        gaps = _gap(_flat(truths), _flat(estimates), _bits(queries, row_limit))
        return np.asarray(np.abs(gaps, out=gaps))


@dataclass(frozen=True)
class L1Error(Score):
    """weight·(‖q(D) − estimate‖₁ − expected noise), a candidate for each query [AIM; MST].

    One person moves the norm by at most the query's L1 sensitivity; the expected noise is public and moves nothing.
    """

    weights: tuple[float, ...] = ()  # one for each query; all 1 if empty. They are rounded to 1/1024 of the largest
    expected: tuple[float, ...] = ()  # the L1 norm of the noise a measurement of each query would have; all 0 if empty
    kind = "L1 error"

    def check(self, queries: Queries, estimates: Estimates, row_limit: int = ROW_LIMIT) -> None:
        _check(queries, estimates, row_limit)
        for name, given in (("weights", self.weights), ("expected", self.expected)):
            if given and len(given) != len(queries):
                raise OptionError(name, f"{len(given)} were given for {len(queries)} queries")
        if not all(math.isfinite(weight) and weight > 0 for weight in self.weights):
            raise OptionError("weights", "weights must be positive numbers")
        if not all(math.isfinite(noise) and 0 <= noise < row_limit for noise in self.expected):
            raise OptionError("expected", f"expected noise must be a number from 0 to {row_limit:,}")

    def sensitivity(self, queries: Queries, neighbours: Neighbours, row_limit: int = ROW_LIMIT) -> Fraction:
        norms = [sensitivity(query, neighbours.relation, neighbours.max_rows).l1 for query in queries]
        return _steps(queries, row_limit) * max(w * norm for w, norm in zip(self._weights(queries), norms, strict=True))

    def scores(self, queries: Queries, truths: Truths, estimates: Estimates, row_limit: int = ROW_LIMIT) -> Integers:
        bits = _bits(queries, row_limit)
        most = (2 * _magnitude(tuple(queries)) * row_limit) << bits
        errors = [_norm(_gap(t, e, bits), most) for t, e in zip(truths, estimates, strict=True)]
        expected = [round(2**bits * noise) for noise in self.expected] or [0] * len(queries)
        weights = self._weights(queries)
        return np.array([w * (e - x) for w, e, x in zip(weights, errors, expected, strict=True)], dtype=np.int64)

    def _weights(self, queries: Queries) -> list[int]:
        if not self.weights:
            return [1] * len(queries)
        largest = max(self.weights)
        return [max(1, round(2**WEIGHT_BITS * weight / largest)) for weight in self.weights]


@dataclass(frozen=True)
class Dependence(Score):
    """n·R = ½‖c_XΠ − c_X·c_Πᵀ/n‖₁ in counts, a candidate for each marginal of a child and its parents [PrivBayes].

    One row added or removed moves it by at most 2n/(n+1) < 2; one row replaced, with n public, by at most 3 + 2/n
    [Zhang et al. 2017], or 4 by two of the former. More rows a person take as many steps.
    """

    children: tuple[str, ...]  # X of each query, which must be a marginal; its other attributes are Π
    kind = "dependence"
    needs_estimates = False
    knows_total = True

    def check(self, queries: Queries, estimates: Estimates, row_limit: int = ROW_LIMIT) -> None:
        if estimates:
            raise OptionError("estimates", "a dependence is scored without model answers")
        if not queries or len(self.children) != len(queries):
            raise OptionError("children", f"{len(self.children)} were given for {len(queries)} queries")
        for child, query in zip(self.children, queries, strict=True):
            if child not in query.domain or not query.is_marginal:
                raise OptionError("children", f"{child!r} needs a marginal it is part of, not one of {query.clique}")

    def sensitivity(self, queries: Queries, neighbours: Neighbours, row_limit: int = ROW_LIMIT) -> Fraction:
        if neighbours.relation is Relation.ADD_REMOVE:
            change = Fraction(2 * neighbours.max_rows)
        elif neighbours.max_rows == 1 and neighbours.total:
            change = min(Fraction(4), 3 + Fraction(2, neighbours.total))
        else:
            change = Fraction(4 * neighbours.max_rows)
        # Rounding down to the lattice turns a change of c steps into at most ⌈c⌉.
        return Fraction(math.ceil(2**LATTICE_BITS * change))

    def scores(self, queries: Queries, truths: Truths, estimates: Estimates, row_limit: int = ROW_LIMIT) -> Integers:
        scored = [_dependence(t, q.domain.axis[c]) for t, q, c in zip(truths, queries, self.children, strict=True)]
        return np.array(scored, dtype=np.int64)


@dataclass(frozen=True)
class Payoff(Score):
    """estimate − rounds·q(D), a candidate for each answer and, after all of them, for each complement [DualQuery].

    The estimate of an answer is total·Σ q(x) over the records x of the rounds so far, and the complement of q counts
    the rows that q does not: n − q(D), with the estimate rounds·total − estimate. One person moves an answer by at
    most `largest_change`, and its complement by as much as that of 1 − q.
    """

    rounds: int  # how many rounds there were
    total: float  # the number of rows, public or paid for
    kind = "payoff"
    is_of_cells = True
    needs_rows = True

    def check(self, queries: Queries, estimates: Estimates, row_limit: int = ROW_LIMIT) -> None:
        _check(queries, estimates, row_limit, factor=max(self.rounds, 1))
        if not 1 <= self.rounds < 2**WEIGHT_BITS:
            raise OptionError("rounds", f"from 1 to {2**WEIGHT_BITS - 1}; the first round needs no private look")
        if not 0 <= self.total < row_limit:
            raise OptionError("total", f"a number of rows from 0 to {row_limit:,}; got {self.total}")

    def candidates(self, queries: Queries) -> int:
        return 2 * super().candidates(queries)

    def sensitivity(self, queries: Queries, neighbours: Neighbours, row_limit: int = ROW_LIMIT) -> Fraction:
        change = max(_largest_change(tuple(queries), neighbours), *(_complement_change(q, neighbours) for q in queries))
        return _steps(queries, row_limit) * self.rounds * change

    def scores(self, queries: Queries, truths: Truths, estimates: Estimates, row_limit: int = ROW_LIMIT) -> Integers:
        *answers, rows = truths
        bits = _bits(queries, row_limit)
        gaps = [_gap(self.rounds * t, e, bits).ravel() for t, e in zip(answers, estimates, strict=True)]
        plain = -np.concatenate(gaps)
        # −(rounds·(n − q(D)) − (rounds·total − estimate)) = −plain − rounds·(n − total).
        beyond = self.rounds * (2**bits * int(rows) - round(2**bits * self.total))
        return np.concatenate([plain, -plain - beyond])

    def pick(self, queries: Queries, place: int) -> Pick:
        answers = super().candidates(queries)
        return replace(super().pick(queries, place % answers), is_complement=place >= answers)


# The whole of the closed list.
SCORES = (AbsoluteError, L1Error, Dependence, Payoff)


def _check(queries: Queries, estimates: Estimates, row_limit: int, factor: int = 1) -> None:
    if not queries or len(estimates) != len(queries):
        said = f"{len(estimates)} were given for {len(queries)} queries; at least one is needed"
        raise OptionError("estimates", said)
    if _bits(queries, row_limit) < 0:
        said = f"their entries are too large to be scored about {row_limit:,} rows"
        raise OptionError("queries", f"{said}; use a lattice of fewer bits, or declare fewer rows")
    for query, estimate in zip(queries, estimates, strict=True):
        if estimate.shape != query.shape or estimate.dtype.kind not in "iuf":
            raise OptionError("estimates", f"shape {estimate.shape} does not fit a query that gives {query.shape}")
    limit = float(factor * _magnitude(tuple(queries)) * row_limit)
    # What all of them do not exceed together none does alone.
    if not _size(_flat(estimates)) <= limit and not all(_size(estimate) <= limit for estimate in estimates):
        raise OptionError("estimates", f"they must be finite and add up to at most {limit:.3g} in absolute value")


def _flat(tables: Sequence[Numbers]) -> Numbers:
    return np.concatenate([table.ravel() for table in tables])


def _size(values: Numbers) -> float:
    """Σ|x|, which is Σx where nothing is negative and then needs no copy."""
    is_positive = float(values.min(initial=0)) >= 0
    return float((values if is_positive else np.abs(values)).sum(dtype=np.float64))


@lru_cache(maxsize=64)
def _magnitude(queries: tuple[Query, ...]) -> int:
    """What one row adds to the absolute sum of a query's answers, at most."""
    return max(1, *(math.ceil(sensitivity(query, Relation.ADD_REMOVE).l1) for query in queries))


def _bits(queries: Queries, row_limit: int) -> int:
    """How fine the lattice is: 2^−10 of a row, coarser where a row adds much. Truth and estimate need one bit more."""
    row_bits = (row_limit - 1).bit_length()
    return min(LATTICE_BITS, SCORE_BITS - row_bits - WEIGHT_BITS - 1 - _magnitude(tuple(queries)).bit_length())


def _steps(queries: Queries, row_limit: int) -> int:
    """How many lattice steps one row is."""
    return 1 << _bits(queries, row_limit)


def _norm(gap: Integers, most: int) -> int:
    """min(Σ|gap|, most), exactly."""
    sizes = np.abs(gap, out=gap)
    if sizes.sum(dtype=np.float64) < 2.0**SCORE_BITS:
        return min(int(sizes.sum()), most)
    # With more rows than were declared the sum may not fit: its upper and its lower halves do.
    return min((int((sizes >> 31).sum()) << 31) + int((sizes & (2**31 - 1)).sum()), most)


def _gap(truth: Integers, estimate: Numbers, bits: int) -> Integers:
    """2^bits·(truth − estimate) with the estimate rounded."""
    # In place, for workloads of many cells are scored in every round; a power of 2 is a factor that rounds nothing.
    scaled = np.asarray(estimate.astype(np.float64, copy=False) * 2.0**bits)
    np.rint(scaled, out=scaled)
    gap: Integers = np.asarray(truth << bits)
    gap -= scaled.astype(np.int64)
    return gap


@lru_cache(maxsize=64)
def _largest_change(queries: tuple[Query, ...], neighbours: Neighbours) -> Fraction:
    return max(largest_change(query, neighbours.relation, neighbours.max_rows) for query in queries)


def _complement_change(query: Query, neighbours: Neighbours) -> Fraction:
    """`largest_change` of 1 − q."""
    low, high = entry_range(query)
    if neighbours.relation is Relation.ADD_REMOVE:
        return max(abs(1 - low), abs(1 - high)) * neighbours.max_rows
    if neighbours.max_rows > 1:
        low, high = min(low, Fraction(1)), max(high, Fraction(1))
    return (high - low) * neighbours.max_rows


def _cell(queries: Queries, place: int) -> Pick:
    for number, query in enumerate(queries):
        if place < query.rows:
            return Pick(number, place)
        place -= query.rows
    raise IndexError(place)


def _dependence(counts: Integers, axis: int) -> int:
    """⌊2^bits·½‖c_XΠ − c_X·c_Πᵀ/n‖₁⌋, exactly."""
    table = np.moveaxis(counts, axis, 0).reshape(counts.shape[axis], -1)
    # Σ|n·c − c_X·c_Π| is at most 2n², so int64 holds it below 2³¹ rows.
    wide = table if table.sum(dtype=np.float64) < 2.0**31 else table.astype(object)
    total = int(wide.sum())
    if total == 0:
        return 0
    apart = np.abs(total * wide - wide.sum(axis=1, keepdims=True) * wide.sum(axis=0, keepdims=True)).sum()
    return min((int(apart) << LATTICE_BITS) // (2 * total), 1 << SCORE_BITS)
