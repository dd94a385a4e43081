"""Information: which marginals matter, told by public rows alone."""

import itertools

import numpy as np

from priory.domain import Clique
from priory.factor import Array
from priory.model.bases import PublicRows
from priory.model.rows import RowsTilted


def mutual_information(table: Array) -> float:
    """Σ p log(p/(p_a·p_b)) of a table of two attributes, in nats."""
    shares = table / table.sum()
    product = shares.sum(axis=1, keepdims=True) * shares.sum(axis=0, keepdims=True)
    held = shares > 0
    return float((shares[held] * np.log(shares[held] / product[held])).sum())


def strongest_pairs(rows: PublicRows, attributes: Clique, *, count: int = 20, most_cells: int = 1_000) -> list[Clique]:
    """The pairs of attributes that tell most about each other in public data, no pair of more than `most_cells`."""
    tilted = _tilted(rows)
    pairs: list[Clique] = [p for p in itertools.combinations(attributes, 2) if rows.domain.size_of(p) <= most_cells]
    strength = {pair: mutual_information(tilted.project(pair)) for pair in pairs}
    return sorted(strength, key=lambda pair: -strength[pair])[:count]


def unrelated_singles(
    rows: PublicRows, attributes: Clique, *, count: int = 6, most: float = 0.15, most_cells: int = 50
) -> list[Clique]:
    """Attributes of which none tells more than `most` nats about another, those with the most entropy first."""
    tilted = _tilted(rows)
    small = [name for name in attributes if rows.domain[name] <= most_cells]
    ordered = sorted(small, key=lambda name: -_entropy(tilted.project((name,))))
    chosen: list[str] = []
    for name in ordered:
        if all(mutual_information(tilted.project((name, other))) < most for other in chosen):
            chosen.append(name)
    return [(name,) for name in chosen[:count]]


def _entropy(shares: Array) -> float:
    held = shares[shares > 0]
    return float(-(held * np.log(held)).sum())


def _tilted(rows: PublicRows) -> RowsTilted:
    return RowsTilted(rows.domain, rows.codes, rows.shares, 0.0)
