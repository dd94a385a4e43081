"""Budget: what may be spent, in which currency, and about whom."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from enum import StrEnum
from fractions import Fraction

from priory.errors import OptionError
from priory.privacy import accounting
from priory.queries.sensitivity import Relation

Number = int | float | str | Decimal | Fraction

# Beyond these no float comes near the number any more, and no budget is meant.
SMALLEST, LARGEST = Fraction(1, 10**300), Fraction(10**300)


class Currency(StrEnum):
    """What costs are counted in.

    A pure budget adds up ε. The other two add up ρ (zCDP); an approximate one promises (ε, δ) for the sum.
    """

    PURE = "pure"
    ZCDP = "zcdp"
    APPROXIMATE = "approximate"

    @property
    def letter(self) -> str:
        """The letter of the amounts that add up."""
        return "ε" if self is Currency.PURE else "ρ"


@dataclass(frozen=True)
class Budget:
    """An amount of privacy that may be spent on persons with at most `max_rows` records each.

    Attributes:
        currency: what the amount is counted in.
        amount: ε if pure, otherwise ρ; an exact fraction.
        relation: which tables are neighbours.
        max_rows: how many records one person may have.
        epsilon: for an approximate budget, the ε it promises at `delta`.
        delta: see `epsilon`.
    """

    currency: Currency
    amount: Fraction
    relation: Relation = Relation.ADD_REMOVE
    max_rows: int = 1
    epsilon: Fraction | None = None
    delta: Fraction | None = None

    @classmethod
    def pure(cls, epsilon: Number, *, relation: str | Relation = Relation.ADD_REMOVE, max_rows: int = 1) -> "Budget":
        """A pure ε.

        >>> Budget.pure(0.1).amount
        Fraction(1, 10)
        """
        return cls._checked(Currency.PURE, positive("epsilon", epsilon), relation, max_rows)

    @classmethod
    def zcdp(cls, rho: Number, *, relation: str | Relation = Relation.ADD_REMOVE, max_rows: int = 1) -> "Budget":
        """A zCDP ρ."""
        return cls._checked(Currency.ZCDP, positive("rho", rho), relation, max_rows)

    @classmethod
    def approximate(
        cls, epsilon: Number, delta: Number, *, relation: str | Relation = Relation.ADD_REMOVE, max_rows: int = 1
    ) -> "Budget":
        """(ε, δ), held as the largest ρ whose bound is at most ε at δ.

        >>> round(float(Budget.approximate(1, 1e-9).amount), 4)
        0.015
        """
        e, d = positive("epsilon", epsilon), positive("delta", delta)
        if d >= 1:
            raise OptionError("delta", f"a probability below 1; got {delta}")
        rho = accounting.rho_within(e, d)
        if rho == 0:
            raise OptionError("epsilon", f"{epsilon} at delta {delta} leaves nothing that could be spent")
        return replace(cls._checked(Currency.APPROXIMATE, rho, relation, max_rows), epsilon=e, delta=d)

    @classmethod
    def of(
        cls,
        *,
        epsilon: Number | None = None,
        delta: Number | None = None,
        rho: Number | None = None,
        relation: str | Relation = Relation.ADD_REMOVE,
        max_rows: int = 1,
    ) -> "Budget":
        """The budget these options mean: `epsilon` alone is pure, with a positive `delta` approximate; or `rho`."""
        if rho is not None:
            if epsilon is not None or delta is not None:
                raise OptionError("rho", "give either rho or epsilon and delta, not both")
            return cls.zcdp(rho, relation=relation, max_rows=max_rows)
        if epsilon is None:
            raise OptionError("epsilon", "give epsilon (with or without delta) or rho")
        if delta is None or exact("delta", delta) == 0:
            return cls.pure(epsilon, relation=relation, max_rows=max_rows)
        return cls.approximate(epsilon, delta, relation=relation, max_rows=max_rows)

    @classmethod
    def _checked(cls, currency: Currency, amount: Fraction, relation: str | Relation, max_rows: int) -> "Budget":
        if isinstance(max_rows, bool) or not isinstance(max_rows, int) or max_rows < 1:
            raise OptionError("max_rows", f"a whole number of records per person, at least 1; got {max_rows!r}")
        return cls(currency, amount, Relation.of(relation), max_rows)

    @property
    def is_pure(self) -> bool:
        """Whether amounts are ε."""
        return self.currency is Currency.PURE

    def split(self, shares: Sequence[Number]) -> tuple["Budget", ...]:
        """Parts in proportion to `shares`, which add up to the whole exactly.

        >>> [part.amount for part in Budget.zcdp("1/2").split([1, 1, 2])]
        [Fraction(1, 8), Fraction(1, 8), Fraction(1, 4)]
        """
        weights = [positive("shares", share) for share in shares]
        if not weights:
            raise OptionError("shares", "at least one share is needed")
        whole = sum(weights, Fraction(0))
        return tuple(self.part(weight / whole) for weight in weights)

    def part(self, fraction: Number) -> "Budget":
        """This fraction of it, in the currency that adds up: a part of an (ε, δ) promise is a ρ."""
        share = positive("fraction", fraction)
        if share > 1:
            raise OptionError("fraction", f"a part is at most the whole; got {share}")
        return self.worth(self.amount * share)

    def worth(self, amount: Fraction) -> "Budget":
        """A budget of `amount` about the same persons, in the currency that adds up."""
        currency = Currency.PURE if self.is_pure else Currency.ZCDP
        return Budget(currency, amount, self.relation, self.max_rows)

    def __str__(self) -> str:
        if self.epsilon is not None and self.delta is not None:
            return f"ε = {short(self.epsilon)}, δ = {short(self.delta)} (ρ = {short(self.amount)})"
        return f"{self.currency.letter} = {short(self.amount)}"


def exact(name: str, value: Number) -> Fraction:
    """The fraction that `value` spells: a float means the decimal it prints as, so 0.1 is one tenth.

    Raises:
        OptionError: it is not a finite number.
    """
    if isinstance(value, bool) or not isinstance(value, int | float | str | Decimal | Fraction):
        raise OptionError(name, f"a number is needed; got {value!r}")
    try:
        return value if isinstance(value, Fraction) else Fraction(str(value).strip())
    except (ValueError, ZeroDivisionError):
        raise OptionError(name, f"a finite number is needed; got {value!r}") from None


def positive(name: str, value: Number) -> Fraction:
    """The same, refusing what is not above zero."""
    number = exact(name, value)
    if number <= 0:
        raise OptionError(name, f"a number above 0 is needed; got {value}")
    if not SMALLEST <= number <= LARGEST:
        raise OptionError(name, f"a number from {float(SMALLEST):.0e} to {float(LARGEST):.0e} is needed; got {value}")
    return number


def short(value: Fraction) -> str:
    """A few digits for people; the exact fraction is what is added up."""
    return f"{float(value):.6g}"
