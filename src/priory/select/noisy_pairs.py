"""Noisy pairs: what noisy answers about all pairs say of a table, chosen from for free."""

import itertools
import math
from collections.abc import Iterable, Sequence

import numpy as np

from priory.model.engine.plan import Plan
from priory.privacy.measurement import Measurement
from priory.queries.domain import Clique, Domain
from priory.queries.factor import Array
from priory.queries.parts import Identity, Part, Recode
from priory.queries.query import Query
from priory.select.noise_size import GAUSSIAN, LAPLACE


def runs(counts: Array, most: int) -> Part:
    """Merge neighbouring values into at most `most` runs of about equal mass.

    >>> runs(np.array([5.0, 1.0, 1.0, 1.0, 4.0]), 3).targets
    (0, 1, 1, 1, 2)
    """
    if len(counts) <= most:
        return Identity()
    mass = np.maximum(counts, 0.0) + 1e-9 * max(float(counts.max()), 1.0)
    middles = (np.cumsum(mass) - mass / 2) / mass.sum()
    return Recode(np.unique(np.floor(middles * most), return_inverse=True)[1])


def excess(measurement: Measurement, answers: Array) -> float:
    """The L1 distance of noisy answers from predicted ones, less what noise alone would make of it."""
    share = LAPLACE if measurement.noise is not None and measurement.noise.family == "laplace" else GAUSSIAN
    noise = share * float(np.sum(np.broadcast_to(measurement.stddev, measurement.query.shape)))
    return float(np.abs(measurement.values - answers).sum()) - noise


def triangles(strength: dict[Clique, float], domain: Domain, most_cells: int) -> list[Clique]:
    """Triples all of whose pairs depend on each other, those that depend most first."""
    scored = []
    for triple in itertools.combinations(domain, 3):
        parts = [strength.get(pair, 0.0) for pair in itertools.combinations(triple, 2)]
        if min(parts) > 0 and domain.size_of(triple) <= most_cells:
            scored.append((sum(parts), triple))
    return [triple for _, triple in sorted(scored, key=lambda scored: -scored[0])]


def fitting(plan: Plan, cliques: Iterable[Clique], *, most: int, most_cells: float, new_pairs: bool) -> list[Clique]:
    """The first `most` cliques with which a junction tree stays within `most_cells`.

    Args:
        plan: the tree there is.
        cliques: candidates, the best first.
        most: how many to take.
        most_cells: of the tree with them.
        new_pairs: whether each must have a pair that no earlier one has.
    """
    from priory.select.candidates import structure

    taken: list[Clique] = []
    covered: set[Clique] = set()
    for clique in cliques:
        if len(taken) == most:
            break
        pairs = set(itertools.combinations(clique, 2))
        if (new_pairs and pairs <= covered) or plan.size_with(clique) > most_cells:
            continue
        taken.append(clique)
        covered |= pairs
        plan = structure(plan.domain, [*plan.cliques, clique])
    return taken


def noise_of(count: int, amount: float) -> float:
    """σ of each of `count` marginals that share an amount of μ² or 2ρ equally."""
    return math.sqrt(count / amount)


def queries_on(domain: Domain, cliques: Sequence[Clique], parts: dict[str, Part]) -> list[Query]:
    """The marginals of `cliques` with values merged as `parts` say."""
    return [Query.product(domain, {name: parts[name] for name in clique}) for clique in cliques]
