"""Workloads: the marginals that a mechanism aims at where nobody says which matter."""

from priory.queries.domain import Domain
from priory.queries.workload import Workload

# A hundred attributes have 160,000 triples: wider tables aim at pairs.
MOST_FOR_TRIPLES = 30


def default_workload(domain: Domain, ways: int = 3) -> Workload:
    """All marginals of `ways` attributes: of at most two if there are more than thirty, of all if there are fewer."""
    return Workload.marginals(domain, min(ways, 3 if len(domain) <= MOST_FOR_TRIPLES else 2, len(domain)))


def countable_workload(domain: Domain, *, most_cells: int, most_marginals: int) -> Workload:
    """All marginals of three attributes; of two, or one, where those are too many or have too many cells."""
    for ways in range(min(3, len(domain)), 1, -1):
        # The number of cells of all k-way marginals is the k-th elementary symmetric function of the sizes.
        cells, marginals = [1] + [0] * ways, [1] + [0] * ways
        for size in domain.shape:
            for k in range(ways, 0, -1):
                cells[k] += size * cells[k - 1]
                marginals[k] += marginals[k - 1]
        if cells[ways] <= most_cells and marginals[ways] <= most_marginals:
            return Workload.marginals(domain, ways)
    return Workload.marginals(domain, 1)
