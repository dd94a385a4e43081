"""Functionals: the closed list of single numbers about the whole table that may be released, each with its proof.

Like scores they are integers on a lattice, computed by the curator from true answers and shown only with noise.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from priory.errors import OptionError
from priory.privacy.mixture import Places, best_mixture
from priory.privacy.noise import Integers, Noise
from priory.privacy.scores import Neighbours
from priory.queries.query import Query
from priory.queries.sensitivity import Relation

LATTICE_BITS = 10
# How far the solver may be from the least error, in rows.
TOLERANCE = Fraction(1, 4)


@dataclass(frozen=True)
class NoisyNumber:
    """A number of rows with noise."""

    value: float  # in rows, of a lattice of 2^−bits
    stddev: float  # of its noise, in rows
    noise: Noise  # the noise, in steps of the lattice


class Functional(ABC):
    """A kind of number; members are described as data and checked before anything is paid."""

    kind: ClassVar[str]
    bits: ClassVar[int] = 0
    queries: tuple[Query, ...]

    @abstractmethod
    def check(self, neighbours: Neighbours) -> None:
        """Raise an `OptionError` if it cannot be released about these neighbours."""

    @abstractmethod
    def sensitivity(self, neighbours: Neighbours) -> Fraction:
        """How far one person can move it; a whole number of lattice steps."""

    @abstractmethod
    def value(self, truths: Sequence[Integers]) -> int:
        """The number in lattice steps, from the true answers to `queries`."""


@dataclass(frozen=True, eq=False)
class LargestCell(Functional):
    """The largest count among given cells: what no public row supports, it is the floor of every mixture's error.

    Which cells are asked about is public. One person moves each count by at most `max_rows`, under either relation,
    and the largest of numbers moves no further than the one of them that moves furthest.
    """

    queries: tuple[Query, ...]  # marginals
    cells: NDArray[np.bool_]  # which cells of them, one query after the other
    kind = "largest cell"

    def check(self, neighbours: Neighbours) -> None:
        _check_marginals(self.queries)
        if self.cells.shape != (sum(query.rows for query in self.queries),):
            raise OptionError("cells", "one true or false for each cell of the queries")

    def sensitivity(self, neighbours: Neighbours) -> Fraction:
        return Fraction(neighbours.max_rows) if self.cells.any() else Fraction(0)

    def value(self, truths: Sequence[Integers]) -> int:
        counts = np.concatenate([truth.ravel() for truth in truths])[self.cells]
        return int(counts.max(initial=0))


@dataclass(frozen=True, eq=False)
class MixtureError(Functional):
    """n·f, the least over weights of public rows of the largest error over all cells, in rows [Liu et al. 2021, §4.2].

    With n public, one row replaced moves every cell's count by at most 1, hence the largest error of each fixed μ by
    at most 1, and the least over a set of μ that does not depend on the table by no more. The solver's value v is
    certified to be in [n·f, n·f + tolerance], so two neighbours' values differ by at most 1 + tolerance; rounding down
    to the lattice turns a difference of c steps into at most ⌈c⌉. The tolerance is a thousand times what the solver of
    linear programmes works with. It does not raise where that should not be reached, for that would tell of private
    rows: the proof rests on the solver being as accurate as it says, by a factor of a thousand.
    """

    queries: tuple[Query, ...]  # marginals
    cells: tuple[Places, ...]  # for each of them, the cell that each public row is in
    start: NDArray[np.float64]  # weights of the rows to begin from; public
    kind = "best-mixture error"
    bits = LATTICE_BITS

    def check(self, neighbours: Neighbours) -> None:
        _check_marginals(self.queries)
        if neighbours.relation is not Relation.REPLACE_ONE or neighbours.max_rows > 1:
            raise OptionError("relation", "the best-mixture error needs a public number of rows: use the floor instead")

    def sensitivity(self, neighbours: Neighbours) -> Fraction:
        return Fraction(math.ceil((1 + TOLERANCE) * 2**self.bits))

    def value(self, truths: Sequence[Integers]) -> int:
        total = max(int(truths[0].sum()), 1)
        shares = [truth.ravel() / total for truth in truths]
        # Half of the tolerance is for the solver; the floats that turn it into rows need far less than the other half.
        found = best_mixture(self.cells, shares, self.start, float(TOLERANCE) / (2 * total))
        steps: int = math.floor(found.upper * total * 2**self.bits)
        return steps


# The whole of the closed list.
FUNCTIONALS = (LargestCell, MixtureError)


def _check_marginals(queries: Sequence[Query]) -> None:
    """The proofs are about counts of cells: one person moves no other answers by so little."""
    if not queries or not all(query.is_marginal for query in queries):
        raise OptionError("queries", "only marginals, and at least one, can be asked about as a whole")
