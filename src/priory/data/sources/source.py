"""Source: something that can count."""

from collections.abc import Sequence
from typing import Protocol

from priory.errors import OptionError
from priory.queries.domain import Clique, Domain
from priory.queries.factor import Factor

# How many rows a source declares by default. Answers are worked out with room for as many.
ROW_LIMIT = 2**32
# More could not be counted in 62 bits.
MOST_ROWS = 2**62


class Source(Protocol):
    """Records that can be counted and are never shown."""

    @property
    def domain(self) -> Domain:
        """The attributes and their sizes; public, for it comes from the schema."""

    @property
    def row_limit(self) -> int:
        """A number of rows, declared and public, that the table is not said to exceed; by default 2^32.

        Where it does, answers are cut off, and what is promised holds.
        """

    def count(self, cliques: Sequence[Clique]) -> list[Factor]:
        """How many records fall into each cell, as integers, for each clique in the order of its attributes.

        A `DomainError` where a clique names unknown attributes, a `SizeError` where one has too many cells to count.
        """


def checked_row_limit(row_limit: int | None) -> int:
    """The number of rows that a source declares, 2^32 by default; an `OptionError` where so many cannot be counted."""
    if row_limit is None:
        return ROW_LIMIT
    if isinstance(row_limit, bool) or not isinstance(row_limit, int) or not 1 <= row_limit <= MOST_ROWS:
        raise OptionError("row_limit", f"a whole number of rows from 1 to {MOST_ROWS:,}; got {row_limit!r}")
    return row_limit
