"""Answered: what `Weighing` has asked step by step, by a curator or from what one answered before."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from priory.mechanisms.steps.fitted import Fitted
from priory.mechanisms.steps.resolution import LEAST_FOR_ONE_WAYS
from priory.model.model import Model
from priory.privacy.budget import Budget, Number
from priory.privacy.measurement import Measurement
from priory.queries.domain import Domain
from priory.queries.factor import Array
from priory.queries.query import Query
from priory.select.noisy_pairs import strengths
from priory.select.one_ways import OneWays

# Has queries answered for a share of the budget, in proportion to their weights; nothing where nothing was answered.
# The note is for people.
Ask = Callable[[str, Mapping[Query, Number], Budget], Sequence[Measurement]]

# The mean total variation distance of chosen cliques from independence from which on other pairs can tell little beyond
# them: what an attribute has in common with another is then mostly what it has with its neighbours in the tree, and
# noise on one of these is noise on all that hangs on it.
TIED = 0.3
# The distance below which the closest pairs tell nothing, and others less.
UNTIED = 0.01
# How single attributes are measured where they get everything: to those of many values nothing is given that others
# could use better, and runs of their values get little.
EVEN = OneWays(power=0.0, coarse=Fraction(1, 10))


@dataclass(frozen=True, eq=False)
class Answered:
    """What was answered in each step."""

    one_ways: Fitted  # with the estimate from them
    coarse: tuple[Measurement, ...] = ()  # all pairs on runs of values
    chosen: tuple[Measurement, ...] = ()  # the cliques that were chosen
    everything: tuple[Measurement, ...] = ()  # all marginals once
    tested: tuple[Measurement, ...] = ()  # coarse pairs that were a test, before all others; rows are weighted by them
    again: tuple[Measurement, ...] = ()  # single attributes once more, after cliques were chosen privately
    has_tree: bool = False  # whether chosen ones were measured before coarse pairs

    @property
    def measurements(self) -> tuple[Measurement, ...]:
        """All of it, in order."""
        chosen = (*self.chosen, *self.again)
        pairs = (*chosen, *self.coarse) if self.has_tree else (*self.coarse, *chosen)
        return (*self.one_ways.measurements, *self.tested, *pairs, *self.everything)

    @property
    def has_triples(self) -> bool:
        """Whether all triples were measured."""
        return bool(self.everything) and all(len(m.query.clique) > 2 for m in self.everything)


def until(first: Fitted, budget: Budget, share: Fraction, ask: Ask) -> Fitted:
    """The estimate when one-way marginals have got that share of the budget; `first` has the least."""
    if share <= LEAST_FOR_ONE_WAYS:
        return first
    again = ask("one-way marginals again", one_way_strategy(first.base.domain), budget.part(share - LEAST_FOR_ONE_WAYS))
    return first.with_measured(again)


def alone(first: Fitted, budget: Budget, ask: Ask) -> Fitted:
    """The estimate when single attributes have got all of the budget: each the same, as most are lost in noise."""
    rest = budget.part(1 - LEAST_FOR_ONE_WAYS)
    return first.with_measured(ask("single attributes", EVEN.strategy(first.base.domain), rest))


@lru_cache(maxsize=8)
def one_way_strategy(domain: Domain) -> Mapping[Query, Number]:
    """What is asked of single attributes, each time the same."""
    return OneWays().strategy(domain)


def alike(queries: Sequence[Query]) -> dict[Query, Number]:
    """The same weight for each."""
    return dict.fromkeys(queries, 1)


def counts_of(one_ways: Fitted) -> dict[str, Array]:
    """The estimated counts of each attribute's values."""
    return {name: one_ways.model.project((name,)).values for name in one_ways.base.domain}


def tied(chosen: Sequence[Measurement], one_ways: Model) -> float:
    """How closely chosen cliques tie attributes: their mean total variation distance from independence."""
    return sum(strengths(chosen, one_ways).values()) / (2 * max(1, len(chosen)) * one_ways.total)
