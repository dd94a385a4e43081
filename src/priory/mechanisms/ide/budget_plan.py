"""Budget plan: what the counts of groups and the marginals of each level may spend, forecast from what is public.

The error of a release in groups is the part of all rows that lies in a wrong group or a wrong cell of its group. A part
that is not measured keeps a typical distance d from the truth. One that is measured with noise of ν has
d·ν/√(d² + ν²), for prior and answer are weighted by their precision. Noise falls with the share x of the budget, as
a/x, or a/√x in zCDP, so the shares of the measured parts are best in proportion to √a, or a^(2/3). The parts measured
are those of the least forecast error in all.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from priory.mechanisms.ide.hierarchy import Level
from priory.privacy.budget import Budget
from priory.queries.domain import Clique, Domain
from priory.queries.query import Query
from priory.select.one_ways import expected_noise

# Typical distances: of the sizes of groups from equal ones, of a population from public rows, of groups from the whole.
COUNTS_APART, POPULATION_APART, GROUPS_APART = 0.3, 0.1, 0.25
# Nothing is known of the number of rows, which is measured in any case.
WHOLE_APART = 1.0
# Shares are whole multiples of a thousandth.
PARTS = 1_000
# Less noise than this is none.
LEAST = 1e-9


@dataclass(frozen=True)
class CandidateMarginals:
    """Marginals that could be measured in every group of a level."""

    cliques: tuple[Clique, ...]  # which
    remaining: float  # the part of the distance that stays where they are known exactly


@dataclass(frozen=True)
class BudgetPlan:
    """What each level measures and may spend."""

    counting: Budget  # for counts of the groups of the last level, or for the number of rows alone
    counts_groups: bool  # which of the two
    workloads: tuple[tuple[Clique, ...], ...]  # the marginals of each level, none where they would not help
    shares: tuple[Budget | None, ...]  # what those may spend


@dataclass(frozen=True)
class _Part:
    """What could be measured: its noise for the whole budget, its distance, and the part of that which remains."""

    noise: float
    apart: float
    remaining: float = 0.0
    cliques: tuple[Clique, ...] = ()

    def error(self, share: float, power: float) -> float:
        """What is left of the distance for a share of the budget."""
        noise, apart = max(self.noise, LEAST) / share**power, self.apart * (1 - self.remaining)
        return float(self.apart * self.remaining + apart * noise / math.hypot(apart, noise))


def budget_plan(
    budget: Budget,
    domain: Domain,
    levels: Sequence[Level],
    choices: Sequence[Sequence[CandidateMarginals | None]],
    total: float,
) -> BudgetPlan:
    """Share a budget out among levels: `choices` are the workloads of each, with None where it may be left out."""
    last = levels[-1]
    counting = _Part(_noise(budget, Query.marginal(domain, last.attributes), last, total), COUNTS_APART)
    whole = _Part(expected_noise(Query.marginal(domain, ()), budget) / total, WHOLE_APART)
    each = [
        [None if choice is None else _part(budget, domain, level, choice, total) for choice in given]
        for level, given in zip(levels, choices, strict=True)
    ]
    power = 1.0 if budget.is_pure else 0.5
    # Something must be measured: where the number of rows is public, counts are what noise spoils least.
    has_price = whole.noise > 0
    plans = (p for p in itertools.product((counting, whole), *each) if p[0] is counting or has_price or any(p[1:]))
    best = min(plans, key=lambda plan: _forecast(plan, counting, levels, power))
    first, *rest = budget.split([max(1, round(PARTS * share)) for share in _shares(best, power)])
    paid = iter(rest)
    workloads = tuple(() if part is None else part.cliques for part in best[1:])
    shares = tuple(None if part is None else next(paid) for part in best[1:])
    return BudgetPlan(first, best[0] is counting, workloads, shares)


def _part(budget: Budget, domain: Domain, level: Level, choice: CandidateMarginals, total: float) -> _Part:
    share = budget.part(1 / len(choice.cliques)) if len(choice.cliques) > 1 else budget
    noises = [_noise(share, level.query(domain, clique), level, total) for clique in choice.cliques]
    return _Part(sum(noises) / len(noises), _apart(level), choice.remaining, choice.cliques)


def _noise(budget: Budget, query: Query, level: Level, total: float) -> float:
    """The noise in the groups that exist, as a part of all rows."""
    existing = len(level.groups) / math.prod(query.domain[name] for name in level.attributes)
    return expected_noise(query, budget) * existing / total


def _apart(level: Level) -> float:
    return POPULATION_APART if len(level.groups) == 1 else GROUPS_APART


def _forecast(plan: Sequence[_Part | None], counting: _Part, levels: Sequence[Level], power: float) -> float:
    shares = iter(_shares(plan, power))
    distances = (COUNTS_APART, *map(_apart, levels))
    parts = zip(plan, distances, strict=True)
    errors = [apart if part is None else part.error(next(shares), power) for part, apart in parts]
    if plan[0] is not counting:
        return sum(errors) + COUNTS_APART
    # The counts of groups add up to the number of rows, and their noise to the root of their number.
    total = _Part(counting.noise / math.sqrt(len(levels[-1].groups)), WHOLE_APART)
    return sum(errors) + total.error(_shares(plan, power)[0], power)


def _shares(plan: Sequence[_Part | None], power: float) -> list[float]:
    """In proportion to noise^(1/(1 + power)), which minimises Σ noise/share^power."""
    roots = [max(part.noise, LEAST) ** (1 / (1 + power)) for part in plan if part is not None]
    return [root / sum(roots) for root in roots]
