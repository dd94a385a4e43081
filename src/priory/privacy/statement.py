"""Statement: what is promised about a release, as data and in words."""

from dataclasses import dataclass
from fractions import Fraction

from priory.privacy.budget import Budget, rounded_up
from priory.privacy.ledger import Reservation
from priory.queries.sensitivity import Relation

KEPT = {
    "file": "what was spent is kept in a ledger on disk",
    "memory": "no ledger on disk: other releases of the same data are not counted here",
}

# What version 0.1 wrote does not say which of the two it was.
UNKNOWN_RANDOMNESS = "opendp or priory"


@dataclass(frozen=True)
class Statement:
    """The privacy statement of a release.

    Attributes:
        mechanism: what made it.
        budget: what it was allowed to spend; this is the promise.
        spent: what it did spend, in the budget's currency.
        unit: who is protected, in words.
        dataset: the declared name of the data set.
        ledger: whether a book on disk keeps what was spent ("file") or the run kept its own ("memory").
        is_private: False if the randomness was a test's.
        version: of priory.
        randomness: who drew the noise: "priory", "opendp", or what a file says.
        randomness_version: of the library that drew it.
    """

    mechanism: str
    budget: Budget
    spent: Fraction
    unit: str
    dataset: str
    ledger: str
    is_private: bool
    version: str
    randomness: str = UNKNOWN_RANDOMNESS
    randomness_version: str = ""

    @classmethod
    def of(
        cls, reservation: Reservation, mechanism: str, *, is_private: bool, randomness: str = "priory"
    ) -> "Statement":
        """The statement of a run that is paid by `reservation`, as far as it has come."""
        from importlib.metadata import version

        ledger = reservation.ledger
        return cls(
            mechanism=mechanism,
            budget=reservation.budget,
            spent=reservation.spent,
            unit=ledger.terms.unit,
            dataset=ledger.terms.dataset,
            ledger="memory" if ledger.path is None else "file",
            is_private=is_private,
            version=version("priory"),
            randomness=randomness,
            randomness_version=version(randomness) if is_private else "",
        )

    @property
    def lines(self) -> tuple[str, ...]:
        """The statement in words, one fact a line."""
        total = "public" if self._total_is_public else "protected"
        stamp = () if self.is_private else ("NOT PRIVATE: made with test randomness; do not publish",)
        return (
            *stamp,
            f"promise: {self.budget}",
            f"spent: {self.budget.currency.letter} = {rounded_up(self.spent)}",
            f"neighbours: tables that differ in {self.unit}, {self.budget.relation}",
            f"number of rows: {total}",
            f"mechanism: {self.mechanism}, priory {self.version}",
            f"noise: drawn by {self.randomness} {self.randomness_version}".rstrip(),
            f"data set: {self.dataset}; {KEPT[self.ledger]}",
        )

    @property
    def _total_is_public(self) -> bool:
        return self.budget.relation is Relation.REPLACE_ONE and self.budget.max_rows == 1

    def __str__(self) -> str:
        return "\n".join(self.lines)
