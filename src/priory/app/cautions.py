"""Cautions: budgets that promise little, said before they are spent, or as soon as it is known."""

from fractions import Fraction

from priory.privacy.budget import Budget, Currency

LARGE_EPSILON = 20


def caution_before(budget: Budget) -> str | None:
    """What to say of a budget before it is spent."""
    epsilon = budget.amount if budget.currency is Currency.PURE else budget.epsilon
    if epsilon is None or epsilon <= LARGE_EPSILON:
        return None
    return (
        f"ε = {float(epsilon):g} promises next to nothing: what is believed about a person may change by a factor of "
        f"e^{float(epsilon):g}; budgets above {LARGE_EPSILON} are for tests"
    )


def caution_after(budget: Budget, records: float) -> str | None:
    """What to say of a budget once the release says about how many records there are."""
    if budget.delta is None or records <= 0 or budget.delta * Fraction(records) <= 1:
        return None
    return (
        f"δ = {float(budget.delta):g} is more than 1 in {records:,.0f}, about the number of records: it would allow to "
        "publish somebody's record as it is; choose a δ far below that"
    )
