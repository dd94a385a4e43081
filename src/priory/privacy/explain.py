"""Explain: what a budget means for one person, in words."""

import math
from dataclasses import dataclass
from fractions import Fraction

from priory.privacy.accounting import epsilon_at
from priory.privacy.budget import Budget, rounded_up
from priory.queries.sensitivity import Relation

PRIORS = (0.01, 0.1, 0.5)
DELTAS_FOR_RHO = (Fraction(1, 10**6), Fraction(1, 10**9))


@dataclass(frozen=True)
class Belief:
    """How far a suspicion can grow.

    Attributes:
        before: how likely somebody thought it without the release.
        after: the most they can think it with the release.
    """

    before: float
    after: float


@dataclass(frozen=True)
class Explanation:
    """A budget in words.

    Attributes:
        budget: what is explained.
        epsilon: the ε that the beliefs are worked out for.
        delta: how likely it is, at most, that the beliefs do not hold; 0 if never.
        beliefs: how far suspicions can grow.
        lines: the words.
    """

    budget: Budget
    epsilon: float
    delta: float
    beliefs: tuple[Belief, ...]
    lines: tuple[str, ...]

    def __str__(self) -> str:
        return "\n".join(self.lines)


def explain(budget: Budget) -> Explanation:
    """What `budget` means for one person.

    >>> print(explain(Budget.pure(1)).lines[2])
    - from 50 % to at most 73.1 %
    """
    epsilon, delta = _guarantee(budget)
    beliefs = tuple(Belief(prior, grown(prior, float(epsilon))) for prior in reversed(PRIORS))
    lines = [
        f"{budget}, {budget.relation} neighbours" + _rows(budget),
        f"Whatever somebody knows already, a release can raise their belief that {_secret(budget)} by this much:",
        *(f"- from {_percent(belief.before)} to at most {_percent(belief.after)}" for belief in beliefs),
        *_failure(delta),
        *_contents(budget, float(epsilon), float(delta)),
        *_rho_lines(budget),
        f"Two releases at this price together cost {_doubled(budget)}; a ledger adds them up.",
    ]
    return Explanation(budget, float(epsilon), float(delta), beliefs, tuple(lines))


def grown(prior: float, epsilon: float) -> float:
    """The most a belief can become: its odds grow by at most e^ε.

    >>> round(grown(0.5, 1.0), 2)
    0.73
    """
    # With e^−ε nothing overflows, however large ε is.
    return prior / (prior + (1 - prior) * math.exp(-epsilon))


def _guarantee(budget: Budget) -> tuple[Fraction, Fraction]:
    if budget.is_pure:
        return budget.amount, Fraction(0)
    if budget.epsilon is not None and budget.delta is not None:
        return budget.epsilon, budget.delta
    return epsilon_at(budget.amount, DELTAS_FOR_RHO[-1]), DELTAS_FOR_RHO[-1]


def _secret(budget: Budget) -> str:
    if budget.relation is Relation.ADD_REMOVE:
        return "a person is in the table"
    return "the record of a person in the table says a certain thing"


def _contents(budget: Budget, epsilon: float, delta: float) -> list[str]:
    """Under add-remove two records of a person known to be in the table are two steps apart: 2ε and (1 + e^ε)·δ."""
    if budget.relation is Relation.REPLACE_ONE:
        return []
    after = _percent(grown(0.5, 2 * epsilon))
    if delta:
        chance = min(1.0, (1 + math.exp(min(epsilon, 700))) * delta)
        after = f"{after}, but for a chance of at most {chance:.2g}"
    return [
        f"For somebody who knows that they are in it, belief in what their record says: from 50 % to at most {after}"
    ]


def _rows(budget: Budget) -> str:
    return "" if budget.max_rows == 1 else f", at most {budget.max_rows} rows a person"


def _failure(delta: Fraction) -> list[str]:
    if delta == 0:
        return ["This always holds."]
    return [
        f"This holds but for a chance of at most {rounded_up(delta)} (1 in {float(1 / delta):,.0f}) that it does not."
    ]


def _rho_lines(budget: Budget) -> list[str]:
    if budget.is_pure:
        return []
    pairs = (
        f"ε = {rounded_up(epsilon_at(budget.amount, delta))} at δ = {rounded_up(delta)}" for delta in DELTAS_FOR_RHO
    )
    return [f"The same promise at other δ: {', '.join(pairs)}."]


def _doubled(budget: Budget) -> str:
    if budget.is_pure:
        return f"ε = {rounded_up(2 * budget.amount)}"
    _, delta = _guarantee(budget)
    return f"ε = {rounded_up(epsilon_at(2 * budget.amount, delta))} at δ = {rounded_up(delta)}"


def _percent(probability: float) -> str:
    return f"{100 * probability:.3g} %"
