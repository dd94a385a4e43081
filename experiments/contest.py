"""Contest: the score of NIST's 2020 temporal map challenge, sprint 2, for rows in groups."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from priory.model.tilted import row_cells
from priory.queries.domain import Clique, Domain
from priory.queries.factor import Array

# A group whose number of rows is off by this much counts as missed altogether.
COUNT_SLACK = 250
PAIRS, PAIRS_SEED = 50, 123456
Codes = NDArray[np.integer]


@dataclass(frozen=True, eq=False)
class ContestScore:
    """How well rows agree with the true ones, group by group.

    Attributes:
        distances: for each group, the mean L1 distance of pairs, from 0 to 2.
        missed: for each group, whether its count was off by too much.
    """

    distances: Array
    missed: NDArray[np.bool_]

    @property
    def score(self) -> float:
        """From 0 to 1000, higher is better: missed groups have distance 2."""
        return 1000 * (2 - float(np.where(self.missed, 2.0, self.distances).mean())) / 2


def contest_pairs(attributes: Sequence[str]) -> list[Clique]:
    """The pairs that are compared, the same for all groups: at most 50, drawn from a fixed seed."""
    every = list(itertools.combinations(sorted(attributes), 2))
    count = min(PAIRS, len(every))
    chosen = np.random.default_rng(PAIRS_SEED).choice(len(every), size=count, replace=False)
    return [every[i] for i in chosen]


def contest_score(
    found: Codes, truth: Codes, domain: Domain, by: Clique, pairs: Sequence[Clique] | None = None
) -> ContestScore:
    """Compare two tables of codes in every group that one of them has rows in.

    Args:
        found: the rows to judge.
        truth: the true rows.
        domain: the attributes of both.
        by: which make the groups.
        pairs: which pairs are compared; those of the contest by default.
    """
    pairs = contest_pairs([name for name in domain if name not in by]) if pairs is None else pairs
    sides = [row_cells(codes, domain, by) for codes in (found, truth)]
    present, index = np.unique(np.concatenate(sides), return_inverse=True)
    groups = [index[: len(found)], index[len(found) :]]
    counts = [np.bincount(group, minlength=len(present)) for group in groups]
    distances = np.zeros(len(present))
    for pair in pairs:
        cells = [row_cells(codes, domain, pair) for codes in (found, truth)]
        distances += _distance(cells, groups, counts, domain.size_of(pair))
    empty = (counts[0] == 0) | (counts[1] == 0)
    distances = np.where(empty, 2.0, distances / max(len(pairs), 1))
    return ContestScore(distances, np.abs(counts[0] - counts[1]) >= COUNT_SLACK)


def _distance(
    cells: Sequence[NDArray[np.int64]],
    groups: Sequence[NDArray[np.int64]],
    counts: Sequence[NDArray[np.int64]],
    size: int,
) -> Array:
    """‖p − q‖₁ of one pair, of `size` cells, in each group."""
    keys = [group * size + cell for group, cell in zip(groups, cells, strict=True)]
    held, index = np.unique(np.concatenate(keys), return_inverse=True)
    shares = np.concatenate([sign / count[group] for sign, count, group in zip((1, -1), counts, groups, strict=True)])
    gaps = np.abs(np.bincount(index, weights=shares, minlength=len(held)))
    return np.asarray(np.bincount(held // size, weights=gaps, minlength=len(counts[0])), dtype=np.float64)
