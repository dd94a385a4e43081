"""Memory: a source of compact integer codes."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from priory.cores import available
from priory.data.codec import Codes
from priory.data.sources.source import ROW_LIMIT
from priory.queries.domain import Clique, Domain, checked_cliques
from priory.queries.factor import Factor, cell_codes

# Records counted at a time: their keys then stay in the processor's cache.
BLOCK = 2**16
# Additions that are worth starting threads for.
MANY = 2**24


@dataclass(frozen=True, eq=False, repr=False)
class MemorySource:
    """Records held as one array of codes for each attribute."""

    domain: Domain  # the attributes and their sizes
    codes: tuple[Codes, ...]  # the codes of each attribute, all of one length, in the order of the domain
    records: int  # how many there are. Secret under add-remove: only the curator may ask
    row_limit: int = ROW_LIMIT  # how many rows are declared

    def __repr__(self) -> str:
        return f"MemorySource({len(self.domain)} attributes)"

    def count(self, cliques: Sequence[Clique]) -> list[Factor]:
        domains = checked_cliques(self.domain, cliques)
        if self.records * len(domains) < MANY:
            return [self._counted(clique) for clique in domains]
        with ThreadPoolExecutor(available()) as pool:
            return list(pool.map(self._counted, domains))

    def _counted(self, clique: Domain) -> Factor:
        columns = [self.codes[self.domain.axis[name]] for name in clique]
        return Factor(clique, tally(columns, clique, self.records).reshape(clique.shape))


def tally(columns: Sequence[Codes], clique: Domain, records: int) -> NDArray[np.int64]:
    """How many of so many records fall into each cell of a clique, in C order, by the codes of its attributes."""
    # A pass over all cells for each block would cost more than it saves where there are more cells than records.
    block = max(BLOCK, 4 * clique.size)
    # Without columns there is one cell, which every record is in.
    counts = np.full(clique.size, 0 if columns else records, dtype=np.int64)
    for start in range(0, records if columns else 0, block):
        cells = cell_codes([column[start : start + block] for column in columns], clique.shape)
        counts += np.bincount(cells, minlength=clique.size)
    return counts
