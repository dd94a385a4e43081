"""Noisy pairs: what noisy answers about pairs of attributes say of a table; choosing from them is free."""

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from priory.model.fitting import fitting, structure
from priory.model.model import Model
from priory.privacy.measurement import Measurement
from priory.queries.domain import Clique, Domain
from priory.queries.factor import Array
from priory.queries.parts import Identity, Part, Recode
from priory.queries.query import Query

# Triples of more cells are not chosen: what one cell says of them is below its noise.
MOST_CELLS = 20_000


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


def queries_on(domain: Domain, cliques: Iterable[Clique], parts: Mapping[str, Part]) -> list[Query]:
    """The marginals of `cliques` with values merged as `parts` say."""
    return [Query.product(domain, {name: parts[name] for name in clique}) for clique in cliques]


def strengths(
    measurements: Sequence[Measurement],
    model: Model,
    *,
    noise: float = 1.0,
    spreads: float = 0.0,
    drawn: float = math.inf,
) -> dict[Clique, float]:
    """How far answers are from the model's beyond their noise, of those that are; the farthest first.

    Args:
        measurements: the answers.
        model: what they are compared with.
        noise: how many times their own noise is taken off, where the model has noise, too.
        spreads: and how many standard deviations of the L1 norm of the noise.
        drawn: how many rows the model was drawn as, which have an error of their own.
    """
    distances = _distances(measurements, model, drawn)
    excess = {clique: far - noise * mean - spreads * spread for clique, (far, mean, spread) in distances.items()}
    return {clique: excess[clique] for clique in sorted(excess, key=lambda c: -excess[c]) if excess[clique] > 0}


def _distances(
    measurements: Sequence[Measurement], model: Model, drawn: float
) -> dict[Clique, tuple[float, float, float]]:
    """The L1 distance of noisy answers from a model's, and the mean and standard deviation that noise alone has."""
    answers = model.answers([m.query for m in measurements])
    found = {}
    for m, answer in zip(measurements, answers, strict=True):
        # A count of c among N drawn rows that stand for n records has about the variance n·c/N.
        variances = np.square(m.stddev) + model.total * np.maximum(answer, 0.0) / drawn
        # The mean of |noise| of Gaussian noise is √(2/π) of its standard deviation.
        mean = math.sqrt(2 / math.pi) * float(np.sqrt(variances).sum())
        spread = math.sqrt((1 - 2 / math.pi) * float(variances.sum()))
        found[m.query.clique] = (float(np.abs(m.values - answer).sum()), mean, spread)
    return found


def joining_pairs(domain: Domain, strength: Mapping[Clique, float], most_cells: float) -> list[Clique]:
    """A tree of the strongest pairs, or a forest: each joins two trees; `strength` has the strongest first."""
    tree_of = {name: name for name in domain}
    edges: list[Clique] = []
    for one, other in strength:
        first, second = tree_of[one], tree_of[other]
        if first != second and domain.size_of((one, other)) <= most_cells:
            edges.append((one, other))
            tree_of = {name: first if tree == second else tree for name, tree in tree_of.items()}
    return edges


def strong_cliques(
    domain: Domain, tree: Sequence[Clique], strength: Mapping[Clique, float], most_cells: float
) -> list[Clique]:
    """About two cliques an attribute for a model: triples whose pairs all depend on each other, then other pairs.

    All pairs of `tree` are in them. `strength` says how much pairs depend, those of the tree by themselves and others
    beyond what the tree implies, the strongest first. With the cliques a junction tree has at most `most_cells`, or
    those of the tree.
    """
    # Without the tree triples could leave an attribute, all of whose dependence is one pair, out.
    plan = structure(domain, [*((name,) for name in domain), *tree])
    triples = fitting(plan, triangles(domain, strength), most=len(domain), most_cells=most_cells, new_pairs=True)
    covered = {pair for triple in triples for pair in itertools.combinations(triple, 2)}
    edges = [pair for pair in tree if pair not in covered]
    others = [pair for pair in strength if pair not in covered and pair not in tree]
    plan = structure(domain, [*plan.cliques, *triples])
    most = max(0, 2 * len(domain) - len(triples) - len(edges))
    return [*triples, *edges, *fitting(plan, others, most=most, most_cells=most_cells)]


def triangles(domain: Domain, strength: Mapping[Clique, float]) -> list[Clique]:
    """Triples all of whose pairs depend on each other, those that depend most first."""
    scores: dict[Clique, float] = {}
    for triple in itertools.combinations(domain, 3):
        pairs = list(itertools.combinations(triple, 2))
        if domain.size_of(triple) <= MOST_CELLS and all(pair in strength for pair in pairs):
            scores[triple] = sum(strength[pair] for pair in pairs)
    return sorted(scores, key=lambda triple: -scores[triple])
