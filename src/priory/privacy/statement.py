"""Statement: what is promised about a release, as data and in words."""

import decimal
from collections.abc import Iterable
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction

from priory.data.visible import visible
from priory.errors import SchemaError
from priory.privacy.budget import Budget, Currency, epsilon_of, rounded_up
from priory.privacy.explain import chance, promised
from priory.privacy.ledger import Reservation
from priory.privacy.prices import converted
from priory.privacy.tail import loss_tail
from priory.privacy.uniforms import to_decimal
from priory.queries.sensitivity import Relation
from priory.version import __version__

# The mechanism of noisy counts that priory did not measure; what it says of their price is what was declared.
DECLARED = "measured elsewhere, as declared by whoever measured"
KEPT = {
    "file": "what was spent is kept in a ledger on disk",
    "memory": "no ledger on disk: other releases of the same data are not counted here",
}

# What version 0.1 wrote does not say which of the two it was.
UNKNOWN_RANDOMNESS = "opendp or priory"


@dataclass(frozen=True)
class Statement:
    """The privacy statement of a release."""

    mechanism: str  # what made it
    budget: Budget  # what it was allowed to spend; this is the promise
    spent: Fraction  # what it did spend, in the budget's currency
    unit: str  # who is protected, in words
    dataset: str  # the declared name of the data set
    ledger: str  # whether a book on disk keeps what was spent ("file") or the run kept its own ("memory")
    is_private: bool  # False if the randomness was a test's
    version: str  # of priory
    randomness: str = UNKNOWN_RANDOMNESS  # who drew the noise: "priory", "opendp", or what a file says
    randomness_version: str = ""  # of the library that drew it
    is_declared: bool = False  # whether whoever measured declared the promise, or a part of it
    effort: str = ""  # how much work the run was allowed, where that was not the usual: "low" or "high"
    discovered: Budget | None = None  # what it cost to learn the schema from the same table, where it was learnt

    @classmethod
    def of(
        cls, reservation: Reservation, mechanism: str, *, is_private: bool, randomness: str = "priory"
    ) -> "Statement":
        """The statement of a run that is paid by `reservation`, as far as it has come."""
        ledger = reservation.ledger
        return cls(
            mechanism=mechanism,
            budget=reservation.budget,
            spent=reservation.spent,
            unit=ledger.terms.unit,
            dataset=ledger.terms.dataset,
            ledger="memory" if ledger.path is None else "file",
            is_private=is_private,
            version=__version__,
            randomness=randomness,
            randomness_version=_version_of(randomness) if is_private else "",
        )

    @property
    def promise(self) -> str:
        """What is promised, in short."""
        return promised(self.budget, is_declared=self.is_declared)

    @property
    def accounting(self) -> str:
        """How privacy losses were added up, in words."""
        if self.is_declared and self.budget.delta is not None:
            return "as declared; priory did not add it up"
        if self.budget.currency is Currency.PURE:
            return "pure differential privacy, ε adds up"
        if self.budget.currency is Currency.ZCDP:
            return "zero-concentrated differential privacy (zCDP), ρ adds up"
        return f"exact Gaussian accounting, μ = {_root_up(self.budget.amount)}"

    @property
    def lines(self) -> tuple[str, ...]:
        """The statement in words, one fact a line."""
        stamp = () if self.is_private else ("NOT PRIVATE: made with test randomness; do not publish",)
        return (
            *stamp,
            f"promise: {self.promise}",
            f"spent: {self._spent}",
            *self._both,
            f"accounting: {self.accounting}",
            *self._tail,
            f"neighbours: tables that differ in {self.unit}, {self.budget.relation}",
            f"number of rows: {self._rows}",
            f"mechanism: {self.mechanism}{f', {self.effort} effort' if self.effort else ''}, priory {self.version}",
            f"noise: drawn by {self.randomness} {self.randomness_version}".rstrip(),
            f"data set: {self.dataset}; {KEPT[self.ledger]}",
        )

    @property
    def _spent(self) -> str:
        if self.is_declared and self.budget.delta is not None:
            return "all of it"
        return f"{self.budget.currency.letter} = {rounded_up(self.spent)}"

    @property
    def _both(self) -> tuple[str, ...]:
        """What learning the schema cost, and what both promise together."""
        if self.discovered is None:
            return ()
        learnt, mine = self.discovered, self.budget
        together = f"with this release: {sum_of(mine, learnt)}"
        if (learnt.relation, learnt.max_rows) != (mine.relation, mine.max_rows):
            who = f"{learnt.relation} neighbours with at most {learnt.max_rows} rows of a person"
            together = f"about {who}, so that it does not add up with this release"
        return (f"schema: learnt from the same table, paid apart: {learnt}; {together}",)

    @property
    def _tail(self) -> tuple[str, ...]:
        """δ is not the probability of a larger loss; this is a bound on it."""
        if self.budget.epsilon is None or self.is_declared:
            return ()
        most = chance(loss_tail(self.budget, self.budget.epsilon))
        return (f"loss above ε: for any one person, with a probability of at most {most}",)

    @property
    def _rows(self) -> str:
        if self.budget.relation is Relation.ADD_REMOVE:
            return "protected"
        return "public" if self.budget.max_rows == 1 else "protected; the number of persons is public"

    def __str__(self) -> str:
        # Names in it may come from a file that others wrote.
        return "\n".join(visible(line) for line in self.lines)


def described_cost(cost: Budget) -> tuple[tuple[str, str], ...]:
    """What learning a schema cost, as the schema keeps it: amounts in six digits, rounded up."""
    amounts = {key: getattr(cost, key) for key in ("epsilon", "delta", "amount", "additive")}
    rounded = {key: rounded_up(amount) for key, amount in amounts.items() if amount}
    plain = {"currency": cost.currency.value, "relation": cost.relation.value, "max_rows": str(cost.max_rows)}
    return tuple((plain | rounded).items())


def cost_of(described: Iterable[tuple[str, str]]) -> Budget | None:
    """The budget that a schema says it cost to learn it; None where it says nothing.

    Raises:
        SchemaError: it says something else.
    """
    fields = dict(described)
    if not fields:
        return None
    try:
        return Budget.decoded({"epsilon": None, "delta": None, "amount": "0", **fields})
    except (KeyError, ValueError):
        raise SchemaError("discovered: is what priory schema discover wrote there; leave it as it was") from None


def sum_of(one: Budget, other: Budget) -> Budget:
    """What two releases about the same persons promise together, in the currency of `one` or in ρ.

    Both additive parts, and both δ, add up; where only one has a δ, that is the δ of the sum.
    """
    currency = one.currency if one.currency is other.currency else Currency.ZCDP
    amounts = [converted(each.amount, each.currency, currency) for each in (one, other)]
    # Every currency turns into ρ.
    amount = sum((each for each in amounts if each is not None), Fraction(0))
    additive = one.additive + other.additive
    delta = (one.delta or Fraction(0)) + (other.delta or Fraction(0))
    whole = replace(one, currency=currency, amount=amount, additive=additive, epsilon=None, delta=None)
    if not delta:
        return whole
    return replace(whole, delta=delta, epsilon=epsilon_of(currency, amount, delta - additive))


def _root_up(square: Fraction) -> str:
    """Six digits of a square root, rounded up."""
    with decimal.localcontext(prec=60):
        return rounded_up(Fraction(to_decimal(square).sqrt() * (1 + Decimal("1e-30"))))


def _version_of(randomness: str) -> str:
    """The version of what drew the noise; a library without package metadata is no reason to fail."""
    if randomness == "priory":
        return __version__
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(randomness)
    except PackageNotFoundError:
        return "unknown"
