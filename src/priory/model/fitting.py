"""Fitting: which cliques a graphical model still has room for."""

import itertools
from collections.abc import Iterable, Sequence

from priory.model.engine.plan import Plan, plan
from priory.queries.domain import Clique, Domain


def structure(domain: Domain, cliques: Sequence[Clique]) -> Plan:
    """The plan of what was measured, however large."""
    return plan(domain, dict.fromkeys(cliques), memory_in_bytes=2**62)


def fitting(
    tree: Plan, cliques: Iterable[Clique], *, most: int, most_cells: float, new_pairs: bool = False
) -> list[Clique]:
    """The first `most` cliques with which the tree stays within `most_cells`, each with a new pair where asked."""
    fit: list[Clique] = []
    covered: set[Clique] = set()
    for clique in cliques:
        if len(fit) == most:
            break
        pairs = set(itertools.combinations(clique, 2))
        if (new_pairs and pairs <= covered) or tree.size_with(clique) > most_cells:
            continue
        fit.append(clique)
        covered |= pairs
        tree = structure(tree.domain, [*tree.cliques, clique])
    return fit
