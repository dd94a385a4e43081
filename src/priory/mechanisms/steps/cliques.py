"""Cliques: what noisy answers about coarse pairs say should be modelled; asking them is free."""

import math
from collections.abc import Sequence

from priory.estimate.first_model import estimated, sampled
from priory.mechanisms.steps.fitted import Fitted
from priory.model.bases import Uniform
from priory.model.model import Model
from priory.privacy.measurement import Measurement
from priory.queries.domain import Clique
from priory.select.coarsened import Coarsened
from priory.select.noisy_pairs import joining_pairs, strengths, strong_cliques


def chosen_cliques(
    one_ways: Fitted, coarse: Sequence[Measurement], *, most_cells: float, tree_noise: float
) -> list[Clique]:
    """A tree of the strongest pairs, and cliques of what this does not imply.

    Args:
        one_ways: what is known of single attributes.
        coarse: noisy answers about all pairs on runs of values.
        most_cells: how many cells a graphical model of the cliques has at most.
        tree_noise: how many times its own noise a pair's distance from what a noisy tree implies has.
    """
    domain = one_ways.base.domain
    strength = strengths(coarse, one_ways.model)
    tree = joining_pairs(domain, strength, most_cells)
    table = Coarsened.of(coarse, one_ways.measurements)
    inside = table.pairs(m for m in coarse if m.query.clique in tree)
    implied = estimated([*table.summed(one_ways.measurements), *inside], Uniform(table.domain))
    others = table.pairs(m for m in coarse if m.query.clique not in tree)
    beyond = {pair: strength[pair] for pair in tree} | strengths(others, implied, noise=tree_noise)
    ordered = {pair: beyond[pair] for pair in sorted(beyond, key=lambda pair: -beyond[pair])}
    return strong_cliques(domain, tree, ordered, most_cells)


def coarse_model(coarse: Sequence[Measurement], begin: Sequence[Measurement]) -> tuple[Model, list[Measurement]]:
    """A model of runs of values by what it begins with, and coarse pairs as marginals of it."""
    table = Coarsened.of(coarse, begin)
    return estimated(table.summed(begin), Uniform(table.domain)), table.pairs(coarse)


def telling(answers: Sequence[Measurement], model: Model, *, rows: int, deviations: float) -> list[Clique]:
    """The cliques of which answers tell something beyond a model, the farthest first.

    Args:
        answers: noisy answers, one about each clique.
        model: what they are compared with.
        rows: drawn from it to be asked, as attributes far apart in a junction tree would take gigabytes.
        deviations: how many standard deviations of its noise an answer must be off.
    """
    drawn = rows if model.domain.size > rows else math.inf
    return list(strengths(answers, sampled(model, rows), spreads=deviations, drawn=drawn))
