"""Books: what the tests of a ledger and of its file share."""

from fractions import Fraction

from priory.privacy.budget import Budget
from priory.privacy.ledger import Event, Ledger, Terms

TOTAL = Budget.zcdp("1/2")
TERMS = Terms("census", "abc", TOTAL)


def event(cost: str) -> Event:
    return Event("gaussian", "marginal of (age)", Fraction(cost))


def run(book: Ledger, asked: str, *spent: str) -> None:
    with book.reserve(Budget.zcdp(asked), "test") as reservation:
        for cost in spent:
            reservation.charge([event(cost)])


def run_and_fail(book: Ledger, asked: str, *spent: str) -> None:
    with book.reserve(Budget.zcdp(asked), "test") as reservation:
        reservation.charge([event(cost) for cost in spent])
        raise ZeroDivisionError
