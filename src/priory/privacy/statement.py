"""Statement: what is promised about a release, as data and in words."""

import decimal
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING

from priory.data.schema import Schema
from priory.data.visible import visible
from priory.errors import SchemaError
from priory.privacy.budget import Budget, Currency, epsilon_of, rounded_up
from priory.privacy.explain import chance, guarantee, promised
from priory.privacy.prices import converted
from priory.privacy.tail import loss_tail
from priory.privacy.uniforms import to_decimal
from priory.queries.sensitivity import Relation
from priory.version import __version__

if TYPE_CHECKING:
    from priory.privacy.ledger import Reservation

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
    budget: Budget  # what it was allowed to spend; what its schema cost comes on top of it: see `promises`
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
        cls, reservation: "Reservation", mechanism: str, *, is_private: bool, randomness: str = "priory"
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

    def about(self, schema: Schema | None) -> "Statement":
        """The same statement beside the schema that it is about, with what it cost to learn that.

        Raises:
            SchemaError: the schema does not say its cost as it was written.
        """
        cost = None if schema is None else cost_of(schema.discovered)
        return self if cost in (None, self.discovered) else replace(self, discovered=cost)

    @property
    def promises(self) -> tuple[Budget, ...]:
        """What is promised, with what it cost to learn the schema: one budget.

        They are two where the schema was learnt about other neighbours: then these do not add up.
        """
        return promises_of(self.budget, self.discovered, is_as_declared=self._is_as_declared)

    @property
    def promise(self) -> str:
        """What is promised, in short."""
        return self._promised(*(promised(each, is_declared=self.is_declared) for each in self.promises))

    @property
    def headline(self) -> str:
        """The same without what adds up beside it."""
        figures = (promised(each, is_declared=self.is_declared) for each in self.promises)
        return self._promised(*(figure.partition(" (")[0] for figure in figures))

    def _promised(self, figure: str, *others: str) -> str:
        return "; ".join([figure, *(f"and {other} {self._other_neighbours}" for other in others)])

    @property
    def _other_neighbours(self) -> str:
        learnt = self.discovered or self.budget
        rows = f"with at most {learnt.max_rows} rows of a person"
        return f"for learning the schema, about {learnt.relation} neighbours {rows}, which does not add up with it"

    @property
    def _is_as_declared(self) -> bool:
        """Whether somebody else declared an ε and a δ, from which no ρ follows."""
        return self.is_declared and self.budget.delta is not None

    @property
    def accounting(self) -> str:
        """How privacy losses were added up, in words."""
        if self._is_as_declared:
            return "as declared; priory did not add it up"
        budget = self.promises[0]
        if budget.currency is Currency.PURE:
            return "pure differential privacy, ε adds up"
        if budget.currency is Currency.ZCDP:
            return "zero-concentrated differential privacy (zCDP), ρ adds up"
        return f"exact Gaussian accounting, μ = {_root_up(budget.amount)}"

    @property
    def lines(self) -> tuple[str, ...]:
        """The statement in words, one fact a line."""
        stamp = () if self.is_private else ("NOT PRIVATE: made with test randomness; do not publish",)
        return (
            *stamp,
            f"promise: {self.promise}",
            *self._parts,
            f"spent: {self.all_spent}",
            f"accounting: {self.accounting}",
            *self._tail,
            f"neighbours: tables that differ in {self.unit}, {self.budget.relation}",
            f"number of rows: {self._rows}",
            f"mechanism: {self.mechanism}{f', {self.effort} effort' if self.effort else ''}, priory {self.version}",
            f"noise: drawn by {self.randomness} {self.randomness_version}".rstrip(),
            f"data set: {self.dataset}; {KEPT[self.ledger]}",
        )

    @property
    def all_spent(self) -> str:
        """What was spent, with what it cost to learn the schema, in what adds up."""
        if self._is_as_declared:
            return "all of it"
        whole = replace(self, budget=self.budget.worth(self.spent)).promises
        return ", and apart from it ".join(f"{each.currency.letter} = {rounded_up(each.amount)}" for each in whole)

    @property
    def _parts(self) -> tuple[str, ...]:
        """What learning the schema cost, and what this release did."""
        if self.discovered is None:
            return ()
        mine = promised(self.budget, is_declared=self.is_declared)
        return (f"parts: {self.discovered} for learning the schema from the same table; {mine} for this release",)

    @property
    def tail(self) -> str:
        """A bound on the probability of a loss above ε, which δ is not; empty where none is needed or known."""
        if self.is_declared or all(each.epsilon is None for each in self.promises):
            return ""
        return " and ".join(chance(loss_tail(each, each.epsilon)) for each in self.promises if each.epsilon is not None)

    @property
    def _tail(self) -> tuple[str, ...]:
        tail = self.tail
        return (f"loss above ε: for any one person, with a probability of at most {tail}",) if tail else ()

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


def promises_of(mine: Budget, learnt: Budget | None, *, is_as_declared: bool = False) -> tuple[Budget, ...]:
    """What a release of the budget `mine` promises whose schema cost `learnt`; see `Statement.promises`."""
    if learnt is None:
        return (mine,)
    if (learnt.relation, learnt.max_rows) != (mine.relation, mine.max_rows):
        return (mine, learnt)
    return (sum_as_declared((mine, learnt)) if is_as_declared else sum_of(mine, learnt),)


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
    epsilon = epsilon_of(currency, amount, delta - additive)
    if all(each.is_pure or each.epsilon is not None for each in (one, other)):
        # Every ε adds up, too, and that can be less than what the sum of ρ gives.
        epsilon = min(epsilon, guarantee(one)[0] + guarantee(other)[0])
    return replace(whole, delta=delta, epsilon=epsilon)


def sum_as_declared(budgets: Sequence[Budget]) -> Budget:
    """What releases promise together of which some have a declared (ε, δ): every ε and every δ is added up.

    No ρ follows from these; the amount is the sum of what they are held as, and stated nowhere.
    """
    least = min(budget.delta for budget in budgets if budget.delta is not None)
    pairs = [guarantee(budget, least) for budget in budgets]
    epsilon, delta = (sum(each, Fraction(0)) for each in zip(*pairs, strict=True))
    amounts = (converted(budget.amount, budget.currency, Currency.ZCDP) for budget in budgets)
    amount = sum((each for each in amounts if each is not None), Fraction(0))
    return Budget(Currency.ZCDP, amount, budgets[0].relation, budgets[0].max_rows, epsilon, delta)


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
