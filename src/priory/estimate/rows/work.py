"""Work: how much a fit may go over; public numbers that are fixed before any row is read."""

import math
from dataclasses import dataclass, replace

from priory.queries.domain import Domain


@dataclass(frozen=True, kw_only=True)
class Work:
    """Caps on what is drawn, weighed and modelled.

    Attributes:
        rows: drawn for a table of many records, unless two for each record are more.
        most_rows: never more than these.
        places: rows times marginals by which they are weighed, beyond `fewest_rows`.
        fewest_rows: drawn for a small table.
        marginals: how many are measured once, the strongest pairs first.
        cells: how many cells all tables of a graphical model may have together.
    """

    rows: int = 400_000
    most_rows: int = 1_000_000
    places: int = 120_000_000
    fewest_rows: int = 50_000
    marginals: int = 400
    cells: int = 2_000_000

    def times(self, factor: float) -> "Work":
        """So many times more rows and cells."""
        return replace(
            self,
            rows=int(factor * self.rows),
            most_rows=int(factor * self.most_rows),
            places=int(factor * self.places),
            cells=int(factor * self.cells),
        )

    def rows_for(self, records: float, marginals: int) -> int:
        """How many rows stand for so many records, where so many marginals weigh them."""
        number = math.ceil(records)
        wanted = max(min(ROWS_A_RECORD * number, self.rows), LEAST_A_RECORD * number, self.fewest_rows)
        return min(wanted, self.most_rows, max(self.places // max(1, marginals), self.fewest_rows))

    def cells_for(self, domain: Domain) -> float:
        """How many cells a model may have: from 50 attributes on fewer, as more of them take more steps over all."""
        return self.cells * min(1.0, WIDE / max(1, len(domain) - WIDE))


# Attributes beyond so many are counted by `Work.cells_for`.
WIDE = 25
# Rows drawn for each record, and at least for each of very many.
ROWS_A_RECORD, LEAST_A_RECORD = 16, 2
