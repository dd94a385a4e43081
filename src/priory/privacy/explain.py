"""Explain: what a budget means for one person, in words."""

import decimal
import math
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from priory.privacy.budget import Budget, epsilon_of, rounded, rounded_up
from priory.privacy.tail import approximate_tail, belief_tail, power_up
from priory.queries.sensitivity import Relation

PRIORS = (0.01, 0.1, 0.5)
OTHER_DELTAS = (Fraction(1, 10**6), Fraction(1, 10**9))
# A promise of (ε, δ) alone bounds losses above ε only: how far above, at most, beliefs are worked out.
# Just above log 2, where the bound is 2δ.
LARGEST_GAP = Fraction("0.6931471806")
# Below this a probability is said to be this.
_LEAST_SAID = Fraction(1, 10**300)
_ALLOWANCE = Fraction(1, 10**12)


@dataclass(frozen=True)
class Belief:
    """How far a belief can grow."""

    before: float  # the probability that somebody gave it without the release
    after: float  # the largest probability that they can give it with the release


@dataclass(frozen=True)
class Explanation:
    """A budget in words."""

    budget: Budget  # what is explained
    epsilon: float  # the privacy loss that the beliefs are worked out for
    delta: float  # the δ that belongs to ε in the promise; 0 for a pure promise. No probability of failure: see `tail`
    tail: float  # a bound on the probability, over the noise, that a belief grows further
    beliefs: tuple[Belief, ...]  # how far beliefs can grow, except with probability `tail`
    lines: tuple[str, ...]  # the words

    def __str__(self) -> str:
        return "\n".join(self.lines)


def explain(budget: Budget, *, is_declared: bool = False) -> Explanation:
    """What `budget` means for one person; of an (ε, δ) that `is_declared` by somebody else, nothing more is known.

    >>> print(explain(Budget.pure(1)).lines[2])
    - from 50 % to at most 73.2 %
    """
    epsilon, delta = guarantee(budget)
    loss, tail = _loss(budget, 1, is_declared=is_declared)
    beliefs = tuple(Belief(prior, grown(prior, _float_up(loss))) for prior in reversed(PRIORS))
    certain = "the record of a person in the table says a certain thing"
    secret = "a person is in the table" if budget.relation is Relation.ADD_REMOVE else certain
    rows = "" if budget.max_rows == 1 else f", at most {budget.max_rows} rows a person"
    lines = [
        f"{promised(budget, is_declared=is_declared)}, {budget.relation} neighbours{rows}",
        f"Even for somebody who knows all other records, the release can raise the belief that {secret}:",
        *(f"- from {100 * belief.before:.3g} % to at most {percent_up(belief.after)}" for belief in beliefs),
        _probability(tail),
        *_contents(budget, is_declared=is_declared),
        *_meaning_of_delta(epsilon, delta),
        *_other_deltas(budget, is_declared=is_declared),
        _doubled(budget, is_declared=is_declared),
    ]
    return Explanation(budget, _float_up(loss), _float_up(delta), _float_up(tail), beliefs, tuple(lines))


def promised(budget: Budget, *, is_declared: bool = False) -> str:
    """The promise in short. Of a declared (ε, δ) the ρ is left out: it does not follow from them."""
    if is_declared and budget.epsilon is not None and budget.delta is not None:
        return f"ε = {rounded_up(budget.epsilon)}, δ = {rounded_up(budget.delta)}"
    return str(budget)


def grown(prior: float, epsilon: float) -> float:
    """The most a belief can become: its odds grow by at most e^ε.

    >>> round(grown(0.5, 1.0), 2)
    0.73
    """
    # With e^−ε nothing overflows, however large ε is.
    return prior / (prior + (1 - prior) * math.exp(-epsilon))


def percent_up(probability: float) -> str:
    """A probability in percent, rounded up; with more digits where it is nearly 1.

    >>> percent_up(0.731059), percent_up(0.9999546)
    ('73.2 %', '99.9955 %')
    """
    # The allowance covers the error of doubles.
    most = Fraction(probability) * (1 + _ALLOWANCE)
    if most >= 1:
        return "100 %"
    rest = float(1 - most)
    digits = 3 if rest > 0.01 else 1 - math.floor(math.log10(rest))
    return f"{rounded(100 * most, digits, decimal.ROUND_CEILING):f} %"


def chance(probability: Fraction) -> str:
    """A small probability, rounded up, for people.

    >>> chance(Fraction(92, 10**9)), chance(Fraction(1, 3))
    ('9.2e-08 (1 in 10,000,000)', '0.34 (1 in 3)')
    """
    said = max(probability, _LEAST_SAID)
    number = f"{float(rounded(said, 2, decimal.ROUND_CEILING)):.2g}"
    one_in = rounded(1 / said, 2, decimal.ROUND_FLOOR) if said > _LEAST_SAID else Decimal(0)
    return f"{number} (1 in {int(one_in):,})" if 1 < one_in < Decimal("1e15") else number


def guarantee(budget: Budget, delta: Fraction = OTHER_DELTAS[-1]) -> tuple[Fraction, Fraction]:
    """ε and δ of the promise; for a ρ or a μ² alone, the ε at this δ and what is additive."""
    if budget.is_pure:
        return budget.amount, Fraction(0)
    if budget.epsilon is not None and budget.delta is not None:
        return budget.epsilon, budget.delta
    whole = delta + budget.additive
    return budget.epsilon_at(whole), whole


def _loss(budget: Budget, steps: int, *, is_declared: bool) -> tuple[Fraction, Fraction]:
    """The loss that is explained, between tables so many neighbours apart, and a bound on the chance of more."""
    epsilon, delta = guarantee(budget)
    if not (is_declared and budget.delta is not None):
        return steps * epsilon, belief_tail(budget, steps * epsilon, steps=steps)
    # δ + e^ε·δ for the second of two steps.
    whole = delta if steps == 1 else delta + power_up(epsilon) * delta
    gap = min(epsilon, LARGEST_GAP)
    # The last δ is for those who do not know what else the record may say; see `belief_tail`.
    return steps * epsilon + gap, min(Fraction(1), approximate_tail(whole, gap) + whole)


def _probability(tail: Fraction) -> str:
    if tail == 0:
        return "This always holds."
    if tail >= 1:
        return "With what probability this holds is not known."
    return f"For any one person, the probability that the noise lets it grow further is at most {chance(tail)}."


def _contents(budget: Budget, *, is_declared: bool) -> list[str]:
    """Under add-remove two records of a person known to be in the table are two steps apart."""
    if budget.relation is Relation.REPLACE_ONE:
        return []
    loss, tail = _loss(budget, 2, is_declared=is_declared)
    after = percent_up(grown(0.5, _float_up(loss)))
    further = "" if tail == 0 else f"; further with a probability of at most {chance(tail)}"
    whom = "For somebody who also knows that the person is in it, belief in what their record says"
    return [f"{whom}: from 50 % to at most {after}{further}."]


def _meaning_of_delta(epsilon: Fraction, delta: Fraction) -> list[str]:
    if delta == 0:
        return []
    said = f"δ = {rounded_up(delta)} is not that probability. It says that one person can raise the probability of any"
    return [f"{said} set of outcomes from p to at most e^ε·p + δ, with ε = {rounded_up(epsilon)}."]


def _other_deltas(budget: Budget, *, is_declared: bool) -> list[str]:
    if budget.is_pure or (is_declared and budget.delta is not None):
        return []
    others = [delta for delta in OTHER_DELTAS if delta != budget.delta and delta > budget.additive]
    pairs = (f"ε = {rounded_up(budget.epsilon_at(delta))} at δ = {rounded_up(delta)}" for delta in others)
    return [f"The same promise, said with another δ: {', '.join(pairs)}."] if others else []


def _doubled(budget: Budget, *, is_declared: bool) -> str:
    if budget.is_pure:
        cost = f"ε = {rounded_up(2 * budget.amount)}"
    elif is_declared and budget.epsilon is not None and budget.delta is not None:
        cost = f"ε = {rounded_up(2 * budget.epsilon)} at δ = {rounded_up(2 * budget.delta)}"
    else:
        _, delta = guarantee(budget)
        # An additive δ′ doubles, too, and so must δ.
        whole = 2 * delta if budget.additive else delta
        epsilon = epsilon_of(budget.currency, 2 * budget.amount, whole - 2 * budget.additive)
        cost = f"ε = {rounded_up(epsilon)} at δ = {rounded_up(whole)}"
    return f"Two releases at this price together cost {cost}; a ledger adds them up."


def _float_up(value: Fraction) -> float:
    """The nearest double that prints as no less than `value`."""
    nearest = float(value)
    return nearest if Fraction(str(nearest)) >= value else math.nextafter(nearest, math.inf)
