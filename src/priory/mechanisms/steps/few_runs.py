"""Few runs: what `Weighing` asks where few runs of values are above the noise, so that pairs are chosen privately."""

import itertools
from collections.abc import Callable, Sequence
from fractions import Fraction

from priory.mechanisms.steps.answered import (
    TIED,
    UNTIED,
    Answered,
    Ask,
    alike,
    counts_of,
    one_way_strategy,
    tied,
    until,
)
from priory.mechanisms.steps.fitted import Fitted
from priory.mechanisms.steps.resolution import LEAST_FOR_ONE_WAYS, Forest, Tree
from priory.privacy.budget import Budget
from priory.queries.query import Query
from priory.select.merging import merged_parts, merged_query

# Chooses pairs that join attributes, on which the model of one-way marginals errs most, for a share of the budget:
# beside those that were chosen before, and at most so many.
Join = Callable[[Fitted, Budget, Sequence[Query], int | None], Sequence[Query]]
# Pairs of more cells are not chosen: they would have to be counted.
MOST_CELLS = 1_000_000
# Values whose noisy count is below so many standard deviations of its noise are merged.
DROWNED = 2.0
# What part of their share one-way marginals get before a tree is chosen.
EARLY = Fraction(1, 2)
# A forest has a pair for so many attributes; what parts of its budget its first choice and first answers get.
A_PAIR_FOR = 3
FIRST_CHOICE, FIRST_ANSWERS = Fraction(3, 4), Fraction(1, 2)


def mergeable_pairs(one_ways: Fitted) -> list[Query]:
    """All pairs that may be chosen, with values merged that noise drowns."""
    domain = one_ways.base.domain
    parts = merged_parts(domain, one_ways.measurements, drowned=DROWNED)
    pairs = (pair for pair in itertools.combinations(domain, 2) if domain.size_of(pair) <= MOST_CELLS)
    return [merged_query(domain, pair, parts) for pair in pairs]


def tree(first: Fitted, budget: Budget, share: Fraction, resolution: Tree, *, ask: Ask, join: Join) -> Answered:
    """A tree, and then the rest of one-way marginals and coarse pairs, where it leaves something to be told."""
    early = max(LEAST_FOR_ONE_WAYS, EARLY * share)
    one_ways, late = until(first, budget, early, ask), share - early
    queries = join(one_ways, resolution.choosing, (), None)
    chosen = tuple(ask("chosen cliques", alike(queries), resolution.chosen)) if queries else ()
    ties = tied(chosen, one_ways.model)
    rest = budget.worth(resolution.coarse.amount + late * budget.amount)
    if ties >= TIED:
        again = ask("chosen cliques again", alike(queries), rest)
        return Answered(one_ways, chosen=(*chosen, *again))
    singles = one_way_strategy(one_ways.base.domain)
    if chosen and ties < UNTIED:
        return Answered(one_ways, chosen=chosen, again=tuple(ask("one-way marginals again", singles, rest)))
    again = ask("one-way marginals again", singles, budget.part(late)) if late else ()
    pairs = resolution.coarse_pairs(one_ways.base.domain, counts_of(one_ways.with_measured(again)))
    coarse = ask("coarse pairs", alike(pairs), resolution.coarse)
    return Answered(one_ways, tuple(coarse), chosen, again=tuple(again), has_tree=True)


def forest(one_ways: Fitted, resolution: Forest, *, ask: Ask, join: Join) -> Answered:
    """Some pairs, measured twice; the others of a tree, too, where these tie attributes closely."""
    domain = one_ways.base.domain
    first_choice, second_choice = resolution.choosing.split((FIRST_CHOICE, 1 - FIRST_CHOICE))
    first_share, second_share = resolution.chosen.split((FIRST_ANSWERS, 1 - FIRST_ANSWERS))
    queries = join(one_ways, first_choice, (), max(1, len(domain) // A_PAIR_FOR))
    chosen = tuple(ask("chosen pairs", alike(queries), first_share)) if queries else ()
    ties = tied(chosen, one_ways.model)
    if ties >= TIED:
        queries = [*queries, *join(one_ways, second_choice, queries, None)]
        return Answered(one_ways, chosen=(*chosen, *ask("all of a tree", alike(queries), second_share)))
    rest = second_share.worth(second_choice.amount + second_share.amount)
    if ties < UNTIED:
        again = ask("one-way marginals again", one_way_strategy(domain), rest)
        return Answered(one_ways, chosen=chosen, again=tuple(again))
    return Answered(one_ways, chosen=(*chosen, *ask("chosen pairs again", alike(queries), rest)))
