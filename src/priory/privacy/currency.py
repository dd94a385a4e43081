"""Currency: which of ε, ρ and μ² a run pays in, decided from public facts before it begins.

Exact accounting of Gaussian noise buys more for (ε, δ) than zCDP, and a private choice costs more in it: (π/2)·ε²/8 in
μ²/2 where zCDP charges ε²/8. With a part s of the budget spent on choices, μ² is the better currency where

    (μ²/2)/(1 + (π/2 − 1)·s) > ρ,

with the largest μ² and ρ that (ε, δ) allows.
"""

import math
from dataclasses import replace
from fractions import Fraction

from priory.privacy.budget import Budget, Currency, Number
from priory.privacy.cautions import warn_before
from priory.privacy.gaussian import gaussian_epsilon
from priory.privacy.ledger import Ledger
from priory.privacy.noise import RoundedGaussian
from priory.privacy.randomness import Randomness
from priory.queries.sensitivity import Relation


def budget_for(
    book: Ledger | None,
    randomness: Randomness,
    *,
    choice_share: Fraction,
    epsilon: Number | None,
    delta: Number | None,
    rho: Number | None,
    relation: str | Relation,
    max_rows: int,
) -> Budget:
    """The budget that the options of a fit mean for a mechanism that spends `choice_share` of it on private choices."""
    # In a book of ρ (ε, δ) buys the same ρ whatever the run pays in, so that books filled before keep their meaning; a
    # run that makes no private choices then pays in μ² = 2ρ, and its statement says the smaller ε that this is exactly.
    whole = Budget.of(epsilon=epsilon, delta=delta, rho=rho, relation=relation, max_rows=max_rows)
    warn_before(whole)
    if whole.epsilon is None or whole.delta is None:
        return whole
    exact = Budget.approximate(whole.epsilon, whole.delta, Currency.GAUSSIAN, relation=relation, max_rows=max_rows)
    if book is not None and book.terms.total.currency is Currency.GAUSSIAN:
        return exact
    if RoundedGaussian.kind not in randomness.kinds:
        return whole
    if book is not None:
        return in_mu_squared(whole) if choice_share == 0 else whole
    return exact if exact.amount / 2 > whole.amount * (1 + Fraction(math.pi / 2 - 1) * choice_share) else whole


def in_mu_squared(budget: Budget) -> Budget:
    """The same ρ as μ² = 2ρ, with the ε that this is at the budget's δ."""
    amount, delta = 2 * budget.amount, (budget.delta or Fraction(0)) - budget.additive
    return replace(budget, currency=Currency.GAUSSIAN, amount=amount, epsilon=gaussian_epsilon(amount, delta))
