"""Spending: which part of a release's budget went where, worked out from the noise of its measurements."""

from dataclasses import dataclass
from fractions import Fraction

from priory.privacy.measurement import Measurement
from priory.queries.domain import Clique
from priory.queries.sensitivity import sensitivity
from priory.release import Release


@dataclass(frozen=True)
class Item:
    """What was bought."""

    what: str  # the attributes, or what else it was
    share: float  # of the budget that was promised, from 0 to 1
    measurements: int  # how many answers were bought for it
    is_choice: bool = False  # whether nothing was measured for it: it chose what to measure, or was not spent


def spending(release: Release) -> list[Item]:
    """Items, the dearest first; what chose and what was left come last. Empty where the noise is not known."""
    costs = [_cost(release, measurement) for measurement in release.measurements]
    known = [cost for cost in costs if cost is not None]
    budget, spent = release.statement.budget.amount, release.statement.spent
    if len(known) < len(costs) or not known or not budget:
        return []
    # A cost is below what was charged by a rounding; measurements of other releases may have been added to this one.
    whole = max(budget, sum(known, Fraction(0)))
    bought: dict[Clique, list[Fraction]] = {}
    for measurement, cost in zip(release.measurements, known, strict=True):
        bought.setdefault(measurement.query.clique, []).append(cost)
    items = [
        Item(" × ".join(clique) or "the number of records", float(sum(each, Fraction(0)) / whole), len(each))
        for clique, each in bought.items()
    ]
    items.sort(key=lambda item: -item.share)
    others = [
        Item("choosing what to measure", float((spent - sum(known, Fraction(0))) / whole), 0, is_choice=True),
        Item("not spent", float((budget - spent) / whole), 0, is_choice=True),
    ]
    return [*items, *(item for item in others if item.share > 1e-3)]


def _cost(release: Release, measurement: Measurement) -> Fraction | None:
    budget = release.statement.budget
    if measurement.noise is None or measurement.noise.scale <= 0:
        # Without noise the answer is public, and costs nothing.
        return Fraction(0) if measurement.stddev == 0 else None
    size = sensitivity(measurement.query, budget.relation, budget.max_rows)
    return measurement.noise.cost(size, budget.currency)
