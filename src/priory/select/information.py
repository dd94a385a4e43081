"""Information: which marginals matter, judged by public rows alone."""

import itertools

import numpy as np

from priory.model.bases import PublicRows
from priory.model.rows import RowsTilted
from priory.queries.domain import Clique
from priory.queries.factor import Array
from priory.queries.workload import Workload

# Workloads with more answers are replaced by their pairs: noise for so many is drawn in about a second.
MOST_ANSWERS = 1 << 17
# Rows times pairs that are gone over to judge pairs: of more rows some are looked at, but no fewer than this.
JUDGED, LEAST_JUDGED = 200_000_000, 1_000


def mutual_information(table: Array) -> float:
    """Σ p log(p/(p_a·p_b)) of a table of two attributes, in nats."""
    shares = table / table.sum()
    product = shares.sum(axis=1, keepdims=True) * shares.sum(axis=0, keepdims=True)
    positive = shares > 0
    return float((shares[positive] * np.log(shares[positive] / product[positive])).sum())


def strongest_pairs(rows: PublicRows, attributes: Clique, *, count: int = 20, most_cells: int = 1_000) -> list[Clique]:
    """The pairs of attributes that depend most on each other in public data, no pair of more than `most_cells`."""
    pairs: list[Clique] = [p for p in itertools.combinations(attributes, 2) if rows.domain.size_of(p) <= most_cells]
    return _strongest(rows, pairs)[:count]


def small_singles(rows: PublicRows, attributes: Clique, *, most_cells: int = 50) -> list[Clique]:
    """Every attribute of no more than `most_cells` values."""
    return [(name,) for name in attributes if rows.domain[name] <= most_cells]


def unrelated_singles(
    rows: PublicRows, attributes: Clique, *, count: int = 6, most: float = 0.15, most_cells: int = 50
) -> list[Clique]:
    """Attributes whose mutual information is below `most` nats for each pair, those with the most entropy first."""
    tilted = _tilted(rows)
    small = [name for name in attributes if rows.domain[name] <= most_cells]
    ordered = sorted(small, key=lambda name: -_entropy(tilted.project((name,))))
    chosen: list[str] = []
    for name in ordered:
        if all(mutual_information(tilted.project((name, other))) < most for other in chosen):
            chosen.append(name)
    return [(name,) for name in chosen[:count]]


def informative_marginals(workload: Workload, rows: PublicRows | None, *, most: int, most_cells: int) -> list[Clique]:
    """Marginals that cover most of what a workload of marginals asks: at most `most`, and some single attributes."""
    # They are the workload's own, or the pairs within them where there are too many or too large ones: of more pairs
    # than `most` those that depend most on each other in public data, or the first ones. Attributes in no pair come
    # alone.
    sizes = {query.clique: query.rows for query in workload}
    if len(sizes) <= most and sum(sizes.values()) <= MOST_ANSWERS and max(sizes.values()) <= most_cells:
        return [clique for clique in sizes if clique]
    values = {name: n for query in workload for name, n in zip(query.clique, query.domain.shape, strict=True)}
    every = dict.fromkeys(pair for clique in sizes for pair in itertools.combinations(clique, 2))
    pairs: list[Clique] = [pair for pair in every if values[pair[0]] * values[pair[1]] <= most_cells]
    if len(pairs) > most:
        pairs = (pairs if rows is None else _strongest(rows, pairs))[:most]
    paired = {name for pair in pairs for name in pair}
    alone: list[Clique] = [(name,) for name in values if name not in paired]
    small = [clique for clique in alone if values[clique[0]] <= most_cells]
    return [*pairs, *small] or [min(alone, key=lambda clique: values[clique[0]])]


def _strongest(rows: PublicRows, pairs: list[Clique]) -> list[Clique]:
    thin = rows.thinned(max(LEAST_JUDGED, JUDGED // max(len(pairs), 1)))
    tilted = _tilted(thin)
    strength = {pair: mutual_information(tilted.project(pair)) for pair in pairs}
    if thin is not rows:
        # What few rows seem to tell of a large table is chance: about half a nat for each degree of freedom and row.
        for a, b in pairs:
            strength[a, b] -= (rows.domain[a] - 1) * (rows.domain[b] - 1) / (2 * thin.records)
    return sorted(pairs, key=lambda pair: -strength[pair])


def _entropy(shares: Array) -> float:
    positive = shares[shares > 0]
    return float(-(positive * np.log(positive)).sum())


def _tilted(rows: PublicRows) -> RowsTilted:
    return RowsTilted(0.0, rows.domain, rows.codes, rows.shares)
