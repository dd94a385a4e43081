"""Cautions: warnings of budgets that promise little, before they are spent, or as soon as it is known."""

import warnings
from fractions import Fraction

from priory.privacy.budget import Budget, Currency

LARGE_EPSILON = 20


def warn_before(budget: Budget) -> None:
    """Warn of a large ε, before it is spent."""
    epsilon = budget.amount if budget.currency is Currency.PURE else budget.epsilon
    if epsilon is not None and epsilon > LARGE_EPSILON:
        warnings.warn(
            f"ε = {float(epsilon):g} promises next to nothing: what is believed about a person may change by a factor "
            f"of e^{float(epsilon):g}; budgets above {LARGE_EPSILON} are for tests",
            stacklevel=4,
        )


def warn_after(budget: Budget, records: float) -> None:
    """Warn of a δ above 1 in the number of records, once a release says about how many there are."""
    if budget.delta is not None and budget.delta * Fraction(records) > 1:
        warnings.warn(
            f"δ = {float(budget.delta):g} is more than 1 in {records:,.0f}, about the number of records: it would "
            "allow to publish somebody's record as it is; choose a δ far below that",
            stacklevel=3,
        )
