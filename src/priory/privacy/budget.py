"""Budget: what may be spent, in which currency, and about whom."""

import decimal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from enum import StrEnum
from fractions import Fraction
from typing import Any

from priory import bounded
from priory.bounded import LARGEST
from priory.errors import OptionError
from priory.privacy.accounting import epsilon_at, rho_within
from priory.privacy.gaussian import gaussian_epsilon, mu_squared_within
from priory.privacy.uniforms import to_decimal
from priory.queries.sensitivity import Relation

Number = int | float | str | Decimal | Fraction

# Beyond these no float comes near the number any more, and no budget is meant.
SMALLEST = 1 / LARGEST


class Currency(StrEnum):
    """What costs are counted in: the number that adds up.

    A pure budget adds up ε, one in zCDP ρ, and one in Gaussian DP μ². The last two can promise (ε, δ) for the sum.
    """

    PURE = "pure"
    ZCDP = "zcdp"
    GAUSSIAN = "gaussian"

    @classmethod
    def of(cls, name: str) -> "Currency":
        """The currency a file names; version 0.1 wrote "approximate" where ρ adds up and (ε, δ) is promised."""
        return cls.ZCDP if name == "approximate" else cls(name)

    @property
    def letter(self) -> str:
        """The letter of the amounts that add up."""
        return {"pure": "ε", "zcdp": "ρ", "gaussian": "μ²"}[self.value]


@dataclass(frozen=True)
class Budget:
    """An amount of privacy that may be spent on persons with at most `max_rows` records each.

    Attributes:
        currency: what the amount is counted in.
        amount: ε, ρ or μ²; an exact fraction.
        relation: which tables are neighbours.
        max_rows: how many records one person may have.
        epsilon: where (ε, δ) was asked for, the ε that the amount promises at `delta`.
        delta: see `epsilon`.
        additive: δ′, the part of `delta` that is kept for steps with no finite cost in the currency, such as a
            threshold. What remains of δ is what the amount is converted at.
    """

    currency: Currency
    amount: Fraction
    relation: Relation = Relation.ADD_REMOVE
    max_rows: int = 1
    epsilon: Fraction | None = None
    delta: Fraction | None = None
    additive: Fraction = Fraction(0)

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
    def gaussian(
        cls, mu_squared: Number, *, relation: str | Relation = Relation.ADD_REMOVE, max_rows: int = 1
    ) -> "Budget":
        """A μ² of Gaussian DP."""
        return cls._checked(Currency.GAUSSIAN, positive("mu_squared", mu_squared), relation, max_rows)

    @classmethod
    def approximate(
        cls,
        epsilon: Number,
        delta: Number,
        currency: Currency = Currency.ZCDP,
        *,
        relation: str | Relation = Relation.ADD_REMOVE,
        max_rows: int = 1,
        additive: Number = 0,
    ) -> "Budget":
        """(ε, δ), held as the largest ρ whose bound is at most ε at δ, or as the largest μ² that gives (ε, δ).

        What `additive` takes of δ, the amount is not converted at.

        >>> round(float(Budget.approximate(1, 1e-9).amount), 4)
        0.015
        >>> round(float(Budget.approximate(1, 1e-9, Currency.GAUSSIAN).amount / 2), 4)
        0.0166
        """
        e, d = positive("epsilon", epsilon), positive("delta", delta)
        if d >= 1:
            raise OptionError("delta", f"a probability below 1; got {delta}")
        if currency is Currency.PURE:
            raise OptionError("currency", "a pure budget has no delta")
        apart = exact("additive", additive)
        if not 0 <= apart < d:
            raise OptionError("additive", f"a part of delta, from 0 to below {delta}; got {additive}")
        amount = rho_within(e, d - apart) if currency is Currency.ZCDP else mu_squared_within(e, d - apart)
        if amount == 0:
            raise OptionError("epsilon", f"{epsilon} at delta {delta} leaves nothing that could be spent")
        return replace(cls._checked(currency, amount, relation, max_rows), epsilon=e, delta=d, additive=apart)

    @classmethod
    def of(
        cls,
        *,
        epsilon: Number | None = None,
        delta: Number | None = None,
        rho: Number | None = None,
        currency: str | Currency | None = None,
        relation: str | Relation = Relation.ADD_REMOVE,
        max_rows: int = 1,
        additive: Number = 0,
    ) -> "Budget":
        """The budget these options mean: `epsilon` alone is pure; with a positive `delta` it is ρ, or μ²; or `rho`.

        With a `delta`, `currency` is "zcdp" (by default) or "gaussian"; otherwise it is what follows from the others.
        With a `delta`, `additive` is the part of it that is kept for thresholds.
        """
        meant = "pure" if rho is None and (delta is None or exact("delta", delta) == 0) else "zcdp"
        if currency not in (None, meant) and (delta is None or meant == "pure" or currency != "gaussian"):
            raise OptionError("currency", f"{currency!r} does not fit the other options, which mean {meant!r}")
        if exact("additive", additive) and (delta is None or meant == "pure"):
            raise OptionError("additive", "it is a part of delta; give epsilon and delta")
        if rho is not None:
            if epsilon is not None or delta is not None:
                raise OptionError("rho", "give either rho or epsilon and delta, not both")
            return cls.zcdp(rho, relation=relation, max_rows=max_rows)
        if epsilon is None:
            raise OptionError("epsilon", "give epsilon (with or without delta) or rho")
        if delta is None or meant == "pure":
            return cls.pure(epsilon, relation=relation, max_rows=max_rows)
        paid_in = Currency.GAUSSIAN if currency == "gaussian" else Currency.ZCDP
        return cls.approximate(epsilon, delta, paid_in, relation=relation, max_rows=max_rows, additive=additive)

    @classmethod
    def _checked(cls, currency: Currency, amount: Fraction, relation: str | Relation, max_rows: int) -> "Budget":
        if isinstance(max_rows, bool) or not isinstance(max_rows, int) or max_rows < 1:
            raise OptionError("max_rows", f"a whole number of records per person, at least 1; got {max_rows!r}")
        return cls(currency, amount, Relation(relation), max_rows)

    @property
    def is_pure(self) -> bool:
        """Whether amounts are ε."""
        return self.currency is Currency.PURE

    def epsilon_at(self, delta: Fraction) -> Fraction:
        """The ε that the amount promises at δ, rounded up; what is additive is taken off δ first."""
        return epsilon_of(self.currency, self.amount, delta - self.additive)

    def encoded(self) -> dict[str, Any]:
        """Every field as JSON can hold it, fractions as text."""
        return encoded(vars(self))

    @classmethod
    def decoded(cls, fields: Mapping[str, Any]) -> "Budget":
        """The budget that was encoded; other keys are passed over.

        Raises:
            KeyError, TypeError, ValueError: a field is missing, or is none that a budget could have.
        """
        epsilon, delta = (
            None if fields[name] is None else bounded.amount(fields[name]) for name in ("epsilon", "delta")
        )
        # Version 0.1 knew of nothing additive.
        additive = bounded.amount(fields.get("additive", "0"))
        if (epsilon is None) != (delta is None) or (delta is not None and not additive < delta < 1):
            raise ValueError("epsilon and delta are given together, and delta is a probability")
        return cls(
            Currency.of(fields["currency"]),
            bounded.amount(fields["amount"]),
            Relation(fields["relation"]),
            bounded.whole(fields["max_rows"], least=1),
            epsilon,
            delta,
            additive,
        )

    def split(self, shares: Sequence[Number]) -> tuple["Budget", ...]:
        """Parts in proportion to `shares`, which add up to the whole exactly.

        >>> print(*(part.amount for part in Budget.zcdp("1/2").split([1, 1, 2])))
        1/8 1/8 1/4
        """
        weights = [positive("shares", share) for share in shares]
        if not weights:
            raise OptionError("shares", "at least one share is needed")
        whole = sum(weights, Fraction(0))
        return tuple(self.part(weight / whole) for weight in weights)

    def part(self, fraction: Number) -> "Budget":
        """This fraction of it, in the same currency: a part of an (ε, δ) promise is a ρ or a μ²."""
        share = positive("fraction", fraction)
        if share > 1:
            raise OptionError("fraction", f"a part is at most the whole; got {share}")
        return self.worth(self.amount * share)

    def worth(self, amount: Fraction) -> "Budget":
        """A budget of `amount` about the same persons, in the same currency."""
        return Budget(self.currency, amount, self.relation, self.max_rows)

    def __str__(self) -> str:
        if self.epsilon is not None and self.delta is not None:
            promised = f"ε = {rounded_up(self.epsilon)}, δ = {rounded_up(self.delta)}"
            if self.additive:
                promised += f", of which δ′ = {rounded_up(self.additive)} is additive"
            return f"{promised} ({self.currency.letter} = {rounded_up(self.amount)})"
        extra = f", δ′ = {rounded_up(self.additive)}" if self.additive else ""
        return f"{self.currency.letter} = {rounded_up(self.amount)}{extra}"


def epsilon_of(currency: Currency, amount: Fraction, delta: Fraction) -> Fraction:
    """The smallest ε found at which `amount` gives (ε, δ); never below the exact one. Only a pure ε needs no δ."""
    if currency is Currency.PURE:
        return amount
    if delta <= 0:
        raise OptionError("delta", "a number above 0 is needed")
    return epsilon_at(amount, delta) if currency is Currency.ZCDP else gaussian_epsilon(amount, delta)


def encoded(fields: Mapping[str, object]) -> dict[str, Any]:
    """The fields as JSON can hold them: fractions and names of currencies and relations as text."""
    return {name: value if isinstance(value, int | None) else str(value) for name, value in fields.items()}


def exact(name: str, value: Number) -> Fraction:
    """The fraction that `value` spells: a float means the decimal it prints as, so 0.1 is one tenth."""
    if isinstance(value, bool) or not isinstance(value, int | float | str | Decimal | Fraction):
        raise OptionError(name, f"a number is needed; got {value!r}")
    if isinstance(value, Fraction):
        return value
    try:
        return bounded.fraction(str(value).strip())
    except ValueError:
        raise OptionError(
            name, f"a finite number of at most {bounded.MOST_DIGITS} digits is needed; got {value!r}"
        ) from None


def positive(name: str, value: Number) -> Fraction:
    """The same, refusing what is not above zero."""
    number = exact(name, value)
    if number <= 0:
        raise OptionError(name, f"a number above 0 is needed; got {value}")
    if not SMALLEST <= number <= LARGEST:
        raise OptionError(name, f"a number from {float(SMALLEST):.0e} to {float(LARGEST):.0e} is needed; got {value}")
    return number


def rounded_up(value: Fraction) -> str:
    """Six digits of what is promised or spent, for people: never less than it is.

    >>> rounded_up(Fraction("1.0000049")), rounded_up(Fraction(1, 3))
    ('1.00001', '0.333334')
    """
    # The double nearest to six digits prints as these.
    return f"{float(rounded(value, 6, decimal.ROUND_CEILING)):.6g}"


def rounded_down(value: Fraction) -> str:
    """Six digits of what is left, for people: never more than it is."""
    return f"{float(rounded(value, 6, decimal.ROUND_FLOOR)):.6g}"


def rounded(value: Fraction, digits: int, rounding: str) -> Decimal:
    """The nearest number of so many digits, in the direction that `rounding` of `decimal` says."""
    with decimal.localcontext(prec=digits, rounding=rounding):
        return to_decimal(value).normalize()
